/** How the parts behind the page are, asked every few seconds. */

import { type ArteryHttp, type Health, HttpError } from "../client";
import { candleLine, healthLines, type Line } from "../state/words";

const EVERY_MS = 5_000;
const ASKING: Line = { name: "Server", tone: "idle", text: "asking…" };
const AWAY: Line = { name: "Server", tone: "bad", text: "cannot be reached" };

export class Pulse {
  readonly #http: ArteryHttp;
  #health: Health | null = null;
  #away = false;

  /** Called after each answer. */
  onChange: () => void = () => undefined;
  onUnauthenticated: () => void = () => undefined;

  constructor(http: ArteryHttp) {
    this.#http = http;
  }

  /** What was last heard, in words; ages go on while the page waits for the next answer. */
  lines(nowMs: number): Line[] {
    if (this.#health) return healthLines(this.#health, nowMs);
    return [this.#away ? AWAY : ASKING];
  }

  /** Why candles may be missing, in words; empty where nothing is wrong with them. */
  get trouble(): string {
    const line = this.#health?.pipeline ? candleLine(this.#health.pipeline) : null;
    return line && line.tone !== "good" ? line.text : "";
  }

  start(): void {
    void this.#ask();
  }

  async #ask(): Promise<void> {
    const askedAt = performance.now();
    try {
      this.#health = await this.#http.health();
      this.#away = false;
    } catch (error) {
      this.#away = true;
      this.#health = null; // the banner says that the server is away; old words would be false
      if (error instanceof HttpError && error.unauthenticated) this.onUnauthenticated();
    }
    this.onChange();
    const wait = askedAt + EVERY_MS * (0.95 + Math.random() / 10) - performance.now();
    window.setTimeout(() => void this.#ask(), Math.max(500, wait));
  }
}
