/** Artery's HTTP answers, typed; tolerant of fields that are missing or new. */

import { type Candle, parseRow, parseTrade, type Trade } from "./events";
import { channelOf, type Fields } from "./frames";

export interface Market {
  readonly provider: string;
  readonly coin: string;
  readonly channel: string;
  readonly base: string;
  readonly quote: string;
  readonly tickSize: string;
  readonly sizeStep: string;
  readonly status: string;
  /** Whether its live data comes in now; a subscription has it followed. True while nothing is known of it. */
  readonly followed: boolean;
  readonly simulated: boolean;
}

export interface FeedHealth {
  readonly provider: string;
  readonly ok: boolean;
  readonly state: string;
  /** Milliseconds since its newest event; null where none was seen. */
  readonly ageMs: number | null;
  readonly words: string;
}

export interface PipelineHealth {
  readonly ok: boolean;
  readonly state: string;
  readonly lagS: number | null;
  readonly lastCommitMs: number | null;
  readonly words: string;
}

export interface Health {
  readonly ready: boolean;
  readonly feeds: readonly FeedHealth[];
  readonly pipeline: PipelineHealth | null;
  readonly bus: readonly { readonly group: string; readonly lag: number }[];
}

export interface HistoryQuery {
  readonly provider: string;
  readonly market: string;
  readonly interval: string;
  readonly limit: number;
  /** Only candles that start before this, Unix milliseconds. */
  readonly end?: number;
}

/** The values of one candle's indicators, by name; null where there are too few candles before it. */
export interface Values {
  readonly start: number;
  readonly of: Readonly<Record<string, number | null>>;
}

/** The server said no; `status` 0 means that it could not be reached. */
export class HttpError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = "HttpError";
  }

  get unauthenticated(): boolean {
    return this.status === 401;
  }
}

type Json = Record<string, unknown>;

const WAIT_MS = 15_000;

export class ArteryHttp {
  readonly #base: string;
  readonly #headers: Record<string, string>;

  /** `base` is empty for the address that served the page; without a key the browser's cookie is used. */
  constructor(base = "", key = "") {
    this.#base = base;
    this.#headers = key ? { Authorization: `Bearer ${key}` } : {};
  }

  /** Trade a one-use start code or a key for the page's cookie. */
  async openSession(proof: { start: string } | { key: string }): Promise<void> {
    await this.#ask("/v1/session", { method: "POST", body: JSON.stringify(proof) });
  }

  async markets(): Promise<Market[]> {
    const answer = await this.#ask("/v1/markets");
    return list(answer["markets"]).map(parseMarket);
  }

  /** Candles, oldest first; without `end` the newest ones. */
  async history(query: HistoryQuery): Promise<Candle[]> {
    const params = new URLSearchParams({
      provider: query.provider,
      market: query.market,
      interval: query.interval,
      limit: String(query.limit),
    });
    if (query.end !== undefined) params.set("end", String(query.end));
    const answer = await this.#ask(`/v1/history?${params}`);
    return list(answer["candles"]).flatMap((row) => parseRow(row) ?? []);
  }

  /** Indicators of each candle, oldest first; without `end` those of the newest ones. */
  async indicators(provider: string, market: string, interval: string, limit: number, end?: number): Promise<Values[]> {
    const params = new URLSearchParams({ limit: String(limit) });
    if (end !== undefined) params.set("end", String(end));
    const answer = await this.#ask(`${indicatorPath(provider, market, interval)}?${params}`);
    return list(answer["rows"]).flatMap((row) => parseValues(row) ?? []);
  }

  /** Indicators of the newest closed candle and of the open one, oldest first. */
  async newestIndicators(provider: string, market: string, interval: string): Promise<Values[]> {
    const answer = await this.#ask(indicatorPath(provider, market, interval));
    return [answer["closed"], answer["open"]].flatMap((row) => parseValues(row) ?? []);
  }

  /** The newest trades, oldest first. */
  async trades(provider: string, market: string, limit: number): Promise<Trade[]> {
    const params = new URLSearchParams({ type: "trades", provider, market, limit: String(limit) });
    const answer = await this.#ask(`/v1/history?${params}`);
    return list(answer["trades"]).flatMap((row) => parseTrade(row as Fields) ?? []);
  }

  /** How everything is; answers too when the server says that it is not ready (503). */
  async health(): Promise<Health> {
    return parseHealth(await this.#ask("/readyz", {}, [503]));
  }

  async #ask(path: string, init: RequestInit = {}, alsoFine: readonly number[] = []): Promise<Json> {
    const answer = await this.#fetch(path, init);
    const body = (await answer.json().catch(() => ({}))) as unknown;
    const json = typeof body === "object" && body !== null ? (body as Json) : {};
    if (answer.ok || alsoFine.includes(answer.status)) return json;
    const error = (json["error"] ?? {}) as Json;
    throw new HttpError(answer.status, text(error["code"]), text(error["message"]) || `HTTP ${answer.status}`);
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const headers = { ...this.#headers, ...(init.body ? { "Content-Type": "application/json" } : {}) };
    try {
      return await fetch(this.#base + path, {
        ...init,
        headers,
        cache: "no-store",
        credentials: "same-origin",
        signal: AbortSignal.timeout(WAIT_MS),
      });
    } catch {
      throw new HttpError(0, "unreachable", "The server cannot be reached.");
    }
  }
}

function indicatorPath(...parts: string[]): string {
  return `/v1/indicators/${parts.map(encodeURIComponent).join("/")}`;
}

/** One candle's indicators; null where there are none. */
export function parseValues(row: unknown): Values | null {
  if (typeof row !== "object" || row === null) return null;
  const { startTs, ...rest } = row as Json;
  const start = number(startTs);
  if (start === null) return null;
  return { start, of: Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, number(value)])) };
}

export function parseMarket(row: Json): Market {
  const provider = text(row["provider"]);
  const coin = text(row["coin"]);
  return {
    provider,
    coin,
    channel: text(row["channel"]) || channelOf(provider, coin),
    base: text(row["base"]) || coin,
    quote: text(row["quote"]),
    tickSize: text(row["tick_size"]),
    sizeStep: text(row["size_step"]),
    status: text(row["status"]),
    followed: row["followed"] !== false || !row["version"],
    simulated: row["simulated"] === true || provider === "sim",
  };
}

export function parseHealth(answer: Json): Health {
  const pipeline = answer["pipeline"];
  return {
    ready: answer["ready"] === true,
    feeds: list(answer["feeds"]).map(parseFeed),
    pipeline: typeof pipeline === "object" && pipeline !== null ? parsePipeline(pipeline as Json) : null,
    bus: list(answer["bus"]).map((row) => ({ group: text(row["group"]), lag: Number(row["lag"] ?? 0) })),
  };
}

function parseFeed(row: Json): FeedHealth {
  return {
    provider: text(row["provider"]),
    ok: row["ok"] === true,
    state: text(row["state"]),
    ageMs: number(row["age_ms"]),
    words: text(row["words"]),
  };
}

function parsePipeline(row: Json): PipelineHealth {
  return {
    ok: row["ok"] === true,
    state: text(row["state"]),
    lagS: number(row["lag_s"]),
    lastCommitMs: number(row["last_commit_ms"]) || null,
    words: text(row["words"]),
  };
}

function list(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter((row): row is Json => typeof row === "object" && row !== null) : [];
}

function text(value: unknown): string {
  return value === undefined || value === null ? "" : String(value);
}

function number(value: unknown): number | null {
  if (value === undefined || value === null || value === "") return null;
  const result = Number(value);
  return Number.isFinite(result) ? result : null;
}
