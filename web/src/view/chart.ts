/** The candle chart with its volume. */

import {
  CandlestickSeries,
  type CandlestickData,
  ColorType,
  createChart,
  CrosshairMode,
  HistogramSeries,
  type HistogramData,
  type IChartApi,
  type ISeriesApi,
  type MouseEventParams,
  type Time,
} from "lightweight-charts";
import type { Candle } from "../client";
import { fixed } from "../state/format";
import { Axis } from "./axis";
import { cssColour, onNextFrame } from "./dom";
import { Overlays } from "./overlays";

const BAR_WIDTH = 7;
const RIGHT_BARS = 6;
const NEAR_OLDEST_BARS = 60;

export class ChartView {
  readonly #chart: IChartApi;
  readonly #candles: ISeriesApi<"Candlestick">;
  readonly #volume: ISeriesApi<"Histogram">;
  readonly #pending = new Map<number, Candle>();
  readonly #flushSoon = onNextFrame(() => this.#flush());
  readonly #overlays: Overlays;
  #axis = new Axis(60_000, Date.now());
  #decimals = 2;
  #newestStart = 0;
  #placed = false;
  #colours = colours();

  /** Called when the reader comes near the oldest bar. */
  onNearOldest: () => void = () => undefined;
  /** Called with the start of the bar under the crosshair, or null. */
  onHover: (start: number | null) => void = () => undefined;
  /** Called when the newest bar comes into view or leaves it. */
  onFollow: (following: boolean) => void = () => undefined;

  constructor(host: HTMLElement) {
    this.#chart = createChart(host, { autoSize: true, ...this.#look() });
    this.#candles = this.#chart.addSeries(CandlestickSeries, { borderVisible: false });
    this.#volume = this.#chart.addSeries(HistogramSeries, {
      priceScaleId: "volume",
      priceFormat: { type: "volume" },
      lastValueVisible: false,
      priceLineVisible: false,
    });
    this.#overlays = new Overlays(this.#chart, (start) => this.#axis.toChart(start));
    this.#chart.priceScale("volume").applyOptions({ scaleMargins: { top: 0.84, bottom: 0 } });
    this.#candles.priceScale().applyOptions({ scaleMargins: { top: 0.08, bottom: 0.2 } });
    this.#chart.timeScale().subscribeVisibleLogicalRangeChange((range) => {
      if (range && range.from < NEAR_OLDEST_BARS && this.#newestStart > 0) this.onNearOldest();
      this.onFollow(this.#chart.timeScale().scrollPosition() > -1);
    });
    this.#chart.subscribeCrosshairMove((move) => this.onHover(this.#hovered(move)));
    this.retheme();
  }

  /** Show another market or period: from the newest bar, with a fresh scale. */
  begin(lengthMs: number, decimals: number): void {
    this.#axis = new Axis(lengthMs, Date.now());
    this.#newestStart = 0;
    this.#placed = false;
    this.#pending.clear();
    this.#candles.setData([]);
    this.#volume.setData([]);
    this.#overlays.clear();
    this.setDecimals(decimals);
    this.#candles.priceScale().applyOptions({ autoScale: true });
    this.toNow();
  }

  setDecimals(decimals: number): void {
    this.#decimals = decimals;
    this.#candles.applyOptions({ priceFormat: { type: "price", precision: decimals, minMove: 10 ** -decimals } });
    this.#chart.applyOptions(this.#look());
  }

  /** Replace all bars; the reader's place is kept. */
  show(bars: readonly Candle[]): void {
    this.#pending.clear();
    this.#candles.setData(bars.map((bar) => this.#candle(bar)));
    this.#volume.setData(bars.map((bar) => this.#bar(bar)));
    this.#newestStart = bars.at(-1)?.start ?? 0;
    if (!this.#placed) this.toNow();
    this.#placed = true;
  }

  /** Indicators over the candles and below them. */
  get overlays(): Overlays {
    return this.#overlays;
  }

  /** Draw one bar, new or changed, at the next frame. */
  update(bar: Candle): void {
    this.#pending.set(bar.start, bar);
    this.#flushSoon();
  }

  toNow(): void {
    this.#chart.timeScale().applyOptions({ barSpacing: BAR_WIDTH, rightOffset: RIGHT_BARS });
    this.#chart.timeScale().scrollToPosition(RIGHT_BARS, false);
  }

  /** Take the colours of the theme that is now in force. */
  retheme(): void {
    this.#colours = colours();
    this.#chart.applyOptions(this.#look());
    this.#overlays.retheme();
    const { up, down } = this.#colours;
    this.#candles.applyOptions({ upColor: up, downColor: down, wickUpColor: up, wickDownColor: down });
  }

  #flush(): void {
    const bars = [...this.#pending.values()].sort((a, b) => a.start - b.start);
    this.#pending.clear();
    for (const bar of bars) {
      const past = bar.start < this.#newestStart;
      this.#candles.update(this.#candle(bar), past);
      this.#volume.update(this.#bar(bar), past);
      this.#newestStart = Math.max(this.#newestStart, bar.start);
    }
  }

  #hovered(move: MouseEventParams<Time>): number | null {
    return typeof move.time === "number" && move.point ? this.#axis.fromChart(move.time) : null;
  }

  #candle(bar: Candle): CandlestickData {
    return { time: this.#axis.toChart(bar.start), open: bar.o, high: bar.h, low: bar.l, close: bar.c };
  }

  #bar(bar: Candle): HistogramData {
    const color = bar.c >= bar.o ? this.#colours.upVolume : this.#colours.downVolume;
    return { time: this.#axis.toChart(bar.start), value: bar.v, color };
  }

  #look() {
    const { text, grid, panel, cross, label } = this.#colours;
    const line = { color: cross, labelBackgroundColor: label };
    return {
      layout: {
        background: { type: ColorType.Solid, color: panel },
        textColor: text,
        fontFamily: getComputedStyle(document.body).fontFamily,
        fontSize: 11,
        attributionLogo: false, // the page credits TradingView by a link; the logo would need inline styles
      },
      grid: { vertLines: { color: grid }, horzLines: { color: grid } },
      crosshair: { mode: CrosshairMode.Normal, vertLine: line, horzLine: line },
      rightPriceScale: { borderColor: grid },
      timeScale: {
        borderColor: grid,
        timeVisible: true,
        minBarSpacing: 1,
        tickMarkFormatter: (time: Time, kind: number) => this.#axis.mark(Number(time), kind),
      },
      localization: {
        priceFormatter: (price: number) => fixed(price, this.#decimals),
        timeFormatter: (time: Time) => this.#axis.full(Number(time)),
      },
    };
  }
}

function colours() {
  return {
    up: cssColour("--up"),
    down: cssColour("--down"),
    upVolume: cssColour("--up-volume"),
    downVolume: cssColour("--down-volume"),
    text: cssColour("--dim"),
    grid: cssColour("--grid"),
    panel: cssColour("--panel"),
    cross: cssColour("--cross"),
    label: cssColour("--label"),
  };
}
