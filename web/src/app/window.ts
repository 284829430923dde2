/**
 * `window.artery`: what the page knows, read-only, for tests and for the curious.
 *
 * | name | what it is |
 * |---|---|
 * | `connection` | closed, connecting, open, waiting or refused |
 * | `market`, `period` | what is shown |
 * | `history` | loading, waiting (none yet), ready or trouble |
 * | `candles` | how many candles the chart has |
 * | `lastCandle` | the newest one, as it is shown: start, o, h, l, c, v, n, closed, rev |
 * | `studied` | how many candles the chart has indicators of |
 * | `trades`, `books` | how many have come since the page was opened |
 * | `lastTrade` | the newest trade: ts, tid, px, sz, side |
 */

import type { Candle, Trade } from "../client";
import type { Screen } from "./screen";

export interface ArteryWindow {
  readonly connection: string;
  readonly market: string;
  readonly period: string;
  readonly history: string;
  readonly candles: number;
  readonly lastCandle: Candle | null;
  readonly studied: number;
  readonly trades: number;
  readonly books: number;
  readonly lastTrade: Trade | null;
}

declare global {
  interface Window {
    readonly artery?: ArteryWindow;
  }
}

export function expose({ client, desk }: Screen): void {
  const artery: ArteryWindow = Object.freeze({
    get connection() {
      return client.state.kind;
    },
    get market() {
      return desk.market?.channel ?? "";
    },
    get period() {
      return desk.period;
    },
    get history() {
      return desk.past;
    },
    get candles() {
      return desk.series.length;
    },
    get lastCandle() {
      return desk.series.newest;
    },
    get studied() {
      return desk.studied;
    },
    get trades() {
      return desk.tape.seen;
    },
    get books() {
      return desk.books;
    },
    get lastTrade() {
      return desk.lastTrade;
    },
  });
  Object.defineProperty(window, "artery", { value: artery });
}
