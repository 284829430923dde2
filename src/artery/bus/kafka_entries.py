"""Entries as Kafka's records: the fields as a JSON object, the key of their market; pure."""

import functools
import itertools
from collections.abc import Mapping, Sequence

import msgspec

from artery.bus.base import Entry
from artery.bus.kafka_cursor import Row
from artery.bus.kafka_topics import Topic
from artery.bus.kafka_transactions import Record
from artery.errors import BadInput

APPEND_MAX = 20_000
APPEND_MAX_BYTES = 64 * 1024 * 1024
ENTRY_MAX_BYTES = 1024 * 1024
READ_MAX = 10_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


@functools.lru_cache(maxsize=10_000)
def key_of(provider: str | None, coin: str | None) -> bytes | None:
    """`provider|coin`: a broker keeps entries of one market together, if their stream is ever split."""
    return None if coin is None else f"{provider or 'external'}|{coin}".encode()


def records_of(
    topic: str,
    entries: Sequence[Mapping[str, str]],
    times: Sequence[int],
    entry_max_bytes: int = ENTRY_MAX_BYTES,
) -> list[Record]:
    """Entries as records, each with its time, or `BadInput`."""
    if len(entries) > APPEND_MAX:
        raise BadInput(f"an append has at most {APPEND_MAX} entries, not {len(entries)}: split it")
    rows = [entry if type(entry) is dict else dict(entry) for entry in entries]
    try:
        "".join(itertools.chain.from_iterable(row.values() for row in rows))  # finds what is not a string
        records = [
            Record(topic, key_of(row.get("provider"), row.get("coin")), _encode(row), ms)
            for row, ms in zip(rows, times, strict=True)
        ]
    except (TypeError, ValueError) as error:
        raise BadInput(f"an entry maps text to text ({error})") from error
    if not all(rows):
        raise BadInput("an entry has at least one field")
    lengths = [len(record.value or b"") for record in records]
    if max(lengths, default=0) > entry_max_bytes:
        raise BadInput(f"an entry has at most {entry_max_bytes} bytes, not {max(lengths)}")
    if sum(lengths) > APPEND_MAX_BYTES:
        raise BadInput(f"an append has at most {APPEND_MAX_BYTES} bytes: split it")
    return records


def fields_of(value: bytes) -> dict[str, str]:
    """A record's fields; one that a foreign producer wrote in another form comes as one field, for its reader to
    refuse."""
    if not value:
        return {}
    try:
        return _decode(value)
    except msgspec.DecodeError:
        return {"value": value.decode("utf-8", "replace")}


def entries_of(topic: Topic, rows: Sequence[Row], tries: int = 0) -> list[Entry]:
    """Records as entries."""
    return entries_at(topic, [row.offset for row in rows], [row.value for row in rows], tries)


def entries_at(topic: Topic, offsets: Sequence[int], values: Sequence[bytes], tries: int = 0) -> list[Entry]:
    """The same, of their offsets and values."""
    log = topic.log
    try:
        fields = [_decode(value) for value in values]
    except msgspec.DecodeError:  # one of a foreign producer's is among them
        fields = [fields_of(value) for value in values]
    return [Entry(f"{log}-{offset + 1}", one, tries) for offset, one in zip(offsets, fields, strict=True)]


def entry_of(topic: Topic, offset: int, row: Row | None, tries: int) -> Entry:
    """One of them; one that is gone has no fields."""
    return Entry(topic.position(offset), {} if row is None else fields_of(row.value), tries)
