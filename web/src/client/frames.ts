/** What travels on `/v1/stream`: frames in, frames out, and nothing that touches a socket. */

export const PROTOCOL = "artery.v1";
const FEW = 16;
const GROUP = 50;
/** Half of what the server takes in one frame. */
const GROUP_CHARS = 32 * 1024;

export type Fields = Readonly<Record<string, string>>;

export interface EventFrame {
  readonly type: "event";
  readonly channel: string;
  readonly series: string;
  readonly position: string;
  readonly data: Fields;
}

export interface GapFrame {
  readonly type: "gap";
  readonly channel: string;
  readonly series: string;
  readonly reason: string;
  /** The last position before the hole and the last inside of it; empty where the server did not say. */
  readonly from: string;
  readonly to: string;
  /** When the hole began and ended, in Unix milliseconds; 0 where the server did not say. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Where another request goes on with a past that was too long for one; empty for a true hole. */
  readonly resume: string;
}

/** A series has caught up: what follows is live. */
export interface CompleteFrame {
  readonly type: "replay_complete";
  readonly channel: string;
  readonly series: string;
  readonly position: string;
}

/** A request was granted; `positions` say where each series of each channel stands. */
export interface SubscribedFrame {
  readonly type: "subscribed";
  readonly id: string;
  readonly positions: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

export interface ErrorFrame {
  readonly type: "error";
  readonly id: string;
  readonly code: string;
  readonly message: string;
  /** What the refused request was for; the frame does not say it, the client does. */
  readonly channels: readonly string[];
}

export interface PongFrame {
  readonly type: "pong";
  readonly id: string;
  readonly ts: number;
}

export interface OtherFrame {
  readonly type: "other";
  readonly name: string;
  readonly id: string;
}

export type Frame =
  | EventFrame
  | GapFrame
  | CompleteFrame
  | SubscribedFrame
  | ErrorFrame
  | PongFrame
  | OtherFrame;

/** Where to go on from: a time, or the last position of each series. */
export type Since = { readonly ms: number } | { readonly positions: Readonly<Record<string, string>> };

/** What a client wants of one channel; without `types`, everything that it carries; without `since`, from now on. */
export interface Subscription {
  readonly channel: string;
  readonly types?: readonly string[];
  readonly since?: Since;
}

/** The channel of one market, or with `*` of all of a provider's mid prices. */
export function channelOf(provider: string, market: string): string {
  return `artery:stream:${provider}:${market}`;
}

/** The frame in this text, or null where it is not one. */
export function parseFrame(text: string): Frame | null {
  const raw = parseObject(text);
  if (raw === null || typeof raw["type"] !== "string") return null;
  switch (raw["type"]) {
    case "event":
      return eventFrame(raw);
    case "gap":
      return gapFrame(raw);
    case "replay_complete":
      return {
        type: "replay_complete",
        channel: str(raw["channel"]),
        series: str(raw["series"]),
        position: str(raw["position"]),
      };
    case "subscribed":
      return { type: "subscribed", id: str(raw["id"]), positions: positionsOf(raw["channels"]) };
    case "error":
      return { type: "error", id: str(raw["id"]), code: str(raw["code"]), message: str(raw["message"]), channels: [] };
    case "pong":
      return { type: "pong", id: str(raw["id"]), ts: num(raw["ts"]) };
    default:
      return { type: "other", name: raw["type"], id: str(raw["id"]) };
  }
}

export function subscribeFrame(id: string, wanted: readonly Subscription[]): string {
  return JSON.stringify({ type: "subscribe", id, channels: wanted.map(wantedChannel) });
}

/**
 * How to ask for many channels at once. A request is granted whole or not at all, so a few go one by one: a channel
 * that is not known yet does not take the others with it. Many go in groups: frames are limited by the second, and in size.
 */
export function subscribeGroups(wanted: readonly Subscription[]): (readonly Subscription[])[] {
  if (wanted.length <= FEW) return wanted.map((subscription) => [subscription]);
  const groups: Subscription[][] = [];
  let chars = Infinity;
  for (const subscription of wanted) {
    const more = JSON.stringify(wantedChannel(subscription)).length + 1;
    const last = groups.at(-1);
    if (last === undefined || last.length >= GROUP || chars + more > GROUP_CHARS) {
      groups.push([subscription]);
      chars = more;
    } else {
      last.push(subscription);
      chars += more;
    }
  }
  return groups;
}

export function unsubscribeFrame(id: string, channels: readonly string[]): string {
  return JSON.stringify({ type: "unsubscribe", id, channels });
}

export function pingFrame(id: string): string {
  return JSON.stringify({ type: "ping", id });
}

function wantedChannel(wanted: Subscription): string | Subscription {
  return wanted.types || wanted.since ? wanted : wanted.channel;
}

function positionsOf(channels: unknown): ReadonlyMap<string, Readonly<Record<string, string>>> {
  const rows = Array.isArray(channels) ? (channels as Record<string, unknown>[]) : [];
  return new Map(rows.map((row) => [str(row["channel"]), (row["positions"] ?? {}) as Record<string, string>]));
}

function eventFrame(raw: Record<string, unknown>): EventFrame | null {
  const data = raw["data"];
  if (typeof data !== "object" || data === null) return null;
  return {
    type: "event",
    channel: str(raw["channel"]),
    series: str(raw["series"]),
    position: str(raw["position"]),
    data: data as Fields,
  };
}

function gapFrame(raw: Record<string, unknown>): GapFrame {
  return {
    type: "gap",
    channel: str(raw["channel"]),
    series: str(raw["series"]),
    reason: str(raw["reason"]),
    from: str(raw["from"]),
    to: str(raw["to"]),
    resume: str(raw["resume"]),
    fromMs: num(raw["from_ms"]),
    toMs: num(raw["to_ms"]),
  };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function str(value: unknown): string {
  return typeof value === "string" ? value : value === undefined || value === null ? "" : String(value);
}

function num(value: unknown): number {
  const number = Number(value ?? 0);
  return Number.isFinite(number) ? number : 0;
}
