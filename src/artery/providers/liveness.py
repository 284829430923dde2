"""Which streams have gone silent. Pure: the time is passed in.

A heartbeat is not a sign of life: a venue can answer pings for hours and send nothing. Books and mids come at a
pace, so their silence means something; trades of a quiet market may be silent for hours, so theirs means nothing.
"""

from collections.abc import Mapping

from artery.providers.frames import Kind, Stream


class Liveness:
    """When each stream last spoke, and how long it may be silent; a kind without a limit may be silent for ever."""

    def __init__(self, limits_s: Mapping[Kind, float], silence_s: float, now: float) -> None:
        self._limits_s = limits_s
        self._silence_s = silence_s
        self._any = now
        self._last: dict[Stream, float] = {}

    def expect(self, stream: Stream, now: float) -> None:
        """From now on this stream must speak."""
        self._last[stream] = now
        self._any = max(self._any, now)

    def expects(self, stream: Stream) -> bool:
        return stream in self._last

    def forget(self, stream: Stream) -> None:
        self._last.pop(stream, None)

    def heard(self, stream: Stream, now: float) -> None:
        """Data of this stream came; what was not expected counts for the socket only."""
        self._any = now
        if stream in self._last:
            self._last[stream] = now

    def paused(self, seconds: float) -> None:
        """Nobody listened for so long: that is not the venue's silence."""
        self._any += seconds
        for stream in self._last:
            self._last[stream] += seconds

    def silent(self, now: float) -> bool:
        """Whether the socket as a whole brought no data for too long."""
        return now - self._any > self._silence_s

    def spoke_within(self, stream: Stream, seconds: float, now: float) -> bool:
        return stream in self._last and now - self._last[stream] <= seconds

    def stale(self, now: float) -> list[Stream]:
        """The streams that were silent for longer than their kind may be."""
        return [
            stream for stream, last in self._last.items() if now - last > self._limits_s.get(stream.kind, float("inf"))
        ]
