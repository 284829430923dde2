/** Rows of buttons of which one is on: the period switch and the phone's tabs. Arrow keys move, as readers expect. */

import { PERIODS, type Period } from "../state/periods";
import { byId, make, memory } from "./dom";

/** The period switch. */
export class PeriodSwitch {
  readonly #buttons: HTMLButtonElement[];

  onChoose: (period: Period) => void = () => undefined;

  constructor() {
    this.#buttons = PERIODS.map((period) => {
      const button = make("button", "period", period);
      button.type = "button";
      button.role = "radio";
      button.addEventListener("click", () => this.onChoose(period));
      return button;
    });
    byId("periods").append(...this.#buttons);
    moveWithArrows(byId("periods"), this.#buttons);
  }

  set(period: Period): void {
    this.#buttons.forEach((button, index) => mark(button, "ariaChecked", PERIODS[index] === period));
  }
}

/** The tabs at phone width: which panel is in front. */
export class Tabs {
  readonly #app = byId("app");
  readonly #buttons = [...byId("tabs").querySelectorAll<HTMLButtonElement>("button")];

  constructor() {
    for (const button of this.#buttons) button.addEventListener("click", () => this.set(button.dataset["tab"] ?? "chart"));
    moveWithArrows(byId("tabs"), this.#buttons);
    this.set(memory.get("tab") ?? "chart");
  }

  /** A market was chosen in the list: the reader wants to see it. */
  leaveMarkets(): void {
    if (this.#app.dataset["tab"] === "markets") this.set("chart");
  }

  set(tab: string): void {
    const known = this.#buttons.some((button) => button.dataset["tab"] === tab) ? tab : "chart";
    this.#app.dataset["tab"] = known;
    for (const button of this.#buttons) mark(button, "ariaSelected", button.dataset["tab"] === known);
    memory.set("tab", known);
  }
}

function mark(button: HTMLButtonElement, state: "ariaChecked" | "ariaSelected", on: boolean): void {
  button[state] = String(on);
  button.tabIndex = on ? 0 : -1;
}

function moveWithArrows(host: HTMLElement, buttons: readonly HTMLButtonElement[]): void {
  host.addEventListener("keydown", (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const at = buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (by === 0 || at < 0) return;
    event.preventDefault();
    const next = buttons[(at + by + buttons.length) % buttons.length];
    next?.focus();
    next?.click();
  });
}
