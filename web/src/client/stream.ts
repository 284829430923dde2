/** A connection to `/v1/stream` that stays: it comes back by itself and subscribes again. */

import {
  type CompleteFrame,
  type ErrorFrame,
  type EventFrame,
  type Frame,
  type GapFrame,
  parseFrame,
  pingFrame,
  PROTOCOL,
  type Subscription,
} from "./frames";
import { Places } from "./places";
import { Requests } from "./requests";
import { type Backoff, delayMs, Pace, verdictOf } from "./retry";

export type ConnectionState =
  | { readonly kind: "closed" }
  | { readonly kind: "connecting"; readonly tries: number }
  | { readonly kind: "open" }
  | { readonly kind: "waiting"; readonly tries: number; readonly untilMs: number }
  | { readonly kind: "refused"; readonly code: number; readonly unauthenticated: boolean };

export interface ClientOptions {
  /** `ws://host/v1/stream`, or several of one log, tried in turn; in a page, the default is where it came from. */
  readonly url?: string | readonly string[];
  /** An API key; without one the browser's cookie speaks for the user. */
  readonly key?: string;
  readonly backoff?: Backoff;
  /** After this long without a frame the server is asked, after twice as long the connection is given up. */
  readonly quietMs?: number;
  /** Go on behind what was seen after a reconnect (the default), or begin anew with what is live. */
  readonly resume?: boolean;
  /** How a socket is opened; the default is the platform's WebSocket. */
  readonly open?: (url: string, protocols: string[]) => Socket;
}

/** What this client needs of a WebSocket. */
export interface Socket {
  readonly readyState: number;
  onopen: ((event: never) => unknown) | null;
  onmessage: ((event: never) => unknown) | null;
  onclose: ((event: never) => unknown) | null;
  send(data: string): void;
  close(code?: number): void;
}

type Listener<T> = (value: T) => void;
type Off = () => void;

const BACKOFF: Backoff = { firstMs: 1_000, mostMs: 15_000 };
const QUIET_MS = 10_000;
const CONNECT_MS = 10_000;
const OPEN = 1;
/** A key that is not verified yet has 64 KiB: more is said once the server has spoken. */
const EARLY_CHARS = 24 * 1024;

type Timer = ReturnType<typeof setTimeout>;

export class ArteryClient {
  readonly #urls: readonly string[];
  readonly #openSocket: (url: string, protocols: string[]) => Socket;
  readonly #resume: boolean;
  readonly #places = new Places();
  readonly #requests = new Requests();
  readonly #protocols: string[];
  readonly #backoff: Backoff;
  readonly #quietMs: number;
  readonly #wanted = new Map<string, Subscription>();
  readonly #onEvent = new Set<Listener<EventFrame>>();
  readonly #onGap = new Set<Listener<GapFrame>>();
  readonly #onComplete = new Set<Listener<CompleteFrame>>();
  readonly #onError = new Set<Listener<ErrorFrame>>();
  readonly #onState = new Set<Listener<ConnectionState>>();
  #socket: Socket | null = null;
  #state: ConnectionState = { kind: "closed" };
  #tries = 0;
  #turn = 0;
  #timer: Timer | undefined;
  #watch: Timer | undefined;
  #heardAt = 0;
  #pingedAt = 0;
  #lastId = 0;
  #skewMs = 0;
  #pace = new Pace(0);
  #paused: Timer | undefined;
  #flushing = false;
  #spoken = false;
  #earlyChars = 0;

  constructor(options: ClientOptions = {}) {
    const url = options.url ?? defaultUrl();
    this.#urls = typeof url === "string" ? [url] : url;
    this.#openSocket = options.open ?? ((address, protocols) => new WebSocket(address, protocols));
    this.#resume = options.resume ?? true;
    this.#protocols = options.key ? [PROTOCOL, `bearer.${options.key}`] : [PROTOCOL];
    this.#backoff = options.backoff ?? BACKOFF;
    this.#quietMs = options.quietMs ?? QUIET_MS;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** The server's time in Unix milliseconds, as well as it is known. */
  get serverNow(): number {
    return Date.now() + this.#skewMs;
  }

  /** Open the connection and keep it; when it is waiting to try again, try now. */
  connect(): void {
    if (this.#state.kind === "connecting" || this.#state.kind === "open") return;
    this.#open();
  }

  /** Let the connection go for good. */
  close(): void {
    this.#drop(1000);
    this.#become({ kind: "closed" });
  }

  /**
   * Want a channel, now and after every reconnect; asking again replaces its types and where it begins. Any number of
   * calls may be made at once: they travel together, as fast as the server takes them.
   */
  subscribe(subscription: Subscription): void {
    this.#places.drop(subscription.channel);
    this.#wanted.set(subscription.channel, subscription);
    this.#requests.ask(subscription, subscription.since ? "past" : "live");
    this.#flushSoon();
  }

  /** Want a channel no more; nothing of it is told from here on. */
  unsubscribe(channel: string): void {
    this.#places.drop(channel);
    if (!this.#wanted.delete(channel)) return;
    this.#requests.leave(channel);
    this.#flushSoon();
  }

  onEvent(listener: Listener<EventFrame>): Off {
    return listen(this.#onEvent, listener);
  }

  onGap(listener: Listener<GapFrame>): Off {
    return listen(this.#onGap, listener);
  }

  /** A series has caught up with what is live. */
  onComplete(listener: Listener<CompleteFrame>): Off {
    return listen(this.#onComplete, listener);
  }

  /**
   * A request was refused, `channels` being those that it was for. One with `rate_limited` or `internal` is made again
   * by itself, any other is not before the next reconnect.
   */
  onError(listener: Listener<ErrorFrame>): Off {
    return listen(this.#onError, listener);
  }

  onState(listener: Listener<ConnectionState>): Off {
    return listen(this.#onState, listener);
  }

  #open(): void {
    this.#drop(1000);
    const url = this.#urls[this.#turn % this.#urls.length] ?? "";
    const socket = this.#openSocket(url, [...this.#protocols]);
    this.#socket = socket;
    this.#heardAt = performance.now();
    socket.onopen = () => this.#opened();
    socket.onmessage = (message: { data: unknown }) => this.#heard(String(message.data));
    socket.onclose = (close: { code: number }) => this.#lost(close.code);
    this.#timer = globalThis.setTimeout(() => this.#lost(1006), CONNECT_MS);
    this.#become({ kind: "connecting", tries: this.#tries });
  }

  #opened(): void {
    globalThis.clearTimeout(this.#timer);
    this.#heardAt = performance.now();
    this.#watch = globalThis.setInterval(() => this.#check(), this.#quietMs / 4);
    this.#pace = new Pace(performance.now());
    this.#spoken = false;
    this.#earlyChars = 0;
    this.#requests.clear();
    for (const wish of this.#wanted.values()) {
      this.#requests.ask(this.#resume ? this.#places.resumed(wish) : wish, "first");
    }
    this.#flush();
    this.#ping();
    this.#become({ kind: "open" });
  }

  /** Once the caller is done: what it asks for in one go travels together. */
  #flushSoon(): void {
    if (this.#flushing) return;
    this.#flushing = true;
    queueMicrotask(() => {
      this.#flushing = false;
      this.#flush();
    });
  }

  /** Send what is to be asked for, as fast as the server takes it. */
  #flush(): void {
    globalThis.clearTimeout(this.#paused);
    while (this.#socket?.readyState === OPEN && this.#requests.pending) {
      if (!this.#spoken && this.#earlyChars > EARLY_CHARS) return;
      const wait = this.#pace.take(performance.now());
      if (wait > 0) {
        this.#paused = globalThis.setTimeout(() => this.#flush(), wait);
        return;
      }
      const frame = this.#requests.next(this.#nextId());
      this.#earlyChars += frame.length;
      this.#socket.send(frame);
    }
  }

  #heard(text: string): void {
    this.#heardAt = performance.now();
    this.#tries = 0; // only a server that speaks resets the wait, not one that accepts and drops
    const frame = parseFrame(text);
    if (frame !== null) this.#deliver(frame);
    if (this.#spoken) return;
    this.#spoken = true;
    this.#flush();
  }

  #deliver(frame: Frame): void {
    if ("channel" in frame && !this.#wanted.has(frame.channel)) return;
    if (this.#requests.isLate(frame) || !this.#places.take(frame)) return;
    if (frame.type === "gap" && frame.resume) this.#goOn(frame.channel);
    else if (frame.type === "event") tell(this.#onEvent, frame);
    else if (frame.type === "gap") tell(this.#onGap, frame);
    else if (frame.type === "replay_complete") tell(this.#onComplete, frame);
    else if (frame.type === "subscribed") this.#requests.granted(frame.id);
    else if (frame.type === "error") this.#refused(frame);
    else if (frame.type === "pong" && frame.ts > 0) this.#setClock(frame.ts);
  }

  /** A past that is too long for one request goes on with the next, behind what this one brought. */
  #goOn(channel: string): void {
    const wish = this.#wanted.get(channel);
    if (!wish) return;
    this.#requests.ask(this.#places.resumed(wish), "more");
    this.#flush();
  }

  #refused(error: ErrorFrame): void {
    const outcome = this.#requests.refused(error);
    if (outcome.kind === "later") this.#pace.rest();
    if (outcome.kind !== "again") tell(this.#onError, { ...error, channels: outcome.channels });
    // A request to go on: its channel has been passed over since, and only coming back anew loses nothing of it.
    if (outcome.kind === "refused" && outcome.goingOn) this.#lost(1006);
    else this.#flush();
  }

  #setClock(serverMs: number): void {
    const travelMs = (performance.now() - this.#pingedAt) / 2;
    this.#skewMs = serverMs + travelMs - Date.now();
  }

  /** A connection can die without a word (a laptop that slept): ask when it is quiet, give up when it stays so. */
  #check(): void {
    const quiet = performance.now() - this.#heardAt;
    if (quiet > this.#quietMs * 2) this.#lost(1006);
    else if (quiet > this.#quietMs) this.#ping();
  }

  #ping(): void {
    this.#pingedAt = performance.now();
    if (this.#socket?.readyState === OPEN) this.#socket.send(pingFrame(this.#nextId()));
  }

  #lost(code: number): void {
    this.#drop(1000);
    const verdict = verdictOf(code);
    if (verdict !== "again") {
      this.#become({ kind: "refused", code, unauthenticated: verdict === "unauthenticated" });
      return;
    }
    this.#turn += 1;
    const wait = delayMs(this.#backoff, this.#tries, Math.random());
    this.#tries += 1;
    this.#timer = globalThis.setTimeout(() => this.#open(), wait);
    this.#become({ kind: "waiting", tries: this.#tries, untilMs: Date.now() + wait });
  }

  #drop(code: number): void {
    globalThis.clearTimeout(this.#timer);
    globalThis.clearTimeout(this.#paused);
    globalThis.clearInterval(this.#watch);
    const socket = this.#socket;
    this.#socket = null;
    if (socket === null) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(code);
  }

  #nextId(): string {
    this.#lastId += 1;
    return String(this.#lastId);
  }

  #become(state: ConnectionState): void {
    this.#state = state;
    tell(this.#onState, state);
  }
}

function defaultUrl(): string {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}/v1/stream`;
}

function listen<T>(listeners: Set<Listener<T>>, listener: Listener<T>): Off {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell<T>(listeners: ReadonlySet<Listener<T>>, value: T): void {
  for (const listener of listeners) listener(value);
}
