/** The chosen market's figures in the header. */

import type { Market } from "../client";
import { changeOf, type Day } from "../state/day";
import { compact, fixed, percent } from "../state/format";
import { byId, setText } from "./dom";
import { marketName } from "./markets";

export class QuoteView {
  readonly #last = byId("last");
  readonly #change = byId("change");
  #price = 0;
  #name = "";

  begin(market: Market): void {
    this.#price = 0;
    this.#name = marketName(market);
    byId("simulated").hidden = !market.simulated;
    for (const id of ["last", "change", "high", "low", "volume"]) setText(byId(id), "–");
    delete this.#last.dataset["way"];
    delete this.#change.dataset["way"];
    document.title = `${this.#name} · Artery`;
  }

  show(price: number, day: Day | null, decimals: number): void {
    if (price !== this.#price) {
      if (this.#price > 0) this.#last.dataset["way"] = price > this.#price ? "up" : "down";
      this.#price = price;
      setText(this.#last, fixed(price, decimals));
      document.title = `${fixed(price, decimals)} ${this.#name} · Artery`;
    }
    if (day !== null) this.#showDay(day, price, decimals);
  }

  #showDay(day: Day, price: number, decimals: number): void {
    setText(this.#change, percent(changeOf(day, price)));
    this.#change.dataset["way"] = price >= day.reference ? "up" : "down";
    setText(byId("high"), fixed(Math.max(day.high, price), decimals));
    setText(byId("low"), fixed(Math.min(day.low, price), decimals));
    setText(byId("volume"), compact(day.volume));
  }
}
