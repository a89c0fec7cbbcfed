"""Foreseen: what a real wait would see in one saved answer, and what it would do next. Pure: nothing is stored, nothing is sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from sereno.core.contract import Contract, word_of
from sereno.core.delay import read_http_date
from sereno.core.observation import Asked, HttpReply, Observation, read_observation
from sereno.core.operation import OperationDecision, decide_operation
from sereno.core.values import Json
from sereno.service.contracting.answers import Answer
from sereno.service.contracting.cases import JOB, address, waiting

_LAST_DRAW = 1 - 2**-53
"""The largest draw in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What one answer amounts to. `earliest` and `latest` bound the next look, counted from the answer; None where there is none."""

    job_id: str
    received_at: datetime
    observation: Observation
    decision: OperationDecision
    earliest: timedelta | None
    latest: timedelta | None


class _Draw(Random):
    """Dice that show one number."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self._value = value

    def random(self) -> float:
        return self._value


@dataclass(frozen=True, slots=True)
class Asking:
    """What was asked: the job (None = the one that the answer names), how long after its start, and the parameters."""

    job_id: str | None = None
    after: timedelta = timedelta(seconds=60)
    parameters: Mapping[str, str] | None = None


def foresee(contract: Contract, answer: Answer, asking: Asking, *, now: datetime) -> Foreseen:
    """Reads and decides as a wait would, under the contract's own limits. The answer came at its `Date`, or `now` where it has none.

    Raises ValueError where a value does not fit the address.
    """
    at = read_http_date(answer.headers.get("date", ""), near=now) or now
    job = asking.job_id or _named(contract, answer) or JOB
    given = dict(asking.parameters or {})
    base = given.get("base")
    filled = {name: given.get(name, "x") for name in contract.parameters} | ({"base": base} if base else {})
    url = address(contract, {"job_id": job, "parameters": dict[str, object](filled)})
    reply = HttpReply(answer.status, list(_typed(answer).items()), answer.body.encode(), url, timedelta(0))
    started = at - asking.after
    asked = Asked(job_id=job, started_at=started, url=url, parameters=filled)
    seen = read_observation(contract, asked, reply, received_at=at)
    operation = waiting(contract, filled, started_at=started, job_id=job)
    first, last = (
        decide_operation(operation, contract, seen, at, _Draw(draw), escalation_id="esc_1") for draw in (0.0, _LAST_DRAW)
    )
    return Foreseen(job, at, seen, first, _until(first, at), _until(last, at))


def _named(contract: Contract, answer: Answer) -> str | None:
    """The job that the answer names, where that is the id as it is."""
    if contract.job_id is None or contract.job_id_is != "{job_id}":
        return None
    found: Json = contract.job_id.search(answer.json)
    return word_of(found)


def _typed(answer: Answer) -> Mapping[str, str]:
    if not answer.body or "content-type" in answer.headers:
        return answer.headers
    return {**answer.headers, "content-type": "application/json"}


def _until(decision: OperationDecision, at: datetime) -> timedelta | None:
    if decision.category is not None or decision.next_poll_at is None:
        return None
    return decision.next_poll_at - at
