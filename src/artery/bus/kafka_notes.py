"""What the bus must remember beside the streams: a compacted topic of names and values."""

from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException

from artery.bus.kafka_cursor import Cursor, Missing, OutOfRange, Row
from artery.bus.kafka_server import FENCED, Server, is_one_of
from artery.bus.kafka_transactions import Record, Transactions
from artery.errors import Unavailable

PAGE = 5_000
_BOTH_AT_ONCE = (KafkaError.UNKNOWN, KafkaError.CONCURRENT_TRANSACTIONS)
"""What a broker may say when two of the same name come at the same moment."""
FENCED_MAX = 5
"""How often another writer of the same name may come between."""


class Notes:
    """Names and values, as the newest records of a compacted topic say them."""

    def __init__(self, server: Server, topic: str, cursor: Cursor) -> None:
        self.topic = topic
        self._server = server
        self._cursor = cursor
        self._next = 0
        self._known: dict[str, str] = {}

    def fresh(self) -> dict[str, str]:
        """All of them, with what others have written up to now."""
        try:
            self._read()
        except OutOfRange:
            self._next, self._known = 0, {}
            self._read()
        except Missing:
            self._next, self._known = 0, {}
        return self._known

    def _read(self) -> None:
        low, end = self._cursor.ends(self.topic)
        if self._next > end:
            raise OutOfRange
        self._next = max(self._next, low)
        while self._next < end:
            rows = self._cursor.read(self.topic, self._next, PAGE)
            for row in rows:
                self._learn(row)
            self._next = rows[-1].offset + 1 if len(rows) == PAGE else end

    def _learn(self, row: Row) -> None:
        name = row.key.decode("utf-8", "replace")
        if row.value:
            self._known[name] = row.value.decode("utf-8", "replace")
        else:
            self._known.pop(name, None)

    def record(self, name: str, value: str) -> Record:
        """What a transaction writes to note this; an empty value forgets the name."""
        return Record(self.topic, name.encode(), value.encode() if value else None)

    def change(self, transactions: Transactions, decide: Callable[[dict[str, str]], Sequence[Record]]) -> list[int]:
        """Write what `decide` makes of the notes, with nobody else of the same id between; [] if that is nothing."""
        for _ in range(FENCED_MAX):
            try:
                if not transactions.is_open:
                    transactions.open()
                records = decide(self.fresh())
                if not records:
                    return []
                placed = transactions.write(records)
            except KafkaException as error:
                if is_one_of(error, FENCED + _BOTH_AT_ONCE):
                    transactions.drop()
                    continue
                raise
            return placed
        raise Unavailable(f"others write to {self.topic} all the time: try again later")
