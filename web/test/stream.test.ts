import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ArteryClient, compare, type EventFrame, type GapFrame, type Socket } from "../src/client";

const BTC = "artery:stream:sim:BTC";

/** A socket that a test plays the server of. */
class Line implements Socket {
  static all: Line[] = [];
  readyState = 0;
  onopen: ((event: never) => unknown) | null = null;
  onmessage: ((event: never) => unknown) | null = null;
  onclose: ((event: never) => unknown) | null = null;
  readonly said: Record<string, unknown>[] = [];

  constructor(readonly url: string) {
    Line.all.push(this);
  }

  send(data: string): void {
    this.said.push(JSON.parse(data) as Record<string, unknown>);
  }

  close(): void {
    this.readyState = 3;
  }

  accept(): void {
    this.readyState = 1;
    this.onopen?.({} as never);
  }

  bring(...frames: unknown[]): void {
    for (const frame of frames) this.onmessage?.({ data: JSON.stringify(frame) } as never);
  }

  cut(code = 1006): void {
    this.onclose?.({ code } as never);
  }

  /** The newest request for channels. */
  get asked(): { id: string; channels: unknown[] } {
    return this.said.filter((frame) => frame["type"] === "subscribe").at(-1) as never;
  }
}

const trade = (seq: number, epoch = 1) => ({
  type: "event",
  channel: BTC,
  series: "TRADE",
  position: `${epoch}.${seq}.${seq}`,
  data: { seq: String(seq) },
});

const more = { type: "gap", channel: BTC, series: "TRADE", from: "1.1.1", to: "1.8.8", resume: "1.1.1" };

const name = (index: number) => `artery:stream:sim:C${index}`;

/** The answer to the newest request for channels. */
function granted(): object {
  const channels = line().asked.channels.map((wanted) => ({ channel: channelIn(wanted), positions: {} }));
  return { type: "subscribed", id: line().asked.id, channels };
}

function channelIn(wanted: unknown): string {
  return typeof wanted === "string" ? wanted : (wanted as { channel: string }).channel;
}

/** Play a server that knows no channel of `unknown`: until nothing more is asked, what was granted in the end. */
async function answered(unknown: readonly string[] = []): Promise<string[]> {
  const has = new Set<string>();
  let done = 0;
  for (let round = 0; round < 100; round += 1) {
    await vi.advanceTimersByTimeAsync(1_000);
    const asked = line().said.filter((frame) => frame["type"] === "subscribe") as { id: string; channels: unknown[] }[];
    for (const { id, channels } of asked.slice(done)) {
      const names = channels.map(channelIn);
      if (names.some((each) => unknown.includes(each))) line().bring({ type: "error", id, code: "unknown_channel" });
      else line().bring({ type: "subscribed", id, channels: [] });
      if (!names.some((each) => unknown.includes(each))) names.forEach((each) => has.add(each));
    }
    if (done === asked.length) return [...has];
    done = asked.length;
  }
  throw new Error("it never came to an end");
}

function connected(options = {}, wanted: object = { channel: BTC, types: ["TRADE"] }) {
  const client = new ArteryClient({ url: "ws://a/v1/stream", open: (url) => new Line(url), ...options });
  const events: string[] = [];
  const gaps: GapFrame[] = [];
  client.onEvent((event: EventFrame) => events.push(event.data["seq"] ?? ""));
  client.onGap((gap) => gaps.push(gap));
  client.subscribe(wanted as never);
  client.connect();
  line().accept();
  return { client, events, gaps };
}

function line(): Line {
  return Line.all.at(-1) as Line;
}

/** The connection breaks, and the client comes back. */
async function cutAndBack(code = 1006): Promise<void> {
  line().cut(code);
  await vi.advanceTimersByTimeAsync(4_000);
  line().accept();
}

beforeEach(() => {
  Line.all = [];
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe("coming back", () => {
  test("a client goes on behind what it saw, and nothing comes twice", async () => {
    const { client, events } = connected();
    line().bring(trade(1), trade(2));
    await cutAndBack();
    expect(line().asked.channels).toEqual([{ channel: BTC, types: ["TRADE"], since: { positions: { TRADE: "1.2.2" } } }]);
    line().bring(trade(2), trade(3));
    expect(events).toEqual(["1", "2", "3"]);
    client.close();
  });

  test("a series that was never seen goes on from where it stood when it was asked for", async () => {
    const { client } = connected();
    const positions = { TRADE: "1.7.7" };
    line().bring({ type: "subscribed", id: "1", channels: [{ channel: BTC, positions }] });
    await cutAndBack();
    expect(line().asked.channels).toEqual([{ channel: BTC, types: ["TRADE"], since: { positions } }]);
    client.close();
  });

  test("a past that was asked for begins where it was to, until something of it was seen", async () => {
    const wanted = { channel: BTC, types: ["TRADE", "CANDLE:1m"], since: { ms: 5 } };
    const { client } = connected({}, wanted);
    await cutAndBack();
    expect(line().asked.channels).toEqual([wanted]);
    line().bring(trade(1));
    await cutAndBack();
    const since = { positions: { TRADE: "1.1.1", "CANDLE:1m": "0.0.5" } };
    expect(line().asked.channels).toEqual([{ ...wanted, since }]);
    client.close();
  });

  test("whoever wants only what is live starts anew", async () => {
    const { client } = connected({ resume: false });
    line().bring(trade(1));
    await cutAndBack();
    expect(line().asked.channels).toEqual([{ channel: BTC, types: ["TRADE"] }]);
    client.close();
  });

  test("several gateways are tried in turn", async () => {
    const { client } = connected({ url: ["ws://a/v1/stream", "ws://b/v1/stream"] });
    await cutAndBack(4000);
    await cutAndBack();
    expect(Line.all.map((each) => each.url[5])).toEqual(["a", "b", "a"]);
    client.close();
  });

  test("a client that was refused does not come back", async () => {
    const { client } = connected();
    line().cut(4501);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(Line.all).toHaveLength(1);
    expect(client.state).toEqual({ kind: "refused", code: 4501, unauthenticated: true });
  });
});

describe("what is missing", () => {
  test("a gap has both ends and a reason, and the client goes on behind it", async () => {
    const { client, gaps } = connected();
    line().bring(trade(1), { type: "gap", channel: BTC, series: "TRADE", from: "1.1.1", to: "1.5.5", reason: "trimmed" });
    expect(gaps).toMatchObject([{ from: "1.1.1", to: "1.5.5", reason: "trimmed" }]);
    await cutAndBack();
    expect(line().asked.channels).toMatchObject([{ since: { positions: { TRADE: "1.5.5" } } }]);
    client.close();
  });

  test.each(["", "1.2.1"])("behind a gap that leads back, to '%s', a log that began anew is heard", (to) => {
    const { client, events } = connected();
    const led = { type: "gap", channel: BTC, series: "TRADE", from: "1.9.9", to, from_ms: 1, to_ms: 2 };
    line().bring(trade(9), { ...led, reason: to ? "trimmed" : "failover" });
    if (!to) line().bring(trade(8), { ...led, reason: "trimmed" });
    line().bring(trade(3), trade(3), trade(4));
    expect(events).toEqual(["9", "3", "4"]);
    client.close();
  });

  test("a past that is too long for one request goes on with the next, without a gap", () => {
    const { client, events, gaps } = connected({}, { channel: BTC, types: ["TRADE"], since: { ms: 0 } });
    line().bring(trade(1), { ...more, reason: "trimmed" }, trade(9));
    expect(line().asked.channels).toMatchObject([{ since: { positions: { TRADE: "1.1.1" } } }]);
    line().bring({ type: "subscribed", id: line().asked.id, channels: [{ channel: BTC, positions: {} }] });
    line().bring(trade(2), trade(3));
    expect(events).toEqual(["1", "2", "3"]);
    expect(gaps).toEqual([]);
    client.close();
  });

  test("a request to go on that is refused mutes nothing: the client comes back and loses nothing", async () => {
    const { client, events } = connected({}, { channel: BTC, types: ["TRADE"], since: { ms: 0 } });
    const codes: string[] = [];
    client.onError((error) => codes.push(error.code));
    line().bring(trade(1), more, trade(9));
    line().bring({ type: "error", id: line().asked.id, code: "too_large", message: "no" });
    expect([codes, client.state.kind]).toEqual([["too_large"], "waiting"]);
    await vi.advanceTimersByTimeAsync(4_000);
    line().accept();
    expect(line().asked.channels).toMatchObject([{ since: { positions: { TRADE: "1.1.1" } } }]);
    line().bring(trade(2));
    expect(events).toEqual(["1", "2"]);
    client.close();
  });

  test("a request to go on that came too fast is made again, and nothing is lost meanwhile", async () => {
    const { client, events } = connected({}, { channel: BTC, types: ["TRADE"], since: { ms: 0 } });
    line().bring(trade(1), more);
    const refused = line().asked;
    line().bring({ type: "error", id: refused.id, code: "rate_limited", message: "later" }, trade(9));
    await vi.advanceTimersByTimeAsync(2_000);
    expect(line().asked.channels).toEqual(refused.channels);
    expect(line().asked.id).not.toBe(refused.id);
    line().bring(granted(), trade(2));
    expect([events, client.state.kind]).toEqual([["1", "2"], "open"]);
    client.close();
  });

  test("a long past of candles goes on from the time that the server says, though they have no position", async () => {
    const { client, gaps } = connected({}, { channel: BTC, since: { ms: 5 } });
    const candle = { type: "event", channel: BTC, series: "CANDLE:1m", position: "", data: { startTs: "60000" } };
    const more = { type: "gap", channel: BTC, series: "CANDLE:1m", from: "0.0.60000", to: "1.8.8", resume: "0.0.60000" };
    line().bring(candle, { ...candle, position: "1.7.7" }, { ...more, reason: "trimmed" });
    const positions = { TRADE: "0.0.5", BOOK_TOPN: "0.0.5", "CANDLE:1m": "0.0.60000" };
    expect(line().asked.channels).toEqual([{ channel: BTC, since: { positions } }]);
    await cutAndBack();
    expect(line().asked.channels).toEqual([{ channel: BTC, since: { positions } }]);
    line().bring({ ...candle, position: "1.9.9" });
    await cutAndBack();
    expect(line().asked.channels).toEqual([{ channel: BTC, since: { positions: { ...positions, "CANDLE:1m": "1.9.9" } } }]);
    expect(gaps).toEqual([]);
    client.close();
  });

  test("a client is told when a series has caught up", () => {
    const { client } = connected();
    const caught: string[] = [];
    client.onComplete(({ series }) => caught.push(series));
    line().bring({ type: "replay_complete", channel: BTC, series: "TRADE", position: "1.4.4" });
    expect(caught).toEqual(["TRADE"]);
    client.close();
  });
});

describe("asking again while connected", () => {
  const since = { ms: 5 };

  test("what the older request still brings hides nothing of the past that was asked for", async () => {
    const { client, events } = connected();
    const caught: string[] = [];
    client.onComplete(({ position }) => caught.push(position));
    line().bring(granted(), trade(7));
    client.subscribe({ channel: BTC, types: ["TRADE"], since });
    await Promise.resolve();
    line().bring(trade(8), { type: "replay_complete", channel: BTC, series: "TRADE", position: "1.8.8" });
    expect(line().asked.channels).toEqual([{ channel: BTC, types: ["TRADE"], since }]);
    line().bring(granted(), trade(1), trade(7), trade(8), trade(9));
    expect([events, caught]).toEqual([["7", "1", "7", "8", "9"], []]);
    client.close();
  });

  test("a channel that was left and is wanted again from the past brings that past whole", async () => {
    const { client, events } = connected();
    line().bring(granted(), trade(7));
    client.unsubscribe(BTC);
    await Promise.resolve();
    line().bring(trade(8));
    client.subscribe({ channel: BTC, types: ["TRADE"], since });
    line().bring(trade(9));
    await Promise.resolve();
    line().bring(trade(10), granted(), trade(1), trade(2));
    expect(line().said.map((frame) => frame["type"])).toEqual(["subscribe", "ping", "unsubscribe", "subscribe"]);
    expect(events).toEqual(["7", "1", "2"]);
    client.close();
  });

  test("with other types and no past, nothing that is live is left out", async () => {
    const { client, events } = connected();
    line().bring(granted(), trade(1));
    client.subscribe({ channel: BTC, types: ["TRADE", "CANDLE:1h"] });
    await Promise.resolve();
    line().bring(trade(2), granted(), trade(3));
    expect(events).toEqual(["1", "2", "3"]);
    client.close();
  });

  test("a past that is refused leaves the channel as it was, and says so", async () => {
    const { client, events } = connected();
    const refused: unknown[] = [];
    client.onError(({ code, channels }) => refused.push([code, channels]));
    line().bring(granted(), trade(1));
    client.subscribe({ channel: BTC, types: ["TRADE"], since });
    await Promise.resolve();
    line().bring({ type: "error", id: line().asked.id, code: "bad_request", message: "no" }, trade(2));
    expect([refused, events, client.state.kind]).toEqual([[["bad_request", [BTC]]], ["1", "2"], "open"]);
    client.close();
  });

  test("only the newest of several requests for a channel counts", async () => {
    const { client, events } = connected();
    line().bring(granted());
    client.subscribe({ channel: BTC, types: ["TRADE"], since });
    await Promise.resolve();
    const older = granted();
    client.subscribe({ channel: BTC, types: ["TRADE"], since: { ms: 3 } });
    await Promise.resolve();
    line().bring(older, trade(8), granted(), trade(3));
    expect(events).toEqual(["3"]);
    client.close();
  });
});

describe("many channels", () => {
  const many = Array.from({ length: 300 }, (_, index) => name(index));

  test("asked for in a loop travel in few frames", async () => {
    const { client } = connected();
    for (const channel of many) client.subscribe({ channel });
    await Promise.resolve();
    expect(line().said.filter((frame) => frame["type"] === "subscribe")).toHaveLength(1 + 6);
    expect(await answered()).toEqual([BTC, ...many]);
    for (const channel of many) client.unsubscribe(channel);
    await Promise.resolve();
    const left = line().said.filter((frame) => frame["type"] === "unsubscribe");
    expect([left.length, left.flatMap((frame) => frame["channels"])]).toEqual([2, many]);
    client.close();
  });

  test("asked for one after the other never go faster than the server takes them, and all are asked for", async () => {
    const { client } = connected();
    for (const channel of many) {
      client.subscribe({ channel });
      await Promise.resolve();
    }
    expect(line().said.length).toBeLessThan(60);
    expect(await answered()).toEqual([BTC, ...many]);
    client.close();
  });

  test("what was refused as too fast is asked for again, but not what is no longer wanted", async () => {
    const { client } = connected();
    line().bring(granted());
    for (const channel of [name(1), name(2)]) client.subscribe({ channel });
    await Promise.resolve();
    const [, one, two] = line().said.filter((frame) => frame["type"] === "subscribe");
    client.unsubscribe(name(2));
    for (const asked of [one, two]) line().bring({ type: "error", id: asked?.["id"], code: "rate_limited" });
    const before = line().said.length;
    await vi.advanceTimersByTimeAsync(900);
    expect(line().said.length).toBe(before);
    await vi.advanceTimersByTimeAsync(1_000);
    const later = line().said.slice(before).filter((frame) => frame["type"] !== "ping");
    expect(later.map((frame) => frame["channels"])).toEqual([[name(2)], [name(1)]]);
    client.close();
  });

  test("one that is not known takes no other with it, also after a reconnect", async () => {
    const { client } = connected();
    const refused: (readonly string[])[] = [];
    client.onError((error) => refused.push(error.channels));
    for (const channel of many) client.subscribe({ channel });
    const unknown = [name(17), name(140), name(141)];
    const known = [BTC, ...many].filter((channel) => !unknown.includes(channel));
    expect(new Set(await answered(unknown))).toEqual(new Set(known));
    await cutAndBack();
    expect(new Set(await answered(unknown))).toEqual(new Set(known));
    expect(refused.flat().sort()).toEqual([...unknown, ...unknown].sort());
    client.close();
  });

  test("with long positions wait for a server that has not spoken yet", async () => {
    const { client } = connected();
    const positions = Object.fromEntries(["TRADE", "CANDLE:1m", "BOOK_TOPN"].map((each) => [each, "1730000000000.123456789.1"]));
    const all = Array.from({ length: 1_000 }, (_, index) => name(index));
    for (const channel of all) client.subscribe({ channel, since: { positions } });
    await cutAndBack();
    const chars = line().said.reduce((sum, frame) => sum + JSON.stringify(frame).length, 0);
    expect(chars).toBeLessThan(64 * 1024);
    await vi.advanceTimersByTimeAsync(5_000);
    line().bring({ type: "pong", id: "1", ts: 1 });
    expect(new Set(await answered())).toEqual(new Set([BTC, ...all]));
    client.close();
  });
});

test.each([
  ["1.2.3", "1.10.0", -1],
  ["2.1.0", "1.99.0", 1],
  ["1.5.1", "1.5.2", 0],
  ["1730000000000.2.0", "1730000000000.1.9", 1],
])("position %s compared with %s is %i", (a, b, order) => expect(compare(a, b)).toBe(order));
