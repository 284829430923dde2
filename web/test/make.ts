/** Values for tests, with only what matters written out. */

import type { Candle, Trade } from "../src/client";

export const MINUTE = 60_000;

export function candle(start: number, given: Partial<Candle> = {}): Candle {
  return { start, o: 10, h: 12, l: 9, c: 11, v: 5, n: 3, closed: true, rev: 0, eventTs: 0, ...given };
}

export function trade(ts: number, px: number, sz = 1, given: Partial<Trade> = {}): Trade {
  return { ts, tid: `${ts}-${px}`, px, pxText: String(px), sz, szText: String(sz), side: "B", ...given };
}
