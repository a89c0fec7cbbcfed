"""Random lives of submits: whatever crashes, is released, throttled or lost, the store knows what is in doubt (I1, I2, I8, I17)."""

from dataclasses import dataclass
from datetime import timedelta
from random import Random

import pytest

from sereno.core.call import CallKind, CallOutcome, CallState
from sereno.core.errors import LeaseLost, NotNow
from sereno.core.operation import OperationState
from sereno.core.work import OperationWork
from tests.store.calling import accepted, answer, cancel, settled, submitting
from tests.store.seeding import ANNA, allowance
from tests.store.stage import LEASE, Stage, pending

STEPS = 60


@dataclass
class Believed:
    """What a careful observer knows of one open call."""

    doubt: bool = False
    attempts: int = 0


class Life:
    """One operation driven at random, with what must be true of it."""

    def __init__(self, stage: Stage, operation: str, dice: Random) -> None:
        self.stage, self.operation, self.dice = stage, operation, dice
        self.calls: dict[str, Believed] = {}
        self.asked = 0

    async def step(self) -> None:
        """Waits until there is something to do, and does it, or loses it."""
        stage = self.stage
        stage.later(LEASE + timedelta(seconds=self.dice.randrange(30)))
        if self.dice.random() < 0.2:
            await self.cancel()
        for work in await stage.claim():
            assert isinstance(work, OperationWork)
            if work.operation.call is None:
                await self.look(work)
            else:
                await self.call(work)

    async def cancel(self) -> None:
        """A person may ask at any moment; a submit has nothing to cancel yet."""
        record = await self.stage.store.reads.operation(ANNA, self.operation)
        if record.operation.state is OperationState.WAITING:
            try:
                await self.stage.store.definitions.change_operation(ANNA, self.operation, cancel())
            except NotNow as busy:
                assert busy.code == "call_open" and record.operation.call is not None

    async def look(self, work: OperationWork) -> None:
        """Looks are counted; some are lost."""
        assert work.operation.state is OperationState.WAITING
        self.asked += work.operation.reserved
        if self.dice.random() < 0.8:
            await self.stage.work.commit_operation(work, pending(work, self.stage.now, self.stage.now))

    async def call(self, work: OperationWork) -> None:
        """Makes the call of a step and does one of all the things that can happen then."""
        call, stage = work.operation.call, self.stage
        assert call is not None and not work.operation.reserved
        known = self.calls.setdefault(call.id, Believed())
        known.attempts += 1
        assert (call.interrupted, call.attempts, call.state) == (known.doubt, known.attempts, CallState.SENDING)
        assert (call.first_sent_at == work.lease.claimed_at) or known.attempts > 1
        fate = self.dice.choice(["crash", "release", "late", "throttled", "not_sent", "unknown", "done"])
        if fate == "release":
            await stage.work.release(work)
            known.attempts -= 1
        elif fate == "late":
            stage.later(LEASE)
            known.doubt = True
            for again in await stage.claim():
                assert isinstance(again, OperationWork) and again.operation.call is not None
                known.attempts += 1
                assert again.operation.call.interrupted
            with pytest.raises(LeaseLost):
                await stage.work.commit_operation(work, self.settled(work, CallState.DONE, CallOutcome.ACCEPTED))
        elif fate in ("crash", "unknown"):
            known.doubt = True
            if fate == "unknown":
                await stage.work.commit_operation(work, self.settled(work, CallState.SENDING, CallOutcome.UNKNOWN))
        elif fate == "done":
            await stage.work.commit_operation(work, self.settled(work, CallState.DONE, CallOutcome.ACCEPTED))
        else:
            await stage.work.commit_operation(work, self.settled(work, CallState.QUEUED, CallOutcome(fate)))

    def settled(self, work: OperationWork, state: CallState, outcome: CallOutcome):  # type: ignore[no-untyped-def]
        assert work.operation.call is not None
        now = self.stage.now
        if state is CallState.DONE and work.operation.call.kind is CallKind.SUBMIT:
            return accepted(work, now, f"job-of-{self.operation}", due=now)
        return settled(work, now, state, answer(outcome), due=now, next_poll_at=now)


@pytest.mark.parametrize("seed", range(12))
async def test_I1_I2_I8_I17_a_call_is_never_forgotten_nor_made_out_of_nothing(seed: int) -> None:
    """Sixty random steps: doubt, attempts and budget are what an observer knows, and no operation has two open calls."""
    stage, dice = Stage(), Random(seed)
    await stage.limits("host:example.com", rate=None)
    far = allowance(deadline_at=stage.now + timedelta(days=9), max_status_requests=500)
    life = Life(stage, await submitting(stage, allowance=far), dice)
    for _ in range(STEPS):
        await life.step()
        (row,) = await stage.sql("SELECT status_requests_used, call FROM operation")
        assert row["status_requests_used"] == life.asked, "a call counts no status request"
        opened = await stage.sql("SELECT id, attempts FROM provider_call WHERE state IN ('queued', 'sending')")
        assert [found["id"] for found in opened] == ([] if row["call"] is None else [row["call"]])
        for found in opened:
            assert found["attempts"] == life.calls.get(found["id"], Believed()).attempts
    assert life.calls and life.asked, "the dice never got there"
    await stage.close()
