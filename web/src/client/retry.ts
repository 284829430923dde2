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

export type Verdict = "again" | "unauthenticated" | "stop";

/** What a close code asks for: 4500–4999 do not come back, everything else does. */
export function verdictOf(code: number): Verdict {
  if (code === 4500 || code === 4501 || code === 4503) return "unauthenticated";
  return code > 4500 && code <= 4999 ? "stop" : "again";
}
