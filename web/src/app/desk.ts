/** The chosen market: its chart, book and tape, fed by history and the live stream. */

import {
  type ArteryClient,
  type ArteryHttp,
  type EventFrame,
  type Market,
  parseBook,
  parseCandle,
  parseTrade,
  type Trade,
} from "../client";
import { CandleSeries, type Change } from "../state/candles";
import { countdown, decimalsOf, guessDecimals } from "../state/format";
import { type Period, periodMs } from "../state/periods";
import { Tape, TAPE_ROWS } from "../state/tape";
import { BookView } from "../view/book";
import { ChartView } from "../view/chart";
import { byId, onNextFrame, setText } from "../view/dom";
import { LegendView } from "../view/legend";
import { StudySwitch } from "../view/studies";
import { TapeView } from "../view/tape";
import { Past, type PastState } from "./past";
import { Studies } from "./studies";

/** Holding an arrow key walks the whole list: only where it rests is subscribed to. */
const SETTLE_MS = 120;

const NOTES: Readonly<Record<PastState, string>> = {
  loading: "Loading past candles…",
  waiting: "Past candles are not there yet. This chart fills in by itself.",
  trouble: "Past candles cannot be loaded right now. Trying again.",
  ready: "",
};

export class Desk {
  readonly tape = new Tape();
  readonly #client: ArteryClient;
  readonly #http: ArteryHttp;
  readonly #chart = new ChartView(byId("chart"));
  readonly #legend = new LegendView(byId("legend"));
  readonly #switch = new StudySwitch();
  readonly #studies: Studies;
  readonly #book = new BookView();
  readonly #tapeView = new TapeView();
  readonly #legendSoon = onNextFrame(() => this.#drawLegend());
  #market: Market | null = null;
  #period: Period = "1m";
  #series = new CandleSeries(60_000);
  #past: Past | null = null;
  #books = 0;
  #channel = "";
  #settle = 0;
  #hovered: number | null = null;
  #lastTrade: Trade | null = null;
  #trouble = "";

  /** Called with each trade of the chosen market. */
  onTrade: (trade: Trade) => void = () => undefined;

  constructor(client: ArteryClient, http: ArteryHttp) {
    this.#client = client;
    this.#http = http;
    this.#studies = this.#listenToStudies(new Studies(http));
    this.#chart.onNearOldest = () => void this.#past?.older();
    this.#chart.onFollow = (following) => {
      byId("to-now").hidden = following;
    };
    this.#chart.onHover = (start) => {
      this.#hovered = start;
      this.#legendSoon();
    };
    byId("to-now").addEventListener("click", () => this.#chart.toNow());
  }

  get market(): Market | null {
    return this.#market;
  }

  get period(): Period {
    return this.#period;
  }

  get series(): CandleSeries {
    return this.#series;
  }

  get books(): number {
    return this.#books;
  }

  get past(): PastState {
    return this.#past?.state ?? "loading";
  }

  /** How many candles the chart has indicators of. */
  get studied(): number {
    return this.#studies.length;
  }

  get lastTrade(): Trade | null {
    return this.#lastTrade;
  }

  get decimals(): number {
    return priceDecimals(this.#market, this.#lastTrade?.px ?? this.#series.newest?.c ?? 0);
  }

  /** Show this market in this period. */
  show(market: Market, period: Period): void {
    const sameMarket = this.#market?.channel === market.channel;
    this.#market = market;
    this.#period = period;
    if (!sameMarket) this.#beginMarket(market);
    this.#beginChart(market, period);
    window.clearTimeout(this.#settle);
    this.#settle = window.setTimeout(() => this.#open(market, period), SETTLE_MS);
  }

  /** The chosen market's metadata has come or changed: how its numbers are written. */
  refine(market: Market): void {
    this.#market = market;
    this.#book.setDecimals(this.decimals, sizeDecimals(market));
    this.#tapeView.begin(this.tape, this.decimals, sizeDecimals(market));
    this.#tapeView.redraw();
    this.#chart.setDecimals(this.decimals);
    this.#legendSoon();
  }

  /** The connection is back: what was missed comes from history. */
  reconnected(): void {
    this.#series.loosen();
    this.#past?.start();
    this.#studies.again();
    if (this.#market) void this.#fillTape(this.#market);
  }

  /** Trades were missed: the open candle is the server's word alone until the next trade. */
  missedTrades(channel: string): void {
    if (channel === this.#channel) this.#series.forgetTrades();
  }

  retheme(): void {
    this.#chart.retheme();
    this.#chart.show(this.#series.all());
  }

  /** What changes with the clock alone; `trouble` says why candles may be missing. */
  tick(nowMs: number, trouble: string): void {
    this.#trouble = trouble;
    this.#drawNote();
    this.#tapeView.drawRate(nowMs);
    const newest = this.#series.newest;
    const left = newest ? newest.start + periodMs(this.#period) - nowMs : 0;
    setText(byId("closes"), newest && left > 0 && !newest.closed ? `closes in ${countdown(left)}` : "");
  }

  handle(frame: EventFrame): void {
    if (frame.channel !== this.#channel) return;
    if (frame.series === "TRADE") this.#onTrade(frame);
    else if (frame.series === "BOOK_TOPN") this.#onBook(frame);
    else if (frame.series === `CANDLE:${this.#period}`) this.#onCandle(frame);
  }

  #beginMarket(market: Market): void {
    this.tape.clear();
    this.#lastTrade = null;
    const [price, size] = [priceDecimals(market, 0), sizeDecimals(market)];
    this.#book.begin(price, size);
    this.#tapeView.begin(this.tape, price, size);
  }

  #beginChart(market: Market, period: Period): void {
    this.#past?.stop();
    this.#studies.pause();
    this.#series = new CandleSeries(periodMs(period));
    this.#past = new Past(this.#http, market, period, this.#series);
    this.#past.onChange = () => this.#redraw();
    this.#past.onState = () => this.#drawNote();
    this.#chart.begin(periodMs(period), this.decimals);
    this.#legendSoon();
    this.#drawNote();
  }

  #open(market: Market, period: Period): void {
    if (this.#channel !== market.channel) {
      if (this.#channel) this.#client.unsubscribe(this.#channel);
      void this.#fillTape(market);
    }
    this.#channel = market.channel;
    this.#client.subscribe({ channel: market.channel, types: ["TRADE", "BOOK_TOPN", `CANDLE:${period}`] });
    this.#past?.start();
    this.#studies.begin(market, period);
  }

  #listenToStudies(studies: Studies): Studies {
    studies.onLoad = (rows) => this.#chart.overlays.show(rows);
    studies.onNewest = (row) => this.#chart.overlays.update(row);
    this.#switch.onChange = (on) => {
      studies.choose(on);
      this.#chart.overlays.choose(on, studies.all());
    };
    this.#switch.onChange(this.#switch.on);
    return studies;
  }

  /** The tape does not begin empty: the newest trades are in history. */
  async #fillTape(market: Market): Promise<void> {
    const rows = await this.#http.trades(market.provider, market.coin, TAPE_ROWS).catch(() => []);
    if (market.channel !== this.#market?.channel || !this.tape.fill(rows)) return;
    this.#lastTrade ??= this.tape.rows[0] ?? null;
    this.#tapeView.redraw();
  }

  #onTrade(frame: EventFrame): void {
    const trade = parseTrade(frame.data);
    if (trade === null) return;
    this.#lastTrade = trade;
    this.tape.add(trade);
    this.#tapeView.drawSoon();
    this.#apply(this.#series.trade(trade));
    this.onTrade(trade);
  }

  #onBook(frame: EventFrame): void {
    const book = parseBook(frame.data);
    if (book === null) return;
    this.#books += 1;
    this.#book.show(book);
  }

  #onCandle(frame: EventFrame): void {
    const candle = parseCandle(frame.data);
    if (candle !== null) this.#apply(this.#series.put(candle));
  }

  #apply(change: Change): void {
    if (change.kind === "none") return;
    if (change.kind === "bar") this.#chart.update(change.bar);
    else this.#chart.show(this.#series.all());
    this.#legendSoon();
  }

  #redraw(): void {
    this.#chart.show(this.#series.all());
    void this.#studies.older(this.#series.oldest?.start ?? Infinity);
    this.#legendSoon();
    this.#drawNote();
  }

  #drawLegend(): void {
    const hovered = this.#hovered === null ? null : this.#series.at(this.#hovered);
    this.#legend.show(hovered ?? this.#series.newest, this.decimals);
  }

  #drawNote(): void {
    const note = byId("chart-note");
    const why = this.past === "waiting" && this.#trouble ? ` (${this.#trouble})` : "";
    setText(note, NOTES[this.past] + why);
    note.hidden = this.past === "ready";
    note.toggleAttribute("data-corner", this.#series.length > 0);
  }
}

export function priceDecimals(market: Market | null, price: number): number {
  return Number(market?.tickSize) > 0 ? decimalsOf(market?.tickSize ?? "") : guessDecimals(price);
}

function sizeDecimals(market: Market): number {
  return Number(market.sizeStep) > 0 ? decimalsOf(market.sizeStep) : 4;
}
