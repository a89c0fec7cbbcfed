"""Escalations: the closed list, the table of options, the sentences with their numbers, and the digest of all of it."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from sereno.core.budget import Spend
from sereno.core.escalation import OPTIONS, UNSUBMITTED, Category, Option, Standing, Verb, escalation_digest, options_for
from tests.core.waiting import ALLOWANCE, KIND, NOON, after, decide, escalated, make_operation, retry_after, saw

CLOSED = {
    "deadline_exceeded", "request_budget_exhausted", "rate_limited", "unknown_state", "contradiction", "authorization_denied",
    "provider_failure", "provider_unreachable", "integration_failure", "business_deadline_exceeded", "ambiguous_delivery",
    "submit_unknown", "provider_cancelled", "provider_expired", "unknown_operation", "result_expired", "needs_input", "partial_result",
}  # fmt: skip
GOLDEN = Path(__file__).with_name("options.txt")
STANDING = Standing(
    "job-7", "queued2", Spend(status_requests=12, throttles=3), ALLOWANCE, cancel_effects="ends as canceled; what ran is billed."
)
CALLED = replace(STANDING, allowance=replace(ALLOWANCE, max_status_requests=0), spend=Spend())
UNSENT = replace(STANDING, job_id="", word=None, cancel_effects=None, spend=Spend(throttles=3))


def test_W19_the_list_of_categories_is_closed() -> None:
    """A new category is a change of the specification, not of the code."""
    assert {category.value for category in Category} == CLOSED


def _rendered() -> str:
    """Every option of every category as a person reads it, first with a job, then before there is one."""
    lines = []
    for title, table, standing in (
        ("a job is waited for", OPTIONS, STANDING),
        ("the provider calls back, and is never asked", OPTIONS, CALLED),
        ("there is no job yet", UNSUBMITTED, UNSENT),
    ):
        lines.append(f"# {title}")
        for category in table:
            lines.append(f"\n{category}")
            for option in options_for(category, standing):
                lines += [f"  {option.key} ({option.minutes} minutes, {option.checks} checks)", f"    {option.says}"]
        lines.append("")
    return "\n".join(lines)


def test_W40_the_table_of_options_as_a_whole() -> None:
    """Each category allows exactly these answers, in this order, with these bounds and sentences: tests/core/options.txt."""
    assert _rendered() == GOLDEN.read_text()


def test_W40_stop_is_everywhere_and_last() -> None:
    """The safe default can always be chosen, and each key is the word of its verb."""
    assert set(OPTIONS) == set(Category)
    for options in (*OPTIONS.values(), *UNSUBMITTED.values()):
        assert options[-1].verb is Verb.STOP
        assert [option.key for option in options] == [option.verb.value for option in options]


def test_W40_cancelling_is_offered_only_where_it_is_documented() -> None:
    """With its effects shown; nowhere else, and never where the job is gone or access is denied."""
    offers = {category for category in Category if Verb.CANCEL in [option.verb for option in options_for(category, STANDING)]}
    assert offers == {
        "deadline_exceeded", "request_budget_exhausted", "rate_limited", "unknown_state", "contradiction", "provider_unreachable",
        "integration_failure", "business_deadline_exceeded", "ambiguous_delivery", "needs_input",
    }  # fmt: skip
    for category in Category:
        undocumented = options_for(category, replace(STANDING, cancel_effects=None))
        assert Verb.CANCEL not in [option.verb for option in undocumented]


def test_W21_a_submit_that_may_have_been_taken_on_is_never_offered_again() -> None:
    """The sentence names the way of a new operation, which only a person takes."""
    for standing in (STANDING, UNSENT):
        options = options_for(Category.SUBMIT_UNKNOWN, standing)
        assert [option.verb for option in options] == [Verb.TREAT_AS_FAILED, Verb.STOP]
    assert all("sereno operation resubmit" in option.says for option in options)


def test_W40_without_a_job_nothing_is_looked_at() -> None:
    """Before the submit was answered there is neither a look nor a job to cancel."""
    looks = {
        Verb.EXTEND,
        Verb.CHECK_AGAIN,
        Verb.TREAT_AS_PENDING,
        Verb.PAUSE,
        Verb.UPDATE_CONTRACT,
        Verb.CANCEL,
        Verb.ACCEPT_PARTIAL,
    }
    for category in Category:
        assert not looks & {option.verb for option in options_for(category, UNSENT)}


def test_W17_a_denied_request_is_looked_at_again_only_after_a_review() -> None:
    """Neither time nor requests are offered for 401 and 403; the one look is bound to a review of the access."""
    look, _ = options_for(Category.AUTHORIZATION_DENIED, STANDING)
    assert (look.verb, look.checks) == (Verb.CHECK_AGAIN, 1)
    assert "after access, rotation, account scope and gateway have been reviewed" in look.says


@pytest.mark.parametrize("category", list(Category))
@pytest.mark.parametrize("standing", [STANDING, CALLED, UNSENT])
def test_W19_no_sentence_keeps_a_gap_or_says_continue(category: Category, standing: Standing) -> None:
    """Every template is filled and none of them is an open question."""
    for option in options_for(category, replace(standing, provider_wait=after(60))):
        assert not re.search(r"[{}]", option.says), option.says
        assert "continue" not in option.says.lower()
        assert option.says.endswith(".")


def test_W19_an_extension_shows_real_numbers() -> None:
    """Minutes, checks, what is used, what the limit becomes, the deadline, and what else the answer changes."""
    standing = replace(STANDING, allowance=replace(ALLOWANCE, business_deadline_at=after(30)), provider_wait=after(90))
    assert options_for(Category.RATE_LIMITED, standing)[0].says == (
        "Extend 15 minutes with 4 checks, after a look at the job in the provider's console. The time counts from your answer, or "
        "from the deadline (2026-11-30 13:00:00 UTC) if that is later. Requests used: 12 of 12; the limit is then 16. "
        "A business deadline (2026-11-30 12:00:30 UTC) that has passed when you answer moves to 15 minutes after your answer. "
        "2 more rate-limit answers are allowed. No look before 2026-11-30 12:01:30 UTC: the provider asked to wait."
    )


def test_W40_only_a_word_that_was_seen_can_count_as_pending() -> None:
    """Without a word the option is not shown."""
    verbs = [option.verb for option in options_for(Category.UNKNOWN_STATE, replace(STANDING, word=None))]
    assert verbs == [Verb.PAUSE, Verb.TREAT_AS_FAILED, Verb.UPDATE_CONTRACT, Verb.CANCEL, Verb.STOP]


def test_the_providers_word_cannot_write_into_the_sentence() -> None:
    """Braces and control characters of a foreign word stay what they are: quoted text."""
    pending = options_for(Category.UNKNOWN_STATE, replace(STANDING, word="{used}\x1b[2J\n- stop"))[1]
    assert 'Count the state "{used}\\x1b[2J\\n- stop" as pending for 5 checks' in pending.says


SHOWN = {
    "operation": "op_1",
    "contract": "acme",
    "account": "acme-key",
    "job": "job-7",
    "category": "request_budget_exhausted",
    "reason": "12 of 12 status requests are used and there is no final state",
    "last_state": "running",
    "elapsed_s": 60.0,
    "elapsed": "1m",
    "requests_used": 12,
    "requests_max": 12,
    "transport_failures_used": 0,
    "transport_failures_max": 3,
    "throttles_used": 1,
    "throttles_max": 3,
    "last_http_status": 200,
    "last_answer_at": "2026-11-30T12:00:00+00:00",
    "provider_request_id": "req-9",
    "error_code": None,
    "error_text": None,
    "deadline_at": "2026-11-30T13:00:00+00:00",
    "business_deadline_at": None,
    "not_before": "2026-11-30T12:00:30+00:00",
    "provider_wait_until": "2026-11-30T12:00:30+00:00",
    "answer_by": "2026-12-01T12:00:00+00:00",
}


def test_W19_the_statement_carries_everything_and_is_json() -> None:
    """Operation, job, last state, elapsed, requests, last HTTP result and time, reason and the bounded options."""
    operation = make_operation(Spend(status_requests=12, throttles=1, answered=11))
    asked = decide(operation, saw(KIND.PENDING, retry_after(after(30)), state="running", provider_request_id="req-9")).escalation
    assert asked is not None
    shown = json.loads(json.dumps(asked.statement))
    assert [(row["key"], row["says"]) for row in shown.pop("options")] == [(option.key, option.says) for option in asked.options]
    assert shown == SHOWN
    assert (asked.answer_by, asked.created_at, asked.state) == (NOON + timedelta(days=1), NOON, "open")


def test_I22_the_digest_covers_all_that_is_decided_on() -> None:
    """Another operation, statement, option or answer deadline is another digest; the same again is the same."""
    _, asked = escalated()
    same = escalation_digest("op_1", asked.statement, asked.options, asked.answer_by)
    wider = [replace(asked.options[0], checks=5), *asked.options[1:]]
    assert asked.digest == same
    others = {
        escalation_digest("op_2", asked.statement, asked.options, asked.answer_by),
        escalation_digest("op_1", {**asked.statement, "requests_max": 13}, asked.options, asked.answer_by),
        escalation_digest("op_1", asked.statement, wider, asked.answer_by),
        escalation_digest("op_1", asked.statement, [*reversed(asked.options)], asked.answer_by),
        escalation_digest("op_1", asked.statement, asked.options, asked.answer_by + timedelta(seconds=1)),
    }
    assert len(others | {same}) == 6


def test_the_digest_survives_being_stored_as_json() -> None:
    """What a store reads back has the same digest as what was shown."""
    _, asked = escalated()
    rows = json.loads(json.dumps(asked.statement))
    options = [Option(row["key"], Verb(row["verb"]), row["says"], row["minutes"], row["checks"]) for row in rows["options"]]
    assert escalation_digest("op_1", rows, options, asked.answer_by) == asked.digest


MESSAGE = """\
12 of 12 status requests are used and there is no final state
Last state: "running" (HTTP 200). Elapsed: 1m. Requests: 12 of 12, failed requests: 0 of 3, rate-limit answers: 1 of 3.
Provider request: "req-9"

Choose one:
- extend: {extend}
  sereno escalation answer esc_1 extend --digest {digest}
- stop: {stop}
  sereno escalation answer esc_1 stop --digest {digest}

Answer until 2026-12-01 12:00:00 UTC; otherwise Sereno stops waiting and keeps the handle."""


def test_W19_the_message_is_a_decision() -> None:
    """What happened, what is known, each option with its effect and its command, and until when."""
    operation = make_operation(Spend(status_requests=12, throttles=1, answered=11))
    decision = decide(operation, saw(KIND.PENDING, state="running", provider_request_id="req-9"))
    assert decision.escalation is not None
    extend, stop = decision.escalation.options
    assert decision.effects[0].title == 'Job "job-7" at acme needs a decision: request_budget_exhausted'
    assert decision.effects[0].body == MESSAGE.format(extend=extend.says, stop=stop.says, digest=decision.escalation.digest[:12])


def test_W40_a_provider_that_calls_back_is_never_asked() -> None:
    """No option promises a look: more time, a cancel, an end; and the option itself allows no check."""
    for category in Category:
        options = options_for(category, CALLED)
        assert {option.verb for option in options} <= {
            Verb.EXTEND, Verb.CANCEL, Verb.TREAT_AS_FAILED, Verb.ACCEPT_PARTIAL, Verb.STOP,
        }  # fmt: skip
        assert all(option.checks == 0 for option in options)
