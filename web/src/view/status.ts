/** What is said about the connection, the parts behind it, and what is missing. */

import type { ConnectionState } from "../client";
import { type Gap } from "../state/gaps";
import { timeOfDay, zoneName } from "../state/format";
import { againWords, connectionLine, gapWords, type Line, lostWords, summary } from "../state/words";
import { byId, make, setText } from "./dom";

export class StatusView {
  readonly #app = byId("app");
  readonly #pill = byId("connection");
  readonly #banner = byId("banner");
  readonly #system = byId("system");
  readonly #tabDot = byId("tab-health");
  readonly #notices = byId("notices");

  /** Called when the reader does not want to wait for the next try. */
  onTryNow: () => void = () => undefined;
  onDismiss: (gap: Gap) => void = () => undefined;
  onDismissRefusal: () => void = () => undefined;

  constructor() {
    byId("banner-now").addEventListener("click", () => this.onTryNow());
  }

  showConnection(state: ConnectionState, nowMs: number): void {
    const line = connectionLine(state);
    this.#pill.dataset["tone"] = line.tone;
    setText(this.#pill.lastElementChild as Element, line.text);
    const words = lostWords(state);
    this.#banner.hidden = words === "";
    this.#app.toggleAttribute("data-lost", words !== "");
    setText(byId("banner-text"), words);
    setText(byId("banner-again"), againWords(state, nowMs));
    byId("banner-now").hidden = state.kind !== "waiting";
  }

  showHealth(lines: readonly Line[]): void {
    while (this.#system.childElementCount < lines.length) this.#system.append(makeLine());
    while (this.#system.childElementCount > lines.length) this.#system.lastElementChild?.remove();
    lines.forEach((line, index) => fillLine(this.#system.children[index] as HTMLElement, line));
    const worst = summary(lines);
    this.#tabDot.hidden = worst.tone === "good";
    this.#tabDot.dataset["tone"] = worst.tone;
    this.#tabDot.ariaLabel = this.#tabDot.title = worst.text;
  }

  /** What is missing: holes of the data, and what the server has refused, in its words. */
  showNotices(gaps: readonly Gap[], refusal: string): void {
    const notices = gaps.map((gap) => notice(gapWords(gap), () => this.onDismiss(gap)));
    if (refusal) notices.push(notice(refusal, () => this.onDismissRefusal()));
    this.#notices.replaceChildren(...notices);
  }

  showClock(nowMs: number): void {
    const zone = zoneName(-new Date(nowMs).getTimezoneOffset());
    setText(byId("clock-local"), `${timeOfDay(nowMs)}${zone === "UTC" ? " UTC" : ""}`);
    setText(byId("clock-utc"), zone === "UTC" ? "" : `${timeOfDay(nowMs, true)} UTC`);
    byId("clock-local").title = `Your time, ${zone}`;
  }
}

function notice(words: string, dismiss: () => void): HTMLElement {
  const close = make("button", "notice-close", "×");
  close.type = "button";
  close.ariaLabel = "Dismiss";
  close.addEventListener("click", dismiss);
  return make("li", "notice", make("span", "", words), close);
}

function makeLine(): HTMLElement {
  return make("li", "system-line", make("i", "dot"), make("span", "system-name"), make("span", "system-text"));
}

function fillLine(element: HTMLElement, line: Line): void {
  element.dataset["tone"] = line.tone;
  setText(element.children[1] as Element, line.name);
  setText(element.children[2] as Element, line.text);
}
