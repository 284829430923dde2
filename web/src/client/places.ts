/** Where each series of each channel stands, so that a client goes on behind it. No socket, no clock. */

import type { EventFrame, Frame, GapFrame, Since, Subscription } from "./frames";

type Series = Map<string, string>;

export class Places {
  readonly #seen = new Map<string, Series>();
  readonly #begun = new Map<string, Series>();
  readonly #goingOn = new Map<string, Series>();

  /** Forget a channel. */
  drop(channel: string): void {
    this.#seen.delete(channel);
    this.#begun.delete(channel);
    this.#goingOn.delete(channel);
  }

  /** Take in a frame; false for an event that was there before. */
  take(frame: Frame): boolean {
    if (frame.type === "event") return this.#event(frame);
    if (frame.type === "gap" && frame.resume) this.#goOn(frame.channel, frame.series, frame.resume);
    else if (frame.type === "gap") this.#leap(frame);
    if (frame.type === "replay_complete" && frame.position) this.#advance(frame.channel, frame.series, frame.position);
    if (frame.type === "subscribed") {
      for (const [channel, positions] of frame.positions) {
        const begun = seriesOf(this.#begun, channel);
        for (const [series, position] of Object.entries(positions)) if (!begun.has(series)) begun.set(series, position);
      }
    }
    return true;
  }

  /** The same wish, behind what was seen of each series; a series that was not seen yet begins where it was to. */
  resumed(wanted: Subscription): Subscription {
    const since = wanted.since;
    const seen = this.#seen.get(wanted.channel) ?? new Map<string, string>();
    const begun = this.#begun.get(wanted.channel) ?? new Map<string, string>();
    const goingOn = this.#goingOn.get(wanted.channel) ?? new Map<string, string>();
    if (seen.size === 0 && goingOn.size === 0 && (since || begun.size === 0)) return wanted;
    const types = wanted.types ?? typesOf(wanted.channel);
    const start = since ? startOf(since, [...begun.keys(), ...seen.keys(), ...types]) : fromMap(begun);
    return { ...wanted, since: { positions: { ...start, ...fromMap(goingOn), ...fromMap(seen) } } };
  }

  /** A replay ended before its past did. What the lake brings has no place: then the rest begins at a time. */
  #goOn(channel: string, series: string, resume: string): void {
    this.#seen.get(channel)?.delete(series);
    seriesOf(this.#goingOn, channel).set(series, resume);
  }

  /** A hole that leads back, or what was trimmed up to nowhere, says that the log began anew: earlier places mean
   * nothing in it. */
  #leap(hole: GapFrame): void {
    const leadsBack = hole.to ? compare(hole.to, hole.from) < 0 : hole.reason === "trimmed";
    if (hole.from && leadsBack) this.#seen.get(hole.channel)?.delete(hole.series);
    if (hole.to) this.#advance(hole.channel, hole.series, hole.to);
  }

  #event(frame: EventFrame): boolean {
    if (!frame.position) return true;
    const last = this.#seen.get(frame.channel)?.get(frame.series);
    // A candle comes again in a newer version, a book as a snapshot: only trades are left out by their place.
    if (last !== undefined && frame.series === "TRADE" && compare(frame.position, last) <= 0) return false;
    this.#advance(frame.channel, frame.series, frame.position);
    return true;
  }

  #advance(channel: string, series: string, position: string): void {
    const seen = seriesOf(this.#seen, channel);
    const last = seen.get(series);
    if (last === undefined || compare(position, last) > 0) seen.set(series, position);
  }
}

/** Positions compare by their first two numbers: the epoch, then the place in it. */
export function compare(a: string, b: string): number {
  const [one, other] = [a.split("."), b.split(".")];
  for (const part of [0, 1]) {
    const difference = BigInt(one[part] || "0") - BigInt(other[part] || "0");
    if (difference !== 0n) return difference > 0n ? 1 : -1;
  }
  return 0;
}

/** What a channel carries, where no types are named. */
function typesOf(channel: string): readonly string[] {
  return channel.endsWith(":*") ? ["MIDS"] : ["TRADE", "BOOK_TOPN", "CANDLE:1m"];
}

/** A time is a position of epoch 0, so that each series of a request can have its own. */
function startOf(since: Since, series: readonly string[]): Record<string, string> {
  if ("positions" in since) return { ...since.positions };
  return Object.fromEntries(series.map((name) => [name, `0.0.${since.ms}`]));
}

function seriesOf(table: Map<string, Series>, channel: string): Series {
  const found = table.get(channel) ?? new Map<string, string>();
  table.set(channel, found);
  return found;
}

function fromMap(map: Series): Record<string, string> {
  return Object.fromEntries(map);
}
