"""How a person asks the one writer of the lake for a step, through the store, and hears how far it is."""

from typing import Literal

import msgspec

Step = Literal["compact", "expire"]
ASK = "artery:lake:ask"
"""One ask at a time: it is taken away by whoever does it."""
ANSWER = "artery:lake:answer:"
PIN = "artery:lake:pin:"
"""`…pin:{table}:{snapshot}:{holder}`: a reader that wants this snapshot to stay, for as long as the key lives."""
EXPIRING = "artery:lake:expiring"
"""There while snapshots are removed: one that is pinned meanwhile may be among them, one that was before is not."""
STATE = "artery:lake"
"""How every table is, as its writer last saw it."""
ASK_TTL_S = 120.0
ANSWER_TTL_S = 600.0
EXPIRING_TTL_S = 120.0
STATE_TTL_S = 24 * 3_600.0


class Ask(msgspec.Struct, frozen=True):
    """A step for one table, or for all of them if none is named."""

    id: str
    step: Step
    table: str = ""


class Answer(msgspec.Struct, frozen=True):
    """How far it is: `done` of `of` parts, in words; in the end what came of it, or why it failed."""

    done: int = 0
    of: int = 1
    words: str = ""
    ended: bool = False
    error: str = ""
    count: int = 0


def pin_key(table: str, snapshot: int, holder: str) -> str:
    return f"{PIN}{table}:{snapshot}:{holder}"


def pinned_by(key: str) -> tuple[str, int]:
    """The table and the snapshot that a pin's key names."""
    table, snapshot, _ = key.removeprefix(PIN).split(":", 2)
    return table, int(snapshot)
