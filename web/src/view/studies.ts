/** The buttons that show and hide indicators; the choice is remembered. */

import { LOOKS, parseStudies, STUDIES, type Study } from "../state/studies";
import { byId, make, memory } from "./dom";

export class StudySwitch {
  readonly #buttons = new Map<Study, HTMLButtonElement>();
  #on: Study[] = parseStudies(memory.get("studies"));

  onChange: (on: readonly Study[]) => void = () => undefined;

  constructor() {
    for (const study of STUDIES) {
      const button = make("button", "study", study);
      button.type = "button";
      button.title = LOOKS[study].title;
      button.addEventListener("click", () => this.#turn(study));
      this.#buttons.set(study, button);
    }
    byId("studies").append(...this.#buttons.values());
    this.#mark();
  }

  get on(): readonly Study[] {
    return this.#on;
  }

  #turn(study: Study): void {
    this.#on = STUDIES.filter((one) => (one === study ? !this.#on.includes(one) : this.#on.includes(one)));
    memory.set("studies", this.#on.length > 0 ? this.#on.join(",") : null);
    this.#mark();
    this.onChange(this.#on);
  }

  #mark(): void {
    for (const [study, button] of this.#buttons) button.ariaPressed = String(this.#on.includes(study));
  }
}
