/**
 * Which requests a client has to make: wishes are collected into few frames, each is known until it is answered, and
 * what was refused for the moment, or for another channel's sake, is asked for again. No socket, no clock.
 */

import {
  type ErrorFrame,
  type Frame,
  subscribeFrame,
  subscribeGroups,
  type Subscription,
  unsubscribeFrame,
} from "./frames";

/**
 * `first` is the first of its connection; `live` goes on with what the channel brings already; `past` begins elsewhere,
 * and `more` behind what was seen: for these two, what an older request still brings is passed over until the answer.
 */
export type Kind = "first" | "live" | "past" | "more";

/** What becomes of a refused request: made again at once, or a little later; or not, for these channels. */
export type Outcome =
  | { readonly kind: "again" | "later"; readonly channels: readonly string[] }
  | { readonly kind: "refused"; readonly channels: readonly string[]; readonly goingOn: boolean };

interface Asked {
  /** Empty until the request is sent. */
  readonly id: string;
  readonly kind: Kind;
}

const LEAVE_MOST = 200;
const OF_THE_MOMENT: readonly string[] = ["rate_limited", "internal"];
const OF_ONE_CHANNEL: readonly string[] = ["unknown_channel", "bad_request"];

export class Requests {
  readonly #wishes = new Map<string, Subscription>();
  readonly #leaving = new Set<string>();
  readonly #asked = new Map<string, Asked>();
  readonly #sent = new Map<string, readonly Subscription[]>();
  #groups: (readonly Subscription[])[] = [];

  get pending(): boolean {
    return this.#wishes.size + this.#leaving.size + this.#groups.length > 0;
  }

  /** The connection is a new one: nothing was asked for, nothing is waited for. */
  clear(): void {
    for (const all of [this.#wishes, this.#leaving, this.#asked, this.#sent]) all.clear();
    this.#groups = [];
  }

  /** Ask for a channel, in the place of every older request for it. */
  ask(wanted: Subscription, kind: Kind): void {
    this.#forget(wanted.channel);
    this.#leaving.delete(wanted.channel);
    this.#wishes.set(wanted.channel, wanted);
    this.#asked.set(wanted.channel, { id: "", kind });
  }

  leave(channel: string): void {
    this.#forget(channel);
    this.#leaving.add(channel);
  }

  /** The next frame to send, if `pending`. */
  next(id: string): string {
    if (this.#leaving.size > 0) {
      const channels = [...this.#leaving].slice(0, LEAVE_MOST);
      for (const channel of channels) this.#leaving.delete(channel);
      return unsubscribeFrame(id, channels);
    }
    if (this.#groups.length === 0) {
      this.#groups = subscribeGroups([...this.#wishes.values()]);
      this.#wishes.clear();
    }
    const group = this.#groups.shift() ?? [];
    this.#sent.set(id, group);
    for (const { channel } of group) this.#asked.set(channel, { id, kind: this.#asked.get(channel)?.kind ?? "first" });
    return subscribeFrame(id, group);
  }

  granted(id: string): void {
    for (const { channel } of this.#answered(id)) this.#asked.delete(channel);
  }

  /** What becomes of the request that this error refuses. */
  refused({ id, code }: ErrorFrame): Outcome {
    const several = (this.#sent.get(id)?.length ?? 0) > 1;
    const group = this.#answered(id);
    const channels = group.map(({ channel }) => channel);
    if (group.length > 0 && OF_THE_MOMENT.includes(code)) {
      this.#groups.push(group);
      return { kind: "later", channels };
    }
    if (several && OF_ONE_CHANNEL.includes(code)) {
      this.#groups.push(...halves(group));
      return { kind: "again", channels };
    }
    const goingOn = channels.some((channel) => this.#asked.get(channel)?.kind === "more");
    for (const channel of channels) this.#asked.delete(channel);
    return { kind: "refused", channels, goingOn };
  }

  /** Whether this is what an older request still brings of a channel that begins elsewhere now. */
  isLate(frame: Frame): boolean {
    const asked = "channel" in frame ? this.#asked.get(frame.channel) : undefined;
    if (asked === undefined || asked.kind === "first") return false;
    return asked.kind !== "live" || (frame.type === "gap" && frame.resume !== "");
  }

  /** The channels of a request for which no newer one was made. */
  #answered(id: string): readonly Subscription[] {
    const group = this.#sent.get(id) ?? [];
    this.#sent.delete(id);
    return group.filter(({ channel }) => this.#asked.get(channel)?.id === id);
  }

  #forget(channel: string): void {
    this.#wishes.delete(channel);
    this.#asked.delete(channel);
    const groups = this.#groups.map((group) => group.filter((wanted) => wanted.channel !== channel));
    this.#groups = groups.filter((group) => group.length > 0);
  }
}

function halves<T>(group: readonly T[]): (readonly T[])[] {
  const middle = Math.ceil(group.length / 2);
  return [group.slice(0, middle), group.slice(middle)].filter((half) => half.length > 0);
}
