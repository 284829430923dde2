/** The whole screen: joins the connection, the chosen market, the list of all and what is said about them. */

import {
  ArteryClient,
  type ArteryHttp,
  type Backoff,
  type ConnectionState,
  delayMs,
  type ErrorFrame,
  type GapFrame,
  HttpError,
  type Market,
} from "../client";
import { type Gap, noted } from "../state/gaps";
import { isPeriod, type Period } from "../state/periods";
import { refusalWords } from "../state/words";
import { byId, memory } from "../view/dom";
import { MarketsView } from "../view/markets";
import { QuoteView } from "../view/quote";
import { StatusView } from "../view/status";
import { PeriodSwitch, Tabs } from "../view/switches";
import { ThemeSwitch } from "../view/theme";
import { Desk } from "./desk";
import { Pulse } from "./pulse";
import { Watch } from "./watch";

const METADATA: Backoff = { firstMs: 2_000, mostMs: 15_000 };
const METADATA_TRIES = 20;
const GAPS_MAX = 3;
const GAP_SHOWN_MS = 30_000;

export class Screen {
  // After a cut the page reads history anew, which is shorter than every trade that it missed.
  readonly client = new ArteryClient({ resume: false });
  readonly desk: Desk;
  readonly #http: ArteryHttp;
  readonly #list = new MarketsView();
  readonly #quote = new QuoteView();
  readonly #status = new StatusView();
  readonly #periods = new PeriodSwitch();
  readonly #theme = new ThemeSwitch();
  readonly #tabs = new Tabs();
  readonly #watch: Watch;
  readonly #pulse: Pulse;
  #markets: readonly Market[] = [];
  #period: Period = "1m";
  #gaps: Gap[] = [];
  #refusal = "";
  #wasOpen = false;

  constructor(http: ArteryHttp, markets: readonly Market[]) {
    this.#http = http;
    this.#markets = markets;
    this.desk = new Desk(this.client, http);
    this.#watch = new Watch(this.client, http, this.#list);
    this.#watch.setMarkets(markets);
    this.#pulse = new Pulse(http);
    this.#listen();
  }

  get connection(): ConnectionState {
    return this.client.state;
  }

  start(): void {
    byId("app").hidden = false;
    const stored = memory.get("period");
    this.#period = isPeriod(stored) ? stored : "1m";
    const remembered = this.#markets.find((market) => market.channel === memory.get("market"));
    const first = remembered ?? this.#markets[0];
    if (first) this.#choose(first, this.#period);
    this.client.connect();
    this.#pulse.start();
    void this.#completeMarkets();
    this.#tick();
    window.setInterval(() => this.#tick(), 1000);
  }

  #listen(): void {
    this.client.onEvent((frame) => {
      this.desk.handle(frame);
      this.#watch.handle(frame);
    });
    this.client.onGap((gap) => this.#onGap(gap));
    this.client.onError((error) => this.#onError(error));
    this.client.onState((state) => void this.#onState(state));
    this.desk.onTrade = (trade) => this.#watch.traded(trade.px);
    this.#watch.onChosen = (price, day) => this.#quote.show(price, day, this.desk.decimals);
    this.#list.onChoose = (channel) => this.#chooseChannel(channel);
    this.#periods.onChoose = (period) => this.#choosePeriod(period);
    this.#theme.onChange = () => this.desk.retheme();
    this.#status.onTryNow = () => this.client.connect();
    this.#status.onDismiss = (gap) => this.#dismiss(gap);
    this.#status.onDismissRefusal = () => this.#setRefusal("");
    this.#pulse.onChange = () => this.#tick();
    this.#pulse.onUnauthenticated = () => location.reload();
    window.addEventListener("online", () => this.#wake());
    document.addEventListener("visibilitychange", () => this.#wake());
  }

  #chooseChannel(channel: string): void {
    const market = this.#markets.find((candidate) => candidate.channel === channel);
    if (market && market.channel !== this.desk.market?.channel) this.#choose(market, this.#period);
    this.#tabs.leaveMarkets();
  }

  #choosePeriod(period: Period): void {
    const market = this.desk.market;
    if (market && period !== this.#period) this.#choose(market, period);
  }

  #choose(market: Market, period: Period): void {
    this.#period = period;
    this.#setRefusal("");
    if (market.channel !== this.desk.market?.channel) this.#quote.begin(market);
    this.#list.setChosen(market.channel);
    this.#periods.set(period);
    this.desk.show(market, period);
    this.#watch.choose(market.channel);
    memory.set("market", market.channel);
    memory.set("period", period);
  }

  /** Right after a first start the venue's metadata (tick sizes, quote currency) is still on its way. */
  async #completeMarkets(): Promise<void> {
    for (let tries = 0; tries < METADATA_TRIES && this.#markets.some((market) => !market.tickSize); tries += 1) {
      await new Promise((done) => window.setTimeout(done, delayMs(METADATA, tries, Math.random())));
      const markets = await this.#http.markets().catch(() => this.#markets);
      if (JSON.stringify(markets) !== JSON.stringify(this.#markets)) this.#refine(markets);
    }
  }

  #refine(markets: readonly Market[]): void {
    this.#markets = markets;
    this.#watch.setMarkets(markets);
    const chosen = markets.find((market) => market.channel === this.desk.market?.channel);
    if (!chosen) return;
    this.desk.refine(chosen);
    this.#list.setChosen(chosen.channel);
    this.#quote.begin(chosen);
  }

  async #onState(state: ConnectionState): Promise<void> {
    this.#status.showConnection(state, Date.now());
    if (state.kind === "open") this.#opened();
    const turnedAway = state.kind === "waiting" || state.kind === "refused";
    if (turnedAway && (await this.#sessionIsOver())) location.reload();
  }

  #opened(): void {
    this.#setRefusal(""); // everything was asked for again
    if (this.#wasOpen) {
      this.desk.reconnected();
      this.#watch.refresh();
    }
    this.#wasOpen = true;
  }

  /** A browser does not say why a WebSocket failed; a plain question does. */
  async #sessionIsOver(): Promise<boolean> {
    const answer = await this.#http.markets().catch((error: unknown) => error);
    return answer instanceof HttpError && answer.unauthenticated;
  }

  /** The network or the reader is back: no reason to sit out the wait. */
  #wake(): void {
    if (!document.hidden && this.client.state.kind === "waiting") this.client.connect();
  }

  #onGap(gap: GapFrame): void {
    if (gap.series === "TRADE") this.desk.missedTrades(gap.channel);
    // Of books and prices the newest is enough: that older ones were skipped is no loss to the reader.
    if (gap.reason === "slow_client" && gap.series !== "TRADE") return;
    const gaps = noted(this.#gaps, gap, GAPS_MAX);
    if (JSON.stringify(gaps) === JSON.stringify(this.#gaps)) return;
    this.#gaps = gaps;
    this.#showNotices();
    const shown = gaps.at(-1);
    if (shown) window.setTimeout(() => this.#dismiss(shown), GAP_SHOWN_MS);
  }

  #dismiss(gap: Gap): void {
    this.#gaps = this.#gaps.filter((candidate) => candidate !== gap);
    this.#showNotices();
  }

  /** The chosen market was refused, perhaps because there are too many: its chart stands still, and must say so. */
  #onError(error: ErrorFrame): void {
    const market = this.desk.market;
    if (market && error.channels.includes(market.channel)) this.#setRefusal(refusalWords(market.coin, error));
  }

  #setRefusal(words: string): void {
    this.#refusal = words;
    this.#showNotices();
  }

  #showNotices(): void {
    this.#status.showNotices(this.#gaps, this.#refusal);
  }

  #tick(): void {
    const now = this.client.serverNow;
    this.#status.showConnection(this.client.state, Date.now());
    this.#status.showClock(Date.now());
    this.#status.showHealth(this.#pulse.lines(now));
    this.desk.tick(now, this.#pulse.trouble);
  }
}
