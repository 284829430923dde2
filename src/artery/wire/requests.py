"""Requests for history as the bus keeps them, and what becomes of them as the store and `md_stream:notify` do."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from google.protobuf.message import DecodeError

from artery.errors import BadEvent
from artery.wire import topics
from artery.wire.artery_pb2 import DataRequest, HistoryReadyNotification

OWN = "own:"
"""How the ids of ingest's own jobs begin: nobody waits for their outcome."""
TTL_S = 7 * 86_400.0
"""How long the store remembers a request."""

State = Literal["new", "queued", "fetching", "storing", "done"]


class Record(msgspec.Struct, frozen=True):
    """What the store knows of a request. `new` becomes `queued` once it is on the bus; `done` has an outcome."""

    asked: str
    """The request's protobuf in base64: the same id with another one is refused."""
    state: State = "new"
    since_ms: int = 0
    progress: int = 0
    """In thousandths of the range."""
    rows: int = 0
    pages: int = 0
    outcome: str = ""
    """The notification's protobuf in base64."""

    @property
    def request(self) -> DataRequest:
        return DataRequest.FromString(base64.b64decode(self.asked))

    @property
    def notification(self) -> HistoryReadyNotification:
        return HistoryReadyNotification.FromString(base64.b64decode(self.outcome))


def key(request_id: str) -> str:
    """Where the store keeps a request's record."""
    return f"artery:request:{request_id}"


def lease(request_id: str) -> str:
    """The lock that whoever fetches a request must hold."""
    return f"artery:lock:request:{request_id}"


def covered_key(ticker: str, period_s: int) -> str:
    """Where the store keeps which stretches of a series were fetched: `[[start_ms, end_ms], …]`."""
    return f"artery:covered:{ticker}:{period_s}"


def text(message: DataRequest | HistoryReadyNotification) -> str:
    """A message as a field of the bus or the store can hold it."""
    return base64.b64encode(message.SerializeToString(deterministic=True)).decode()


def write_record(record: Record) -> bytes:
    return msgspec.json.encode(record)


def read_record(value: bytes | None) -> Record | None:
    """The record in a value of the store; one that cannot be read counts as absent."""
    try:
        return msgspec.json.decode(value, type=Record) if value else None
    except msgspec.DecodeError:
        return None


def encode(request: DataRequest, *, event_ts: int) -> dict[str, str]:
    """A request as an entry of `md_stream:request`."""
    head = {"ver": "1", "t": "REQUEST", "request_id": request.request_id, "ticker": request.ticker}
    return head | {"body": text(request), "eventTs": str(event_ts)}


def decode(fields: Mapping[str, str]) -> DataRequest:
    """The request in an entry, or `BadEvent`."""
    _expect(fields, "REQUEST")
    try:
        return DataRequest.FromString(base64.b64decode(fields["body"], validate=True))
    except (KeyError, binascii.Error, DecodeError) as error:
        raise BadEvent(f"REQUEST: {error}") from error


def encode_outcome(outcome: HistoryReadyNotification, *, event_ts: int) -> dict[str, str]:
    """An outcome as an entry of `md_stream:notify`."""
    head = {"ver": "1", "t": "NOTIFY", "id": f"history:{outcome.request_id}", "kind": "history"}
    return head | {"body": text(outcome), "eventTs": str(event_ts)}


def decode_outcome(fields: Mapping[str, str]) -> HistoryReadyNotification:
    """The outcome in an entry, or `BadEvent`."""
    _expect(fields, "NOTIFY")
    try:
        return HistoryReadyNotification.FromString(base64.b64decode(fields["body"], validate=True))
    except (KeyError, binascii.Error, DecodeError) as error:
        raise BadEvent(f"NOTIFY: {error}") from error


def topics_of(request_id: str, client_id: str) -> Sequence[str]:
    """Where an outcome is announced: the client's own topic first."""
    ready = topics.history_ready(request_id)
    return (topics.response(client_id), ready) if client_id else (ready,)


def _expect(fields: Mapping[str, str], t: str) -> None:
    if fields.get("ver") != "1" or fields.get("t") != t:
        raise BadEvent(f"not a {t}: ver {fields.get('ver')!r:.10}, t {fields.get('t')!r:.20}")
