/** An order book as it is drawn. */

import type { Book, Level } from "../client";

export interface BookRow {
  readonly price: string;
  readonly size: string;
  readonly total: number;
  /** How far the depth bar reaches, 0 to 1. */
  readonly depth: number;
}

export interface BookPicture {
  /** Best first, both sides. */
  readonly bids: readonly BookRow[];
  readonly asks: readonly BookRow[];
  readonly mid: number | null;
  readonly spread: number | null;
  /** The spread as a share of the mid price. */
  readonly spreadRatio: number | null;
  /** The bids' share of all size that is shown, 0 to 1. */
  readonly bidShare: number | null;
}

/** At most `levels` rows a side; both sides share one scale, so that a lopsided book looks lopsided. */
export function picture(book: Book, levels: number): BookPicture {
  const bids = totals(book.bids.slice(0, levels));
  const asks = totals(book.asks.slice(0, levels));
  const [bidTotal, askTotal] = [bids.at(-1)?.total ?? 0, asks.at(-1)?.total ?? 0];
  const most = Math.max(bidTotal, askTotal);
  return {
    bids: scaled(bids, most),
    asks: scaled(asks, most),
    ...prices(book),
    bidShare: most > 0 ? bidTotal / (bidTotal + askTotal) : null,
  };
}

function prices(book: Book): Pick<BookPicture, "mid" | "spread" | "spreadRatio"> {
  const bid = Number(book.bids[0]?.[0]);
  const ask = Number(book.asks[0]?.[0]);
  if (!(bid > 0) || !(ask > 0)) return { mid: null, spread: null, spreadRatio: null };
  const mid = (bid + ask) / 2;
  return { mid, spread: ask - bid, spreadRatio: (ask - bid) / mid };
}

function totals(levels: readonly Level[]): Omit<BookRow, "depth">[] {
  let total = 0;
  return levels.map(([price, size]) => {
    total += Number(size) || 0;
    return { price, size, total };
  });
}

function scaled(rows: readonly Omit<BookRow, "depth">[], most: number): BookRow[] {
  return rows.map((row) => ({ ...row, depth: most > 0 ? row.total / most : 0 }));
}
