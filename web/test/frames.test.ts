import { describe, expect, test } from "vitest";
import {
  channelOf,
  delayMs,
  parseBook,
  parseCandle,
  parseFrame,
  parseHealth,
  parseMarket,
  parseMids,
  parseRow,
  parseTrade,
  subscribeFrame,
  subscribeGroups,
  verdictOf,
} from "../src/client";

describe("frames", () => {
  test("an event keeps its channel, series, position and fields", () => {
    const text = '{"type":"event","channel":"artery:stream:sim:BTC","series":"TRADE","position":"1.2.3","data":{"px":"5"}}';
    expect(parseFrame(text)).toEqual({
      type: "event",
      channel: "artery:stream:sim:BTC",
      series: "TRADE",
      position: "1.2.3",
      data: { px: "5" },
    });
  });

  test("a gap says when and why", () => {
    const gap = parseFrame('{"type":"gap","channel":"c","series":"TRADE","from_ms":5,"to_ms":9,"reason":"upstream"}');
    expect(gap).toMatchObject({ type: "gap", fromMs: 5, toMs: 9, reason: "upstream" });
  });

  test.each(["", "nonsense", "null", "7", "{}", '{"type":3}', '{"type":"event","data":null}'])(
    "%j is not a frame",
    (text) => expect(parseFrame(text)).toBeNull(),
  );

  test("a frame of a later version is let through by its name", () => {
    expect(parseFrame('{"type":"user_event","id":"4"}')).toEqual({ type: "other", name: "user_event", id: "4" });
  });

  test("subscribing names types only where they are given", () => {
    const frame = subscribeFrame("1", [{ channel: "a" }, { channel: "b", types: ["TRADE"] }]);
    expect(JSON.parse(frame)).toEqual({
      type: "subscribe",
      id: "1",
      channels: ["a", { channel: "b", types: ["TRADE"] }],
    });
  });

  test("few channels are asked for one by one, many in groups", () => {
    const many = Array.from({ length: 120 }, (_, index) => ({ channel: `c${index}` }));
    expect(subscribeGroups(many.slice(0, 3)).map((group) => group.length)).toEqual([1, 1, 1]);
    expect(subscribeGroups(many.slice(0, 40)).map((group) => group.length)).toEqual([40]);
    expect(subscribeGroups(many).map((group) => group.length)).toEqual([50, 50, 20]);
    expect(subscribeGroups(many).flat()).toEqual(many);
    expect(subscribeGroups([])).toEqual([]);
  });

  test("a thousand channels with all that they may carry come back in frames that the server takes", () => {
    const names = Array.from({ length: 64 }, (_, index) => `CANDLE:${index + 1}m`);
    const positions = Object.fromEntries(names.map((name) => [name, "1730000000000.123456789.1730000000000"]));
    const channels = Array.from({ length: 1000 }, (_, index) => channelOf("sim", `C${index}`));
    const three = Object.fromEntries(Object.entries(positions).slice(0, 3));
    const usual = subscribeGroups(channels.map((channel) => ({ channel, since: { positions: three } })));
    expect(usual.length).toBeLessThanOrEqual(30); // a burst of 60 frames is allowed
    const most = subscribeGroups(channels.map((channel) => ({ channel, types: names, since: { positions } })));
    for (const group of [...usual, ...most]) expect(subscribeFrame("1", group).length).toBeLessThan(64 * 1024);
  });

  test("a market key may hold a colon", () => {
    expect(channelOf("hyperliquid_perp", "xyz:XYZ100")).toBe("artery:stream:hyperliquid_perp:xyz:XYZ100");
  });
});

describe("events", () => {
  test("a trade keeps the text of its price", () => {
    const trade = parseTrade({ ts: "5", tid: "7", px: "67412.50", sz: "0.1", side: "S" });
    expect(trade).toMatchObject({ px: 67412.5, pxText: "67412.50", side: "S" });
  });

  test.each([{}, { px: "x", sz: "1", ts: "1" }, { px: "-1", sz: "1", ts: "1" }])("%j is not a trade", (fields) =>
    expect(parseTrade(fields)).toBeNull(),
  );

  test("a book's sides are JSON inside of strings", () => {
    expect(parseBook({ ts: "5", bids: '[["1","2"]]', asks: "[]" })).toEqual({ ts: 5, bids: [["1", "2"]], asks: [] });
    expect(parseBook({ ts: "5", bids: "oops", asks: "[]" })).toBeNull();
  });

  test("a candle is closed only by the word true", () => {
    const fields = { startTs: "60000", o: "1", h: "2", l: "1", c: "2", v: "3", n: "4", rev: "1", eventTs: "9" };
    expect(parseCandle({ ...fields, isClosed: "true" })).toMatchObject({ closed: true, rev: 1, eventTs: 9, n: 4 });
    expect(parseCandle({ ...fields, isClosed: "True" })?.closed).toBe(false);
    expect(parseCandle({ ...fields, o: "" })).toBeNull();
  });

  test("a row of history is older than any live version", () => {
    const row = { start: 60000, o: "1", h: "2", l: "1", c: "2", v: "3", n: 4, closed: true, rev: 0 };
    expect(parseRow(row)).toMatchObject({ start: 60000, closed: true, eventTs: 0 });
  });

  test("mids come as one map", () => {
    expect(parseMids({ mids: '{"BTC":"5.5"}' }).get("BTC")).toBe("5.5");
    expect(parseMids({ mids: "[" }).size).toBe(0);
  });
});

describe("answers", () => {
  test("a market without metadata still has a name and a channel", () => {
    expect(parseMarket({ provider: "sim", coin: "BTC" })).toMatchObject({
      channel: "artery:stream:sim:BTC",
      base: "BTC",
      tickSize: "",
      followed: true,
      simulated: true,
    });
  });

  test("health without details is empty, not an error", () => {
    expect(parseHealth({ ready: true })).toEqual({ ready: true, feeds: [], pipeline: null, bus: [] });
  });
});

describe("trying again", () => {
  test("waits longer each time, never longer than the most", () => {
    const backoff = { firstMs: 1000, mostMs: 15_000 };
    expect([0, 1, 2, 3, 4, 99].map((tries) => delayMs(backoff, tries, 1))).toEqual([
      1000, 2000, 4000, 8000, 15_000, 15_000,
    ]);
    expect(delayMs(backoff, 0, 0)).toBe(500);
  });

  test.each([
    [1006, "again"],
    [4000, "again"],
    [4029, "again"],
    [4500, "unauthenticated"],
    [4501, "unauthenticated"],
    [4503, "unauthenticated"],
    [4504, "stop"],
  ])("close code %i means %s", (code, verdict) => expect(verdictOf(code)).toBe(verdict));
});
