import { describe, expect, test } from "vitest";
import { parseValues } from "../src/client";
import { LOOKS, parseStudies, STUDIES, ValueSeries } from "../src/state/studies";
import { MINUTE } from "./make";

const values = (start: number, ema: number | null) => ({ start, of: { ema_12: ema } });

describe("indicators", () => {
  test("are read with null where a candle has none", () => {
    const row = { startTs: MINUTE, rev: 0, closed: true, ema_12: 1.5, rsi_14: null };
    expect(parseValues(row)).toMatchObject({ start: MINUTE, of: { ema_12: 1.5, rsi_14: null } });
    for (const nothing of [null, undefined, 7, {}, { startTs: "x" }]) expect(parseValues(nothing)).toBeNull();
  });

  test("stay in the order of time, and the later word about a candle holds", () => {
    const series = new ValueSeries();
    expect([series.oldest, series.newest, series.length]).toEqual([null, null, 0]);
    series.put([values(3 * MINUTE, 3), values(2 * MINUTE, 2)]);
    series.put([values(3 * MINUTE, 33), values(MINUTE, null)]);
    expect(series.all().map((row) => row.of["ema_12"])).toEqual([null, 2, 33]);
    expect([series.oldest, series.newest, series.length]).toEqual([MINUTE, 3 * MINUTE, 3]);
  });

  test("are chosen by names that are known, in one order", () => {
    expect(parseStudies("RSI,EMA,NONE")).toEqual(["EMA", "RSI"]);
    expect(parseStudies(null)).toEqual([]);
  });

  test("each have lines and a title", () => {
    for (const study of STUDIES) {
      expect(LOOKS[study].lines.length).toBeGreaterThan(0);
      expect(LOOKS[study].title).not.toBe("");
    }
  });
});
