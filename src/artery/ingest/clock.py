"""What a feed may say of time: every trade up to here is written."""

from collections import deque

SETTLE_MS = 100
LAG_MS = 3_000
JUMP_MS = 1_000
"""A wall clock that is off by more than this against a steady one was set."""
SLEW = 20
"""Of this many milliseconds one goes into following a wall clock that was set."""


class FeedClock:
    """Decides when CLOCK is said and with what time: once a second at most, rising, never while the feed is down.

    It trusts a moment only once the loop has gone round after it (a process that was frozen finds the
    moments it slept through still unread on its socket), and stays behind a venue whose trades come late.
    A wall clock that is set while the feed runs is followed slowly: a jump closes no candle, and holds none open.
    """

    def __init__(self, floor_ms: int, grace_ms: int) -> None:
        self.said_ms = floor_ms
        self._grace_ms = grace_ms
        self._trusted_ms = 0
        self._passed_ms = 0
        self._skew_ms = 0
        self._steady: tuple[int, float] | None = None
        self._lags: deque[tuple[int, int]] = deque()

    def saw(self, received_ms: int, newest_ms: int) -> None:
        """A batch came at `received_ms` whose newest trade is of `newest_ms`."""
        received_ms = min(received_ms - self._skew_ms, self._passed_ms or received_ms)
        lag_ms = received_ms - newest_ms
        while self._lags and self._lags[-1][1] <= lag_ms:
            self._lags.pop()
        self._lags.append((received_ms, lag_ms))

    def passed(self, now_ms: int, steady_ms: float | None = None) -> None:
        """The writer has come round at this time; `steady_ms` is of a clock that nobody sets."""
        if steady_ms is not None:
            self._follow(now_ms, steady_ms)
        now_ms -= self._skew_ms
        if now_ms < self._passed_ms:  # the wall clock was set back
            self._trusted_ms = self._passed_ms = now_ms
            self._lags.clear()
        elif now_ms - self._passed_ms >= SETTLE_MS:
            self._trusted_ms, self._passed_ms = self._passed_ms, now_ms

    def say(self, now_ms: int, *, up: bool, waiting_ms: int | None = None) -> int | None:
        """The time to say now, or None; `waiting_ms` is when the oldest batch that is not written yet came."""
        if not up or not self._trusted_ms:
            return None
        now_ms -= self._skew_ms
        waiting_ms = None if waiting_ms is None else waiting_ms - self._skew_ms
        until_ms = self._trusted_ms if waiting_ms is None else min(self._trusted_ms, waiting_ms)
        vouched_ms = until_ms - max(self._grace_ms, self._lag(now_ms))
        if vouched_ms // 1_000 <= self.said_ms // 1_000:
            return None
        self.said_ms = vouched_ms
        return vouched_ms

    def restart(self) -> None:
        """The feed was down: what was trusted before says nothing of now."""
        self._trusted_ms = self._passed_ms = 0
        self._lags.clear()

    def _follow(self, now_ms: int, steady_ms: float) -> None:
        """Notice a jump, and come nearer to where it went."""
        if self._steady is not None:
            elapsed_ms = steady_ms - self._steady[1]
            jump_ms = round(now_ms - self._steady[0] - elapsed_ms)
            if abs(jump_ms) > JUMP_MS:
                self._skew_ms += jump_ms
            nearer_ms = min(abs(self._skew_ms), int(elapsed_ms / SLEW))
            self._skew_ms -= nearer_ms if self._skew_ms > 0 else -nearer_ms
        self._steady = (now_ms, steady_ms)

    def _lag(self, now_ms: int) -> int:
        while self._lags and self._lags[0][0] < now_ms - LAG_MS:
            self._lags.popleft()
        return self._lags[0][1] if self._lags else 0
