/** The market list and the picker in the header: two ways to the same choice. */

import type { Market } from "../client";
import { changeOf, type Day, sparkline } from "../state/day";
import { fixed, percent } from "../state/format";
import { byId, make, setText } from "./dom";

const SPARK = { width: 56, height: 20 };
const SVG = "http://www.w3.org/2000/svg";

interface Row {
  readonly market: Market;
  readonly element: HTMLElement;
  readonly price: HTMLElement;
  readonly change: HTMLElement;
  readonly line: SVGPolylineElement;
}

export class MarketsView {
  readonly #list = byId("markets");
  readonly #picker = byId<HTMLSelectElement>("picker");
  readonly #filter = byId<HTMLInputElement>("filter");
  #rows = new Map<string, Row>();
  #chosen = "";

  /** Called with the channel of the market that the reader chose. */
  onChoose: (channel: string) => void = () => undefined;

  constructor() {
    this.#picker.addEventListener("change", () => this.onChoose(this.#picker.value));
    this.#filter.addEventListener("input", () => this.#applyFilter());
    this.#filter.addEventListener("keydown", (event) => this.#onFilterKey(event));
    document.addEventListener("keydown", (event) => this.#onKey(event));
  }

  setMarkets(markets: readonly Market[]): void {
    const oneVenue = new Set(markets.map((market) => market.provider)).size === 1;
    const rows = markets.map((market, index) => this.#makeRow(market, index, oneVenue));
    this.#rows = new Map(rows.map((row) => [row.market.channel, row]));
    this.#list.replaceChildren(...rows.map((row) => row.element));
    this.#picker.replaceChildren(...markets.map((market) => new Option(marketName(market), market.channel)));
    this.#applyFilter();
  }

  setChosen(channel: string): void {
    this.#chosen = channel;
    this.#picker.value = channel;
    for (const row of this.#rows.values()) {
      const chosen = row.market.channel === channel;
      row.element.ariaSelected = String(chosen);
      if (!chosen) continue;
      this.#list.setAttribute("aria-activedescendant", row.element.id);
      row.element.scrollIntoView({ block: "nearest" });
    }
  }

  setPrice(channel: string, price: number, decimals: number, day: Day | null): void {
    const row = this.#rows.get(channel);
    if (!row) return;
    setText(row.price, fixed(price, decimals));
    setText(row.change, day ? percent(changeOf(day, price)) : "–");
    if (day) row.element.dataset["way"] = price >= day.reference ? "up" : "down";
  }

  setDay(channel: string, day: Day): void {
    const row = this.#rows.get(channel);
    row?.line.setAttribute("points", sparkline(day.closes, SPARK.width, SPARK.height));
  }

  #makeRow(market: Market, index: number, oneVenue: boolean): Row {
    const [price, change] = [make("b", "market-price", "–"), make("span", "market-change", "–")];
    const line = document.createElementNS(SVG, "polyline");
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 -1 ${SPARK.width} ${SPARK.height + 2}`);
    svg.setAttribute("class", "spark");
    svg.setAttribute("aria-hidden", "true");
    svg.append(line);
    const name = make("span", "market-name", make("b", "", market.coin), make("small", "", oneVenue ? market.quote : market.provider));
    const element = make("li", "market", name, svg, make("span", "market-figures", price, change));
    element.id = `market-${index}`;
    element.role = "option";
    element.addEventListener("click", () => this.onChoose(market.channel));
    return { market, element, price, change, line };
  }

  #applyFilter(): void {
    const wanted = this.#filter.value.trim().toLowerCase();
    for (const row of this.#rows.values()) {
      row.element.hidden = !`${row.market.coin} ${row.market.provider}`.toLowerCase().includes(wanted);
    }
  }

  #onFilterKey(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.#filter.value = "";
      this.#applyFilter();
      this.#filter.blur();
    } else if (event.key === "Enter") {
      const first = this.#shown()[0];
      if (first) this.onChoose(first.market.channel);
      this.#list.focus();
    } else if (event.key === "ArrowDown") {
      event.preventDefault();
      this.#list.focus();
    }
  }

  #onKey(event: KeyboardEvent): void {
    if (event.altKey || event.ctrlKey || event.metaKey || takesKeys(event.target)) return;
    if (event.key === "/") {
      event.preventDefault();
      this.#filter.focus();
      this.#filter.select();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      this.#step(event.key === "ArrowDown" ? 1 : -1);
    }
  }

  #step(by: number): void {
    const shown = this.#shown();
    if (shown.length === 0) return;
    const at = shown.findIndex((row) => row.market.channel === this.#chosen);
    const next = shown[Math.min(shown.length - 1, Math.max(0, at + by))];
    if (next && next.market.channel !== this.#chosen) this.onChoose(next.market.channel);
  }

  #shown(): Row[] {
    return [...this.#rows.values()].filter((row) => !row.element.hidden);
  }
}

/** "BTC/USD" where the quote currency is known, else the coin alone. */
export function marketName(market: Market): string {
  return market.quote && market.base === market.coin ? `${market.base}/${market.quote}` : market.coin;
}

/** Whether the arrow keys belong to what has the focus: a field, or the tape, which scrolls. */
function takesKeys(target: EventTarget | null): boolean {
  if (!(target instanceof Element)) return false;
  return target.closest("input, select, textarea, .tape-body") !== null;
}
