/** The candle periods that the page offers. */

export const PERIODS = ["1m", "5m", "15m", "1h", "4h", "1d"] as const;

export type Period = (typeof PERIODS)[number];

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function periodMs(period: Period): number {
  return Number(period.slice(0, -1)) * (UNIT_MS[period.slice(-1)] ?? 0);
}

export function isPeriod(text: string | null): text is Period {
  return PERIODS.some((period) => period === text);
}

/** Start of the candle that holds this time; all periods start at multiples of themselves since 1970 in UTC. */
export function startOf(ms: number, lengthMs: number): number {
  return Math.floor(ms / lengthMs) * lengthMs;
}
