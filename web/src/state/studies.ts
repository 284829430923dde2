/** The indicators that the chart can show, and their values as they are known: of the past, and of the newest candles. */

import type { Values } from "../client";

export const STUDIES = ["EMA", "BB", "RSI", "MACD"] as const;
export type Study = (typeof STUDIES)[number];

export interface Line {
  readonly field: string;
  readonly kind: "line" | "histogram";
  /** The name of its colour in the style sheet. */
  readonly colour: string;
}

export interface StudyLook {
  readonly title: string;
  /** Over the candles, or in a pane of its own. */
  readonly over: boolean;
  readonly lines: readonly Line[];
}

export const LOOKS: Readonly<Record<Study, StudyLook>> = {
  EMA: {
    title: "Exponential averages of 12 and 26 candles",
    over: true,
    lines: [line("ema_12", "--study-1"), line("ema_26", "--study-2")],
  },
  BB: {
    title: "Bollinger bands: 20 candles, two deviations",
    over: true,
    lines: [line("bb_upper", "--study-3"), line("bb_middle", "--study-4"), line("bb_lower", "--study-3")],
  },
  RSI: { title: "Relative strength over 14 candles", over: false, lines: [line("rsi_14", "--study-1")] },
  MACD: {
    title: "MACD of 12, 26 and 9 candles",
    over: false,
    lines: [
      { field: "macd_hist", kind: "histogram", colour: "--study-4" },
      line("macd", "--study-1"),
      line("macd_signal", "--study-2"),
    ],
  },
};

/** One series' values, in the order of time. */
export class ValueSeries {
  #rows: Values[] = [];

  get length(): number {
    return this.#rows.length;
  }

  get oldest(): number | null {
    return this.all()[0]?.start ?? null;
  }

  get newest(): number | null {
    return this.all().at(-1)?.start ?? null;
  }

  put(rows: readonly Values[]): void {
    if (rows.length === 0) return;
    const byStart = new Map([...this.#rows, ...rows].map((row) => [row.start, row]));
    this.#rows = [...byStart.values()].sort((a, b) => a.start - b.start);
  }

  all(): readonly Values[] {
    return this.#rows;
  }
}

/** The studies in a list of names, as the browser remembers it. */
export function parseStudies(text: string | null): Study[] {
  const names = (text ?? "").split(",");
  return STUDIES.filter((study) => names.includes(study));
}

function line(field: string, colour: string): Line {
  return { field, kind: "line", colour };
}
