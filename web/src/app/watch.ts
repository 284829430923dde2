/** All markets at a glance: their prices from MIDS, their last day from history. */

import {
  type ArteryClient,
  type ArteryHttp,
  type Backoff,
  channelOf,
  delayMs,
  type EventFrame,
  type Market,
  parseMids,
} from "../client";
import { type Day, DAY_CANDLES, DAY_PERIOD, dayOf } from "../state/day";
import type { MarketsView } from "../view/markets";
import { onNextFrame } from "../view/dom";
import { priceDecimals } from "./desk";

const REFRESH_MS = 120_000;
const MARKETS_MAX = 60; // beyond these a day's figures would cost more than they tell
const BACKOFF: Backoff = { firstMs: 2_000, mostMs: 20_000 };

export class Watch {
  readonly #http: ArteryHttp;
  readonly #view: MarketsView;
  readonly #client: ArteryClient;
  readonly #days = new Map<string, Day>();
  readonly #prices = new Map<string, number>();
  readonly #drawSoon = onNextFrame(() => this.#draw());
  #markets: readonly Market[] = [];
  #timer = 0;
  #tries = 0;
  #chosen = "";

  /** Called when the chosen market's price or day has changed. */
  onChosen: (price: number, day: Day | null) => void = () => undefined;

  constructor(client: ArteryClient, http: ArteryHttp, view: MarketsView) {
    this.#client = client;
    this.#http = http;
    this.#view = view;
  }

  /** Watch these; called again when their metadata has come or changed. */
  setMarkets(markets: readonly Market[]): void {
    this.#markets = markets;
    this.#view.setMarkets(markets);
    for (const provider of new Set(markets.map((market) => market.provider))) {
      this.#client.subscribe({ channel: channelOf(provider, "*"), types: ["MIDS"] });
    }
    for (const [channel, day] of this.#days) this.#view.setDay(channel, day);
    this.#drawSoon();
    this.refresh();
  }

  /** Ask for the days now: at the start, and when the connection is back. */
  refresh(): void {
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#load(), 0);
  }

  choose(channel: string): void {
    this.#chosen = channel;
    this.#drawSoon();
  }

  /** The chosen market trades: its last price is fresher than any mid. */
  traded(price: number): void {
    this.#prices.set(this.#chosen, price);
    this.#drawSoon();
  }

  handle(frame: EventFrame): void {
    if (frame.series !== "MIDS") return;
    const provider = frame.channel.split(":")[2];
    const mids = parseMids(frame.data);
    for (const market of this.#markets) {
      const mid = Number(mids.get(market.coin));
      const fresher = market.channel === this.#chosen && this.#prices.has(market.channel);
      if (market.provider === provider && mid > 0 && !fresher) this.#prices.set(market.channel, mid);
    }
    this.#drawSoon();
  }

  async #load(): Promise<void> {
    let missing = false;
    for (const market of this.#markets.slice(0, MARKETS_MAX)) {
      // A market that nobody follows may have no day: it gets one when someone chooses it.
      missing = (!(await this.#loadDay(market)) && market.followed) || missing;
    }
    this.#tries = missing ? this.#tries + 1 : 0;
    const wait = missing ? delayMs(BACKOFF, this.#tries, Math.random()) : REFRESH_MS * (1 + Math.random() / 4);
    window.clearTimeout(this.#timer);
    this.#timer = window.setTimeout(() => void this.#load(), wait);
  }

  async #loadDay(market: Market): Promise<boolean> {
    const { provider, coin } = market;
    const query = { provider, market: coin, interval: DAY_PERIOD, limit: DAY_CANDLES };
    const rows = await this.#http.history(query).catch(() => []);
    const day = dayOf(rows, Date.now());
    if (day === null) return false;
    this.#days.set(market.channel, day);
    this.#view.setDay(market.channel, day);
    this.#drawSoon();
    return true;
  }

  #draw(): void {
    for (const market of this.#markets) {
      const day = this.#days.get(market.channel) ?? null;
      const price = this.#prices.get(market.channel) ?? day?.last ?? 0;
      if (!(price > 0)) continue;
      this.#view.setPrice(market.channel, price, priceDecimals(market, price), day);
      if (market.channel === this.#chosen) this.onChosen(price, day);
    }
  }
}
