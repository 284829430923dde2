/** Light, dark, or as the system has it; the choice is remembered. */

import { byId, memory } from "./dom";

const CHOICES = ["auto", "light", "dark"] as const;
type Choice = (typeof CHOICES)[number];

const WORDS: Readonly<Record<Choice, string>> = {
  auto: "Theme: as the system has it",
  light: "Theme: light",
  dark: "Theme: dark",
};

export class ThemeSwitch {
  readonly #button = byId("theme");
  readonly #systemDark = matchMedia("(prefers-color-scheme: dark)");

  /** Called after the colours have changed. */
  onChange: () => void = () => undefined;

  constructor() {
    this.#button.addEventListener("click", () => this.#next());
    this.#systemDark.addEventListener("change", () => {
      this.#apply(this.#choice());
      this.onChange();
    });
    this.#apply(this.#choice());
  }

  #choice(): Choice {
    const stored = memory.get("theme");
    return CHOICES.find((choice) => choice === stored) ?? "auto";
  }

  /** From "auto" the first press always shows a difference. */
  #next(): void {
    const [opposite, same]: Choice[] = this.#systemDark.matches ? ["light", "dark"] : ["dark", "light"];
    const order: Choice[] = ["auto", opposite as Choice, same as Choice];
    const next = order[(order.indexOf(this.#choice()) + 1) % order.length] as Choice;
    memory.set("theme", next === "auto" ? null : next);
    this.#apply(next);
    this.onChange();
  }

  #apply(choice: Choice): void {
    const system = this.#systemDark.matches ? "dark" : "light";
    document.documentElement.dataset["theme"] = choice === "auto" ? system : choice;
    this.#button.dataset["choice"] = choice;
    this.#button.title = WORDS[choice];
    this.#button.ariaLabel = `${WORDS[choice]}. Change`;
  }
}
