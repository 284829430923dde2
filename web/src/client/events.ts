/** The events inside frames, typed. Every value is a string on the wire; prices keep their text beside the number. */

import type { Fields } from "./frames";

export interface Trade {
  readonly ts: number;
  readonly tid: string;
  readonly px: number;
  readonly pxText: string;
  readonly sz: number;
  readonly szText: string;
  readonly side: "B" | "S";
}

export type Level = readonly [price: string, size: string];

export interface Book {
  readonly ts: number;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}

export interface Candle {
  /** Start of the candle, Unix milliseconds. */
  readonly start: number;
  readonly o: number;
  readonly h: number;
  readonly l: number;
  readonly c: number;
  readonly v: number;
  readonly n: number;
  readonly closed: boolean;
  readonly rev: number;
  /** When this version of it was made; of two with the same (closed, rev) the newer holds. */
  readonly eventTs: number;
}

/** The trade in these fields, or null where a field is missing or wrong. */
export function parseTrade(data: Fields): Trade | null {
  const px = Number(data["px"]);
  const sz = Number(data["sz"]);
  const ts = Number(data["ts"]);
  if (!(px > 0) || !(sz >= 0) || !(ts > 0)) return null;
  return {
    ts,
    tid: data["tid"] ?? "",
    px,
    pxText: data["px"] ?? "",
    sz,
    szText: data["sz"] ?? "",
    side: data["side"] === "S" ? "S" : "B",
  };
}

/** The order book in these fields: bids fall, asks rise. */
export function parseBook(data: Fields): Book | null {
  const bids = parseLevels(data["bids"]);
  const asks = parseLevels(data["asks"]);
  if (bids === null || asks === null) return null;
  return { ts: Number(data["ts"] ?? data["eventTs"] ?? 0), bids, asks };
}

/** The candle in these fields, or null where a field is missing or wrong. */
export function parseCandle(data: Fields): Candle | null {
  return checked({
    start: Number(data["startTs"]),
    o: Number(data["o"]),
    h: Number(data["h"]),
    l: Number(data["l"]),
    c: Number(data["c"]),
    v: Number(data["v"] ?? 0),
    n: Number(data["n"] ?? 0),
    closed: data["isClosed"] === "true",
    rev: Number(data["rev"] ?? 0),
    eventTs: Number(data["eventTs"] ?? 0),
  });
}

/** One row of `/v1/history`. It has no event time: any live version with the same (closed, rev) is newer. */
export function parseRow(row: Readonly<Record<string, unknown>>): Candle | null {
  return checked({
    start: Number(row["start"]),
    o: Number(row["o"]),
    h: Number(row["h"]),
    l: Number(row["l"]),
    c: Number(row["c"]),
    v: Number(row["v"] ?? 0),
    n: Number(row["n"] ?? 0),
    closed: row["closed"] === true || row["closed"] === "true",
    rev: Number(row["rev"] ?? 0),
    eventTs: 0,
  });
}

/** All mid prices of a provider in one frame. */
export function parseMids(data: Fields): ReadonlyMap<string, string> {
  const mids = parseJson(data["mids"]);
  if (typeof mids !== "object" || mids === null) return new Map();
  return new Map(Object.entries(mids as Record<string, unknown>).map(([coin, px]) => [coin, String(px)]));
}

function checked(candle: Candle): Candle | null {
  const { start, o, h, l, c, v } = candle;
  return start > 0 && o > 0 && h > 0 && l > 0 && c > 0 && v >= 0 ? candle : null;
}

function parseLevels(text: string | undefined): readonly Level[] | null {
  const levels = parseJson(text);
  if (!Array.isArray(levels)) return null;
  return levels.filter((level): level is [string, string] => Array.isArray(level) && level.length >= 2);
}

function parseJson(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? "");
  } catch {
    return null;
  }
}
