/** Indicators on the chart: lines over the candles, and panes below them. */

import { HistogramSeries, type IChartApi, type ISeriesApi, LineSeries, type UTCTimestamp } from "lightweight-charts";
import type { Values } from "../client";
import { type Line, LOOKS, type Study } from "../state/studies";
import { cssColour } from "./dom";

type Drawn = ISeriesApi<"Line"> | ISeriesApi<"Histogram">;

const MAIN_SHARE = 3;

export class Overlays {
  readonly #chart: IChartApi;
  readonly #place: (start: number) => UTCTimestamp;
  readonly #drawn = new Map<Study, { readonly line: Line; readonly series: Drawn }[]>();

  /** `place` says where on the axis a candle stands. */
  constructor(chart: IChartApi, place: (start: number) => UTCTimestamp) {
    this.#chart = chart;
    this.#place = place;
  }

  /** Show exactly these. */
  choose(on: readonly Study[], rows: readonly Values[]): void {
    for (const [study, lines] of this.#drawn) {
      if (on.includes(study)) continue;
      for (const { series } of lines) this.#chart.removeSeries(series);
      this.#drawn.delete(study);
    }
    for (const study of on) if (!this.#drawn.has(study)) this.#add(study);
    this.#share();
    this.show(rows);
  }

  show(rows: readonly Values[]): void {
    for (const { line, series } of this.#all()) {
      series.setData(rows.flatMap((row) => this.#point(line, row) ?? []));
    }
  }

  update(row: Values): void {
    for (const { line, series } of this.#all()) {
      const point = this.#point(line, row);
      const last = series.data().at(-1);
      if (point && (!last || Number(last.time) <= point.time)) series.update(point);
    }
  }

  clear(): void {
    this.show([]);
  }

  retheme(): void {
    for (const { line, series } of this.#all()) series.applyOptions({ color: cssColour(line.colour) });
  }

  #all() {
    return [...this.#drawn.values()].flat();
  }

  #add(study: Study): void {
    const look = LOOKS[study];
    const pane = look.over ? 0 : this.#chart.panes().length;
    this.#drawn.set(
      study,
      look.lines.map((line) => ({ line, series: this.#series(line, pane, look.over) })),
    );
  }

  #series(line: Line, pane: number, over: boolean): Drawn {
    const shared = { color: cssColour(line.colour), priceLineVisible: false, lastValueVisible: !over };
    if (line.kind === "histogram") return this.#chart.addSeries(HistogramSeries, shared, pane);
    return this.#chart.addSeries(LineSeries, { ...shared, lineWidth: 1, crosshairMarkerVisible: false }, pane);
  }

  /** The candles keep most of the height. */
  #share(): void {
    this.#chart.panes().forEach((pane, index) => pane.setStretchFactor(index === 0 ? MAIN_SHARE : 1));
  }

  #point(line: Line, row: Values): { time: UTCTimestamp; value: number } | null {
    const value = row.of[line.field];
    return value === null || value === undefined ? null : { time: this.#place(row.start), value };
  }
}
