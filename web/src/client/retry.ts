/** When to try again, as pure functions. */

export interface Backoff {
  readonly firstMs: number;
  readonly mostMs: number;
}

/** The wait before try number `tries` (0 first): doubling, at most `mostMs`, between half and all of it by `random`. */
export function delayMs(backoff: Backoff, tries: number, random: number): number {
  const full = Math.min(backoff.mostMs, backoff.firstMs * 2 ** Math.min(tries, 30));
  return Math.round(full * (0.5 + random / 2));
}

const FRAMES_AT_ONCE = 40;
const FRAMES_PER_S = 15;

/** How fast frames may be sent: below what the server takes (60 at once, 20 a second), with room for pings. */
export class Pace {
  #left = FRAMES_AT_ONCE;
  #atMs: number;

  constructor(nowMs: number) {
    this.#atMs = nowMs;
  }

  /** Milliseconds to wait before the next frame; 0 is leave to send it. */
  take(nowMs: number): number {
    this.#left = Math.min(FRAMES_AT_ONCE, this.#left + ((nowMs - this.#atMs) / 1000) * FRAMES_PER_S);
    this.#atMs = nowMs;
    if (this.#left < 1) return Math.ceil(((1 - this.#left) / FRAMES_PER_S) * 1000);
    this.#left -= 1;
    return 0;
  }

  /** It was too fast for the server: send nothing for a second. */
  rest(): void {
    this.#left = Math.min(this.#left, 1 - FRAMES_PER_S);
  }
}

export type Verdict = "again" | "unauthenticated" | "stop";

/** What a close code asks for: 4500–4999 do not come back, everything else does. */
export function verdictOf(code: number): Verdict {
  if (code === 4500 || code === 4501 || code === 4503) return "unauthenticated";
  return code > 4500 && code <= 4999 ? "stop" : "again";
}
