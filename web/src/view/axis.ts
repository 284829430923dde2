/**
 * Times on the chart's axis: local time, and UTC dates on daily bars.
 *
 * The chart places its marks (midnight, new month) by UTC, so bars are shifted by the reader's offset from UTC.
 * The offset is one for all bars, the newest bar's: a shift that changed with summer time could put two bars at
 * one time. Labels are made from the bar's real time, so they are right on both sides of such a change.
 */

import type { UTCTimestamp } from "lightweight-charts";
import { two } from "../state/format";

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const DAY_MS = 86_400_000;

/** The chart's kinds of marks, by weight. */
const [YEAR, MONTH, DAY] = [0, 1, 2];

export class Axis {
  readonly #daily: boolean;
  readonly #offsetMs: number;

  constructor(lengthMs: number, newestMs: number) {
    this.#daily = lengthMs >= DAY_MS;
    this.#offsetMs = this.#daily ? 0 : -new Date(newestMs).getTimezoneOffset() * 60_000;
  }

  /** A bar's place on the axis. */
  toChart(ms: number): UTCTimestamp {
    return ((ms + this.#offsetMs) / 1000) as UTCTimestamp;
  }

  fromChart(time: number): number {
    return time * 1000 - this.#offsetMs;
  }

  /** The label of a mark below the chart. */
  mark(time: number, kind: number): string {
    const at = new Date(time * 1000);
    if (kind === YEAR) return String(at.getUTCFullYear());
    if (kind === MONTH) return MONTHS[at.getUTCMonth()] ?? "";
    if (kind === DAY || this.#daily) return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
    const local = new Date(this.fromChart(time));
    return `${two(local.getHours())}:${two(local.getMinutes())}`;
  }

  /** The whole time of a bar, beside the crosshair. */
  full(time: number): string {
    const at = new Date(this.fromChart(time));
    if (this.#daily) return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()} UTC`;
    const date = `${DAYS[at.getDay()]} ${at.getDate()} ${MONTHS[at.getMonth()]}`;
    return `${date}  ${two(at.getHours())}:${two(at.getMinutes())}`;
  }
}
