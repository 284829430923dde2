/** The figures of one candle, above the chart. */

import type { Candle } from "../client";
import { compact, fixed, percent } from "../state/format";
import { make, setText } from "./dom";

const NAMES = ["O", "H", "L", "C", "V"] as const;

export class LegendView {
  readonly #values = NAMES.map(() => make("b"));
  readonly #change = make("b", "legend-change");
  readonly #host: HTMLElement;

  constructor(host: HTMLElement) {
    this.#host = host;
    NAMES.forEach((name, index) => host.append(make("span", "", make("i", "", name), this.#values[index] as Node)));
    host.append(this.#change);
  }

  show(candle: Candle | null, decimals: number): void {
    this.#host.hidden = candle === null;
    if (candle === null) return;
    const { o, h, l, c, v } = candle;
    const texts = [...[o, h, l, c].map((price) => fixed(price, decimals)), compact(v)];
    texts.forEach((text, index) => setText(this.#values[index] as Element, text));
    setText(this.#change, percent(c / o - 1));
    this.#host.dataset["way"] = c >= o ? "up" : "down";
  }
}
