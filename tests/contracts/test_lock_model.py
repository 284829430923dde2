"""However holders come, stall and go, at most one of them is before its deadline, and epochs only rise."""

import asyncio

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from artery.live.base import LeaderLock, Term
from tests.contracts.conftest import LockKit
from tests.contracts.models import MODEL_S, behaves

WHO = st.integers(0, 2)
TTL = 1.0


class Machine(RuleBasedStateMachine):
    def __init__(self, kit: LockKit, loop: asyncio.AbstractEventLoop, locks: list[LeaderLock], key: str) -> None:
        super().__init__()
        self.kit, self.loop, self.locks, self.key = kit, loop, locks, key
        self.terms: dict[int, Term] = {}
        self.newest = 0
        self.free = True

    def leads(self, who: int) -> bool:
        return who in self.terms and self.kit.monotonic() < self.terms[who].deadline

    @rule(who=WHO)
    def acquire(self, who: int) -> None:
        others = [other for other in range(3) if self.leads(other)]
        term = self.loop.run_until_complete(self.locks[who].acquire(self.key, TTL))
        if self.free:
            assert term is not None
        if term is not None:
            assert not others
            assert term.epoch > self.newest
            self.newest, self.free = term.epoch, False
            self.terms[who] = term

    @rule(who=WHO)
    def renew(self, who: int) -> None:
        if who not in self.terms:
            return
        leads = self.leads(who)
        term = self.loop.run_until_complete(self.locks[who].renew(self.terms[who], TTL))
        if leads:
            assert term is not None
        if term is None:
            del self.terms[who]
        else:
            assert term.epoch == self.newest
            self.terms[who] = term

    @rule(who=WHO)
    def release(self, who: int) -> None:
        if who in self.terms:
            term = self.terms.pop(who)
            self.loop.run_until_complete(self.locks[who].release(term))
            self.free = self.free or term.epoch == self.newest

    @rule(part=st.sampled_from([0.1, 0.3, 0.5, 1.1]))
    def time_passes(self, part: float) -> None:
        self.loop.run_until_complete(self.kit.advance(TTL * part))
        if part > 1:
            self.free = True

    @invariant()
    def at_most_one_leads(self) -> None:
        assert sum(self.leads(who) for who in range(3)) <= 1


@pytest.mark.timeout(MODEL_S)
def test_at_most_one_leads_whatever_happens(lock_kit_in_no_loop: LockKit) -> None:
    kit = lock_kit_in_no_loop
    loop = asyncio.new_event_loop()
    locks = [kit.contender() for _ in range(3)]
    keys = iter(range(10_000))
    try:
        behaves(lambda: Machine(kit, loop, locks, f"artery:lock:{next(keys)}"), examples=30, steps=25)
        assert next(keys) > 1
    finally:
        loop.run_until_complete(kit.close())
        loop.close()
