"""What a frame of a venue says, in words that hold for every venue; a dialect turns frames into them."""

from typing import Literal, Protocol

import msgspec

from artery.model.events import Book, Candle, Mids, Trade

Kind = Literal["trades", "book", "mids"]


class Stream(msgspec.Struct, frozen=True):
    """One subscription; mids have no coin."""

    kind: Kind
    coin: str = ""


class Data(msgspec.Struct, frozen=True):
    """Events in the venue's order. `bad` rows were left out; `torn` names the markets whose trades were among them
    ("" if that cannot be told): for those something is missing."""

    kind: str
    events: list[Trade | Book | Mids | Candle]
    bad: int = 0
    torn: frozenset[str] = frozenset()


class Ack(msgspec.Struct, frozen=True):
    """The venue has taken, or ended, a subscription; `stream` is None for one that is not ours to follow."""

    method: str
    stream: Stream | None


class Pong(msgspec.Struct, frozen=True):
    """The answer to a ping."""


class Greeting(msgspec.Struct, frozen=True):
    """Words without meaning for us."""


class Complaint(msgspec.Struct, frozen=True):
    """The venue did not like what it was sent; the socket stays open."""

    words: str


class Garbage(msgspec.Struct, frozen=True):
    """Nothing that this venue should say."""

    reason: str


Heard = Data | Ack | Pong | Greeting | Complaint | Garbage


class Dialect(Protocol):
    """How one venue is spoken to. Pure: text in, values out, and it never raises for what a venue says."""

    provider: str

    def parse(self, frame: bytes, received_ms: int) -> Heard: ...

    def subscribe(self, stream: Stream) -> str: ...

    def unsubscribe(self, stream: Stream) -> str: ...

    def ping(self) -> str: ...
