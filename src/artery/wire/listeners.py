"""Who listens to what, from the subscription messages that an XPUB socket hands over. Pure."""

from collections.abc import Collection, Sequence

TOPIC_MAX = 512
TOPICS_MAX = 100_000


class Listeners:
    """Counts subscriptions by topic. A message that is no subscription is `None`."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._all = 0
        self.changes = 0
        """Goes up whenever someone came or left."""

    def __len__(self) -> int:
        return self._all

    def all(self) -> Collection[bytes]:
        """Every topic that someone listens to."""
        return self._counts.keys()

    def topics(self) -> int:
        return len(self._counts)

    def take(self, frames: Sequence[bytes]) -> tuple[bool, bytes] | None:
        """(whether someone came, the topic) of a subscription message."""
        if len(frames) != 1 or not frames[0] or frames[0][0] > 1 or len(frames[0]) > TOPIC_MAX + 1:
            return None
        came, topic = frames[0][0] == 1, frames[0][1:]
        self.changes += 1
        count = self._counts.get(topic, 0) + (1 if came else -1)
        if count <= 0:
            self.gone(topic)
        elif topic in self._counts or len(self._counts) < TOPICS_MAX:
            self._all += 1 if came else -1
            self._counts[topic] = count
        return came, topic

    def count(self, topic: bytes) -> int:
        return self._counts.get(topic, 0)

    def gone(self, topic: bytes) -> None:
        """Nobody is left on this topic, however many there were."""
        self._all -= self._counts.pop(topic, 0)

    def wants(self, topic: bytes) -> bool:
        """Whether a message on this topic would reach anyone."""
        return any(topic[:length] in self._counts for length in range(len(topic) + 1))
