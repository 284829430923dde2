"""Whose turn it is to write the lake."""

import threading
from collections import deque


class Turn:
    """A lock that is had in the order in which it is asked for: whoever asks again at once lets the others in."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: deque[object] = deque()

    def acquire(self) -> None:
        """Wait until all who asked before have released it."""
        mine = object()
        with self._changed:
            self._asked.append(mine)
            self._changed.wait_for(lambda: self._asked[0] is mine)

    def release(self) -> None:
        """Give it to the next."""
        with self._changed:
            self._asked.popleft()
            self._changed.notify_all()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()
