"""Questions and answers around a step of the host's clock: decided again from the journal alone they come out the same (W28, W44, I4)."""

from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest

from sereno.core.contract import Contract, Delays, Keep, KeepFrom
from sereno.core.escalation import Escalation, Option, escalation_digest
from sereno.core.observation import DelaySource, Observation, ObservationKind, ReadHint
from sereno.core.operation import (
    AnswerDecision,
    Close,
    Operation,
    Pushed,
    close_operation,
    decide_answer,
    decide_operation,
    decide_push,
    next_call,
)
from sereno.core.reviewing.checking import check_journal
from sereno.core.reviewing.replay import replay
from sereno.core.work import OperationWork
from sereno.ports import Change, Given
from sereno.store.reads import Reads
from tests.core.waiting import CANCEL, make_contract
from tests.store.seeding import ANNA
from tests.store.stage import MINUTE, us
from tests.store.test_clock_steps import DAY, HOUR, Set

ANSWER_WITHIN = DAY
GAP = timedelta(minutes=5)
MOMENTS = ("before", "in the run", "while it is asked", "while it is closed", "after the answer")
"""When the clock is set: before the claim whose look asks, between its claim and its commit, while a person is asked, between claim and commit
of the end of an unanswered question, and between the answer and the look that follows it."""


class Asking:
    """One operation whose provider asks to wait two hours and says a word that nobody knows; the clock is set once on the way."""

    def __init__(self, moment: str, step: timedelta, wait: timedelta | None) -> None:
        self.stage = Set()
        self.contract: Contract = make_contract(Delays(min_gap=GAP), cancel=CANCEL)
        self._set, self._wait, self.operation = (moment, step), wait, ""
        self.passed = timedelta(0)
        """Since the answer of the provider."""

    def passes(self, moment: str) -> None:
        """Sets the clock where this is the moment for it."""
        if self._set[0] == moment:
            self.stage.host.set(self._set[1])

    def later(self, by: timedelta) -> None:
        self.stage.later(by)
        self.passed += by

    async def ask(self) -> Escalation:
        """Looks once, which ends in a question."""
        await self.begin(ObservationKind.UNKNOWN_STATE)
        return await self.question()

    async def begin(self, saw: ObservationKind) -> None:
        """Registers the operation and looks once."""
        stage = self.stage
        self.operation = await stage.operation(deadline_at=stage.now + 30 * DAY, min_gap=GAP)
        self.passes("before")
        work = await stage.claim_operation()
        at, hints = stage.now + timedelta(seconds=2), []
        if self._wait is not None:
            hints = [ReadHint(DelaySource.PROVIDER_RETRY_AFTER, "7200", at + self._wait)]
        stage.later(timedelta(seconds=2))
        self.passes("in the run")
        await self.look(work, Observation(saw, "odd", 200, "an odd word", hints=tuple(hints)), at)

    async def question(self) -> Escalation:
        """The newest question."""
        row = (await self.stage.sql("SELECT id FROM escalation ORDER BY id DESC LIMIT 1"))[0]
        return await Reads(self.stage.store.executor, clock=self.stage.host).escalation(ANNA, row["id"])

    async def look(self, work: OperationWork, seen: Observation, at: datetime) -> None:
        """Commits what was seen."""
        decision = decide_operation(
            work.operation,
            self.contract,
            seen,
            at,
            Random(1),
            escalation_id="esc_1",
            answer_within_s=ANSWER_WITHIN.total_seconds(),
        )
        await self.stage.work.commit_operation(work, decision)

    async def answer(self, asked: Escalation, option: Option) -> None:
        """A person answers."""

        def rule(found: Operation, question: Escalation, chosen: Option, now: datetime) -> AnswerDecision:
            return decide_answer(found, question, chosen, now, contract=self.contract)

        await self.stage.store.definitions.answer(
            ANNA, asked.id, Given(asked.digest, option.key, asked.statement, {"again": 1}), rule
        )

    async def close(self) -> None:
        """Closes a question that nobody answered."""
        work = await self.stage.claim_operation()
        at = self.stage.now
        self.passes("while it is closed")
        step = next_call(work.operation, self.contract, at)
        assert isinstance(step, Close) and not work.operation.reserved
        await self.stage.work.commit_operation(
            work, close_operation(work.operation, self.contract, step, at, escalation_id="esc_2")
        )

    async def check(self) -> None:
        """Every decision is reached again, and the check of the journal finds nothing."""
        reads = Reads(self.stage.store.executor, clock=self.stage.host)
        steps, changes = await reads.steps(ANNA, self.operation), await reads.changes(ANNA, self.operation)
        contracts = {step.operation.contract_digest: self.contract for step in (*steps, *changes) if step.operation is not None}
        assert contracts
        again = replay(steps, changes, contracts)
        assert again.same, [one for one in again.steps if one.verdict != "same"]
        clock = await reads.journal(ANNA, "clock")
        assert list(check_journal(await reads.journal(ANNA, self.operation), contracts, clock)) == []


@pytest.mark.parametrize("wait", [2 * HOUR, None], ids=["retry-after", "no wait"])
@pytest.mark.parametrize("step", [HOUR, -HOUR, 2 * DAY, -2 * DAY], ids=["1h", "-1h", "2d", "-2d"])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_W28_I4_a_question_and_its_answer_are_decided_again_whenever_the_clock_was_set(
    moment: str, step: timedelta, wait: timedelta | None
) -> None:
    """Each option that is offered. Where a look follows, it comes when the wait that the provider asked for is over, and not before."""
    number = options = 0
    while number <= options:
        life = Asking(moment, step, wait)
        asked = await life.ask()
        options = len(asked.options) - 1
        life.later(20 * MINUTE)
        life.passes("while it is asked")
        expired = asked.answer_by <= life.stage.now
        if moment == "while it is closed" or expired:
            life.stage.later(max(asked.answer_by - life.stage.now, timedelta(0)))
            await life.close()
        else:
            await life.answer(asked, asked.options[number])
            life.passes("after the answer")
            await looked(life, wait)
        await life.check()
        await life.stage.close()
        number += 1


@pytest.mark.parametrize("step", [HOUR, -HOUR, 2 * DAY, -2 * DAY], ids=["1h", "-1h", "2d", "-2d"])
async def test_W20_a_question_that_is_written_after_a_step_leaves_as_long_to_answer(step: timedelta) -> None:
    """Nobody was told its end when the clock was set; what is told and what the digest covers is the end that counts."""
    life = Asking("in the run", step, 2 * HOUR)
    asked = await life.ask()
    assert asked.answer_by == life.stage.now + ANSWER_WITHIN and asked.statement["answer_by"] == asked.answer_by.isoformat()
    assert asked.statement["not_before"] == (life.stage.now + 2 * HOUR).isoformat()
    assert asked.digest == escalation_digest(life.operation, asked.statement, asked.options, asked.answer_by)
    assert (await life.stage.one("SELECT due FROM operation"))["due"] == us(asked.answer_by)
    await life.check()


@pytest.mark.parametrize("step", [HOUR, -HOUR], ids=["1h", "-1h"])
async def test_I4_what_may_not_be_sent_before_an_instant_keeps_its_distance_over_a_step_in_the_run(step: timedelta) -> None:
    """The copy of a result waits as long as the provider asked, when the clock was set between the look and its commit."""
    life = Asking("in the run", step, 2 * HOUR)
    life.contract = make_contract(Delays(min_gap=GAP), keep=Keep(KeepFrom.ANSWER))
    await life.begin(ObservationKind.SUCCESS)
    row = await life.stage.one("SELECT due FROM delivery WHERE action_type = 'keep_result'")
    assert row["due"] == us(life.stage.now + 2 * HOUR)


async def looked(life: Asking, wait: timedelta | None) -> None:
    """What is due after the answer: a look inside no wait, or nothing any more."""
    works = await life.stage.claim()
    while not works and life.passed < 3 * DAY:
        due = await life.stage.work.next_due()
        if due is None:
            return
        life.later(max(due - life.stage.now, timedelta(seconds=1)))
        works = await life.stage.claim()
    for work in works:
        if isinstance(work, OperationWork) and work.operation.reserved:
            assert life.passed >= (wait or GAP)
            await life.look(work, replace(RUNNING, requests=1), life.stage.now)


RUNNING = Observation(ObservationKind.PENDING, "running", 200)


@pytest.mark.parametrize("step", [-DAY, DAY])
async def test_W28_a_call_back_that_came_after_a_step_put_the_look_sooner_in_a_replay_too(step: timedelta) -> None:
    """Set back between claim and call-back, the clock tells the call-back before the claim: the order of the rows counts."""
    asking = Asking("", timedelta(0), None)
    asking.contract, stage = make_contract(Delays(base=HOUR, min_gap=GAP), cancel=CANCEL), asking.stage
    asking.operation = await stage.operation(deadline_at=stage.now + 30 * DAY, min_gap=GAP)
    work = await stage.claim_operation()
    at = stage.now + timedelta(seconds=2)
    stage.host.set(step)

    def called_back(found: Operation, now: datetime) -> AnswerDecision:
        return decide_push(found, asking.contract, Pushed(b"", "", now), now)

    await stage.store.definitions.change_operation(ANNA, asking.operation, Change("pushed", called_back, {}))
    await asking.look(work, Observation(ObservationKind.PENDING, "running", 200, "not yet"), at)
    assert (await stage.one("SELECT due FROM operation"))["due"] < us(stage.now + HOUR / 2)
    await asking.check()
    await stage.close()
