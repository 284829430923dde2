/**
 * The candles of one market and period, from three sources at once: history, CANDLE events, and trades.
 *
 * The server's candles are the truth: of two versions the newer `(closed, rev, eventTs)` holds. Between two of its
 * words about the open candle, trades are folded in here, so that the newest candle moves at the speed of trades.
 * A trade reaches the page before the candle that holds it, so the last trade's price is the close; highs, lows and
 * volume can only grow, so the larger of both sides is right.
 */

import type { Candle, Trade } from "../client";
import { startOf } from "./periods";

/** What a change asks of whoever draws: nothing, one bar, or all of them. */
export type Change = { readonly kind: "none" | "all" } | { readonly kind: "bar"; readonly bar: Candle };

const NONE: Change = { kind: "none" };
const ALL: Change = { kind: "all" };
const UNVOUCHED = -1; // older than any word of the server

export class CandleSeries {
  readonly #lengthMs: number;
  #bars: Candle[] = [];
  #own: Candle | null = null;
  /** Time of the first trade since which none was missed. */
  #since: number | null = null;

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs;
  }

  get length(): number {
    return this.#bars.length;
  }

  get oldest(): Candle | null {
    return this.#bars[0] ?? null;
  }

  /** The newest candle as it is shown: with the trades that the server has not folded yet. */
  get newest(): Candle | null {
    const last = this.#bars.at(-1);
    return last ? joined(last, this.#own) : null;
  }

  /** The newest candle that the server has closed. */
  get newestClosed(): Candle | null {
    return this.#bars.findLast((bar) => bar.closed) ?? null;
  }

  /** The candle that starts at `start`, as it is shown. */
  at(start: number): Candle | null {
    const bar = this.#bars[this.#find(start)];
    return bar?.start === start ? joined(bar, this.#own) : null;
  }

  /** All candles as they are shown, oldest first. */
  all(): Candle[] {
    const newest = this.newest;
    return newest ? [...this.#bars.slice(0, -1), newest] : [];
  }

  /** Take rows of history; true where they changed anything. */
  load(rows: readonly Candle[]): boolean {
    const bars = new Map(this.#bars.map((bar) => [bar.start, bar]));
    let changed = false;
    for (const row of rows) {
      const held = bars.get(row.start);
      if (held && !replaces(row, held)) continue;
      bars.set(row.start, row);
      changed ||= !held || !sameFigures(row, held);
    }
    if (changed) this.#bars = [...bars.values()].sort((a, b) => a.start - b.start);
    return changed;
  }

  /** Take one candle event. */
  put(candle: Candle): Change {
    const last = this.#bars.at(-1);
    if (!last || candle.start > last.start) {
      this.#settleOwn(candle.start);
      this.#bars.push(candle);
      return { kind: "bar", bar: joined(candle, this.#own) };
    }
    const index = this.#find(candle.start);
    const held = this.#bars[index];
    if (!held || held.start !== candle.start) {
      this.#bars.splice(index, 0, candle);
      return ALL;
    }
    if (!replaces(candle, held)) return NONE;
    this.#bars[index] = candle;
    return { kind: "bar", bar: held === last ? joined(candle, this.#own) : candle };
  }

  /**
   * Fold one trade into the newest candle, or open the next one with it.
   *
   * A candle is opened here only if its trades were watched from its start; the server opens any other one, as only
   * it knows the open.
   */
  trade(trade: Trade): Change {
    this.#since ??= trade.ts;
    const last = this.#bars.at(-1);
    const start = startOf(trade.ts, this.#lengthMs);
    if (!last || start < last.start || (start === last.start && last.closed)) return NONE;
    if (this.#own && start < this.#own.start) return NONE;
    this.#settleOwn(start);
    this.#own = this.#own ? folded(this.#own, trade) : opened(start, trade);
    if (start > last.start) {
      if (start <= this.#since) return NONE;
      this.#bars.push(this.#own);
    }
    return { kind: "bar", bar: joined(this.#bars.at(-1) as Candle, this.#own) };
  }

  /** Trades were missed: what was folded here no longer vouches for the close or the volume. */
  forgetTrades(): void {
    this.#since = null;
    this.#settleOwn(Infinity);
  }

  /** The connection was lost: any word of the server about an open candle is newer than what is held. */
  loosen(): void {
    this.forgetTrades();
    this.#bars = this.#bars.map((bar) => (bar.closed ? bar : { ...bar, eventTs: UNVOUCHED }));
  }

  /** Let go of what is older than `start`, where a hole lies before it that will not be filled. */
  dropBefore(start: number): void {
    this.#bars = this.#bars.filter((bar) => bar.start >= start);
  }

  /** How many candles have ended some time ago and are still shown as open: history should be asked again. */
  unsettled(nowMs: number, graceMs: number): number {
    return this.#bars.filter((bar) => !bar.closed && bar.start + this.#lengthMs + graceMs < nowMs).length;
  }

  /** Keep what the trades of the candle before `start` made of it until the server's own word comes. */
  #settleOwn(start: number): void {
    const own = this.#own;
    if (own === null || own.start >= start) return;
    const index = this.#find(own.start);
    const held = this.#bars[index];
    if (held?.start === own.start) this.#bars[index] = joined(held, own);
    this.#own = null;
  }

  /** Where `start` stands or belongs. */
  #find(start: number): number {
    let [low, high] = [0, this.#bars.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#bars[middle] as Candle).start < start) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Whether `a` takes the place of `b`: newer `(closed, rev, eventTs)` wins, and of equals the later word. */
export function replaces(a: Candle, b: Candle): boolean {
  if (a.closed !== b.closed) return a.closed;
  if (a.rev !== b.rev) return a.rev > b.rev;
  return a.eventTs >= b.eventTs;
}

function sameFigures(a: Candle, b: Candle): boolean {
  return a.o === b.o && a.h === b.h && a.l === b.l && a.c === b.c && a.v === b.v && a.closed === b.closed;
}

function opened(start: number, trade: Trade): Candle {
  const { px, sz } = trade;
  return { start, o: px, h: px, l: px, c: px, v: sz, n: 1, closed: false, rev: 0, eventTs: UNVOUCHED };
}

function folded(own: Candle, trade: Trade): Candle {
  return {
    ...own,
    h: Math.max(own.h, trade.px),
    l: Math.min(own.l, trade.px),
    c: trade.px,
    v: own.v + trade.sz,
    n: own.n + 1,
  };
}

function joined(bar: Candle, own: Candle | null): Candle {
  if (own === null || bar.closed || own.start !== bar.start) return bar;
  return {
    ...bar,
    h: Math.max(bar.h, own.h),
    l: Math.min(bar.l, own.l),
    c: own.c,
    v: Math.max(bar.v, own.v),
    n: Math.max(bar.n, own.n),
  };
}
