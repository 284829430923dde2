/** The order book: as many levels as fit, at most twenty a side. */

import { type BookPicture, type BookRow, picture } from "../state/book";
import type { Book } from "../client";
import { atLeast, compact, fixed } from "../state/format";
import { byId, make, onNextFrame, setText } from "./dom";

const LEVELS_MAX = 20;
const LEVELS_MIN = 5;
const ROW_MIN_PX = 15;

interface Row {
  readonly element: HTMLElement;
  readonly bar: HTMLElement;
  readonly price: HTMLElement;
  readonly size: HTMLElement;
  readonly total: HTMLElement;
}

export class BookView {
  readonly #bids = makeRows(byId("bids"));
  readonly #asks = makeRows(byId("asks"));
  readonly #mid = byId("mid");
  readonly #spread = byId("spread");
  readonly #balance = byId("book-balance");
  readonly #drawSoon = onNextFrame(() => this.#draw());
  #book: Book | null = null;
  #levels = LEVELS_MAX;
  #priceDecimals = 2;
  #sizeDecimals = 4;
  #lastMid = 0;

  constructor() {
    const body = byId("book");
    new ResizeObserver(() => this.#fit(body)).observe(body);
  }

  /** Another market: its own decimals, nothing to see yet. */
  begin(priceDecimals: number, sizeDecimals: number): void {
    this.setDecimals(priceDecimals, sizeDecimals);
    this.#lastMid = 0;
    this.show({ ts: 0, bids: [], asks: [] });
  }

  setDecimals(priceDecimals: number, sizeDecimals: number): void {
    this.#priceDecimals = priceDecimals;
    this.#sizeDecimals = sizeDecimals;
    this.#drawSoon();
  }

  show(book: Book): void {
    this.#book = book;
    this.#drawSoon();
  }

  /** Side by side every level has its row and the panel scrolls; stacked, as many as fit are shown. */
  #fit(body: HTMLElement): void {
    const stacked = getComputedStyle(body).display === "flex";
    const free = body.clientHeight - (byId("mid").parentElement?.offsetHeight ?? 0);
    const fitting = Math.floor(free / 2 / ROW_MIN_PX);
    this.#levels = stacked ? Math.min(LEVELS_MAX, Math.max(LEVELS_MIN, fitting)) : LEVELS_MAX;
    this.#drawSoon();
  }

  #draw(): void {
    if (this.#book === null) return;
    const shown = picture(this.#book, this.#levels);
    this.#fill(this.#bids, shown.bids);
    this.#fill(this.#asks, shown.asks);
    this.#drawMiddle(shown);
  }

  #fill(rows: readonly Row[], levels: readonly BookRow[]): void {
    rows.forEach((row, index) => {
      const level = levels[index];
      row.element.hidden = index >= this.#levels;
      setText(row.price, level ? fixed(level.price, this.#priceDecimals) : "");
      setText(row.size, level ? fixed(level.size, this.#sizeDecimals) : "");
      setText(row.total, level ? compact(level.total) : "");
      row.bar.style.transform = `scaleX(${level ? level.depth.toFixed(3) : 0})`;
    });
  }

  #drawMiddle({ mid, spread, spreadRatio, bidShare }: BookPicture): void {
    setText(this.#mid, mid === null ? "–" : atLeast(mid, this.#priceDecimals));
    const words = spread === null || spreadRatio === null ? "" : spreadWords(spread, spreadRatio, this.#priceDecimals);
    setText(this.#spread, words);
    if (mid !== null && mid !== this.#lastMid) {
      this.#mid.dataset["way"] = mid < this.#lastMid ? "down" : "up";
      this.#lastMid = mid;
    }
    this.#balance.hidden = bidShare === null;
    if (bidShare !== null) this.#drawBalance(bidShare);
  }

  #drawBalance(bidShare: number): void {
    const [bar, text] = this.#balance.children;
    (bar as HTMLElement).style.setProperty("--share", bidShare.toFixed(3));
    setText(text as Element, `${Math.round(bidShare * 100)}% bids`);
  }
}

function spreadWords(spread: number, ratio: number, decimals: number): string {
  return `spread ${fixed(spread, decimals)} · ${(ratio * 10_000).toFixed(2)} bp`;
}

function makeRows(host: HTMLElement): Row[] {
  const rows = Array.from({ length: LEVELS_MAX }, makeRow);
  host.append(...rows.map((row) => row.element));
  return rows;
}

function makeRow(): Row {
  const [price, size, total] = [make("span", "c-price"), make("span", "c-size"), make("span", "c-total")];
  const bar = make("i", "depth");
  return { element: make("li", "level", bar, price, size, total), bar, price, size, total };
}
