/** Brings the indicators of the chosen market: a page of the past, older ones on demand, and the newest as they move. */

import type { ArteryHttp, Market, Values } from "../client";
import { type Period, periodMs } from "../state/periods";
import { type Study, ValueSeries } from "../state/studies";

const PAGE = 1_500;
const NEWEST_MS = 2_000;
const AGAIN_MS = 10_000;

export class Studies {
  readonly #http: ArteryHttp;
  #on: readonly Study[] = [];
  #series = new ValueSeries();
  #market: Market | null = null;
  #period: Period = "1m";
  #round = 0;
  #timer = 0;
  #askingOlder = false;

  /** Called when many values have come; then each of the newest. */
  onLoad: (rows: readonly Values[]) => void = () => undefined;
  onNewest: (row: Values) => void = () => undefined;

  constructor(http: ArteryHttp) {
    this.#http = http;
  }

  /** How many candles have values here. */
  get length(): number {
    return this.#series.length;
  }

  all(): readonly Values[] {
    return this.#series.all();
  }

  /** Show these; where there are none, nothing is asked for. */
  choose(on: readonly Study[]): void {
    const began = this.#on.length === 0 && on.length > 0;
    this.#on = on;
    if (began || on.length === 0) this.#restart();
  }

  begin(market: Market, period: Period): void {
    this.#market = market;
    this.#period = period;
    this.#restart();
  }

  /** Another market is about to be chosen: nothing more is drawn of this one. */
  pause(): void {
    this.#round += 1;
    window.clearTimeout(this.#timer);
    this.#series = new ValueSeries();
  }

  /** The connection is back: what was missed is in the past. */
  again(): void {
    this.#restart();
  }

  /** The chart has older candles now, from `oldest` on. */
  async older(oldest: number): Promise<void> {
    const end = this.#series.oldest;
    const round = this.#round;
    if (end === null || oldest >= end || this.#askingOlder || this.#on.length === 0) return;
    this.#askingOlder = true;
    const rows = await this.#past(end).catch(() => []);
    this.#askingOlder = false;
    if (round === this.#round) this.#take(rows);
  }

  #restart(): void {
    this.#round += 1;
    window.clearTimeout(this.#timer);
    if (this.#on.length > 0 && this.#market) void this.#load(this.#round);
  }

  async #load(round: number): Promise<void> {
    const rows = await this.#past().catch(() => null);
    if (round !== this.#round) return;
    if (rows) this.#take(rows);
    if (rows?.length) this.#next(round, NEWEST_MS, () => this.#follow(round));
    else this.#next(round, AGAIN_MS, () => this.#load(round));
  }

  /** The newest values, again and again; a hole before them is filled from the past. */
  async #follow(round: number): Promise<void> {
    const market = this.#market;
    if (!market) return;
    const rows = document.hidden
      ? []
      : await this.#http.newestIndicators(market.provider, market.coin, this.#period).catch(() => []);
    if (round !== this.#round) return;
    const known = this.#series.newest ?? 0;
    if (rows.some((row) => row.start > known + 2 * periodMs(this.#period))) return this.#load(round);
    this.#series.put(rows);
    for (const row of rows) if (row.start >= known) this.onNewest(row);
    this.#next(round, NEWEST_MS, () => this.#follow(round));
  }

  #next(round: number, waitMs: number, act: () => Promise<void>): void {
    this.#timer = window.setTimeout(() => {
      if (round === this.#round) void act();
    }, waitMs * (1 + Math.random() / 4));
  }

  #take(rows: readonly Values[]): void {
    if (rows.length === 0) return;
    this.#series.put(rows);
    this.onLoad(this.#series.all());
  }

  async #past(end?: number): Promise<Values[]> {
    const market = this.#market;
    if (!market) return [];
    return this.#http.indicators(market.provider, market.coin, this.#period, PAGE, end);
  }
}
