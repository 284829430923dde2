"""When a process is stuck, and how long to wait before it is started again. Pure: time is handed in."""

from collections.abc import Hashable
from dataclasses import dataclass

OWN_DELAY_S = 5.0
"""A supervisor that itself was away for longer (suspended, stopped) blames nobody for that time."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Backoff between restarts: it doubles with each failure, and a calm run makes it forget."""

    first_s: float = 1.0
    longest_s: float = 30.0
    calm_s: float = 60.0

    def failures(self, before: int, ran_s: float) -> int:
        """How many failures in a row there are, now that a run of this length has ended."""
        return 1 if ran_s >= self.calm_s else before + 1

    def pause_s(self, failures: int, chance: float) -> float:
        """The wait before the next start; `chance` in [0, 1) spreads it, so that processes do not start in step."""
        full = min(self.first_s * 2.0 ** min(failures - 1, 16), self.longest_s)
        return full * (0.75 + 0.25 * chance)


class Watch:
    """Tells from the signs of life of one process whether it is stuck."""

    def __init__(self, start_s: float, silence_s: float, now: float) -> None:
        self._start_s, self._silence_s = start_s, silence_s
        self._sign: Hashable = None
        self._seen = self._looked = now

    @property
    def alive(self) -> bool:
        """Whether it has given a sign yet."""
        return self._sign is not None

    def limit_s(self) -> float:
        """How long it may be silent: longer while it is starting."""
        return self._silence_s if self.alive else self._start_s

    def is_stuck(self, sign: Hashable, now: float) -> bool:
        """Take a look: `sign` is anything that changes while the process lives, None before its first."""
        away_s = now - self._looked
        self._looked = now
        if away_s > OWN_DELAY_S:
            self._seen += away_s
        if sign is not None and sign != self._sign:
            self._sign, self._seen = sign, now
        return now - self._seen > self.limit_s()
