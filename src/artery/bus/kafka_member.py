"""Membership of one Kafka group: the broker lets one member at a time have the stream, and only that one may commit."""

import contextlib
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from artery.bus.kafka_server import CALL_S, Server, is_one_of
from artery.bus.kafka_state import Held, read_image
from artery.bus.kafka_writer import now_ms
from artery.errors import Unavailable

JOIN_S = 2.0
"""How long a call waits for the broker to say who has the stream."""
_STEP_S = 0.005
_SHUT_OUT = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError.STALE_MEMBER_EPOCH,
)
_BETWEEN = (KafkaError.REBALANCE_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
_SETTINGS = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "partition.assignment.strategy": "cooperative-sticky",
    "session.timeout.ms": 6_000,
    "heartbeat.interval.ms": 1_500,
    "max.poll.interval.ms": 60_000,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 1,
}


def steady_ms() -> int:
    """What the time since something was given is measured by: the wall clock may jump."""
    return time.monotonic_ns() // 1_000_000


class Member:
    """Used by one thread, which calls `serve` often. `held` is the group's state while this member has the stream.

    A member that dies is missed after 6 s; then the broker gives the stream to another, who finds what the dead one
    had not acked in what was committed last. A member that was only away is refused when it comes back.
    """

    def __init__(self, server: Server, topic: str, group: str) -> None:
        self._server = server
        self._topic, self._group = topic, group
        self._consumer: Any = None
        self.answered = False
        """The broker has said whether we have the stream, since we joined or were last away for too long."""
        self.has = False
        """The broker lets this member have the stream."""
        self.held: Held | None = None
        self.lock = threading.Lock()
        """For changes of what is held, and for reading it as a whole."""

    def serve(self) -> None:
        """Hear what the broker says about who has the stream."""
        if self._consumer is not None:
            self._consumer.poll(0)

    def join(self) -> Held | None:
        """The group's state, if this member has the stream; waits a moment for the broker when it is new."""
        if self._consumer is None:
            settings = _SETTINGS | {"group.id": self._group}
            self._consumer = Consumer(self._server.config(**settings))
            self.answered = False
            self._consumer.subscribe(
                [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._missed
            )
        self._consumer.poll(0)
        deadline = time.monotonic() + JOIN_S
        while not self.answered and time.monotonic() < deadline:
            self._consumer.poll(_STEP_S)
        if self.has and self.held is None:
            self.held = self._load()
        return self.held

    def _assigned(self, consumer: Any, parts: list[TopicPartition]) -> None:
        self.answered = True
        if not parts:
            return
        consumer.incremental_assign([TopicPartition(self._topic, 0, 0)])
        consumer.pause([TopicPartition(self._topic, 0)])
        self.has = True

    def _revoked(self, consumer: Any, parts: list[TopicPartition]) -> None:
        if parts:
            self.has, self.held = False, None
            with contextlib.suppress(KafkaException):
                consumer.incremental_unassign(parts)

    def _missed(self, consumer: Any, parts: list[TopicPartition]) -> None:
        """The broker has missed us, or we the broker; it is asked anew, and nobody else may have the stream yet."""
        self.answered = False
        self._revoked(consumer, parts)

    def _load(self) -> Held | None:
        [committed] = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=CALL_S)
        if committed.error is not None:
            raise KafkaException(committed.error)
        held = read_image(committed.metadata or "")
        if held is not None:
            held.restamp(steady_ms(), now_ms())
        return held

    def commit(self, *, wait: bool = True) -> None:
        """Have the broker keep the state as it is; `Unavailable` if this member has lost the stream.

        While the broker is away this blocks, as long as that takes."""
        held = self.held
        deadline = time.monotonic() + CALL_S
        while True:
            place = self.place()
            try:
                done = self._consumer.commit(offsets=[place], asynchronous=not wait)
                if done and done[0].error is not None:
                    raise KafkaException(done[0].error)
                return
            except KafkaException as error:
                if not is_one_of(error, _SHUT_OUT + _BETWEEN) or time.monotonic() > deadline:
                    raise
            self._consumer.poll(_STEP_S)
            if self.held is not held:
                raise self._lost()

    def place(self) -> TopicPartition:
        """What is committed for the group."""
        with self.lock:
            held = self.held
            if held is None:
                raise self._lost()
            return TopicPartition(self._topic, 0, held.offset, metadata=held.image(now_ms() - steady_ms()))

    def forget(self) -> None:
        """It is not known what the broker keeps for the group: ask it before anything else."""
        self.held = None

    def metadata(self) -> Any:
        """Who this member is, for a transaction."""
        return self._consumer.consumer_group_metadata()

    def _lost(self) -> Unavailable:
        return Unavailable(f"another process reads {self._topic} for {self._group} now: what it left over comes to it")

    def leave(self) -> None:
        consumer, self._consumer, self.has, self.held = self._consumer, None, False, None
        if consumer is not None:
            with contextlib.suppress(Exception):
                consumer.close()
