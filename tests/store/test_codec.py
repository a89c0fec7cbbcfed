"""The codec of answers: what the journal and a call's row hold is read back as it was, so that a replay decides on the same."""

from datetime import timedelta

import pytest

from sereno.core.call import CallAnswer, CallOutcome
from sereno.core.observation import DelaySource, Observation, ObservationKind, ReadHint
from sereno.store.codec import call_answer_json, dumps, load_call_answer, load_observation, loads_foreign, observation_json
from tests.store.seeding import START

HINTS = (
    ReadHint(DelaySource.PROVIDER_RETRY_AFTER, "30", START + timedelta(seconds=30)),
    ReadHint(DelaySource.PROVIDER_POLL_HINT, "soon", None, "not a number"),
)
OBSERVATIONS = [
    Observation(ObservationKind.NOT_SENT, requests=0),
    Observation(ObservationKind.PENDING, state="", reason="a reason", tolerated=True, http_status=0),
    Observation(
        ObservationKind.SUCCESS,
        state="done",
        http_status=200,
        reason="the state means success",
        hints=HINTS,
        result_ref="https://example.com/r",
        error_code="E1",
        error_text="odd\x1btext",
        progress="50 %",
        provider_request_id="r-1",
        expires_at=START + timedelta(days=1),
        requests=3,
        pins={"created_at": "2026-03-01", "owner": "anna"},
        next_url="https://example.com/next",
    ),
]
ANSWERS = [
    CallAnswer(CallOutcome.NOT_SENT, requests=0),
    CallAnswer(
        CallOutcome.ACCEPTED,
        reason="taken on",
        http_status=202,
        job_id="job-9",
        url="https://example.com/jobs/9",
        parameters={"region": "eu"},
        hints=HINTS,
        error_code="none",
        error_text="none",
        provider_request_id="r-2",
        requests=2,
    ),
]


@pytest.mark.parametrize("observation", OBSERVATIONS)
def test_W28_an_observation_comes_back_from_the_journal_as_it_was(observation: Observation) -> None:
    """Every field, also the counts and pins that the decision looked at, and a state without a letter."""
    assert load_observation(loads_foreign(dumps(observation_json(observation)))) == observation


@pytest.mark.parametrize("answer", ANSWERS)
def test_W31_a_calls_answer_comes_back_as_it_was(answer: CallAnswer) -> None:
    """The record of a submit holds its answer whole."""
    assert load_call_answer(loads_foreign(dumps(call_answer_json(answer)))) == answer
