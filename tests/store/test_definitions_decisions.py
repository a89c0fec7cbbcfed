"""Operations, answers and deliveries on real files: registered once, answered once, sent again by a person's decision."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sereno.core.errors import InvariantBroken, NotAllowed, NotFound, NotNow, RequestError
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.observation import DelaySource
from sereno.core.operation import AnswerDecision, Event, Grant, Operation, OperationState, decide_answer
from sereno.core.record import OperationRecord
from sereno.core.values import canonical, digest, to_micros
from sereno.core.work import Principal
from sereno.ports import Given, Page
from sereno.store.codec import dump_actions, load_effect
from tests.store.seeding import (
    ANNA,
    BEN,
    BOT,
    ELSEWHERE,
    POOL,
    START,
    HandClock,
    World,
    action,
    allowance,
    delivery,
    escalated,
    leased,
    new_operation,
    opened,
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with opened(tmp_path / "sereno.db") as found:
        yield found


def rule(operation: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
    """An answer rule that does what the option says."""
    if option.verb is Verb.STOP:
        stopped = OperationState.STOPPED
        return AnswerDecision(
            stopped, Event.ANSWERED_STOP, operation.allowance, None, None, operation.delay_source, (), "stopped"
        )
    wider = replace(
        operation.allowance,
        deadline_at=operation.allowance.deadline_at + timedelta(minutes=option.minutes),
        max_status_requests=operation.allowance.max_status_requests + option.checks,
    )
    look = now + timedelta(seconds=1)
    goes_on = OperationState.WAITING
    return AnswerDecision(
        goes_on,
        Event.ANSWERED_GO_ON,
        wider,
        look,
        look,
        DelaySource.MANUAL_EXTENSION,
        (Grant("odd", 4),),
        "extended by 15 minutes",
    )


async def answered(
    world: World, option: str = "e", *, who: Principal = ANNA, seen: str = "d1", escalation: str = "esc_1"
) -> OperationRecord:
    shown = {"state": "odd", "calls": "6 of 10"}
    return await world.definitions.answer(who, escalation, Given(seen, option, shown), rule)


async def test_W05_W46_a_registered_operation_shows_all_it_was_given(world: World) -> None:
    """Job, account, fingerprint, limits and first look are durable before anything is asked."""
    record, is_new = await world.definitions.register(ANNA, new_operation())
    operation = (await world.reads.operation(ANNA, record.operation.id)).operation
    assert is_new and operation == record.operation
    assert (operation.job_id, operation.account, operation.fingerprint, operation.url) == (
        *("job-1", "shop", "print-job-1", "https://example.com/jobs/job-1"),
    )
    assert (operation.state, operation.allowance, operation.spend.status_requests) == (OperationState.WAITING, allowance(), 0)
    assert (operation.user, operation.assistant_task_id, operation.parameters) == ("anna", "chat-7", {"owner": "anna"})
    assert (operation.next_poll_at, operation.delay_source) == (START + timedelta(seconds=2), DelaySource.CONTRACT_SCHEDULE)
    assert record.due == operation.next_poll_at
    assert (await world.sql("SELECT wake FROM pool WHERE name = ?", POOL))[0]["wake"] == to_micros(START + timedelta(seconds=2))


async def test_W39_registering_again_attaches_to_the_open_one_and_widens_nothing(world: World) -> None:
    """The same (contract, account, parameters, job) returns the operation with its used counters, whatever limits come with it (W42)."""
    first, _ = await world.definitions.register(ANNA, new_operation())
    await world.sql("UPDATE operation SET status_requests_used = 4")
    again, is_new = await world.definitions.register(BEN, new_operation(allowance=allowance(max_status_requests=99)))
    assert not is_new
    assert (again.operation.id, again.operation.spend.status_requests) == (first.operation.id, 4)
    assert again.operation.allowance == allowance()
    assert len(await world.reads.operations(ANNA, Page())) == 1


async def test_W39_another_fingerprint_is_a_contradiction(world: World) -> None:
    """A job of another request is never adopted; nothing is stored and nothing changed."""
    first, _ = await world.definitions.register(ANNA, new_operation())
    with pytest.raises(NotNow) as found:
        await world.definitions.register(ANNA, new_operation(fingerprint="another"))
    assert (found.value.code, found.value.subject) == ("contradiction", first.operation.id)
    other, is_new = await world.definitions.register(ANNA, new_operation(account="other", fingerprint="another"))
    assert is_new and other.operation.id != first.operation.id


async def test_W39_the_same_job_id_under_other_parameters_is_another_job(world: World) -> None:
    """Build 12 of two Jenkins jobs: two waits; registering one again, however its parameters are ordered, gives its own back."""
    one, _ = await world.definitions.register(ANNA, new_operation(parameters={"job": "a", "base": "https://one"}))
    two, is_new = await world.definitions.register(
        ANNA, new_operation(parameters={"job": "b", "base": "https://one"}, fingerprint="b")
    )
    again, is_again = await world.definitions.register(ANNA, new_operation(parameters={"base": "https://one", "job": "a"}))
    assert is_new and two.operation.id != one.operation.id
    assert not is_again and again.operation.id == one.operation.id


async def test_W39_a_closed_operation_does_not_hold_its_job(world: World) -> None:
    """After an end the same job can be waited for again: a new decision with new limits."""
    first, _ = await world.definitions.register(ANNA, new_operation())
    await world.sql("UPDATE operation SET state = 'succeeded', due = NULL")
    second, is_new = await world.definitions.register(ANNA, new_operation(fingerprint="another"))
    assert is_new and second.operation.id != first.operation.id


async def test_a_contract_is_stored_once_by_its_digest(world: World) -> None:
    """Two operations pin one document; the digest is that of its canonical bytes."""
    one, _ = await world.definitions.register(ANNA, new_operation("a"))
    two, _ = await world.definitions.register(ANNA, new_operation("b"))
    assert one.operation.contract_digest == two.operation.contract_digest == digest(canonical(dict(new_operation().document)))
    assert await world.reads.contract(one.operation.contract_digest) == new_operation().document
    assert (await world.sql("SELECT count(*) AS number FROM contract"))[0]["number"] == 1
    with pytest.raises(NotFound):
        await world.reads.contract("0" * 64)


@pytest.mark.parametrize(
    "limits",
    [
        allowance(max_status_requests=0),
        allowance(max_throttles=-1),
        allowance(deadline_at=START),
        allowance(business_deadline_at=START),
    ],
)
async def test_W41_an_operation_without_limits_that_bind_is_refused(world: World, limits: object) -> None:
    """No request limit, a negative one, or a deadline that has passed: refused, nothing stored."""
    with pytest.raises(RequestError):
        await world.definitions.register(ANNA, new_operation(allowance=limits))
    assert await world.reads.operations(ANNA, Page()) == []


async def test_the_first_look_is_never_after_the_deadline(world: World) -> None:
    """A look planned past the deadline becomes the deadline itself, so that the wait ends there."""
    late = new_operation(first_look_at=START + timedelta(hours=5))
    record, _ = await world.definitions.register(ANNA, late)
    assert record.due == record.operation.next_poll_at == START + timedelta(hours=1)


async def test_W20_a_persons_answer_is_recorded_whole_and_applied(world: World) -> None:
    """Who, when, what and the statement shown are stored; the operation goes on inside the option's bounds."""
    operation = await escalated(world)
    record = await answered(world)
    found = record.operation
    assert (found.state, found.category, found.open_escalation) == (OperationState.WAITING, None, None)
    assert found.allowance == allowance(deadline_at=START + timedelta(minutes=75), max_status_requests=14)
    assert (found.delay_source, found.next_poll_at, record.due) == (
        DelaySource.MANUAL_EXTENSION,
        *[START + timedelta(seconds=1)] * 2,
    )
    assert found.grants == (Grant("odd", 4),)
    assert (await world.sql("SELECT parked FROM operation"))[0]["parked"] is None
    question = await world.reads.escalation(ANNA, "esc_1")
    assert question.state == "answered"
    assert question.answer is not None
    assert (question.answer["by"], question.answer["option"], question.answer["statement"]) == (
        *("anna", "e", {"state": "odd", "calls": "6 of 10"}),
    )
    entry = (await world.reads.journal(ANNA, operation))[-1]
    assert (entry.kind, entry.facts["decision"], entry.facts["by"], entry.facts["digest"]) == (
        "decision",
        "answered",
        "anna",
        "d1",
    )
    before = entry.facts["limits_before"]
    assert isinstance(before, dict)
    assert (before["max_status_requests"], entry.facts["max_status_requests"]) == (10, 14)
    assert (entry.facts["state_before"], entry.facts["state"]) == ("escalated", "waiting")


@pytest.mark.parametrize("who", [BOT, Principal(user="cron", kind="system"), Principal(user="x", kind="")])
async def test_W20_only_a_person_grants_anything_but_stop(world: World, who: Principal) -> None:
    """An agent cannot extend its own wait; it may stop it."""
    await escalated(world)
    with pytest.raises(NotAllowed) as found:
        await answered(world, who=who)
    assert found.value.code == "needs_person"
    assert (await world.reads.escalation(ANNA, "esc_1")).state == "open"
    record = await answered(world, "s", who=who)
    assert (record.operation.state, record.due) == (OperationState.STOPPED, None)
    assert record.operation.category is not None, "an operation that ended keeps the reason it was asked about"


async def test_W20_an_answer_counts_once_for_what_was_shown_and_in_time(world: World) -> None:
    """Another digest, an unknown option, a second answer and a late one are refused, and change nothing."""
    operation = await escalated(world)
    with pytest.raises(NotAllowed) as differs:
        await answered(world, seen="d2")
    assert differs.value.code == "digest_differs"
    with pytest.raises(NotFound, match="e, s"):
        await answered(world, "x")
    with pytest.raises(NotFound):
        await answered(world, escalation="esc_2")
    with pytest.raises(NotFound):
        await answered(world, who=ELSEWHERE)
    assert [entry.facts["decision"] for entry in await world.reads.journal(ANNA, operation)] == ["created"]
    await answered(world)
    with pytest.raises(NotNow, match="anna") as twice:
        await answered(world, "s", who=BEN)
    assert twice.value.code == "answered"


async def test_W20_an_answer_at_its_end_is_too_late(world: World) -> None:
    """At `answer_by` silence has counted; reads show the question as expired even before a driver has closed it."""
    await escalated(world)
    world.clock.at = START + timedelta(days=1) - timedelta(microseconds=1)
    assert (await world.reads.escalation(ANNA, "esc_1")).state == "open"
    assert (await world.reads.counts(ANNA)).open_escalations == 1
    world.clock.at = START + timedelta(days=1)
    with pytest.raises(NotNow) as late:
        await answered(world)
    assert late.value.code == "expired"
    assert (await world.reads.escalation(ANNA, "esc_1")).state == "expired"
    assert [found.id for found in await world.reads.escalations(ANNA, Page(state="expired"))] == ["esc_1"]
    assert await world.reads.escalations(ANNA, Page(state="open")) == []
    assert (await world.reads.counts(ANNA)).open_escalations == 0


async def test_I22_of_two_people_who_answer_at_once_one_wins(tmp_path: Path) -> None:
    """Two processes' connections race for one question: one answer is applied, once, and the other is told by whom."""
    async with opened(tmp_path / "s.db") as one, opened(tmp_path / "s.db", HandClock(), first=1000) as two:
        for number in range(8):
            await escalated(one, f"job-{number}", escalation=f"esc_{number}")
            tries = [answered(one, who=ANNA, escalation=f"esc_{number}"), answered(two, "s", who=BEN, escalation=f"esc_{number}")]
            results = await asyncio.gather(*tries, return_exceptions=True)
            (winner,) = [result for result in results if isinstance(result, OperationRecord)]
            (loser,) = [result for result in results if isinstance(result, NotNow)]
            by = "anna" if winner.operation.state is OperationState.WAITING else "ben"
            assert by in str(loser)
            answers = [
                entry.facts
                for entry in await one.reads.journal(ANNA, winner.operation.id)
                if entry.facts["decision"] == "answered"
            ]
            assert [facts["by"] for facts in answers] == [by]


@pytest.mark.parametrize(
    "wider",
    [
        {"max_status_requests": 15},
        {"deadline_at": START + timedelta(hours=1, minutes=15, microseconds=1)},
        {"business_deadline_at": START + timedelta(days=2)},
        {"max_throttles": 30},
    ],
)
async def test_I22_a_rule_that_widens_more_than_the_option_says_is_refused(world: World, wider: dict[str, object]) -> None:
    """The store does not trust the rule: nothing beyond the shown minutes and checks is ever written."""
    operation = await escalated(world)

    def greedy(found: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
        decision = rule(found, escalation, option, now)
        return replace(decision, allowance=replace(decision.allowance, **wider))  # type: ignore[arg-type]

    with pytest.raises(InvariantBroken):
        await world.definitions.answer(ANNA, "esc_1", Given("d1", "e", {}), greedy)
    record = await world.reads.operation(ANNA, operation)
    assert (record.operation.state, record.operation.allowance) == (OperationState.ESCALATED, allowance())
    assert (await world.reads.escalation(ANNA, "esc_1")).state == "open"


async def test_an_answer_takes_the_lease_of_a_run_under_way(world: World) -> None:
    """A run that began before the answer cannot write over it: the fence has moved on."""
    operation = await escalated(world)
    await leased(world, "operation", operation)
    record = await answered(world)
    assert record.leased_until is None
    assert (await world.sql("SELECT run FROM operation"))[0]["run"] == 2
    assert [run.status for run in await world.reads.runs(ANNA, Page(subject=operation))] == ["abandoned"]


@pytest.mark.parametrize("state", ["dead", "ambiguous"])
async def test_a_person_queues_a_delivery_again_under_its_key(world: World, state: str) -> None:
    """The key stays; one more attempt is there, and keyed retries may go on; who decided is in the journal."""
    world.clock.at = START + timedelta(days=3)
    found = await delivery(world, state=state)
    before = (await world.reads.deliveries(ANNA, Page()))[0].delivery
    record = await world.definitions.retry_delivery(BEN, found)
    after = record.delivery
    assert (after.state.value, record.due, after.attempts, after.max_attempts) == ("queued", world.clock.at, 5, 6)
    assert after.effect.dedupe_key == before.effect.dedupe_key
    assert after.created_at + after.effect.keep_trying > world.clock.at
    assert (await world.sql("SELECT wake FROM pool WHERE name = ?", POOL))[0]["wake"] == to_micros(world.clock.at)
    (entry,) = await world.reads.journal(ANNA, found)
    assert (entry.facts["decision"], entry.facts["by"], entry.facts["before"]) == ("retry", "ben", state)


async def test_sending_again_twice_does_not_stretch_the_span_further(world: World) -> None:
    """Each decision gives the span of one, counted from the decision."""
    found = await delivery(world)
    for day in (1, 2):
        world.clock.at = START + timedelta(days=day)
        await world.definitions.retry_delivery(ANNA, found)
        effect = load_effect((await world.sql("SELECT effect FROM delivery"))[0]["effect"])
        assert effect.keep_trying == timedelta(days=day, hours=21)
        await world.sql("UPDATE delivery SET state = 'dead', due = NULL")


@pytest.mark.parametrize("state", ["queued", "sending", "delivered", "dropped"])
async def test_only_dead_or_ambiguous_deliveries_are_sent_again(world: World, state: str) -> None:
    """What is under way, done or closed is refused with its state."""
    found = await delivery(world, state=state)
    with pytest.raises(NotNow, match=state):
        await world.definitions.retry_delivery(ANNA, found)


@pytest.mark.parametrize("state", ["queued", "dead", "ambiguous"])
async def test_a_person_drops_a_delivery_that_is_not_under_way(world: World, state: str) -> None:
    """It is closed unsent and recorded; a second drop is refused."""
    found = await delivery(world, state=state, due=to_micros(START))
    record = await world.definitions.drop_delivery(ANNA, found)
    assert (record.delivery.state.value, record.due) == ("dropped", None)
    assert [entry.facts["decision"] for entry in await world.reads.journal(ANNA, found)] == ["dropped"]
    with pytest.raises(NotNow):
        await world.definitions.drop_delivery(ANNA, found)


async def test_a_delivery_being_sent_is_not_dropped(world: World) -> None:
    """Nobody can know whether it has left."""
    found = await delivery(world, state="sending", lease_until=to_micros(START + timedelta(seconds=30)))
    with pytest.raises(NotNow, match="being sent"):
        await world.definitions.drop_delivery(ANNA, found)
    with pytest.raises(NotFound):
        await world.definitions.drop_delivery(ELSEWHERE, found)


async def test_W20_the_real_rule_fits_the_stores_bounds_and_tells_the_end(world: World) -> None:
    """`decide_answer` on stored rows: an extension passes the store's last line, and a stop queues its message with the answer."""
    for number, used in enumerate((6, 10)):
        await escalated(world, f"job-{number}", escalation=f"esc_{number}")
        await world.sql(
            "UPDATE operation SET status_requests_used = ?, transport_failures_used = 4 WHERE job_id = ?", used, f"job-{number}"
        )
        record = await world.definitions.answer(ANNA, f"esc_{number}", Given("d1", "e", {}), decide_answer)
        assert (record.operation.state, record.operation.allowance.max_status_requests) == (OperationState.WAITING, used + 4)
        assert record.operation.allowance.deadline_at == START + timedelta(minutes=75)
    operation = await escalated(world, "told", escalation="esc_t")
    await world.sql("UPDATE operation SET actions = ? WHERE id = ?", dump_actions([action()]), operation)
    record = await world.definitions.answer(BOT, "esc_t", Given("d1", "s", {}), decide_answer)
    assert (record.operation.state, record.due) == (OperationState.STOPPED, None)
    (told,) = await world.reads.deliveries(ANNA, Page(subject=operation))
    assert (told.delivery.state.value, told.due, told.delivery.effect.action) == ("queued", START, action())
    entry = (await world.reads.journal(ANNA, operation))[-1]
    assert entry.facts["effects"] == [told.delivery.effect.dedupe_key]
    pools = {row["name"]: row["wake"] for row in await world.sql("SELECT name, wake FROM pool")}
    assert pools[told.delivery.effect.pool] is not None
