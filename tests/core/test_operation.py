"""Deciding on an answer: deadline first, then the state, then the budgets, then the next look."""

import json
from dataclasses import fields, replace
from random import Random

import pytest

from sereno.core.budget import Spend
from sereno.core.contract import Delays
from sereno.core.delay import jittered, raw_backoff, steep_backoff
from sereno.core.errors import InvariantBroken
from sereno.core.escalation import Category
from sereno.core.observation import DelaySource, ObservationKind, ReadHint
from sereno.core.operation import Event, Grant, OperationDecision, OperationState, decide_operation
from tests.core.waiting import (
    ALLOWANCE,
    KIND,
    NOON,
    after,
    apply,
    decide,
    escalated,
    make_contract,
    make_operation,
    poll_hint,
    retry_after,
    saw,
    seconds,
)

S = OperationState
SOON = replace(ALLOWANCE, deadline_at=after(10))

ENDS = [
    (KIND.SUCCESS, S.SUCCEEDED, None),
    (KIND.FAILURE, S.FAILED, Category.PROVIDER_FAILURE),
    (KIND.CANCELLED, S.CANCELLED, Category.PROVIDER_CANCELLED),
    (KIND.EXPIRED, S.EXPIRED, Category.PROVIDER_EXPIRED),
]
TROUBLE = [
    (KIND.NEEDS_INPUT, Category.NEEDS_INPUT),
    (KIND.PARTIAL, Category.PARTIAL_RESULT),
    (KIND.RESULT_EXPIRED, Category.RESULT_EXPIRED),
    (KIND.UNKNOWN_STATE, Category.UNKNOWN_STATE),
    (KIND.CONTRADICTION, Category.CONTRADICTION),
    (KIND.INTEGRATION_FAILURE, Category.INTEGRATION_FAILURE),
    (KIND.AUTHORIZATION_DENIED, Category.AUTHORIZATION_DENIED),
    (KIND.UNKNOWN_OPERATION, Category.UNKNOWN_OPERATION),
]
WAITS = [KIND.PENDING, KIND.THROTTLED, KIND.TRANSPORT, KIND.NOT_FOUND_YET, KIND.NOT_SENT]


def test_every_kind_of_observation_is_covered_here() -> None:
    """A new kind must find its place in these lists."""
    assert {kind for kind, *_ in ENDS} | {kind for kind, _ in TROUBLE} | set(WAITS) == set(ObservationKind)


@pytest.mark.parametrize(("kind", "state", "category"), ENDS)
def test_W11_a_final_state_ends_the_wait_without_a_question(kind: ObservationKind, state: S, category: Category | None) -> None:
    """Success, failure, cancelled and expired are final: nothing is due, no limit matters, each action is told once."""
    decision = decide(make_operation(Spend(12, 2, 2)), saw(kind))
    assert (decision.state, decision.category, decision.due, decision.next_poll_at) == (state, category, None, None)
    assert decision.escalation is None and decision.draw is None
    assert [effect.dedupe_key for effect in decision.effects] == [f"main:op_1:{state}:tell"]


@pytest.mark.parametrize(("kind", "category"), TROUBLE)
def test_W38_trouble_stops_at_first_sight(kind: ObservationKind, category: Category) -> None:
    """With every limit far away, one such answer asks a person and plans no request."""
    decision = decide(make_operation(), saw(kind))
    assert (decision.state, decision.event, decision.category) == (S.ESCALATED, Event.SAW_TROUBLE, category)
    assert decision.escalation is not None and decision.due == decision.escalation.answer_by
    assert decision.next_poll_at is None


@pytest.mark.parametrize("kind", WAITS)
def test_W02_everything_else_allows_one_thing_another_look(kind: ObservationKind) -> None:
    """Waiting goes on with a planned look and its source; nobody is told anything."""
    decision = decide(make_operation(), saw(kind))
    assert (decision.state, decision.event, decision.category) == (S.WAITING, Event.SAW_PENDING, None)
    assert decision.due == decision.next_poll_at and decision.due > NOON
    assert decision.effects == () and decision.escalation is None


@pytest.mark.parametrize("kind", list(ObservationKind))
@pytest.mark.parametrize("at", [3600, 3600.000001, 90_000])
def test_W32_nothing_that_comes_at_or_after_the_deadline_is_acted_upon(kind: ObservationKind, at: float) -> None:
    """Whatever came, the operation escalates as deadline_exceeded; the answer is recorded with its state."""
    decision = decide(make_operation(), saw(kind, state="done"), after(at))
    assert (decision.state, decision.event, decision.category) == (S.ESCALATED, Event.HIT_LIMIT, Category.DEADLINE_EXCEEDED)
    assert decision.observation is not None and decision.observation.kind is kind
    assert decision.escalation is not None and decision.escalation.statement["last_state"] == "done"
    assert [option.key for option in decision.escalation.options] == ["extend", "stop"]


def test_W32_a_success_just_before_the_deadline_is_success() -> None:
    """The instant of receipt decides, not that of the claim."""
    assert decide(make_operation(), saw(KIND.SUCCESS), after(3599.999999)).state is S.SUCCEEDED


def test_W32_a_late_success_says_so() -> None:
    """The sentence tells that there was an answer and that using it is a decision of its own."""
    late = decide(make_operation(), saw(KIND.SUCCESS), after(3600))
    assert late.reason == (
        "an answer (success) came at 2026-11-30 13:00:00 UTC, not before the deadline 2026-11-30 13:00:00 UTC: recorded, not acted upon"
    )
    assert (
        decide(make_operation(), saw(KIND.TRANSPORT), after(3600)).reason
        == "no answer came before the deadline 2026-11-30 13:00:00 UTC"
    )
    assert "passed before a request was sent" in decide(make_operation(), saw(KIND.NOT_SENT), after(3600)).reason


def test_W10_the_business_deadline_stops_first_and_is_named() -> None:
    """The earlier of the two ends the wait under its own category."""
    decision = decide(make_operation(allowance=replace(ALLOWANCE, business_deadline_at=after(5))), saw(KIND.SUCCESS), after(5))
    assert decision.category is Category.BUSINESS_DEADLINE_EXCEEDED and "the business deadline" in decision.reason


@pytest.mark.parametrize(
    ("kind", "spend", "category", "words"),
    [
        (KIND.PENDING, Spend(12), Category.REQUEST_BUDGET_EXHAUSTED, "12 of 12 status requests"),
        (KIND.NOT_FOUND_YET, Spend(12), Category.REQUEST_BUDGET_EXHAUSTED, "12 of 12 status requests"),
        (KIND.THROTTLED, Spend(12), Category.REQUEST_BUDGET_EXHAUSTED, "12 of 12 status requests"),
        (KIND.THROTTLED, Spend(12, throttles=2), Category.RATE_LIMITED, "3 of 3 rate-limit answers"),
        (KIND.TRANSPORT, Spend(12, transport_failures=2), Category.PROVIDER_UNREACHABLE, "3 of 3 failed requests"),
        (KIND.NOT_SENT, Spend(12, transport_failures=2), Category.PROVIDER_UNREACHABLE, "3 of 3 failed requests"),
    ],
)
def test_W34_a_used_up_budget_escalates_at_once(kind: ObservationKind, spend: Spend, category: Category, words: str) -> None:
    """The reply to the last allowed one plans nothing: the question is asked now, with the count in its reason."""
    decision = decide(make_operation(spend), saw(kind))
    assert (decision.state, decision.event, decision.category) == (S.ESCALATED, Event.HIT_LIMIT, category)
    assert words in decision.reason


def test_W34_eleven_of_twelve_goes_on() -> None:
    """One request left is a look left."""
    assert decide(make_operation(Spend(11, 1, 1)), saw(KIND.PENDING)).state is S.WAITING


def test_W18_an_unreachable_provider_is_not_a_failed_job() -> None:
    """The state of the job is said to be unknown."""
    decision = decide(make_operation(Spend(3, transport_failures=2)), saw(KIND.TRANSPORT))
    assert decision.state is S.ESCALATED and "what the job does is not known" in decision.reason


@pytest.mark.parametrize(
    ("kind", "http", "spend"),
    [
        (KIND.PENDING, 200, Spend(5, 1, 1, answered=4, not_found=0)),
        (KIND.THROTTLED, 429, Spend(5, 1, 2, answered=4, not_found=0)),
        (KIND.TRANSPORT, 503, Spend(5, 2, 1, answered=4, not_found=0)),
        (KIND.TRANSPORT, None, Spend(5, 2, 1, answered=3, not_found=2)),
        (KIND.NOT_FOUND_YET, 404, Spend(5, 1, 1, answered=4, not_found=3)),
        (KIND.NOT_SENT, None, Spend(4, 2, 1, answered=3, not_found=2)),
        (KIND.SUCCESS, 200, Spend(5, 1, 1, answered=4, not_found=0, steady=1)),
    ],
)
def test_W09_each_counter_counts_its_own(kind: ObservationKind, http: int | None, spend: Spend) -> None:
    """5xx counts as answered; only another answer ends a row of 404s; only a request that did not leave is given back."""
    decision = decide(make_operation(Spend(5, 1, 1, answered=3, not_found=2)), saw(kind, http_status=http))
    assert decision.spend == spend


def test_W33_nothing_is_given_back_below_zero_or_without_a_reservation() -> None:
    """A reservation is given back once at most."""
    assert decide(make_operation(Spend(0)), saw(KIND.NOT_SENT)).spend.status_requests == 0
    assert decide(make_operation(Spend(4), reserved=False), saw(KIND.NOT_SENT)).spend.status_requests == 4
    # The gate refused the address, or there was no credential: a person has to mend that, and it cost nothing.
    assert decide(make_operation(Spend(4)), saw(KIND.INTEGRATION_FAILURE, requests=0)).spend.status_requests == 3


def test_W09_redirect_hops_count_towards_the_limit_but_are_not_added_twice() -> None:
    """Hops were committed by the store before they left: they exhaust the budget, yet the settled count leaves them alone."""
    decision = decide(make_operation(Spend(10)), saw(KIND.PENDING, requests=3))
    assert decision.category is Category.REQUEST_BUDGET_EXHAUSTED and "12 of 12" in decision.reason
    assert decision.spend.status_requests == 10
    assert decision.escalation is not None and decision.escalation.statement["requests_used"] == 12
    assert decide(make_operation(Spend(9)), saw(KIND.PENDING, requests=3)).state is S.WAITING


def _backoff(draw: float, n: int, delays: Delays | None = None) -> float:
    return jittered(delays or Delays(), raw_backoff(delays or Delays(), n), draw).total_seconds()


def test_W06_the_backoff_counts_answered_requests_and_its_draw_is_kept() -> None:
    """The planned instant follows from the record and the one recorded draw."""
    for seed in range(20):
        decision = decide(make_operation(Spend(3, answered=2)), saw(KIND.PENDING), seed=seed)
        assert decision.draw == Random(seed).random()
        assert decision.due == NOON + seconds(_backoff(decision.draw, 3))
        assert decision.delay_source is DelaySource.LOCAL_BACKOFF


def test_replay_of_the_recorded_draw_decides_the_same() -> None:
    """Dice that show the recorded draw give an equal decision, and no decision draws twice."""

    class Recorded(Random):
        drawn = 0

        def random(self) -> float:
            self.drawn += 1
            assert first.draw is not None
            return first.draw

    operation, observation = make_operation(), saw(KIND.THROTTLED)
    first = decide(operation, observation)
    dice = Recorded()
    assert decide_operation(operation, make_contract(), observation, NOON, dice, escalation_id="esc_1") == first
    assert dice.drawn == 1


def test_W06_failures_without_answer_grow_the_delay_too() -> None:
    """While nothing answers, n would stand still; the failures count instead. A 5xx counts once, as an answer."""
    lost = decide(make_operation(Spend(3, transport_failures=1)), saw(KIND.TRANSPORT))
    assert lost.draw is not None and lost.due == NOON + seconds(_backoff(lost.draw, 2))
    answered = decide(make_operation(Spend(3, transport_failures=1)), saw(KIND.TRANSPORT, http_status=503))
    assert answered.draw is not None and answered.due == NOON + seconds(_backoff(answered.draw, 1))


def test_W14_429_without_retry_after_grows_steeply() -> None:
    """With the throttle of this answer counted in."""
    decision = decide(make_operation(Spend(3, throttles=1, answered=2)), saw(KIND.THROTTLED))
    assert decision.draw is not None and decision.due == NOON + steep_backoff(Delays(), 3, 2, decision.draw)


def test_W14_429_with_retry_after_obeys() -> None:
    """Retry-After replaces the steep growth; it is exact and names the source."""
    decision = decide(make_operation(Spend(3, throttles=1, answered=2)), saw(KIND.THROTTLED, retry_after(after(120))))
    assert (decision.due, decision.delay_source) == (after(120), DelaySource.PROVIDER_RETRY_AFTER)


@pytest.mark.parametrize("kind", [KIND.PENDING, KIND.TRANSPORT, KIND.NOT_FOUND_YET, KIND.NOT_SENT])
def test_W13_retry_after_is_obeyed_on_any_status(kind: ObservationKind) -> None:
    """The wait of a 200, a 503 or a 404 counts as much as that of a 429."""
    assert decide(make_operation(), saw(kind, retry_after(after(500)))).due == after(500)


def test_W13_a_providers_wait_is_a_minimum_and_keeps_its_name() -> None:
    """A longer backoff wins, but the wait stays one that a wake-up may not shorten (W35)."""
    decision = decide(make_operation(Spend(9, answered=8)), saw(KIND.PENDING, retry_after(after(30))))
    assert decision.draw is not None and decision.due == NOON + seconds(_backoff(decision.draw, 9)) > after(30)
    assert decision.delay_source is DelaySource.PROVIDER_RETRY_AFTER
    assert json.loads(json.dumps(decision.facts))["candidates"]["provider_retry_after"] == "2026-11-30T12:00:30+00:00"


def test_W07_a_hint_is_a_wait_and_names_itself() -> None:
    """A later Retry-After wins over it, a later hint over Retry-After."""
    hinted = decide(make_operation(), saw(KIND.PENDING, poll_hint(after(300))))
    assert (hinted.due, hinted.delay_source) == (after(300), DelaySource.PROVIDER_POLL_HINT)
    both = decide(make_operation(), saw(KIND.PENDING, poll_hint(after(300)), retry_after(after(400)), retry_after(after(350))))
    assert (both.due, both.delay_source) == (after(400), DelaySource.PROVIDER_RETRY_AFTER)
    later = decide(make_operation(), saw(KIND.PENDING, poll_hint(after(500)), retry_after(after(400))))
    assert (later.due, later.delay_source) == (after(500), DelaySource.PROVIDER_POLL_HINT)


def test_W07_a_rejected_hint_is_recorded_and_changes_nothing() -> None:
    """Local backoff goes on; the record says what was refused and why, cut in length."""
    bad = ReadHint(DelaySource.PROVIDER_POLL_HINT, "x" * 5000, None, "the hint is negative")
    decision = decide(make_operation(), saw(KIND.PENDING, bad))
    assert decision.delay_source is DelaySource.LOCAL_BACKOFF
    assert decision.facts["rejected_hints"] == [{"source": "provider_poll_hint", "raw": "x" * 200, "why": "the hint is negative"}]


@pytest.mark.parametrize("until", [0, -5, 0.5])
def test_I5_retry_after_of_nothing_keeps_the_local_gap(until: float) -> None:
    """0, the past and less than the gap: the wait is the local one and is called so."""
    decision = decide(make_operation(), saw(KIND.PENDING, retry_after(after(until))))
    assert decision.delay_source is DelaySource.LOCAL_BACKOFF and decision.due is not None and decision.due >= after(1)
    throttled = decide(make_operation(), saw(KIND.THROTTLED, retry_after(after(min(until, 0)))))
    assert throttled.draw is not None and throttled.due == NOON + steep_backoff(Delays(), 1, 1, throttled.draw)


def test_I6_the_minimum_gap_is_the_floor() -> None:
    """A gap of five minutes is kept against a short hint and a short backoff."""
    slow = make_contract(Delays(min_gap=seconds(300)))
    assert decide(make_operation(), saw(KIND.PENDING, poll_hint(after(10)), retry_after(after(20))), contract=slow).due == after(
        300
    )


def test_W13_a_retry_after_past_the_deadline_plans_no_request() -> None:
    """The wait ends at the deadline, the record says so now and keeps the provider's instant."""
    decision = decide(make_operation(allowance=SOON), saw(KIND.TRANSPORT, retry_after(after(600)), http_status=503))
    assert (decision.state, decision.due, decision.next_poll_at) == (S.WAITING, after(10), after(600))
    assert decision.delay_source is DelaySource.PROVIDER_RETRY_AFTER
    assert decision.reason.endswith("but the wait ends at 2026-11-30 12:00:10 UTC: no further request")
    assert decision.facts["clipped"] == {
        "planned": "2026-11-30T12:10:00+00:00", "stops_at": "2026-11-30T12:00:10+00:00", "limit": "deadline_exceeded",
    }  # fmt: skip


def test_W07_a_sane_hint_past_the_deadline_is_kept() -> None:
    """It is no reason to look earlier: the deadline closes the wait without another request."""
    decision = decide(make_operation(allowance=SOON), saw(KIND.PENDING, poll_hint(after(10))))
    assert (decision.due, decision.next_poll_at, decision.delay_source) == (after(10), after(10), DelaySource.PROVIDER_POLL_HINT)


def test_a_backoff_past_the_deadline_plans_nothing() -> None:
    """The deadline is due next and no look is promised."""
    decision = decide(make_operation(Spend(9, answered=8), SOON), saw(KIND.PENDING))
    assert (decision.due, decision.next_poll_at, decision.delay_source) == (after(10), None, DelaySource.LOCAL_BACKOFF)
    waited = decide(make_operation(Spend(9, answered=8), SOON), saw(KIND.PENDING, retry_after(after(5))))
    assert (waited.due, waited.next_poll_at) == (after(10), None)


def test_a_look_at_the_deadline_itself_comes_too_late() -> None:
    """An answer could not come before it, so it is not planned; one microsecond earlier it is."""
    at_the_end = decide(make_operation(allowance=SOON), saw(KIND.PENDING, retry_after(after(10))))
    assert "clipped" in at_the_end.facts and at_the_end.reason.endswith("no further request")
    before = decide(make_operation(allowance=SOON), saw(KIND.PENDING, retry_after(after(9.999999))))
    assert "clipped" not in before.facts and before.next_poll_at == before.due == after(9.999999)


def test_W06_a_typical_duration_shapes_early_looks() -> None:
    """The first looks wait for half to all of it from the start; later ones, and other kinds of answer, do not."""
    slow = make_contract(Delays(typical=seconds(1000)))
    early = decide(make_operation(), saw(KIND.PENDING), contract=slow)
    assert early.draw is not None and early.due == after(-60) + seconds(1000) * (0.5 + early.draw / 2)
    assert early.delay_source is DelaySource.CONTRACT_SCHEDULE
    second = decide(make_operation(Spend(2, answered=1)), saw(KIND.PENDING), contract=slow)
    assert second.delay_source is DelaySource.CONTRACT_SCHEDULE
    for other in (
        decide(make_operation(Spend(3, answered=2)), saw(KIND.PENDING), contract=slow),
        decide(make_operation(), saw(KIND.TRANSPORT), contract=slow),
        decide(make_operation(allowance=replace(ALLOWANCE, deadline_at=after(100))), saw(KIND.PENDING), contract=slow),
    ):
        assert other.delay_source is DelaySource.LOCAL_BACKOFF


def test_W29_operations_that_start_together_spread_out() -> None:
    """Two hundred with the same record get two hundred instants, over at least nine tenths of the permitted range."""
    dues = [decide(make_operation(Spend(5, answered=4)), saw(KIND.PENDING), seed=seed).due for seed in range(200)]
    known = sorted(due for due in dues if due is not None)
    assert len(set(known)) == 200
    assert known[-1] - known[0] > seconds(60 * 0.9)


def test_W40_a_granted_word_counts_as_pending_for_its_checks() -> None:
    """Exactly that word, exactly so often; the next sight of it asks again."""
    operation = make_operation(grants=(Grant("other", 3), Grant("Queued2", 2)))
    for left in (1, 0):
        decision = decide(operation, saw(KIND.UNKNOWN_STATE, state="Queued2"))
        assert decision.state is S.WAITING and decision.grants == (Grant("other", 3), Grant("Queued2", left))
        operation = apply(operation, decision)
    assert decide(operation, saw(KIND.UNKNOWN_STATE, state="Queued2")).category is Category.UNKNOWN_STATE


@pytest.mark.parametrize("grants", [(), [Grant("queued2", 5)], (Grant("Queued2", 0),)])
def test_W40_no_grant_covers_another_word(grants: list[Grant]) -> None:
    """Case counts, and a used-up grant is none."""
    assert decide(make_operation(grants=grants), saw(KIND.UNKNOWN_STATE, state="Queued2")).state is S.ESCALATED


def test_W40_a_grant_ends_at_the_budget() -> None:
    """A word that counts as pending spends requests like any other."""
    decision = decide(make_operation(Spend(12), grants=(Grant("running", 2),)), saw(KIND.UNKNOWN_STATE))
    assert decision.category is Category.REQUEST_BUDGET_EXHAUSTED and decision.grants == (Grant("running", 1),)


@pytest.mark.parametrize("kind", list(ObservationKind))
def test_W35_facts_that_come_during_a_question_are_only_recorded(kind: ObservationKind) -> None:
    """The question stays open under its own deadline; nothing is told twice and no new question replaces it."""
    operation, asked = escalated(Category.AUTHORIZATION_DENIED)
    decision = decide(operation, saw(kind), after(5))
    assert (decision.state, decision.due, decision.category) == (S.ESCALATED, asked.answer_by, Category.AUTHORIZATION_DENIED)
    assert decision.escalation is None and decision.effects == ()
    assert decision.observation is not None and decision.reason.startswith("recorded while a person is asked")


def test_W35_a_question_keeps_the_providers_wait() -> None:
    """The answer may not shorten it: the wait stays on the record and in the statement."""
    decision = decide(make_operation(Spend(12)), saw(KIND.PENDING, retry_after(after(600)), poll_hint(after(50))))
    assert (decision.next_poll_at, decision.delay_source) == (after(600), DelaySource.PROVIDER_RETRY_AFTER)
    assert decision.escalation is not None and decision.escalation.statement["not_before"] == "2026-11-30T12:10:00+00:00"


def test_messages_name_the_transition_the_pool_and_mark_foreign_text() -> None:
    """One row for each action; what the provider said is under `untrusted` and cannot steer a terminal."""
    broken = saw(KIND.FAILURE, error_code="E1", error_text="no\x1b[31m disk", state="failed", reason="the job failed")
    (effect,) = decide(make_operation(), broken).effects
    assert (effect.pool, effect.subject, effect.action.name) == ("host:chat.example", "op_1", "tell")
    assert effect.title == 'Job "job-7" at acme: failed'
    assert "\x1b" not in effect.body and 'error text: "no\\x1b[31m disk"' in effect.body
    assert effect.payload["category"] == "provider_failure"
    assert effect.payload["untrusted"] == {
        "last_state": "failed", "result_ref": None, "error_code": "E1", "error_text": "no\x1b[31m disk",
    }  # fmt: skip


def test_each_question_is_told_under_its_own_key() -> None:
    """A second escalation of one operation is not swallowed as a duplicate; its message carries options and digest."""
    first = decide(make_operation(), saw(KIND.CONTRADICTION))
    second = decide(make_operation(escalations=1), saw(KIND.CONTRADICTION))
    assert first.escalation is not None
    keys = [effect.dedupe_key for decision in (first, second) for effect in decision.effects]
    assert keys == ["main:op_1:escalated-1:tell", "main:op_1:escalated-2:tell"]
    body, payload = first.effects[0].body, first.effects[0].payload
    assert all(f"- {option.key}: {option.says}" in body for option in first.escalation.options)
    assert (payload["escalation"], payload["digest"]) == ("esc_1", first.escalation.digest)


def test_W42_no_answer_of_a_provider_can_widen_a_limit() -> None:
    """A decision on an observation has no place for limits; only a person's answer has."""
    assert "allowance" not in {field.name for field in fields(OperationDecision)}


def test_I11_deciding_on_an_ended_operation_is_our_bug() -> None:
    """A provider that goes back from a final state is not followed."""
    ended = apply(make_operation(), decide(make_operation(), saw(KIND.SUCCESS)))
    with pytest.raises(InvariantBroken, match="op_1 is succeeded"):
        decide(ended, saw(KIND.PENDING))
