import { describe, expect, test } from "vitest";
import { picture } from "../src/state/book";
import { changeOf, dayOf, sparkline } from "../src/state/day";
import { noted } from "../src/state/gaps";
import { isPeriod, periodMs, PERIODS, startOf } from "../src/state/periods";
import { Tape } from "../src/state/tape";
import { candle, trade } from "./make";

describe("the book", () => {
  const book = {
    ts: 1,
    bids: [["99", "1"], ["98", "3"]] as const,
    asks: [["101", "2"], ["102", "6"]] as const,
  };

  test("adds sizes up from the best price, on one scale for both sides", () => {
    const { bids, asks } = picture(book, 20);
    expect(bids.map((row) => row.total)).toEqual([1, 4]);
    expect(asks.map((row) => row.depth)).toEqual([0.25, 1]);
    expect(bids.map((row) => row.depth)).toEqual([0.125, 0.5]);
  });

  test("knows its mid, its spread and its balance", () => {
    expect(picture(book, 20)).toMatchObject({ mid: 100, spread: 2, spreadRatio: 0.02, bidShare: 4 / 12 });
  });

  test("shows no more levels than asked for", () => {
    expect(picture(book, 1).bids).toHaveLength(1);
  });

  test("with an empty side has no mid", () => {
    expect(picture({ ts: 1, bids: [], asks: [] }, 20)).toMatchObject({ mid: null, spread: null, bidShare: null });
  });
});

describe("the tape", () => {
  test("has the newest trade first and forgets the oldest", () => {
    const tape = new Tape(3);
    for (const ts of [1, 2, 3, 4]) tape.add(trade(ts, 10));
    expect(tape.rows.map((row) => row.ts)).toEqual([4, 3, 2]);
    expect(tape.seen).toBe(4);
  });

  test("hands out what is fresh once", () => {
    const tape = new Tape(3);
    tape.add(trade(1, 10));
    tape.add(trade(2, 10));
    expect(tape.takeFresh().map((row) => row.ts)).toEqual([2, 1]);
    expect(tape.takeFresh()).toEqual([]);
  });

  test("is filled from history without doubling a trade", () => {
    const tape = new Tape(5);
    tape.add(trade(3, 10));
    expect(tape.fill([trade(1, 10), trade(2, 10), trade(3, 10)])).toBe(true);
    expect(tape.rows.map((row) => row.ts)).toEqual([3, 2, 1]);
    expect(tape.fill([trade(1, 10)])).toBe(false);
  });
});

describe("the rate of trades", () => {
  test("is measured over the time that the rows cover", () => {
    const tape = new Tape(4);
    for (const ts of [1_000, 6_000]) tape.add(trade(ts, 10));
    expect(tape.rate(10_000, 10_000)).toBe(0.2);
    for (const ts of [7_000, 7_500, 8_000]) tape.add(trade(ts, 10));
    expect(tape.rate(10_000, 10_000)).toBe(1);
    expect(tape.rate(60_000, 10_000)).toBe(0);
  });
});

describe("a market's day", () => {
  const quarter = 900_000;
  const now = 200 * quarter;

  test("is measured from the price 24 hours ago", () => {
    const rows = [
      candle(103 * quarter, { c: 50 }),
      candle(104 * quarter, { c: 60, h: 70, l: 40, v: 1 }),
      candle(199 * quarter, { c: 55, h: 58, l: 45, v: 2 }),
    ];
    const day = dayOf(rows, now);
    expect(day).toMatchObject({ reference: 50, high: 70, low: 40, volume: 3, last: 55 });
    expect(changeOf(day as NonNullable<typeof day>, 55)).toBeCloseTo(0.1);
  });

  test("that is not whole yet is measured from its first price", () => {
    expect(dayOf([candle(190 * quarter, { o: 7, c: 8 })], now)?.reference).toBe(7);
  });

  test("is not known without candles", () => {
    expect(dayOf([], now)).toBeNull();
    expect(dayOf([candle(1 * quarter)], now)).toBeNull();
  });

  test("is drawn from the lower left to the upper right when it rises", () => {
    expect(sparkline([1, 2, 3], 10, 4)).toBe("0.0,4.0 5.0,2.0 10.0,0.0");
    expect(sparkline([1], 10, 4)).toBe("");
  });
});

describe("gaps", () => {
  const gap = (fromMs: number, toMs: number, reason = "upstream") =>
    ({ type: "gap", from: "", to: "", resume: "", channel: "c", series: "TRADE", fromMs, toMs, reason }) as const;

  test("of many series are told once", () => {
    const first = noted([], gap(1000, 5000), 3);
    expect(noted(first, gap(900, 6000), 3)).toEqual([{ reason: "upstream", fromMs: 900, toMs: 6000 }]);
  });

  test("that lie apart, or have other causes, are told apart, the newest few", () => {
    const first = noted([], gap(1000, 5000), 2);
    expect(noted(first, gap(60_000, 61_000), 2)).toHaveLength(2);
    expect(noted(first, gap(1000, 5000, "slow_client"), 2)).toHaveLength(2);
    expect(noted(noted(first, gap(60_000, 61_000), 2), gap(90_000, 91_000), 2).map((row) => row.fromMs)).toEqual([
      60_000, 90_000,
    ]);
  });
});

describe("periods", () => {
  test("know their length and where they start", () => {
    expect(PERIODS.map(periodMs)).toEqual([60_000, 300_000, 900_000, 3_600_000, 14_400_000, 86_400_000]);
    expect(startOf(86_400_000 * 3 + 5, 86_400_000)).toBe(86_400_000 * 3);
    expect(isPeriod("4h")).toBe(true);
    expect(isPeriod("2h")).toBe(false);
  });
});
