"""Where a Redis stream begins and ends, and which positions of it are lost; pure."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from artery.bus.base import START, Entry, place
from artery.errors import BadInput, PositionLost

_POSITION = re.compile(r"[0-9]{1,20}(-[0-9]{1,20})?", re.ASCII)
_ZERO = "0-0"
_SEQ_MAX = 2**64 - 1


def full(position: str) -> str:
    """A position as Redis writes it: `0` → `0-0`."""
    if not _POSITION.fullmatch(position):
        raise BadInput(f"{position!r:.40} is not a position of this log: hand back one that it gave")
    return position if "-" in position else f"{position}-0"


def short(position: str) -> str:
    """A position as callers know it: `0-0` → `START`."""
    return START if position == _ZERO else position


def before(position: str) -> str:
    """The greatest position below this one, whether or not an entry ever had it."""
    ms, seq = place(position)
    return f"{ms}-{seq - 1}" if seq else f"{ms - 1}-{_SEQ_MAX}"


class Ends(msgspec.Struct, frozen=True):
    """A stream at one moment; the stream that does not exist is `Ends()`."""

    length: int = 0
    first: str = _ZERO
    """The oldest entry."""
    head: str = _ZERO
    """The newest that ever was."""
    added: int = 0
    deleted: str = _ZERO
    """The newest that was taken out by XDEL."""
    trimmed: str = _ZERO
    """The newest that was removed by our trimmer, when it last did …"""
    trimmed_removed: int = -1
    """… and how many had gone in all by then."""

    @property
    def removed(self) -> int:
        """How many have gone, by whoever's hand."""
        return self.added - self.length

    @property
    def begin(self) -> str:
        """The position from which everything that is there can be read."""
        if not self.removed:
            return _ZERO
        if self.removed == self.trimmed_removed:
            return self.trimmed
        return before(self.first) if self.length else self.head


def named(reply: Sequence[Any]) -> dict[str, Any]:
    """Redis's flat list of names and values."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def is_missing(reply: Any) -> bool:
    """Whether XINFO says that there is no such stream."""
    return isinstance(reply, Exception) and "no such key" in str(reply)


def ends_of(info: Any, trimmed: str | None) -> Ends:
    """Redis's XINFO STREAM and our note about the last trim, as a value."""
    if is_missing(info):
        return Ends()
    said = named(info)
    length = int(said["length"])
    newest, removed = trimmed.split(" ") if trimmed else (_ZERO, "-1")
    return Ends(
        length,
        said["first-entry"][0] if length else _ZERO,
        said["last-generated-id"],
        int(said["entries-added"]),
        said["max-deleted-entry-id"],
        newest,
        int(removed),
    )


def check(key: str, ends: Ends, after: str, found: bool) -> None:
    """Raise `PositionLost` unless a reader at `after` can go on without a hole; `found`: an entry has that position.

    A position of which this log knows nothing, though it should, is from a log that was lost: a server that came back
    empty, or without its newest entries. Where XDEL was used, an entry may be missing by intention.
    """
    at = place(after)
    if at > place(ends.head):
        raise _lost(f"{key} ends at {short(ends.head)}, before {after}: it is not the log it was", ends)
    if ends.length and at >= place(ends.first):
        if not found and at > place(ends.deleted):
            raise _lost(f"{key} has no entry {after}: it is not the log it was", ends)
    elif at < place(ends.begin):
        raise _lost(f"{key} was trimmed up to {short(ends.begin)}, past {short(after)}: go on from there", ends)
    elif ends.length and not ends.removed and after != _ZERO and at < place(before(ends.first)):
        raise _lost(f"{key} began after {after}: it is not the log it was", ends)


def check_group(key: str, ends: Ends, group: str, last: str, read: int | None) -> None:
    """Raise `PositionLost` if entries were removed that the group was never given.

    `read` is Redis's count of all entries up to `last`, if it knows; it may be too low, but not too high.
    """
    if ends.deleted == _ZERO and read is not None and read >= ends.removed:
        return
    if place(last) < place(ends.begin):
        raise _lost(f"{key} was trimmed up to {short(ends.begin)} before {group} had read past {short(last)}", ends)


def _lost(message: str, ends: Ends) -> PositionLost:
    return PositionLost(message, first=short(ends.begin))


def page(key: str, ends: Ends, after: str, reply: Sequence[Any], limit: int) -> Sequence[Any]:
    """What follows `after` of a range that began with it, at most `limit`; or `PositionLost`."""
    found = bool(reply) and reply[0][0] == after
    check(key, ends, after, found)
    return reply[1 : limit + 1] if found else reply[:limit]


def entries_of(reply: Sequence[Any], tries: Sequence[int] = ()) -> list[Entry]:
    """Redis's entries as ours; those that are gone have no fields."""
    if not tries:
        return [Entry(id_, _fields(flat)) for id_, flat in reply]
    return [Entry(id_, _fields(flat), count) for (id_, flat), count in zip(reply, tries, strict=True)]


def _fields(flat: Sequence[str] | None) -> dict[str, str]:
    if not flat:
        return {}
    each = iter(flat)
    return dict(zip(each, each, strict=True))
