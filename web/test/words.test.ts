import { describe, expect, test } from "vitest";
import { Axis } from "../src/view/axis";
import {
  atLeast,
  compact,
  countdown,
  decimalsOf,
  duration,
  fixed,
  guessDecimals,
  percent,
  timeOfDay,
  zoneName,
} from "../src/state/format";
import {
  againWords,
  candleLine,
  connectionLine,
  feedLine,
  gapWords,
  healthLines,
  lostWords,
  refusalWords,
  summary,
} from "../src/state/words";

describe("numbers", () => {
  test("a step says its decimals", () => {
    expect(["0.01", "0.010", "1", "5.0", "0.00001"].map(decimalsOf)).toEqual([2, 2, 0, 0, 5]);
  });

  test("prices are padded and grouped, and never lose a digit", () => {
    expect(fixed("67412.5", 2)).toBe("67,412.50");
    expect(fixed("0.123456789012345678", 2)).toBe("0.123456789012345678");
    expect(fixed("1234567", 0)).toBe("1,234,567");
    expect(fixed(-3.14159, 2)).toBe("−3.14");
  });

  test("a mid price between two ticks is not rounded away", () => {
    expect(atLeast(67520.25, 1)).toBe("67,520.25");
    expect(atLeast(67520.5, 1)).toBe("67,520.5");
    expect(atLeast(100, 0)).toBe("100");
    expect(atLeast(100.5, 0)).toBe("100.5");
  });

  test("decimals are guessed where the market does not say them", () => {
    expect([67412, 172.35, 0.1845].map(guessDecimals)).toEqual([1, 3, 6]);
    expect(guessDecimals(0)).toBe(2);
  });

  test("large amounts are short", () => {
    expect([0.5, 12.34, 999.4, 1_234, 48_100, 999_999, 2.5e9].map(compact)).toEqual([
      "0.50", "12.3", "999", "1.23K", "48.1K", "1.00M", "2.50B",
    ]);
  });

  test("changes have a sign, unless there is none", () => {
    expect([0.0124, -0.05, 0, -0.00001].map(percent)).toEqual(["+1.24%", "−5.00%", "0.00%", "0.00%"]);
  });
});

describe("times", () => {
  test("durations are as long as they need to be", () => {
    expect([400, 8_000, 42_000, 180_000, 9_000_000, -5].map(duration)).toEqual([
      "0.4 s", "8 s", "42 s", "3 min", "3 h", "0.0 s",
    ]);
  });

  test("countdowns have minutes, and hours where they must", () => {
    expect([4_100, 61_000, 7_209_000].map(countdown)).toEqual(["0:05", "1:01", "2:00:09"]);
  });

  test("zones are written as people write them", () => {
    expect([0, 120, -210].map(zoneName)).toEqual(["UTC", "UTC+2", "UTC−3:30"]);
    expect(timeOfDay(3_723_000, true)).toBe("01:02:03");
  });

  test("a bar goes to the axis and back, and daily bars have UTC dates", () => {
    const start = Date.UTC(2025, 2, 30, 0, 59);
    const axis = new Axis(60_000, start);
    expect(axis.fromChart(axis.toChart(start))).toBe(start);
    const daily = new Axis(86_400_000, start);
    expect(daily.toChart(Date.UTC(2025, 2, 30))).toBe(Date.UTC(2025, 2, 30) / 1000);
    expect(daily.full(Date.UTC(2025, 2, 30) / 1000)).toBe("30 Mar 2025 UTC");
    expect(daily.mark(Date.UTC(2025, 2, 30) / 1000, 2)).toBe("30 Mar");
  });
});

describe("words", () => {
  const feed = { provider: "sim", ok: true, state: "live", ageMs: 400, words: "" };
  const pipeline = { ok: true, state: "running", lagS: 0.6, lastCommitMs: 92_000, words: "" };

  test("a healthy system says how fresh each part is", () => {
    const lines = healthLines({ ready: true, feeds: [feed], pipeline, bus: [] }, 100_000);
    expect(lines.map((line) => line.text)).toEqual(["live, 0.4 s ago", "0.6 s behind", "written 8 s ago"]);
    expect(summary(lines).tone).toBe("good");
  });

  test("a pipeline that starts says so, and is what the summary tells", () => {
    const starting = { ...pipeline, ok: false, state: "starting", lastCommitMs: null };
    const lines = healthLines({ ready: true, feeds: [feed], pipeline: starting, bus: [] }, 100_000);
    expect(lines.map((line) => line.text)).toEqual(["live, 0.4 s ago", "pipeline is starting", "nothing written yet"]);
    expect(summary(lines)).toMatchObject({ tone: "warn", text: "Candles: pipeline is starting" });
  });

  test("candles that fall behind are no longer well", () => {
    expect(candleLine({ ...pipeline, lagS: 23 })).toMatchObject({ tone: "warn", text: "23 s behind" });
  });

  test("a feed in trouble says it in the server's words", () => {
    const line = feedLine({ ...feed, ok: false, state: "connecting", words: "connecting to the venue: refused" });
    expect(line).toMatchObject({ tone: "bad", text: "connecting to the venue: refused" });
    expect(feedLine({ ...feed, ok: false, state: "stale" }).text).toBe("no news from the venue");
  });

  test("a lost connection counts down to the next try, and is said in words that stay the same meanwhile", () => {
    const waiting = { kind: "waiting", tries: 1, untilMs: 5_900 } as const;
    const trying = { kind: "connecting", tries: 2 } as const;
    expect([3_000, 4_000].map((nowMs) => againWords(waiting, nowMs))).toEqual(["in 3 s", "in 2 s"]);
    expect(againWords(trying, 0)).toBe("now");
    expect([lostWords(waiting), lostWords(trying)]).toEqual(Array(2).fill("Connection lost. Trying again"));
    for (const state of [{ kind: "open" }, { kind: "connecting", tries: 0 }] as const) {
      expect([lostWords(state), againWords(state, 0)]).toEqual(["", ""]);
    }
    expect(lostWords({ kind: "refused", code: 4503, unauthenticated: true })).toContain("may not have live data");
    expect(connectionLine(waiting).tone).toBe("bad");
  });

  test("a gap says from when to when, and that it will be repaired", () => {
    const from = new Date(2025, 0, 5, 14, 3, 10).getTime();
    const words = gapWords({ fromMs: from, toMs: from + 8_000, reason: "upstream" });
    expect(words).toBe("No data 14:03:10–14:03:18, will be repaired");
    expect(gapWords({ fromMs: 0, toMs: 0, reason: "failover" })).toBe("Some data is missing, will be repaired");
    expect(gapWords({ fromMs: 0, toMs: 0, reason: "slow_client" })).toContain("fell behind");
  });

  test("a market that is refused says why, but not where it is asked for again anyway", () => {
    const words = refusalWords("AVAX", { code: "subscription_limit", message: "a key may have 5 markets followed" });
    expect(words).toBe("No live data of AVAX: a key may have 5 markets followed");
    expect(refusalWords("AVAX", { code: "rate_limited", message: "at most 20 frames a second" })).toBe("");
  });
});
