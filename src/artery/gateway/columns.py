"""Rows of the lake as event frames, column by column: the same bytes as when they were live. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from artery.gateway import frames
from artery.gateway.cells import Numbers, Texts, chunk, decimals, ints
from artery.gateway.stretch import Stretch, joined
from artery.live.base import Message
from artery.model.channels import Channel
from artery.model.codec import VERSION
from artery.model.periods import Period

_BINARY = pa.binary()
_UNSAFE = '[\\x00-\\x1f"\\\\]'
_SMALL, _LARGE = 126, 65_536
_TEXT_16 = (0x81, 126)
_SLICE = 5_000
"""Rows made at once: few enough to stay in the processor's cache, and to copy while others wait for their turn."""

Column = Texts | str
"""Text of each row, or the same text for all of them."""


def trade_frames(table: pa.Table, channel: Channel) -> Stretch:
    """Trades of the lake, in the order of their places."""
    slices = [table.slice(at, _SLICE) for at in range(0, table.num_rows, _SLICE)]
    return joined([_trades(rows.combine_chunks(), channel) for rows in slices])


def _trades(rows: pa.Table, channel: Channel) -> Stretch:
    event_ts, epoch, seq = (_texts(ints(rows, name)) for name in ("received", "epoch", "seq"))
    fields: list[tuple[str, Column]] = [
        ("eventTs", event_ts),
        ("epoch", epoch),
        ("seq", seq),
        ("coin", channel.market),
        ("ts", _texts(ints(rows, "ts"))),
        ("tid", _safe(chunk(rows, "tid"))),
        ("px", decimals(rows, "price")),
        ("sz", decimals(rows, "size")),
        ("side", _safe(chunk(rows, "side"))),
    ]
    position: list[Column] = [epoch, ".", seq, ".", event_ts]
    wire, ends = _wire(_parts(channel, "TRADE", position, fields), len(rows))
    return Stretch(
        ints(rows, "epoch"), ints(rows, "seq"), ints(rows, "received"), ints(rows, "ts"), ends, wire
    )  # fmt: skip


def candle_frames(table: pa.Table, channel: Channel, period: Period) -> Stretch:
    """Candles of the lake, oldest first; the lake keeps the candle, not its place, so they have none."""
    slices = [table.slice(at, _SLICE) for at in range(0, table.num_rows, _SLICE)]
    return joined([_candles(rows.combine_chunks(), channel, period) for rows in slices])


def _candles(rows: pa.Table, channel: Channel, period: Period) -> Stretch:
    fields: list[tuple[str, Column]] = [
        ("eventTs", _texts(ints(rows, "updated"))),
        ("coin", channel.market),
        ("interval", str(period)),
        ("startTs", _texts(ints(rows, "start"))),
        *((name[0], decimals(rows, name)) for name in ("open", "high", "low", "close", "volume")),
        ("n", _texts(ints(rows, "trades"))),
        ("isClosed", pc.if_else(chunk(rows, "closed"), "true", "false")),
        ("rev", _texts(ints(rows, "rev"))),
    ]
    wire, ends = _wire(_parts(channel, f"CANDLE:{period}", [], fields), len(rows))
    none = np.zeros(len(rows), np.int64)
    return Stretch(none, none, ints(rows, "updated"), ints(rows, "start"), ends, wire)


def _parts(
    channel: Channel, series: str, position: Sequence[Column], fields: Sequence[tuple[str, Column]]
) -> list[Column]:
    """One event's payload, from front to back, as the text between the columns and the columns."""
    # `~` is in no channel, so these two stand for the position and the data in the frame that live events have.
    sample = frames.event(Message(str(channel), series, "~p~", b"~d~")).wire
    head, rest = sample[sample.index(b"{") :].decode().split("~p~")
    between, tail = rest.split("~d~")
    kind = series.partition(":")[0]
    parts: list[Column] = [
        head,
        *position,
        between,
        f'{{"ver":"{VERSION}","t":"{kind}","provider":"{channel.provider}"',
    ]
    for name, column in fields:
        parts += [f',"{name}":"', column, '"']
    return [*parts, "}" + tail]


def _wire(parts: Sequence[Column], rows: int) -> tuple[bytes, Numbers]:
    """The frames of all rows in one piece, and where each of them ends."""
    columns: list[Any] = [part.encode() if isinstance(part, str) else part.cast(_BINARY) for part in _adjacent(parts)]
    sizes = np.zeros(rows, np.int64)
    for column in columns:
        sizes += len(column) if isinstance(column, bytes) else _lengths(column)
    if int(sizes.min()) < _SMALL or int(sizes.max()) >= _LARGE:
        return _one_by_one(columns)
    scalars = [pa.scalar(column, _BINARY) if isinstance(column, bytes) else column for column in columns]
    joined = pc.binary_join_element_wise(_heads(sizes), *scalars, pa.scalar(b"", _BINARY))
    ends = np.cumsum(sizes + 4)
    first = int(np.frombuffer(joined.buffers()[1], np.int32)[joined.offset])
    return bytes(memoryview(joined.buffers()[2])[first : first + int(ends[-1])]), ends


def _adjacent(parts: Sequence[Column]) -> list[Column]:
    """The same parts, with texts that stand side by side as one."""
    found: list[Column] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += part
        else:
            found.append(part)
    return found


def _heads(sizes: Numbers) -> Texts:
    """The head of a text frame of 126 to 65,535 bytes, for each of these sizes."""
    heads = np.empty((len(sizes), 4), np.uint8)
    heads[:, 0], heads[:, 1] = _TEXT_16
    heads[:, 2], heads[:, 3] = sizes >> 8, sizes & 0xFF
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(sizes), [None, pa.py_buffer(heads.tobytes())]).cast(
        _BINARY
    )


def _one_by_one(columns: Sequence[Any]) -> tuple[bytes, Numbers]:
    """Frames of unusual sizes."""
    rows = next(len(column) for column in columns if not isinstance(column, bytes))
    lists = [[column] * rows if isinstance(column, bytes) else column.to_pylist() for column in columns]
    wires = [frames.text(b"".join(pieces)) for pieces in zip(*lists, strict=True)]
    return b"".join(wires), np.cumsum(np.array([len(wire) for wire in wires], np.int64))


def _lengths(column: Texts) -> Numbers:
    counts: Any = pc.binary_length(column)
    lengths: Numbers = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def _texts(values: Numbers) -> Texts:
    return pa.array(values).cast(pa.string())


def _safe(column: Texts) -> Texts:
    """Text as it stands inside of JSON's quotes."""
    if not pc.any(pc.match_substring_regex(column, _UNSAFE)).as_py():
        return column
    return pa.array([msgspec.json.encode(text)[1:-1].decode() for text in column.to_pylist()], pa.string())
