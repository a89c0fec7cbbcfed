"""Deciding with what format 1 can say: the last look, the longest gap, steady success, counts, pins, hand-overs, regressions, results."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sereno.core.budget import Spend
from sereno.core.contract import Contract, Delays, Keep, KeepFrom, Meaning, Rule, StateSource, Via
from sereno.core.effect import Policy
from sereno.core.escalation import Category, Verb
from sereno.core.observation import DelaySource, ObservationKind, ReadHint
from sereno.core.operation import Event, Operation, OperationState, decide_answer
from tests.core.waiting import (
    ALLOWANCE,
    KIND,
    NOON,
    after,
    apply,
    decide,
    make_contract,
    make_operation,
    poll_hint,
    retry_after,
    saw,
    seconds,
)

S = OperationState
SLOW = Delays(base=seconds(100), maximum=seconds(100))


def soon(deadline: float, **fields: object) -> Operation:
    """An operation that ends in so many seconds."""
    return make_operation(allowance=replace(ALLOWANCE, deadline_at=after(deadline)), **fields)  # type: ignore[arg-type]


# --- the last look (W32)


@pytest.mark.parametrize("deadline", [40, 60, 109])
def test_W32_the_last_look_is_planned_so_that_its_answer_can_come(deadline: float) -> None:
    """status-polling §1.3: a backoff that ends too close to the deadline, or behind it, is cut to ten seconds before it."""
    for seed in range(10):
        decision = decide(soon(deadline), saw(KIND.PENDING), contract=make_contract(SLOW), seed=seed)
        assert decision.due is not None and decision.due == decision.next_poll_at <= after(deadline - 10)
        if "last_look" in decision.facts:
            assert decision.due == after(deadline - 10) and decision.delay_source is DelaySource.LOCAL_BACKOFF
            assert "last look at" in decision.reason
    always = decide(soon(40), saw(KIND.PENDING), contract=make_contract(SLOW))
    assert always.facts["last_look"] == {**always.facts["last_look"], "stops_at": after(40).isoformat()}  # type: ignore[dict-item]


def test_W32_the_contract_says_how_long_an_answer_may_take() -> None:
    """And a business deadline counts as the end where it is earlier."""
    slow = make_contract(SLOW, answer_within=seconds(25))
    assert decide(soon(40), saw(KIND.PENDING), contract=slow).due == after(15)
    operation = make_operation(allowance=replace(ALLOWANCE, business_deadline_at=after(30)))
    assert decide(operation, saw(KIND.PENDING), contract=slow).due == after(5)


@pytest.mark.parametrize("hint", [retry_after(after(35)), poll_hint(after(35))])
def test_W13_the_last_look_comes_never_inside_a_providers_wait(hint: ReadHint) -> None:
    """A wait of the provider that ends later is kept to the second; one that ends earlier leaves room."""
    decision = decide(soon(40), saw(KIND.PENDING, hint), contract=make_contract(Delays(base=seconds(2))))
    assert decision.due == decision.next_poll_at == after(35) and "last_look" not in decision.facts
    cut = decide(soon(60), saw(KIND.PENDING, hint), contract=make_contract(SLOW))
    assert cut.due == after(50)


def test_I6_the_last_look_keeps_the_minimum_gap() -> None:
    """Where it cannot, the planned look stays, or none is sent."""
    gap = make_contract(replace(SLOW, min_gap=seconds(30)), answer_within=seconds(11))
    assert decide(soon(41), saw(KIND.PENDING), contract=gap).due == after(30)
    none = decide(soon(40.9), saw(KIND.PENDING), contract=gap)
    assert none.due == after(40.9) and none.next_poll_at is None and "no further request" in none.reason


def test_W32_after_the_last_look_a_planned_one_still_counts_its_time() -> None:
    """At or after the deadline none is sent."""
    short = make_contract(Delays(base=seconds(5), maximum=seconds(5)))
    assert decide(soon(9), saw(KIND.PENDING), contract=short).due is not None
    last = decide(soon(2), saw(KIND.PENDING), contract=short)
    assert (last.due, last.next_poll_at) == (after(2), None)


# --- the longest gap


@pytest.mark.parametrize(("counted_from", "longest"), [("completion", 300), ("creation", 1800)])
def test_a_result_that_is_kept_for_a_while_is_not_slept_past(counted_from: str, longest: float) -> None:
    """status-polling §3.5 item 6: half of the retention after completion is the longest local pause; creation sets no pause."""
    contract = make_contract(
        Delays(base=seconds(1800), maximum=seconds(1800)), retention=seconds(600), retention_from=counted_from
    )
    dues = [decide(make_operation(), saw(KIND.PENDING), contract=contract, seed=seed).due for seed in range(30)]
    gaps = [(due - NOON).total_seconds() for due in dues if due is not None]
    assert longest / 2 <= min(gaps) and longest * 0.9 <= max(gaps) <= longest and len(set(gaps)) == 30


def test_a_usual_duration_does_not_sleep_past_the_retention_either() -> None:
    """The schedule is cut as well; a provider's own wait never is."""
    contract = make_contract(Delays(typical=seconds(3000)), retention=seconds(600))
    assert decide(make_operation(), saw(KIND.PENDING), contract=contract).due == after(300)
    told = decide(make_operation(), saw(KIND.PENDING, retry_after(after(900))), contract=contract)
    assert told.due == after(900)


# --- steady success


def steady(count: int) -> Contract:
    """A contract that wants success so often in a row."""
    return make_contract(state=StateSource("path", steady=count))


def test_status_polling_a_flapping_success_counts_only_when_steady() -> None:
    """Terraform's guard: three in a row; any other word starts again, a lost answer does not."""
    contract, operation = steady(3), make_operation()
    kinds = [KIND.SUCCESS, KIND.SUCCESS, KIND.PENDING, KIND.SUCCESS, KIND.TRANSPORT, KIND.THROTTLED, KIND.SUCCESS, KIND.SUCCESS]
    seen = []
    for number, kind in enumerate(kinds):
        decision = decide(
            operation, saw(kind, state="done" if kind is KIND.SUCCESS else "running"), after(number), contract=contract
        )
        operation = apply(operation, decision)
        seen.append(operation.spend.steady)
        assert (decision.state is S.SUCCEEDED) is (number == 7)
    assert seen == [1, 2, 0, 1, 1, 1, 2, 3]


def test_a_success_that_does_not_count_yet_says_so_and_costs_budget() -> None:
    """It is no success at the last request either."""
    first = decide(make_operation(), saw(KIND.SUCCESS), contract=steady(2))
    assert (first.state, first.event, first.effects) == (S.WAITING, Event.SAW_PENDING, ())
    assert "success was seen 1 of 2 times" in first.reason and first.facts["steady"] == "1 of 2"
    last = decide(make_operation(Spend(12)), saw(KIND.SUCCESS), contract=steady(2))
    assert last.category is Category.REQUEST_BUDGET_EXHAUSTED


# --- counts, pins, hand-overs


def test_W38_what_is_tolerated_is_counted_in_a_row() -> None:
    """The count is kept with the operation; an answer that needs no tolerance ends the row, a lost one does not."""
    operation = make_operation()
    counts = []
    for seen in (
        saw(KIND.PENDING, tolerated=True), saw(KIND.TRANSPORT), saw(KIND.PENDING, tolerated=True), saw(KIND.PENDING),
        saw(KIND.PENDING, tolerated=True),
    ):  # fmt: skip
        operation = apply(operation, decide(operation, seen))
        counts.append(operation.spend.tolerated)
    assert counts == [1, 1, 2, 0, 1]


def test_W05_the_first_answer_is_remembered() -> None:
    """Later answers add what is new and replace nothing, also where they contradict."""
    first = apply(make_operation(), decide(make_operation(), saw(KIND.PENDING, pins={"uid": "u1"})))
    second = decide(first, saw(KIND.CONTRADICTION, pins={"uid": "u2", "attempt": "1"}))
    assert second.pins == {"uid": "u1", "attempt": "1"}


def test_W15_the_next_looks_go_where_the_job_went() -> None:
    """The new address is stored; without one the old one stays."""
    moved = decide(make_operation(), saw(KIND.PENDING, next_url="https://acme.example/build/7"))
    assert moved.url == "https://acme.example/build/7"
    assert apply(make_operation(), moved).url == moved.url
    assert decide(make_operation(), saw(KIND.PENDING)).url is None
    last = decide(make_operation(Spend(12)), saw(KIND.PENDING, next_url="https://acme.example/build/7"))
    assert last.state is S.ESCALATED and last.url == "https://acme.example/build/7"


# --- regressions


@pytest.mark.parametrize("before", ["done", "failed"])
def test_W04_a_state_that_goes_back_from_a_final_one_is_not_followed(before: str) -> None:
    """A late success was recorded, the wait was extended, and now the job runs: a contradiction, counted as a regression."""
    decision = decide(make_operation(last_state=before), saw(KIND.PENDING, state="running"))
    assert (decision.state, decision.category) == (S.ESCALATED, Category.CONTRADICTION)
    assert decision.facts["regression"] == f"the job was {before!r}, which is final, and is now 'running'"
    assert decision.observation is not None and decision.observation.kind is KIND.CONTRADICTION


@pytest.mark.parametrize(
    ("before", "now", "contract"),
    [
        ("queued", "running", make_contract()),
        ("done", "done", make_contract()),
        ("done", None, make_contract()),
        ("odd", "running", make_contract()),
        (None, "running", make_contract()),
        ("done", "running", steady(2)),
        ("done", "running", make_contract(rules=(Rule("done", Meaning.PENDING),))),
    ],
)
def test_what_was_not_known_to_be_final_is_no_regression(before: str | None, now: str | None, contract: Contract) -> None:
    """A settling success, an unknown word, a rule that refines the word, or a contract that expects flapping."""
    decision = decide(make_operation(last_state=before), saw(KIND.PENDING, state=now), contract=contract)
    assert decision.state is S.WAITING and "regression" not in decision.facts


# --- the result that is kept (W30)

KEEPS = make_contract(keep=Keep(KeepFrom.ANSWER))


def test_W30_success_copies_the_result_as_an_action_of_its_own() -> None:
    """One effect, under its own key, with what a look needs and no address of a result; names of credentials only."""
    operation = make_operation(parameters={"project": "p"})
    decision = decide(operation, saw(KIND.SUCCESS, pins={"uid": "u1"}, result_ref="https://acme.example/r?sig=x"), contract=KEEPS)
    told, kept = decision.effects
    assert told.action.name == "tell"
    assert (kept.dedupe_key, kept.pool, kept.subject) == ("main:op_1:succeeded:result", "acme:acme-key", "op_1")
    assert (kept.action.type, kept.action.policy, kept.action.origin) == ("keep_result", Policy.KEYED, "core")
    assert kept.action.options == {
        "operation": "op_1", "contract_digest": "d" * 64, "account": "acme-key", "job_id": "job-7",
        "url": "https://acme.example/jobs/job-7", "parameters": {"project": "p"}, "pins": {"uid": "u1"},
    }  # fmt: skip
    assert kept.keep_trying == timedelta(hours=21)
    assert len(decide(operation, saw(KIND.SUCCESS)).effects) == 1


@pytest.mark.parametrize(
    ("retention", "counted_from", "trying"),
    [
        (None, "completion", timedelta(hours=21)),
        (timedelta(hours=1), "completion", timedelta(hours=1)),
        (timedelta(days=9), "completion", timedelta(hours=21)),
        (timedelta(hours=1), "creation", timedelta(minutes=59)),
        (timedelta(seconds=30), "creation", timedelta(minutes=1)),
    ],
)
def test_W30_the_copy_is_tried_until_the_retention_ends(
    retention: timedelta | None, counted_from: str, trying: timedelta
) -> None:
    """From completion, or from creation a minute ago; at least once more, at most 21 hours."""
    contract = replace(KEEPS, retention=retention, retention_from=counted_from)
    assert decide(make_operation(), saw(KIND.SUCCESS), contract=contract).effects[-1].keep_trying == trying


def test_W30_the_copy_reads_the_status_no_sooner_than_a_look_would() -> None:
    """The minimum gap holds, and what the success asked to wait, where that is later; so it does after a person's answer."""
    slow = make_contract(Delays(min_gap=timedelta(seconds=30)), keep=Keep(KeepFrom.ANSWER))
    for hints, planned in (
        ((), 30),
        ((retry_after(after(10)),), 30),
        ((retry_after(after(90)),), 90),
        ((poll_hint(after(45)),), 45),
    ):
        assert decide(make_operation(), saw(KIND.SUCCESS, *hints), contract=slow).effects[-1].not_before == after(planned)
    decision = decide(make_operation(), saw(KIND.PARTIAL, retry_after(after(90))), contract=slow)
    assert decision.escalation is not None
    option = next(option for option in decision.escalation.options if option.verb is Verb.ACCEPT_PARTIAL)
    for answered, planned in ((9, 90), (80, 110)):
        answer = decide_answer(apply(make_operation(), decision), decision.escalation, option, after(answered), contract=slow)
        assert answer.effects[-1].not_before == after(planned)


def test_W30_what_only_calls_back_is_not_copied() -> None:
    """Its status cannot be read anew."""
    pushed = replace(KEEPS, via=Via.PUSH)
    assert [effect.action.name for effect in decide(make_operation(), saw(KIND.SUCCESS), contract=pushed).effects] == ["tell"]


@pytest.mark.parametrize("kind", [kind for kind in ObservationKind if kind is not KIND.SUCCESS])
def test_W30_nothing_else_copies_a_result(kind: ObservationKind) -> None:
    """Not a failure, not a partial result, not pending."""
    assert all(effect.action.type != "keep_result" for effect in decide(make_operation(), saw(kind), contract=KEEPS).effects)


def test_W30_a_partial_result_that_a_person_accepts_is_copied() -> None:
    """The same effect under the same key, where the contract is at hand."""
    decision = decide(make_operation(), saw(KIND.PARTIAL), contract=KEEPS)
    assert decision.escalation is not None
    option = next(option for option in decision.escalation.options if option.verb is Verb.ACCEPT_PARTIAL)
    operation = apply(make_operation(), decision)
    answer = decide_answer(operation, decision.escalation, option, after(9), contract=KEEPS)
    assert [effect.dedupe_key for effect in answer.effects] == ["main:op_1:succeeded:tell", "main:op_1:succeeded:result"]
    assert len(decide_answer(operation, decision.escalation, option, after(9)).effects) == 1
