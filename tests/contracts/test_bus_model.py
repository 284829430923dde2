"""A bus behaves as a simple model of it does, whatever is done to it in whatever order."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artery.bus.base import START, Bus, Entry
from artery.errors import PositionLost
from tests.contracts.conftest import BusKit
from tests.contracts.models import MODEL_S, behaves

T = TypeVar("T")
GROUPS = st.sampled_from(["g1", "g2"])
CONSUMERS = st.sampled_from(["a", "b"])
LIMITS = st.integers(1, 12)


class ModelGroup:
    """Indexes of entries: those up to `last` were given out, those in `pending` (consumer, tries) are not acked."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.pending: dict[int, tuple[str, int]] = {}

    def needs(self, index: int) -> bool:
        return index > self.last or index in self.pending


class Machine(RuleBasedStateMachine):
    """Entry number `i` (from 1) has position `positions[i]`; those up to `trimmed` are gone."""

    def __init__(self, kit: BusKit) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.kit = kit
        self.base = kit.new_base()
        self.bus: Bus = kit.open(self.base)
        self.positions = [START]
        self.trimmed = 0
        self.lost = 0
        self.groups: dict[str, ModelGroup] = {}

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(call)

    def teardown(self) -> None:
        self.run(self.bus.close())
        self.loop.close()

    @property
    def head(self) -> int:
        return len(self.positions) - 1

    def expected(self, indexes: list[int], tries: dict[int, int]) -> list[Entry]:
        return [Entry(self.positions[i], {"n": str(i)} if i > self.trimmed else {}, tries.get(i, 0)) for i in indexes]

    @rule(count=st.integers(1, 150))
    def append(self, count: int) -> None:
        first = self.head + 1
        entries = [{"n": str(i)} for i in range(first, first + count)]
        self.positions += self.run(self.bus.append("trade", entries))

    @rule(group=GROUPS, data=st.data())
    def ensure_group(self, group: str, data: st.DataObject) -> None:
        start = data.draw(st.integers(0, self.head))
        self.run(self.bus.ensure_group("trade", group, self.positions[start]))
        self.groups.setdefault(group, ModelGroup(start))

    @rule(group=GROUPS, consumer=CONSUMERS, limit=LIMITS)
    def read_new(self, group: str, consumer: str, limit: int) -> None:
        model = self.groups.get(group)
        if model is None:
            return
        try:
            entries = self.run(self.bus.read_new("trade", group, consumer, limit))
        except PositionLost as lost:
            assert model.last < self.trimmed
            assert lost.first == self.positions[self.trimmed]
            model.last = self.trimmed
            return
        assert model.last >= self.trimmed
        indexes = list(range(model.last + 1, min(self.head, model.last + limit) + 1))
        assert entries == self.expected(indexes, dict.fromkeys(indexes, 1))
        model.pending |= dict.fromkeys(indexes, (consumer, 1))
        model.last += len(indexes)

    @rule(group=GROUPS, consumer=CONSUMERS, limit=LIMITS, data=st.data())
    def read_pending(self, group: str, consumer: str, limit: int, data: st.DataObject) -> None:
        model = self.groups.get(group)
        if model is None:
            return
        after = data.draw(st.integers(0, self.head))
        entries = self.run(self.bus.read_pending("trade", group, consumer, self.positions[after], limit))
        held = [i for i, (owner, _) in sorted(model.pending.items()) if owner == consumer and i > after]
        self.given_again(model, consumer, held[:limit], entries)

    @rule(group=GROUPS, consumer=CONSUMERS, limit=LIMITS)
    def claim(self, group: str, consumer: str, limit: int) -> None:
        model = self.groups.get(group)
        if model is None:
            return
        entries = self.run(self.bus.claim("trade", group, consumer, 0, limit))
        left = [i for i, (owner, _) in sorted(model.pending.items()) if owner != consumer]
        self.given_again(model, consumer, left[:limit], entries)

    def given_again(self, model: ModelGroup, consumer: str, indexes: list[int], entries: list[Entry]) -> None:
        for i in indexes:
            if i > self.trimmed or self.kit.counts_vanished:
                model.pending[i] = (consumer, model.pending[i][1] + 1)
        assert entries == self.expected(indexes, {i: model.pending[i][1] for i in indexes})

    @rule(group=GROUPS, data=st.data())
    def ack(self, group: str, data: st.DataObject) -> None:
        model = self.groups.get(group)
        if model is None or not self.head:
            return
        some = st.sampled_from(sorted(model.pending)) if model.pending else st.integers(1, self.head)
        indexes = data.draw(st.sets(st.one_of(some, st.integers(1, self.head)), max_size=8))
        acked = self.run(self.bus.ack("trade", group, [self.positions[i] for i in indexes]))
        assert acked == len(indexes & model.pending.keys())
        for i in indexes:
            model.pending.pop(i, None)

    @rule(group=GROUPS, data=st.data())
    def ack_up_to(self, group: str, data: st.DataObject) -> None:
        model = self.groups.get(group)
        if model is None:
            return
        end = data.draw(st.integers(0, self.head))
        self.run(self.bus.ack_up_to("trade", group, self.positions[end]))
        model.last = max(model.last, end)
        model.pending = {i: held for i, held in model.pending.items() if i > end}

    @rule(group=GROUPS, data=st.data())
    def dead_letter(self, group: str, data: st.DataObject) -> None:
        model = self.groups.get(group)
        if model is None or not model.pending:
            return
        i = data.draw(st.sampled_from(sorted(model.pending)))
        entry = self.expected([i], {i: model.pending.pop(i)[1]})[0]
        self.run(self.bus.dead_letter("trade", group, entry, "no"))
        letter = self.run(self.bus.read_back("dead", 1))[0]
        assert letter.fields == entry.fields | {
            "stream": "trade",
            "id": entry.id,
            "group": group,
            "error": "no",
            "tries": str(entry.tries),
        }

    @rule(keep=st.integers(0, 200), required=st.sets(GROUPS), at_most=st.sampled_from([0, 20, 100]))
    def trim(self, keep: int, required: set[str], at_most: int) -> None:
        trimmed = self.run(self.bus.trim("trade", keep=keep, required=sorted(required), keep_at_most=at_most))
        models = [self.groups[name] for name in required if name in self.groups]
        gone = range(self.trimmed + 1, self.trimmed + trimmed.removed + 1)
        needed = [i for i in gone if any(model.needs(i) for model in models)]
        assert trimmed.lost == len(needed)
        forced = self.head - at_most if at_most else 0
        assert all(i <= forced for i in needed)
        if trimmed.removed:
            assert gone[-1] <= max(self.head - keep, forced)
        self.trimmed += trimmed.removed
        self.lost += trimmed.lost
        if at_most and self.head:
            assert self.head - self.trimmed <= at_most + 150  # "about" may be a block more

    @rule(data=st.data(), limit=st.integers(1, 300))
    def read(self, data: st.DataObject, limit: int) -> None:
        after = data.draw(st.integers(0, self.head))
        try:
            entries = self.run(self.bus.read("trade", self.positions[after], limit))
        except PositionLost as lost:
            assert after < self.trimmed
            assert lost.first == self.positions[self.trimmed]
            return
        assert after >= self.trimmed
        assert entries == self.expected(list(range(after + 1, min(self.head, after + limit) + 1)), {})

    @rule()
    def restart(self) -> None:
        self.run(self.bus.close())
        self.bus = self.kit.open(self.base)

    @invariant()
    def sizes_are_right(self) -> None:
        if not self.head and not self.groups:
            return
        state = next(state for state in self.run(self.bus.streams()) if state.name == "trade")
        assert state.length == self.head - self.trimmed
        assert state.head == self.positions[self.head] == self.run(self.bus.head("trade"))
        assert state.first == (self.positions[self.trimmed + 1] if state.length else START)
        assert state.lost == self.lost

    @invariant()
    def groups_are_right(self) -> None:
        for state in self.run(self.bus.groups("trade")):
            model = self.groups[state.name]
            assert state.pending == len(model.pending)
            assert state.oldest_pending == (self.positions[min(model.pending)] if model.pending else "")
            assert state.lag == self.head - max(model.last, self.trimmed)
            assert state.last == self.positions[model.last]


@pytest.mark.timeout(MODEL_S)
def test_groups_and_trimming_behave_as_the_model_does(bus_kit_in_no_loop: BusKit) -> None:
    behaves(lambda: Machine(bus_kit_in_no_loop), examples=25, steps=30)
