"""Who a client is, once its key or its cookie was verified."""

from enum import StrEnum

import msgspec


class Scope(StrEnum):
    """What a key may be used for."""

    READ = "read"
    STREAM = "stream"
    ALERTS = "alerts"
    EVENTS = "events"
    ADMIN = "admin"


class Grant(msgspec.Struct, frozen=True):
    """A user, what it may do, and the record in the store that says so (its end is the grant's end)."""

    user: str
    scopes: frozenset[str]
    source: str
    expires_ms: int | None = None
