"""One writer of a Kafka bus: what waits is written in one transaction, with its epoch checked."""

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException

from artery.bus.kafka_cursor import Cursor
from artery.bus.kafka_notes import FENCED_MAX, VISIBLE_S, Notes, Record, Transactions
from artery.bus.kafka_server import FENCED, Server, is_one_of
from artery.bus.kafka_thread import Lane
from artery.errors import Fenced, Unavailable

GROUP_MAX = 64
"""Appends in one transaction."""
EPOCH = "epoch:"


class _Append(NamedTuple):
    records: Sequence[Record]
    epoch: int
    future: asyncio.Future[list[int]]


class Writer:
    """Writes under one name, in a thread of its own.

    The broker lets one producer of a name write, the last that came. Which one *should*, says the epoch: it is noted in
    the same transaction as the first entries written with it. So a producer that finds itself shut out looks at the
    notes: if they name a higher epoch it must stop, else it opens anew and shuts the other one out.
    """

    def __init__(self, server: Server, id_: str, name: str, notes: str) -> None:
        self._server, self._name = server, name
        self._transactions = Transactions(server, id_)
        self._cursor = Cursor(server)
        self._notes = Notes(server, notes, self._cursor)
        self._noted = 0
        self._waiting: list[_Append] = []
        self._lane = Lane(server, "artery-kafka-write")
        self._lane.finally_(self._transactions.drop)
        self._lane.finally_(self._cursor.close)

    async def append(self, records: Sequence[Record], epoch: int) -> list[int]:
        """Write all of the records or none; their offsets. `Fenced` if a higher epoch was noted under this name."""
        future: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Append(records, epoch, future))
        try:
            await self._lane.call(self._write_waiting)
            return await future
        finally:
            future.cancel()  # so that what nobody waits for any more is not written later

    async def close(self) -> None:
        await self._lane.close()

    def _write_waiting(self) -> None:
        """Write what waits, up to a group; the jobs of those that went with it find nothing left to do."""
        waiting, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
        waiting = [one for one in waiting if not one.future.cancelled()]
        for epoch in sorted({one.epoch for one in waiting}, reverse=True):
            part = [one for one in waiting if one.epoch == epoch]
            try:
                placed = iter(self._write([record for one in part for record in one.records], epoch))
                for one in part:
                    _settle(one.future, [next(placed) for _ in one.records], None)
            except Exception as error:
                for one in part:
                    _settle(one.future, [], self._server.translate(error))

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
        last = {record.topic: offset for record, offset in zip(written, placed, strict=True)}
        for topic, offset in last.items():
            self._cursor.wait_visible(topic, offset, VISIBLE_S)
        return placed[: len(records)]


def _settle(future: asyncio.Future[list[int]], result: list[int], error: Exception | None) -> None:
    def tell() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    try:
        future.get_loop().call_soon_threadsafe(tell)
    except RuntimeError:  # that loop has ended, and its caller with it
        return


def now_ms() -> int:
    return time.time_ns() // 1_000_000
