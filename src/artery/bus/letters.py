"""Dead letters: an entry that was given up, and what is known about why; pure."""

from collections.abc import Mapping

from artery.bus.base import Entry
from artery.errors import BadInput, NotFound

ERROR_MAX = 1_000
ABOUT = ("stream", "id", "group", "error", "tries")


def about(stream: str, group: str, entry: Entry, error: str) -> dict[str, str]:
    """The fields that a letter has beyond those of its entry; they stand over fields of the same names."""
    return {
        "stream": stream,
        "id": entry.id,
        "group": group,
        "error": error[:ERROR_MAX],
        "tries": str(entry.tries),
    }


def stream_of(dead_id: str, letter: Mapping[str, str] | None) -> str:
    """The stream that a letter came from, or `NotFound` if there is no such letter."""
    if not letter:
        raise NotFound(f"there is no dead letter {dead_id!r:.40}: `artery bus dead` lists them")
    if "stream" not in letter:
        raise BadInput(f"the dead letter {dead_id} does not say which stream it came from: it cannot be requeued")
    return letter["stream"]


def entry_in(letter: Mapping[str, str], original: Mapping[str, str]) -> dict[str, str]:
    """The fields of the entry that was given up: as they are still in its stream, if that is the same entry (a letter
    hides fields with the names of its own), else as the letter holds them."""
    held = {name: value for name, value in letter.items() if name not in ABOUT}
    if not held:
        raise BadInput("the entry had been trimmed before it was given up, so nothing of it is left to requeue")
    same = {name: value for name, value in original.items() if name not in ABOUT} == held
    return dict(original) if same else held


def again(dead_id: str) -> BadInput:
    return BadInput(f"the dead letter {dead_id} was requeued before")
