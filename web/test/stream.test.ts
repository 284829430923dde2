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

  test("a past that is too long for one request goes on with the next, without a gap", () => {
    const { client, events, gaps } = connected({}, { channel: BTC, types: ["TRADE"], since: { ms: 0 } });
    const more = { type: "gap", channel: BTC, series: "TRADE", from: "1.1.1", to: "1.8.8", resume: "1.1.1" };
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
    const more = { type: "gap", channel: BTC, series: "TRADE", from: "1.1.1", to: "1.8.8", resume: "1.1.1" };
    line().bring(trade(1), more, trade(9));
    line().bring({ type: "error", id: line().asked.id, code: "rate_limited", message: "later" });
    expect([codes, client.state.kind]).toEqual([["rate_limited"], "waiting"]);
    await vi.advanceTimersByTimeAsync(4_000);
    line().accept();
    expect(line().asked.channels).toMatchObject([{ since: { positions: { TRADE: "1.1.1" } } }]);
    line().bring(trade(2));
    expect(events).toEqual(["1", "2"]);
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

test.each([
  ["1.2.3", "1.10.0", -1],
  ["2.1.0", "1.99.0", 1],
  ["1.5.1", "1.5.2", 0],
  ["1730000000000.2.0", "1730000000000.1.9", 1],
])("position %s compared with %s is %i", (a, b, order) => expect(compare(a, b)).toBe(order));
