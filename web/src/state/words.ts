/** The state of things in words, for people. */

import type { ConnectionState, ErrorFrame, FeedHealth, GapFrame, Health, PipelineHealth } from "../client";
import { duration, timeOfDay } from "./format";

export type Tone = "good" | "warn" | "bad" | "idle";

export interface Line {
  readonly name: string;
  readonly tone: Tone;
  readonly text: string;
}

const CANDLES_LATE_S = 8;
const LAKE_LATE_MS = 90_000;

/** One line for each feed, the candles and the lake. */
export function healthLines(health: Health, nowMs: number): Line[] {
  const lines = health.feeds.map(feedLine);
  return health.pipeline ? [...lines, candleLine(health.pipeline), lakeLine(health.pipeline, nowMs)] : lines;
}

export function feedLine(feed: FeedHealth): Line {
  const name = `${feed.provider} feed`;
  if (feed.state === "live" && feed.ok) {
    return { name, tone: "good", text: feed.ageMs === null ? "live" : `live, ${duration(feed.ageMs)} ago` };
  }
  const text = feed.words || FEED_WORDS[feed.state] || feed.state || "not known";
  return { name, tone: feed.state === "off" ? "idle" : feed.ok ? "warn" : "bad", text };
}

export function candleLine(pipeline: PipelineHealth): Line {
  const name = "Candles";
  if (pipeline.state === "running" && pipeline.ok) {
    if (pipeline.lagS === null) return { name, tone: "good", text: "live" };
    const tone = pipeline.lagS < CANDLES_LATE_S ? "good" : "warn";
    return { name, tone, text: `${duration(pipeline.lagS * 1000)} behind` };
  }
  if (pipeline.state === "starting") return { name, tone: "warn", text: "pipeline is starting" };
  const text = pipeline.words || PIPELINE_WORDS[pipeline.state] || "pipeline is not running";
  return { name, tone: pipeline.state === "running" ? "warn" : "bad", text };
}

export function lakeLine(pipeline: PipelineHealth, nowMs: number): Line {
  const name = "Lake";
  if (pipeline.lastCommitMs === null) return { name, tone: "idle", text: "nothing written yet" };
  const age = nowMs - pipeline.lastCommitMs;
  return { name, tone: age < LAKE_LATE_MS ? "good" : "warn", text: `written ${duration(age)} ago` };
}

/** All lines in one: what is worst, or that all is well. */
export function summary(lines: readonly Line[]): Line {
  const worst = lines.find((line) => line.tone === "bad") ?? lines.find((line) => line.tone === "warn");
  if (worst) return { ...worst, text: `${worst.name}: ${worst.text}` };
  return { name: "All", tone: lines.length ? "good" : "idle", text: lines.length ? "All parts live" : "Asking…" };
}

/** What the header says about the connection. */
export function connectionLine(state: ConnectionState): Line {
  const name = "Connection";
  switch (state.kind) {
    case "open":
      return { name, tone: "good", text: "Connected" };
    case "connecting":
      return { name, tone: "warn", text: "Connecting" };
    case "waiting":
      return { name, tone: "bad", text: "Offline" };
    case "refused":
      return { name, tone: "bad", text: "Refused" };
    case "closed":
      return { name, tone: "idle", text: "Not connected" };
  }
}

const LOST = "Connection lost. Trying again";

/** What the banner says when the connection is not there; empty when it is. Read aloud, so without a countdown. */
export function lostWords(state: ConnectionState): string {
  switch (state.kind) {
    case "waiting":
      return LOST;
    case "connecting":
      return state.tries > 0 ? LOST : "";
    case "refused":
      return state.unauthenticated ? "This session may not have live data." : "The server refused this page. Reload it.";
    default:
      return "";
  }
}

/** When the page tries again: what follows those words, for the eye alone. */
export function againWords(state: ConnectionState, nowMs: number): string {
  if (state.kind === "waiting") return `in ${Math.max(1, Math.ceil((state.untilMs - nowMs) / 1000))} s`;
  return state.kind === "connecting" && state.tries > 0 ? "now" : "";
}

/** What is said of a market that the server gives no live data of; empty for a trouble that passes by itself. */
export function refusalWords(market: string, error: Pick<ErrorFrame, "code" | "message">): string {
  return error.code === "rate_limited" || error.code === "internal" ? "" : `No live data of ${market}: ${error.message}`;
}

/** A quiet notice about data that is missing. */
export function gapWords(gap: Pick<GapFrame, "fromMs" | "toMs" | "reason">): string {
  const range = gap.fromMs && gap.toMs ? ` ${timeOfDay(gap.fromMs)}–${timeOfDay(gap.toMs)}` : "";
  if (gap.reason === "slow_client") return `This page fell behind and skipped some updates${range}`;
  if (gap.reason === "trimmed") return `Live data${range} is no longer kept; the chart has its candles`;
  return range ? `No data${range}, will be repaired` : "Some data is missing, will be repaired";
}

const FEED_WORDS: Readonly<Record<string, string>> = {
  connecting: "connecting to the venue",
  standby: "another process leads this feed",
  off: "switched off",
  stale: "no news from the venue",
  missing: "no sign of life",
};

const PIPELINE_WORDS: Readonly<Record<string, string>> = {
  running: "behind",
  failed: "pipeline has failed and will be restarted",
  missing: "pipeline is not running",
};
