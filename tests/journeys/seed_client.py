"""A client written from the protocol's document and its .proto alone: plain pyzmq, and nothing of Artery.

`python seed_client.py PROTO WORK REQUESTS CLIENTS LAKE TICKER START_MS END_MS PERIOD_S` asks for history with REQ and
SUB sockets, reads the candles from Iceberg at the snapshot that it is told, hears five ticks, and prints it as JSON.
"""

import importlib
import json
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import zmq
from pyiceberg.catalog.sql import SqlCatalog

VERSION = b"\x01"
TICK, SUBMIT, SUBMIT_RESPONSE, HISTORY_READY = 0x04, 0x10, 0x11, 0x12
WAIT_S = 120.0


def compiled(proto: Path, work: Path) -> Any:
    """The messages, made from the published .proto file."""
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{proto.parent}", f"--python_out={work}", str(proto)]
    subprocess.run(command, check=True)
    sys.path.insert(0, str(work))
    return importlib.import_module(f"{proto.stem}_pb2")


def wait_for(socket: "zmq.Socket[bytes]", wanted: int) -> bytes:
    """The payload of the next message of a type: `[topic][version][type, payload]`."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if socket.poll(1_000):
            _topic, version, body = socket.recv_multipart()
            assert version == VERSION
            if body[0] == wanted:
                return body[1:]
    raise SystemExit(f"no message of type 0x{wanted:02X} within {WAIT_S:.0f} s")


def history(pb: Any, context: "zmq.Context[zmq.Socket[bytes]]", urls: list[str], asked: dict[str, Any]) -> Any:
    """Subscribe, then ask, then wait for the outcome."""
    client_id = f"seed-{uuid.uuid4()}"
    notices = context.socket(zmq.SUB)
    notices.connect(urls[1])
    notices.subscribe(f"RESPONSE:{client_id}")
    request = pb.SubmitHistoricalRequest(request_id=str(uuid.uuid4()), client_id=client_id, **asked)
    requests = context.socket(zmq.REQ)
    requests.setsockopt(zmq.RCVTIMEO, 30_000)
    requests.connect(urls[0])
    requests.send_multipart([VERSION, bytes([SUBMIT]) + request.SerializeToString()])
    version, body = requests.recv_multipart()
    assert (version, body[0]) == (VERSION, SUBMIT_RESPONSE)
    answer = pb.SubmitResponse.FromString(body[1:])
    if answer.status != pb.SubmitResponse.ACCEPTED:
        raise SystemExit(f"not accepted: {answer}")
    return pb.HistoryReadyNotification.FromString(wait_for(notices, HISTORY_READY))


def main() -> None:
    proto, work, requests, clients, lake, ticker, start_ms, end_ms, period_s = sys.argv[1:]
    pb = compiled(Path(proto), Path(work))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    asked = {"ticker": ticker, "start_ms": int(start_ms), "end_ms": int(end_ms), "period_s": int(period_s)}
    outcome = history(pb, context, [requests, clients], asked)
    catalog = SqlCatalog("artery", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    candles = catalog.load_table("market.ohlc").scan(
        row_filter=f"ticker = '{ticker}' and period_s = {period_s}", snapshot_id=outcome.snapshot_id
    )
    starts = [int(at.timestamp() * 1_000) for at in candles.to_arrow().column("start").to_pylist()]
    live = context.socket(zmq.SUB)
    live.connect(clients)
    live.subscribe(f"{ticker}|tick")
    ticks = [pb.Tick.FromString(wait_for(live, TICK)) for _ in range(5)]
    print(
        json.dumps(
            {
                "status": pb.HistoryReadyNotification.Status.Name(outcome.status),
                "rows": outcome.rows,
                "read": sum(int(start_ms) <= at < int(end_ms) for at in starts),
                "ticks": [{"price": tick.price, "seq": tick.seq, "ticker": tick.ticker} for tick in ticks],
            }
        )
    )
    context.destroy(linger=0)


if __name__ == "__main__":
    main()
