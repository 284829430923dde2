/** Numbers and times as people read them. Pure; the caller says how many decimals a market has. */

const MINUS = "−";
const GROUP = /\B(?=(\d{3})+(?!\d))/g;
const DECIMALS_MAX = 12;

/** How many decimals a step has: "0.010" has two, "5" has none. */
export function decimalsOf(step: string): number {
  const [, fraction = ""] = step.split(".");
  return Math.min(fraction.replace(/0+$/, "").length, DECIMALS_MAX);
}

/** Decimals that suit a price whose market does not say its tick size: about six significant digits. */
export function guessDecimals(price: number): number {
  if (!(price > 0)) return 2;
  return Math.max(0, Math.min(DECIMALS_MAX, 5 - Math.floor(Math.log10(price))));
}

/** "67412.5" with two decimals is "67,412.50". Text in, so that no digit is lost. */
export function fixed(value: string | number, decimals: number): string {
  const text = typeof value === "number" ? plain(value, decimals) : value;
  const negative = text.startsWith("-");
  const [whole = "0", fraction = ""] = (negative ? text.slice(1) : text).split(".");
  const kept = fraction.length > decimals ? fraction : fraction.padEnd(decimals, "0");
  return (negative ? MINUS : "") + whole.replace(GROUP, ",") + (kept ? `.${kept}` : "");
}

/** At least so many decimals, and as many more as the number has: a mid price may lie between two ticks. */
export function atLeast(value: number, decimals: number): string {
  return fixed(plain(value, decimals + 2).replace(/0{1,2}$/, ""), decimals);
}

/** Large amounts in a few characters: 1,234,567 is "1.23M". */
export function compact(value: number): string {
  const size = Math.abs(value);
  const units: readonly [number, string][] = [[1e9, "B"], [1e6, "M"], [1e3, "K"]];
  for (const [unit, letter] of units) {
    if (size >= unit * 0.99995) return significant(value / unit) + letter;
  }
  return significant(value);
}

/** A ratio as a change: 0.0124 is "+1.24%". */
export function percent(ratio: number): string {
  const text = (Math.abs(ratio) * 100).toFixed(2);
  if (Number(text) === 0) return "0.00%";
  return `${ratio < 0 ? MINUS : "+"}${text}%`;
}

/** How long: "0.4 s", "8 s", "3 min", "2 h". */
export function duration(ms: number): string {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 2.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  if (seconds < 5_400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** "4:05" or "2:00:09", for what is still to come. */
export function countdown(ms: number): string {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** The time of day, in UTC or as the reader's clock shows it. */
export function timeOfDay(ms: number, utc = false): string {
  const at = new Date(ms);
  return utc
    ? `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`
    : `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The offset of the reader's clock as people write it: "UTC+2", "UTC−3:30", "UTC". */
export function zoneName(offsetMinutes: number): string {
  if (offsetMinutes === 0) return "UTC";
  const size = Math.abs(offsetMinutes);
  const minutes = size % 60 ? `:${two(size % 60)}` : "";
  return `UTC${offsetMinutes < 0 ? MINUS : "+"}${Math.floor(size / 60)}${minutes}`;
}

export function two(value: number): string {
  return String(value).padStart(2, "0");
}

function plain(value: number, decimals: number): string {
  return Number.isFinite(value) ? value.toFixed(decimals) : "0";
}

function significant(value: number): string {
  const size = Math.abs(value);
  const text = size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
  return text.replace("-", MINUS);
}
