"""What waits for a client that reads slowly: two lanes, each bounded; newest wins for snapshots. Pure."""

from collections import deque
from collections.abc import Container

from artery.gateway.frames import Frame, missed
from artery.gateway.limits import Limits

_Key = tuple[str, str]


class _Held:
    """A waiting frame, and the positions of the first and last that it replaced; one without a frame is passed over."""

    __slots__ = ("first", "frame", "last")

    def __init__(self, frame: Frame) -> None:
        self.frame: Frame | None = frame
        self.first: str | None = None
        self.last: str | None = None

    def replace(self, older: "_Held", frame: Frame) -> None:
        """Take over what `older` stood for."""
        self.first = frame.position if older.first is None else older.first
        if self.last is None:
            self.last = frame.position


class SendQueue:
    """Answers go first; events keep their order. A push that returns False means: the client is too slow."""

    __slots__ = ("_bytes", "_control", "_control_bytes", "_count", "_held", "_limits", "_newest", "conflated")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._control: deque[tuple[bytes, bool]] = deque()
        self._control_bytes = 0
        self._held: deque[_Held] = deque()
        self._newest: dict[_Key, _Held] = {}
        self._count = 0
        self._bytes = 0
        self.conflated = 0

    def __len__(self) -> int:
        return self._count + len(self._control)

    @property
    def size_bytes(self) -> int:
        return self._bytes + self._control_bytes

    def say(self, wire: bytes, *, stale: bool = False) -> bool:
        """Queue an answer; `stale` ones (pongs) may be shed, oldest first, when the lane is full."""
        while len(self._control) >= self._limits.control_frames:
            if not self._shed():
                return False
        if self._control_bytes + len(wire) > self._limits.queue_bytes:
            return False
        self._control.append((wire, stale))
        self._control_bytes += len(wire)
        return True

    def push(self, frame: Frame) -> bool:
        """Queue an event. When the lane is full, older snapshots of its series, then of all, give way."""
        held = _Held(frame)
        if not self._fits(frame) and frame.snapshot:
            older = self._newest.get((frame.channel, frame.series))
            if older is not None:
                self._supersede(older, held)
        if not self._fits(frame):
            self._conflate()
        if not self._fits(frame):
            return False
        self._append(held, frame)
        return True

    def forget(self, channel: str, series: Container[str] | None = None) -> None:
        """Drop what waits of a channel that the client has left, or of these series of it that it asks for anew."""
        for held in self._held:
            frame = held.frame
            if frame is not None and frame.channel == channel and (series is None or frame.series in series):
                self._bury(held)
        self._sweep()

    def take(self, bytes_max: int) -> bytes:
        """The next bytes to write, about `bytes_max` of them; each replaced snapshot is preceded by its gap."""
        out: list[bytes] = []
        size = 0
        while self._control and size < bytes_max:
            wire, _ = self._control.popleft()
            self._control_bytes -= len(wire)
            out.append(wire)
            size += len(wire)
        while self._held and size < bytes_max:
            held = self._held.popleft()
            if held.frame is None:
                continue
            wire = self._written(held, held.frame)
            self._bury(held)
            out.append(wire)
            size += len(wire)
        return b"".join(out)

    def clear(self) -> None:
        """Forget everything: the client is gone."""
        self._control.clear()
        self._held.clear()
        self._newest.clear()
        self._count = self._bytes = self._control_bytes = 0

    @staticmethod
    def _written(held: _Held, frame: Frame) -> bytes:
        if held.first is None or held.last is None:
            return frame.wire
        return missed(frame.channel, frame.series, "slow_client", held.first, held.last).wire + frame.wire

    def _fits(self, frame: Frame) -> bool:
        return self._count < self._limits.queue_events and self._bytes + len(frame.wire) <= self._limits.queue_bytes

    def _append(self, held: _Held, frame: Frame) -> None:
        self._held.append(held)
        self._count += 1
        self._bytes += len(frame.wire)
        if frame.snapshot:
            self._newest[frame.channel, frame.series] = held
        if len(self._held) > 2 * self._limits.queue_events:
            self._sweep()

    def _bury(self, held: _Held) -> None:
        frame = held.frame
        if frame is None:
            return
        self._count -= 1
        self._bytes -= len(frame.wire)
        key = (frame.channel, frame.series)
        if self._newest.get(key) is held:
            del self._newest[key]
        held.frame = None

    def _supersede(self, older: _Held, newer: _Held) -> None:
        if older.frame is not None:
            newer.replace(older, older.frame)
            self._bury(older)
            self.conflated += 1

    def _conflate(self) -> None:
        """Of each snapshot series leave only the newest, which remembers what it replaced."""
        kept: dict[_Key, _Held] = {}
        for held in list(self._held):
            frame = held.frame
            if frame is None or not frame.snapshot:
                continue
            key = (frame.channel, frame.series)
            older = kept.get(key)
            if older is not None:
                self._supersede(older, held)
            kept[key] = held
        self._sweep()

    def _sweep(self) -> None:
        self._held = deque(held for held in self._held if held.frame is not None)

    def _shed(self) -> bool:
        for index, (_, stale) in enumerate(self._control):
            if stale:
                self._control_bytes -= len(self._control[index][0])
                del self._control[index]
                return True
        return False
