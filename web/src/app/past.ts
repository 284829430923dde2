/** The chart's past: loads it, asks again until it is there, and mends what the live stream missed. */

import { type ArteryHttp, type Backoff, delayMs, HttpError, type Market } from "../client";
import type { CandleSeries } from "../state/candles";
import type { Period } from "../state/periods";

export type PastState = "loading" | "waiting" | "ready" | "trouble";

const PAGE = 1_500;
const TOP_UP = 200;
const BACKOFF: Backoff = { firstMs: 1_000, mostMs: 10_000 };
/** The lake is written every few seconds and a first start fills it page by page, so a fresh answer is asked again. */
const TOP_UPS_MS = [4_000, 10_000, 20_000, 40_000];
const STEADY_MS = 20_000;
const GRACE_MS = 15_000;

export class Past {
  readonly #http: ArteryHttp;
  readonly #market: Market;
  readonly #period: Period;
  readonly #series: CandleSeries;
  #state: PastState = "loading";
  #stopped = false;
  #tries = 0;
  #answers = 0;
  #timer = 0;
  #round = 0;
  #askingOlder = false;
  #exhausted = false;

  /** Called after the series has changed. */
  onChange: () => void = () => undefined;
  onState: (state: PastState) => void = () => undefined;

  constructor(http: ArteryHttp, market: Market, period: Period, series: CandleSeries) {
    this.#http = http;
    this.#market = market;
    this.#period = period;
    this.#series = series;
  }

  get state(): PastState {
    return this.#state;
  }

  /** Ask now, from the beginning: at the start, and after a lost connection. */
  start(): void {
    this.#tries = 0;
    this.#answers = 0;
    this.#next(0);
  }

  stop(): void {
    this.#stopped = true;
    window.clearTimeout(this.#timer);
  }

  /** Load what lies before the oldest candle. */
  async older(): Promise<void> {
    const oldest = this.#series.oldest;
    if (!oldest || this.#askingOlder || this.#exhausted || this.#stopped) return;
    this.#askingOlder = true;
    try {
      const rows = await this.#ask(PAGE, oldest.start);
      this.#exhausted = !rows.some((row) => row.start < oldest.start);
      if (!this.#stopped && this.#series.load(rows)) this.onChange();
    } catch {
      // The next scroll asks again.
    } finally {
      this.#askingOlder = false;
    }
  }

  #next(waitMs: number): void {
    window.clearTimeout(this.#timer);
    this.#round += 1;
    const round = this.#round;
    this.#timer = window.setTimeout(() => void this.#turn(round), waitMs);
  }

  /** One question and its answer; a newer round makes this one void. */
  async #turn(round: number): Promise<void> {
    const steady = this.#answers > TOP_UPS_MS.length;
    if (steady && this.#series.unsettled(Date.now(), GRACE_MS) === 0) {
      this.#next(STEADY_MS * (1 + Math.random() / 4));
      return;
    }
    try {
      const limit = this.#answers > 0 && this.#series.length >= PAGE ? TOP_UP : PAGE;
      const rows = await this.#ask(limit);
      if (this.#stopped || round !== this.#round) return;
      this.#take(rows, limit);
    } catch (error) {
      if (this.#stopped || round !== this.#round) return;
      this.#become(this.#answers > 0 ? "ready" : error instanceof HttpError && error.status > 0 ? "waiting" : "trouble");
      this.#again();
    }
  }

  #take(rows: Awaited<ReturnType<ArteryHttp["history"]>>, limit: number): void {
    if (rows.length === 0) {
      this.#become("waiting");
      this.#again();
      return;
    }
    this.#dropBeforeHole(rows[0]?.start ?? 0, rows.length >= limit);
    if (this.#series.load(rows)) this.onChange();
    this.#exhausted = false;
    this.#tries = 0;
    this.#next(TOP_UPS_MS[this.#answers] ?? STEADY_MS);
    this.#answers += 1;
    this.#become("ready");
  }

  /** After a long sleep the newest page may begin after what is held: better no past than one with a silent hole. */
  #dropBeforeHole(firstStart: number, full: boolean): void {
    const closed = this.#series.newestClosed;
    if (this.#answers === 0 && full && closed && closed.start < firstStart) this.#series.dropBefore(firstStart);
  }

  #again(): void {
    this.#next(delayMs(BACKOFF, this.#tries, Math.random()));
    this.#tries += 1;
  }

  #ask(limit: number, end?: number) {
    const { provider, coin } = this.#market;
    const query = { provider, market: coin, interval: this.#period, limit };
    return this.#http.history(end === undefined ? query : { ...query, end });
  }

  #become(state: PastState): void {
    this.#state = state;
    this.onState(state);
  }
}
