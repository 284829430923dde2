/** The trade tape: newest on top, drawn once a frame however many trades came. */

import type { Trade } from "../client";
import { fixed, timeOfDay } from "../state/format";
import { type Tape, TAPE_ROWS } from "../state/tape";
import { byId, make, onNextFrame, setText } from "./dom";

const RATE_MS = 10_000;
const BIG_MEMORY = 0.98;

export class TapeView {
  readonly #host = byId("tape");
  readonly #rate = byId("tape-rate");
  readonly #drawSoon = onNextFrame(() => this.#draw());
  #tape: Tape | null = null;
  #priceDecimals = 2;
  #sizeDecimals = 4;
  #usualSize = 0;

  begin(tape: Tape, priceDecimals: number, sizeDecimals: number): void {
    this.#tape = tape;
    this.#priceDecimals = priceDecimals;
    this.#sizeDecimals = sizeDecimals;
    this.#usualSize = 0;
    this.#host.replaceChildren();
    setText(this.#rate, "");
  }

  drawSoon(): void {
    this.#drawSoon();
  }

  /** Draw all rows anew, without a flash: they are old news. */
  redraw(): void {
    this.#tape?.takeFresh();
    this.#host.replaceChildren(...(this.#tape?.rows ?? []).map((trade) => this.#row(trade, true)));
  }

  /** How fast trades come, over the last ten seconds. */
  drawRate(nowMs: number): void {
    const rate = this.#tape?.rate(nowMs, RATE_MS) ?? 0;
    setText(this.#rate, rate > 0 ? `${rate.toFixed(1)}/s` : "");
  }

  #draw(): void {
    const fresh = this.#tape?.takeFresh() ?? [];
    for (const trade of fresh.toReversed()) this.#host.prepend(this.#row(trade));
    while (this.#host.childElementCount > TAPE_ROWS) this.#host.lastElementChild?.remove();
  }

  #row(trade: Trade, old = false): HTMLElement {
    this.#usualSize = this.#usualSize ? this.#usualSize * BIG_MEMORY + trade.sz * (1 - BIG_MEMORY) : trade.sz;
    const row = make(
      "li",
      "print",
      make("span", "c-price", fixed(trade.pxText, this.#priceDecimals)),
      make("span", "c-size", fixed(trade.szText, this.#sizeDecimals)),
      make("time", "c-time", timeOfDay(trade.ts)),
    );
    row.dataset["side"] = trade.side;
    if (old) row.dataset["old"] = "";
    if (trade.sz > this.#usualSize * 3) row.dataset["big"] = "";
    row.title = trade.side === "B" ? "The buyer took the offer" : "The seller took the bid";
    return row;
  }
}
