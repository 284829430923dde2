/** The newest trades of one market, newest first, never more than fit. */

import type { Trade } from "../client";

export const TAPE_ROWS = 100;

export class Tape {
  readonly #most: number;
  #rows: Trade[] = [];
  #fresh = 0;
  #seen = 0;

  constructor(most = TAPE_ROWS) {
    this.#most = most;
  }

  get rows(): readonly Trade[] {
    return this.#rows;
  }

  /** How many trades have come in all. */
  get seen(): number {
    return this.#seen;
  }

  add(trade: Trade): void {
    this.#rows.unshift(trade);
    if (this.#rows.length > this.#most) this.#rows.length = this.#most;
    this.#fresh = Math.min(this.#fresh + 1, this.#most);
    this.#seen += 1;
  }

  /** Take trades from before, oldest first; those that are here already stay once. True where anything was new. */
  fill(older: readonly Trade[]): boolean {
    const known = new Set(this.#rows.map(nameOf));
    const missing = older.filter((trade) => !known.has(nameOf(trade)));
    if (missing.length === 0) return false;
    const rows = [...this.#rows, ...missing.toReversed()];
    this.#rows = rows.sort((a, b) => b.ts - a.ts).slice(0, this.#most);
    this.#fresh = 0;
    return true;
  }

  /** The trades since the last call, newest first. */
  takeFresh(): readonly Trade[] {
    const fresh = this.#rows.slice(0, this.#fresh);
    this.#fresh = 0;
    return fresh;
  }

  /** Trades a second over the last `windowMs`, or over the time that the rows reach back if that is shorter. */
  rate(nowMs: number, windowMs: number): number {
    const recent = this.#rows.filter((trade) => trade.ts > nowMs - windowMs);
    const full = recent.length === this.#most;
    const spanMs = full ? nowMs - (recent.at(-1)?.ts ?? nowMs) : windowMs;
    return (recent.length * 1000) / Math.max(spanMs, 1000);
  }

  clear(): void {
    this.#rows = [];
    this.#fresh = 0;
  }
}

function nameOf(trade: Trade): string {
  return `${trade.ts} ${trade.tid}`;
}
