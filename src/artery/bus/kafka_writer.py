"""One writer of a Kafka bus: what waits is written in one transaction, with its epoch checked."""

import time
from collections.abc import Sequence

from confluent_kafka import KafkaException

from artery.bus.kafka_cursor import Cursor, Heights
from artery.bus.kafka_notes import FENCED_MAX, Notes
from artery.bus.kafka_server import FENCED, Server, is_one_of
from artery.bus.kafka_thread import Lane
from artery.bus.kafka_transactions import Record, Transactions
from artery.errors import Fenced, Unavailable

GROUP_MAX = 64
"""Appends in one transaction."""
EPOCH = "epoch:"


class _Append:
    """What one caller wants written, and what became of it."""

    def __init__(self, records: Sequence[Record], epoch: int) -> None:
        self.records, self.epoch = records, epoch
        self.placed: list[int] | None = None
        self.error: Exception | None = None
        self.left = False
        """Its caller does not wait any more."""


class Writer:
    """Writes under one name, in a thread of its own.

    The broker lets one producer of a name write, the last that came. Which one *should*, says the epoch: it is noted in
    the same transaction as the first entries written with it. So a producer that finds itself shut out looks at the
    notes: if they name a higher epoch it must stop, else it opens anew and shuts the other one out.
    """

    def __init__(self, server: Server, id_: str, name: str, notes: str, heights: Heights) -> None:
        self._server, self._name = server, name
        self._transactions = Transactions(server, id_)
        self._cursor = Cursor(server, heights)
        self._notes = Notes(server, notes, self._cursor)
        self._noted = 0
        self._waiting: list[_Append] = []
        self._lane = Lane(server, "artery-kafka-write")
        self._lane.finally_(self._transactions.drop)
        self._lane.finally_(self._cursor.close)

    async def append(self, records: Sequence[Record], epoch: int) -> list[int]:
        """Write all of the records or none; their offsets. `Fenced` if a higher epoch was noted under this name."""
        own = _Append(records, epoch)
        self._waiting.append(own)
        try:
            return await self._lane.call(lambda: self._outcome(own))
        except BaseException:
            own.left = True  # so that what nobody waits for any more is not written later
            raise

    async def close(self) -> None:
        await self._lane.close()

    def _outcome(self, own: _Append) -> list[int]:
        """Write it, with all others that wait, unless it went with one of those."""
        while own.placed is None and own.error is None and not own.left:
            self._write_waiting()
        if own.placed is None:
            raise own.error or Unavailable(f"{self._server.name} did not take the entries: try again")
        return own.placed

    def _write_waiting(self) -> None:
        """Write what waits, up to a group."""
        group, self._waiting[:GROUP_MAX] = self._waiting[:GROUP_MAX], []
        waiting = [one for one in group if not one.left]
        for epoch in sorted({one.epoch for one in waiting}, reverse=True):
            part = [one for one in waiting if one.epoch == epoch]
            try:
                placed = self._write([record for one in part for record in one.records], epoch)
            except Exception as error:
                for one in part:
                    one.error = error
                continue
            for one in part:
                one.placed, placed = placed[: len(one.records)], placed[len(one.records) :]

    def _write(self, records: list[Record], epoch: int) -> list[int]:
        for _ in range(FENCED_MAX):
            try:
                if not self._transactions.is_open:
                    self._open(epoch)
                return self._commit(records, epoch)
            except KafkaException as error:
                if not is_one_of(error, FENCED):
                    raise
                self._transactions.drop()
        raise Unavailable(f"others write as {self._name} all the time: see that only one does")

    def _open(self, epoch: int) -> None:
        """Take the name over, unless a higher epoch has it: whoever is refused must not shut out who may write."""
        if self._name:
            self._check(epoch)
            self._transactions.open()
            self._check(epoch)
        else:
            self._transactions.open()

    def _check(self, epoch: int) -> None:
        self._noted = int(self._notes.fresh().get(f"{EPOCH}{self._name}", "-1"))
        self._refuse_lower(epoch)

    def _refuse_lower(self, epoch: int) -> None:
        if epoch < self._noted:
            raise Fenced(f"{self._name} writes with epoch {self._noted} now; epoch {epoch} must stop")

    def _commit(self, records: list[Record], epoch: int) -> list[int]:
        written = records
        if self._name:
            self._refuse_lower(epoch)
            if epoch > self._noted:
                written = [*records, self._notes.record(f"{EPOCH}{self._name}", str(epoch))]
        if not written:
            return []
        placed = self._transactions.write(written)
        self._noted = max(self._noted, epoch) if self._name else 0
        return placed[: len(records)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
