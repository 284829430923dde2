"""What carries messages from processors to clients."""

from collections.abc import Collection
from typing import Protocol

from google.protobuf.message import Message

from artery.wire.listeners import Listeners
from artery.wire.sockets import Socket


class Fan(Protocol):
    """XSUB towards processors, XPUB towards clients. A subscription that holds is confirmed on its own topic (0x14).

    It is made with its sockets, which are then bound or connected; `run` works until cancelled; `close` is called after
    the context's sockets were closed.
    """

    doings: Socket
    """Says which processors' connections come up and go down."""

    listeners: Listeners
    """Who has subscribed to what."""

    def bind_clients(self, url: str) -> str: ...

    def bind_processors(self, url: str) -> str: ...

    def connect(self, urls: Collection[str]) -> None:
        """Be connected to exactly these processors, now or in a moment."""
        ...

    async def run(self) -> None: ...

    def publish(self, topic: str, message: Message) -> None:
        """Say something in the relay's own name, to whoever has subscribed to the topic."""
        ...

    def discard(self) -> None:
        """Close what was never run."""
        ...

    def join(self) -> None:
        """Wait for what runs in a thread, once the context is being closed."""
        ...
