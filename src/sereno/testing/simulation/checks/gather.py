"""Puts what a world left behind together: by operation, by delivery, by poll."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sereno.core.values import to_micros
from sereno.testing.hostile.book import Request
from sereno.testing.simulation.checks.evidence import Case, Claim, Clock, Evidence, Facts, Row, claims_of
from sereno.testing.simulation.lived import Lived
from sereno.testing.simulation.outside.people import PeopleBook

T = TypeVar("T")
SLOWEST = 0.012
"""The share by which the monotonic clock of a process may run slow, where that struck."""
_SLOW = "clock.mono_rate"
PATIENT = "sim-patient"


def evidence_of(lived: Lived) -> Evidence:
    """Reads everything once."""
    rows, outside, processes = lived.persisted.rows, lived.outside, lived.processes
    journal = journal_of(rows.get("journal", ()), lived.true_at)
    claims = {subject: claims_of(entries) for subject, entries in journal.items()}
    return Evidence(
        times=lived.options.times,
        began=lived.began,
        ended=lived.ended,
        ended_host=lived.ended_host,
        cases=_cases(lived, journal, claims),
        processes=processes,
        deliveries=lived.persisted.deliveries,
        rows=rows,
        journal=journal,
        claims=claims,
        arrivals=outside.received.arrivals,
        feeds={poll["id"]: outside.feeds[poll["name"]] for poll in rows.get("poll", ()) if poll["name"] in outside.feeds},
        people=outside.acted,
        strangers=outside.provider.strangers,
        replayed=lived.replayed,
        clock=Clock(_instants(lived), processes.steps),
        drift=SLOWEST if outside.plan.struck[_SLOW] else 0.0,
    )


def journal_of(rows: Iterable[Mapping[str, Any]], true_at: Mapping[int, datetime] | None = None) -> Mapping[str, Sequence[Row]]:
    """The journal by subject, its facts read, and how far waits had been moved by each row."""
    found: dict[str, list[Row]] = {}
    moved = 0
    for row in rows:
        facts = row["facts"] if isinstance(row["facts"], dict) else json.loads(row["facts"])
        subject = str(row["subject"])
        if subject == "clock" and facts.get("moved"):
            moved += round(facts["seconds"] * 1_000_000)
        seq, known = int(row["seq"]), (true_at or {}).get(int(row["seq"]))
        true = None if known is None else to_micros(known)
        found.setdefault(subject, []).append(
            Row(seq, subject, int(row["run"]), str(row["kind"]), int(row["at"]), facts, moved, true)
        )
    return found


def _instants(lived: Lived) -> Iterable[tuple[datetime, datetime]]:
    """Instants of true time beside the host's wall clock."""
    outside = lived.outside
    yield from ((one.at, one.host_at) for one in outside.provider.requests)
    yield from ((one.at, one.host_at) for one in outside.received.arrivals)
    yield from ((one.at, one.host_at) for feed in outside.feeds.values() for one in feed.readings)
    yield from ((one.at, one.host_at) for one in outside.acted.acts)
    yield lived.ended, lived.ended_host


def _cases(lived: Lived, journal: Mapping[str, Sequence[Row]], claims: Mapping[str, Sequence[Claim]]) -> Sequence[Case]:
    rows, people = lived.persisted.rows, lived.outside.acted
    runs = _by(rows.get("run", ()), lambda run: str(run["subject"]))
    calls = _by(rows.get("provider_call", ()), lambda call: str(call["operation"]))
    questions = _by(rows.get("escalation", ()), lambda question: str(question["operation"]))
    gaps = {row["id"]: timedelta(microseconds=int(row["min_gap_us"])) for row in rows.get("operation", ())}
    found = []
    for operation in lived.persisted.operations:
        case = Case(operation, people.refs.get(operation.id, ""))
        case.rows, case.claims = journal.get(operation.id, ()), claims.get(operation.id, ())
        case.runs, case.calls = runs.get(operation.id, ()), calls.get(operation.id, ())
        case.questions = questions.get(operation.id, ())
        case.min_gap = _smallest(case, gaps.get(operation.id))
        case.patient = operation.contract == PATIENT
        found.append(case)
    _hand_out(lived, found)
    return found


def _smallest(case: Case, gap: timedelta | None) -> timedelta:
    """The smallest of the gaps that held: another contract may bring another."""
    known = [
        timedelta(microseconds=int(claim.row.facts["min_gap_us"])) for claim in case.claims if "min_gap_us" in claim.row.facts
    ]
    return min(known + ([] if gap is None else [gap]), default=case.min_gap)


def _by(rows: Iterable[Facts], key: Callable[[Facts], str]) -> Mapping[str, Sequence[Facts]]:
    found: dict[str, list[Facts]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def _hand_out(lived: Lived, cases: Sequence[Case]) -> None:
    """Gives each request in the provider's book to the operation that sent it."""
    outside = lived.outside
    by_job: dict[str, list[Case]] = {}
    by_ref: dict[str, list[Case]] = {}
    for case in cases:
        by_ref.setdefault(case.ref, []).append(case)
        if case.operation.job_id:
            by_job.setdefault(case.operation.job_id, []).append(case)
    since = _since(outside.acted)
    owners: dict[str, dict[str, list[Request]]] = {"look": {}, "cancel": {}, "submit": {}}
    for request in outside.provider.requests:
        candidates = by_ref.get(request.ref, ()) if request.kind == "submit" else by_job.get(request.job, ())
        owner = _owner(request, candidates, since)
        if owner is not None:
            owners[request.kind].setdefault(owner.id, []).append(request)
    for case in cases:
        case.looks, case.cancels = owners["look"].get(case.id, ()), owners["cancel"].get(case.id, ())
        case.submits = owners["submit"].get(case.id, ())
        order = outside.provider.orders.get(case.ref)
        case.broke = order is not None and order.broke


def _since(people: PeopleBook) -> Mapping[str, datetime]:
    """From when on an operation may have sent something: one that was submitted anew may be sent before whoever asked for it hears so."""
    begun = {(act.subject, act.at): act.began for act in people.acts if act.accepted and act.word == "resubmit"}
    return {name: begun.get((people.previous.get(name, ""), at)) or at for name, at in people.registered.items()}


def _owner(request: Request, cases: Sequence[Case], since: Mapping[str, datetime]) -> Case | None:
    """One reference or job is several operations' where one was submitted anew, or a provider named another's job."""
    if len(cases) < 2:
        return cases[0] if cases else None
    for case in cases:
        if request.number in case.committed() or (request.key and any(call["key"] == request.key for call in case.calls)):
            return case
    if request.kind == "submit":
        # The one before had ended when the next was asked for.
        earlier = [case for case in cases if since.get(case.id, request.at) <= request.at]
        return max(earlier, key=lambda case: since.get(case.id, request.at), default=None)
    at = to_micros(request.at)
    near = [
        (abs(claim.row.instant - at), case.id, case) for case in cases for claim in case.claims if claim.worker == request.process
    ]
    return min(near, key=lambda one: one[:2])[2] if near else None
