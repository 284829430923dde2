"""What is on the bus, as lines and cells that people read."""

import msgspec

from artery.app.bus_copy import CopiedStream
from artery.app.bus_entries import Missing, Seen
from artery.app.bus_view import GroupRow, StreamRow
from artery.bus.base import Entry
from artery.bus.dead import LetterRow
from artery.cli.lines import line_of
from artery.cli.moments import iso_text, time_text
from artery.client.bus import decode_stream_event
from artery.model.events import Book, Candle, Trade

LINE_MAX = 300
STREAM_COLUMNS = ("stream", "entries", "oldest", "replayable", "entries/s", "lost", "")
GROUP_COLUMNS = ("stream", "group", "lag", "pending", "oldest pending", "appended")
LETTER_COLUMNS = ("id", "given up", "stream", "entry", "group", "tries", "error")
COPY_COLUMNS = ("stream", "copied", "left out", "groups")


def stream_cells(row: StreamRow) -> tuple[object, ...]:
    oldest = iso_text(row.oldest_ms) if row.oldest_ms else ""
    return row.stream, f"{row.length:,}", oldest, f"{row.hours:.1f} h", f"{row.per_s:.1f}", row.lost, row.warning


def group_cells(row: GroupRow) -> tuple[object, ...]:
    at = iso_text(row.oldest_pending_ms) if row.oldest_pending_ms else ""
    return row.stream, row.group, f"{row.lag:,}", f"{row.pending:,}", row.oldest_pending, at


def letter_cells(row: LetterRow) -> tuple[object, ...]:
    error = f"{row.error} (requeued)" if row.requeued else row.error
    return row.id, iso_text(row.at_ms), row.stream, row.entry, row.group, row.tries, error


def copy_cells(row: CopiedStream) -> tuple[object, ...]:
    groups = ", ".join(
        group.group
        + (f" ({group.again} come again)" if group.again else "")
        + (" (had lost entries before)" if group.lost else "")
        for group in row.groups
    )
    return row.stream, f"{row.copied:,}", row.skipped, groups


def entry_line(item: Seen | Missing) -> str:
    """One entry in one line: when it was appended, its position, what it says."""
    if isinstance(item, Missing):
        return f"missing: {item.missing}"
    event = decode_stream_event(Entry(item.id, item.fields))
    said = line_of(event) if isinstance(event, Trade | Book | Candle) else msgspec.json.encode(item.fields).decode()
    said = said if len(said) <= LINE_MAX else said[:LINE_MAX] + "…"
    return f"{time_text(item.at_ms, exact=True)}  {item.id}  {said}"
