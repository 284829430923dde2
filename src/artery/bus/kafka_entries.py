"""Entries as Kafka's records: the fields as a JSON object, the key of their market; pure."""

from collections.abc import Mapping, Sequence

import msgspec

from artery.bus.base import Entry
from artery.bus.kafka_cursor import Row
from artery.bus.kafka_notes import Record
from artery.bus.kafka_topics import Topic
from artery.errors import BadInput

APPEND_MAX = 20_000
APPEND_MAX_BYTES = 64 * 1024 * 1024
ENTRY_MAX_BYTES = 1024 * 1024
READ_MAX = 10_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


def key_of(fields: Mapping[str, str]) -> bytes | None:
    """`provider|coin`: the broker keeps entries of one market together if a stream is ever split."""
    coin = fields.get("coin")
    return f"{fields.get('provider', 'external')}|{coin}".encode() if coin is not None else None


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
        for row in rows:
            "".join(row.values())  # the quickest way to find a value that is not a string
        records = [Record(topic, key_of(row), _encode(row), ms) for row, ms in zip(rows, times, strict=True)]
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
    log = topic.log
    return [Entry(f"{log}-{row.offset + 1}", fields_of(row.value), tries) for row in rows]


def entry_of(topic: Topic, offset: int, row: Row | None, tries: int) -> Entry:
    """One of them; one that is gone has no fields."""
    return Entry(topic.position(offset), {} if row is None else fields_of(row.value), tries)
