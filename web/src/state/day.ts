/** What a market did in the last 24 hours, from its 15-minute candles. */

import type { Candle } from "../client";

export const DAY_PERIOD = "15m";
export const DAY_CANDLES = 98;
const DAY_MS = 86_400_000;
const PERIOD_MS = 900_000;

export interface Day {
  /** The price 24 hours ago, or the oldest one known since. */
  readonly reference: number;
  readonly high: number;
  readonly low: number;
  readonly volume: number;
  readonly last: number;
  /** Closing prices, oldest first, for the sparkline. */
  readonly closes: readonly number[];
}

/** Candles come oldest first. Null while there are none. */
export function dayOf(candles: readonly Candle[], nowMs: number): Day | null {
  const since = nowMs - DAY_MS;
  const before = candles.findLast((candle) => candle.start + PERIOD_MS <= since);
  const within = candles.filter((candle) => candle.start + PERIOD_MS > since);
  const [first, last] = [within[0], within.at(-1)];
  if (!first || !last) return null;
  return {
    reference: before?.c ?? first.o,
    high: Math.max(...within.map((candle) => candle.h)),
    low: Math.min(...within.map((candle) => candle.l)),
    volume: within.reduce((sum, candle) => sum + candle.v, 0),
    last: last.c,
    closes: within.map((candle) => candle.c),
  };
}

/** The change from the reference to `price`, as a ratio. */
export function changeOf(day: Day, price: number): number {
  return price / day.reference - 1;
}

/** Points of a sparkline in a box of `width` × `height`: "x,y x,y …". */
export function sparkline(values: readonly number[], width: number, height: number): string {
  if (values.length < 2) return "";
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const span = high - low || 1;
  const step = width / (values.length - 1);
  const point = (value: number, index: number) =>
    `${(index * step).toFixed(1)},${(height - ((value - low) / span) * height).toFixed(1)}`;
  return values.map(point).join(" ");
}
