import { describe, expect, test } from "vitest";
import { CandleSeries } from "../src/state/candles";
import { candle, MINUTE, trade } from "./make";

function series(...starts: number[]): CandleSeries {
  const made = new CandleSeries(MINUTE);
  made.load(starts.map((start) => candle(start * MINUTE)));
  return made;
}

describe("history", () => {
  test("is kept in order, whatever order it comes in", () => {
    const made = series(3, 1);
    made.load([candle(2 * MINUTE)]);
    expect(made.all().map((bar) => bar.start / MINUTE)).toEqual([1, 2, 3]);
  });

  test("that brings nothing new changes nothing", () => {
    const made = series(1, 2);
    expect(made.load([candle(2 * MINUTE)])).toBe(false);
    expect(made.load([candle(2 * MINUTE, { rev: 1, c: 11.5 })])).toBe(true);
  });

  test("never replaces a live version of the same candle, but a later answer replaces an earlier one", () => {
    const made = series(1);
    made.load([candle(2 * MINUTE, { closed: false, c: 10 })]);
    made.load([candle(2 * MINUTE, { closed: false, c: 10.5 })]);
    expect(made.newest?.c).toBe(10.5);
    made.put(candle(2 * MINUTE, { closed: false, c: 11, eventTs: 5 }));
    made.load([candle(2 * MINUTE, { closed: false, c: 10 })]);
    expect(made.newest?.c).toBe(11);
  });
});

describe("a candle event", () => {
  test("with a higher rev corrects a closed candle in the past", () => {
    const made = series(1, 2, 3);
    const change = made.put(candle(2 * MINUTE, { rev: 1, h: 20, eventTs: 9 }));
    expect(change).toMatchObject({ kind: "bar", bar: { start: 2 * MINUTE, h: 20, rev: 1 } });
    expect(made.at(2 * MINUTE)?.h).toBe(20);
  });

  test("that is older than what is held changes nothing", () => {
    const made = series(1);
    made.put(candle(2 * MINUTE, { rev: 2, eventTs: 9 }));
    expect(made.put(candle(2 * MINUTE, { rev: 1, eventTs: 10 })).kind).toBe("none");
    expect(made.put(candle(2 * MINUTE, { closed: false, rev: 3, eventTs: 11 })).kind).toBe("none");
    expect(made.newest).toMatchObject({ closed: true, rev: 2 });
  });

  test("for a hole in the past asks for all to be drawn", () => {
    const made = series(1, 3);
    expect(made.put(candle(2 * MINUTE)).kind).toBe("all");
    expect(made.length).toBe(3);
  });
});

describe("a trade", () => {
  test("moves the open candle at once", () => {
    const made = series(1);
    made.put(candle(2 * MINUTE, { closed: false, eventTs: 1 }));
    made.trade(trade(2 * MINUTE + 1, 13, 4));
    expect(made.newest).toMatchObject({ o: 10, h: 13, l: 9, c: 13, v: 5 });
  });

  test("opens the next candle before the server does, if its trades were watched from the start", () => {
    const made = series(1);
    made.trade(trade(MINUTE + 5, 13));
    const change = made.trade(trade(2 * MINUTE + 5, 14, 2));
    expect(change).toMatchObject({ kind: "bar", bar: { start: 2 * MINUTE, o: 14, c: 14, v: 2, closed: false } });
    expect(made.length).toBe(2);
  });

  test("in the middle of a candle that only the server knows waits for it, and is then in it", () => {
    const made = series(1);
    expect(made.trade(trade(2 * MINUTE + 5, 14, 2)).kind).toBe("none");
    expect(made.trade(trade(2 * MINUTE + 6, 15, 2)).kind).toBe("none");
    expect(made.length).toBe(1);
    made.put(candle(2 * MINUTE, { closed: false, o: 10, c: 14, v: 9, eventTs: 1 }));
    expect(made.newest).toMatchObject({ o: 10, h: 15, c: 15, v: 9 });
  });

  test("that comes late, after one of the next candle, changes nothing", () => {
    const made = series(1);
    made.trade(trade(3 * MINUTE + 5, 14));
    expect(made.trade(trade(2 * MINUTE + 5, 99)).kind).toBe("none");
    made.put(candle(3 * MINUTE, { closed: false, eventTs: 1 }));
    expect(made.newest).toMatchObject({ h: 14, c: 14 });
  });

  test("after missed ones opens nothing until the next candle begins", () => {
    const made = series(1);
    made.trade(trade(MINUTE + 5, 13));
    made.forgetTrades();
    expect(made.trade(trade(2 * MINUTE + 5, 14)).kind).toBe("none");
    expect(made.trade(trade(3 * MINUTE + 5, 14)).kind).toBe("bar");
  });

  test("of a closed or an earlier candle is the server's matter", () => {
    const made = series(1, 2);
    expect(made.trade(trade(2 * MINUTE + 5, 99)).kind).toBe("none");
    expect(made.trade(trade(MINUTE + 5, 99)).kind).toBe("none");
  });

  test("without any candle to follow draws nothing", () => {
    expect(new CandleSeries(MINUTE).trade(trade(5, 1)).kind).toBe("none");
  });

  test("keeps its price as the close when the server's open candle arrives a moment behind", () => {
    const made = series(1);
    made.put(candle(2 * MINUTE, { closed: false, eventTs: 1 }));
    made.trade(trade(2 * MINUTE + 1, 11.5, 1));
    made.trade(trade(2 * MINUTE + 2, 11.7, 1));
    made.put(candle(2 * MINUTE, { closed: false, c: 11.5, v: 6, n: 4, eventTs: 2 }));
    expect(made.newest).toMatchObject({ c: 11.7, v: 6, n: 4 });
  });

  test("is forgotten when the closed candle comes", () => {
    const made = series(1);
    made.put(candle(2 * MINUTE, { closed: false, eventTs: 1 }));
    made.trade(trade(2 * MINUTE + 1, 50));
    made.put(candle(2 * MINUTE, { c: 11, h: 12, eventTs: 2 }));
    expect(made.newest).toMatchObject({ c: 11, h: 12, closed: true });
  });

  test("leaves its mark on a candle that the server has not closed yet", () => {
    const made = series(1);
    made.trade(trade(MINUTE + 1, 13));
    made.trade(trade(2 * MINUTE + 1, 14));
    made.trade(trade(2 * MINUTE + 2, 15));
    made.trade(trade(3 * MINUTE + 1, 16));
    expect(made.at(2 * MINUTE)).toMatchObject({ o: 14, h: 15, c: 15, v: 2 });
    expect(made.unsettled(4 * MINUTE, 0)).toBe(1);
  });
});

describe("after a lost connection", () => {
  test("history's word about the open candle counts, and trades from before do not", () => {
    const made = series(1);
    made.put(candle(2 * MINUTE, { closed: false, c: 10, eventTs: 99 }));
    made.trade(trade(2 * MINUTE + 1, 30));
    made.loosen();
    made.load([candle(2 * MINUTE, { closed: true, c: 11, h: 12 })]);
    expect(made.newest).toMatchObject({ c: 11, h: 12, closed: true });
  });

  test("what lies before a hole can be let go", () => {
    const made = series(1, 2, 9);
    made.dropBefore(9 * MINUTE);
    expect(made.length).toBe(1);
    expect(made.oldest?.start).toBe(9 * MINUTE);
  });
});
