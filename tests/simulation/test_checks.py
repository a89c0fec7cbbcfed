"""Each check of a simulated world finds what it is there for, in books written by hand, and finds nothing where everything held."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sereno.core.budget import Spend
from sereno.core.delivery import DeliveryState, OutcomeKind
from sereno.core.operation import OperationState
from sereno.core.work import LeaseTimes
from sereno.ports import PoolLimits
from sereno.testing.simulation.checks import (
    CHECKS,
    NOT_HERE,
    bursts,
    counts,
    effects,
    endings,
    fences,
    journal,
    pace,
    persons,
    polls,
    submits,
    truth,
    waits,
)
from sereno.testing.simulation.checks import __doc__ as TABLE
from sereno.testing.simulation.checks.evidence import Case, Clock, Evidence, Row
from sereno.testing.simulation.outside.people import Act
from sereno.testing.simulation.outside.sources import Version
from sereno.testing.simulation.terms import Death, Pause, Step
from tests.simulation.booked import (
    LOOKED,
    ORDERED,
    POLL,
    POOL,
    arrival,
    at,
    changed,
    seen,
    us,
    without,
    world,
    written,
)

ROOT = Path(__file__).resolve().parents[2]
Check = Callable[[Evidence], Iterator[str]]
Break = Callable[[Evidence], Evidence | None]


def _case(found: Evidence, name: str = LOOKED) -> Case:
    return next(case for case in found.cases if case.id == name)


def _edit(name: str, **fields: object) -> Break:
    """Other fields of one operation."""

    def edit(found: Evidence) -> None:
        _case(found, name).operation = replace(_case(found, name).operation, **fields)  # type: ignore[arg-type]  # names of Operation

    return edit


def _request(name: str, kind: str, place: int, **fields: object) -> Break:
    """Other fields of one request in the provider's book."""

    def edit(found: Evidence) -> None:
        case = _case(found, name)
        request = getattr(case, kind)[place]
        for field, value in fields.items():
            setattr(request, field, value)
        case._sent = None

    return edit


def _facts(name: str, run: int, kind: str = "decision", **facts: object) -> Break:
    return lambda found: changed(found, name, run, kind=kind, **facts)


def _row(table: str, place: int, **fields: object) -> Break:
    """Other columns of one row."""

    def edit(found: Evidence) -> None:
        rows = [dict(row) for row in found.rows[table]]
        rows[place] |= fields
        found.rows = {**found.rows, table: rows}

    return edit


def _deliver(place: int, **fields: object) -> Break:
    def edit(found: Evidence) -> None:
        some = list(found.deliveries)
        some[place] = replace(some[place], **fields)  # type: ignore[arg-type]  # names of Delivery
        found.deliveries = some

    return edit


def _arrive(name: str, key: str, seconds: float, **more: object) -> Break:
    def edit(found: Evidence) -> None:
        found.arrivals = [*found.arrivals, arrival(name, key, seconds, **more)]  # type: ignore[arg-type]  # names of Arrival

    return edit


def _more(name: str, run: int, kind: str, seconds: float, **facts: object) -> Break:
    """One more row at the end of a subject's journal."""

    def edit(found: Evidence) -> Evidence:
        rows = list(found.journal[name])
        rows.append(Row(rows[-1].seq + 1, name, run, kind, us(seconds), facts))
        return written(found, {**found.journal, name: rows})

    return edit


def _then(*breaks: Break) -> Break:
    def all_of_them(found: Evidence) -> Evidence:
        for one in breaks:
            found = one(found) or found
        return found

    return all_of_them


def _processes(**fields: object) -> Break:
    def edit(found: Evidence) -> None:
        for field, value in fields.items():
            setattr(found.processes, field, value)

    return edit


def _reading(place: int, **fields: object) -> Break:
    def edit(found: Evidence) -> None:
        for field, value in fields.items():
            setattr(found.feeds[POLL].readings[place], field, value)

    return edit


def _unread(found: Evidence) -> None:
    versions = found.feeds[POLL].versions
    found.feeds[POLL].versions = [*versions, Version("feed-0", 2, "another", "h3", at(50))]


def _limit(rate: float, burst: int) -> Break:
    def edit(found: Evidence) -> None:
        found.people.pools[:] = [(at(0), POOL, PoolLimits(rate=rate, burst=burst))]

    return edit


def _tell(*lines: str) -> Break:
    def edit(found: Evidence) -> None:
        found.replayed = lines

    return edit


def _go(url: str) -> Break:
    def edit(found: Evidence) -> None:
        found.strangers = [url]

    return edit


def _ask(**fields: object) -> Break:
    def edit(found: Evidence) -> None:
        _case(found, ORDERED).questions = [{**_case(found, ORDERED).questions[0], **fields}]

    return edit


def _act(place: int, **fields: object) -> Break:
    def edit(found: Evidence) -> None:
        found.people.acts[place] = replace(found.people.acts[place], **fields)  # type: ignore[arg-type]  # names of Act

    return edit


def _forget_act(place: int) -> Break:
    def edit(found: Evidence) -> None:
        del found.people.acts[place]

    return edit


def _plain(found: Evidence) -> None:
    _case(found, ORDERED).ref = "sim-plain-2"


_AGAIN = _arrive("once", "main:op_looked:succeeded:once", 177, attempt=2)
_SOON = _request(LOOKED, "looks", 1, at=at(30), answered=at(30))

BROKEN: tuple[tuple[Check, str, Break], ...] = (
    (counts.on_the_wire, "I1", _edit(LOOKED, spend=Spend(status_requests=2))),
    (counts.on_the_wire, "I1", _edit(LOOKED, allowance=replace(world().cases[0].operation.allowance, max_status_requests=2))),
    (counts.on_the_wire, "W33", _edit(LOOKED, job_id="")),
    (counts.before_the_send, "I2", lambda found: without(found, LOOKED, 2, kind="intent")),
    (counts.before_the_send, "I2", lambda found: _durable(found, LOOKED, 112)),
    (counts.before_the_send, "I30", _facts(LOOKED, 1, observation=seen("throttled", 1))),
    (counts.wasted, "I3", _then(_processes(deaths=[]), lambda found: setattr(_case(found), "looks", _case(found).looks[::2]))),
    (waits.kept, "I4", _SOON),
    (waits.kept, "I4", _request(LOOKED, "looks", 0, waits_until=at(900))),
    (waits.cooled_down, "I4", _facts(LOOKED, 2, "intent", lease_until=us(140))),
    (waits.believed, "I5", _request(LOOKED, "looks", 0, wait="nonsense", waits_until=None)),
    (waits.believed, "I5", _facts(LOOKED, 1, observation=seen("throttled", 0))),
    (waits.smallest, "I6", _request(LOOKED, "looks", 1, at=at(12))),
    (waits.after_a_pause, "I7", _then(_processes(pauses=[Pause("", at(20), at(46))]), _request(LOOKED, "looks", 2, at=at(47)))),
    (waits.asleep, "I24", _processes(pauses=[Pause("w0.1", at(90), at(115))])),
    (waits.asleep, "I24", _request(LOOKED, "looks", 2, at=at(240), host_at=at(240))),
    (bursts.pools, "I7", _limit(0.01, 1)),
    (bursts.ticks, "I7", _row("run", 2, scheduled_for=us(20))),
    (fences.stale, "I8", _more(LOOKED, 2, "decision", 113, draw=None, state="succeeded")),
    (fences.stale, "I8", _more(LOOKED, 3, "decision", 113, draw=None, state="succeeded")),
    (fences.stale, "I8", _more(LOOKED, 3, "intent", 113, claimed_at=us(113))),
    (fences.overlapping_runs, "I8", _row("run", 0, finished_at=us(80))),
    (fences.overlapping_runs, "I8", _row("run", 0, status="running", finished_at=None)),
    (fences.given_up, "I8", _facts(LOOKED, 2, "intent", taken_over=True)),
    (fences.overlaps, "I9", _then(_request(LOOKED, "looks", 1, at=at(10.7)), _request(LOOKED, "looks", 2, at=at(10.8)))),
    (fences.recovered, "I31", _row("poll", 0, due=us(5100))),
    (fences.recovered, "I31", _row("poll", 0, due=None, lease_until=us(5100))),
    (fences.taken_over, "I31", _then(_processes(calm_at=at(50)), lambda found: _late(found, 400))),
    (endings.ended, "I10", _edit(LOOKED, state=OperationState.WAITING)),
    (endings.ended, "I10", _ask(state="open")),
    (endings.in_time, "I10", _then(_processes(calm_at=at(0)), lambda found: _late(found, 4000))),
    (endings.moves, "I12", _facts(LOOKED, 3, event="silence")),
    (endings.moves, "I12", _edit(LOOKED, state=OperationState.FAILED)),
    (endings.moves, "I12", _facts(LOOKED, 3, state_before="submitting")),
    (endings.moves, "I11", _more(LOOKED, 4, "decision", 200, state="waiting")),
    (endings.moves, "I11", _more(LOOKED, 4, "intent", 200, claimed_at=us(200))),
    (endings.deadlines, "W32", _request(LOOKED, "looks", 2, at=at(1801), host_at=at(1801))),
    (endings.deadlines, "W32", _facts(LOOKED, 3, received_at=us(1800))),
    (endings.strangers, "W05", _go("https://evil.example/jobs/1")),
    (truth.said, "I13", _request(LOOKED, "looks", 2, ends_as=None)),
    (truth.said, "I13", _request(LOOKED, "looks", 2, ends_as="failed")),
    (truth.said, "I15", _request(LOOKED, "looks", 2, number=9)),
    (truth.own_answers, "I15", _facts(LOOKED, 1, observation=seen("throttled", 5))),
    (truth.results, "I14", _edit(LOOKED, result_ref=None)),
    (truth.results, "I14", _edit(LOOKED, result_ref="https://hostile.example/results/job-2")),
    (truth.stopped, "W38", _request(LOOKED, "looks", 0, stops=True, fault="cut")),
    (truth.stopped, "W38", _then(_facts(ORDERED, 3, by_kind="human", decision="nothing"))),
    (submits.submitted, "I17", _request(ORDERED, "submits", 1, key="another")),
    (submits.submitted, "I17", _request(ORDERED, "submits", 1, took=True)),
    (submits.submitted, "W21", _request(ORDERED, "submits", 1, at=at(3700))),
    (submits.submitted, "W21", _plain),
    (submits.cancels, "W24", _forget_act(1)),
    (submits.cancels, "W24", lambda found: setattr(_case(found, ORDERED), "cancels", _case(found, ORDERED).looks)),
    (effects.outbox, "I18", lambda found: setattr(found, "deliveries", found.deliveries[1:])),
    (effects.outbox, "I18", _facts(LOOKED, 3, effects=[])),
    (effects.outbox, "I17", lambda found: setattr(found, "deliveries", [*found.deliveries, found.deliveries[0]])),
    (effects.received, "I17", _arrive("tell", "main:op_looked:succeeded:tell", 200, attempt=2)),
    (effects.received, "I17", _arrive("tell", "another key", 200, effect=False, attempt=2)),
    (effects.received, "I17", _arrive("tell", "main:op_looked:succeeded:tell", 90_000, attempt=2)),
    (effects.received, "I17", _AGAIN),
    (effects.received, "I17", _arrive("nobody", "x", 200)),
    (effects.received, "I17", _arrive("tell", "main:op_looked:succeeded:tell", 200, effect=False)),
    (effects.received, "I17", _more("dlv_once", 3, "decision", 300, outcome="unknown", state="ambiguous")),
    (effects.ambiguous, "I19", _deliver(1, state=DeliveryState.DELIVERED)),
    (effects.ambiguous, "I19", _deliver(1, state=DeliveryState.DEAD)),
    (effects.ambiguous, "I19", lambda found: setattr(found, "arrivals", found.arrivals[1:])),
    (effects.ambiguous, "I19", _deliver(0, state=DeliveryState.AMBIGUOUS)),
    (effects.intents, "I25", lambda found: without(found, "dlv_tell", 1, kind="intent")),
    (effects.intents, "I25", lambda found: _durable(found, "dlv_tell", 118)),
    (effects.intents, "I25", lambda found: without(found, LOOKED, 2, kind="intent")),
    (effects.open_intents, "I25", lambda found: without(found, "dlv_tell", 1)),
    (effects.kept_results, "W30", _edit(LOOKED, state=OperationState.FAILED)),
    (effects.kept_results, "W30", _arrive("result", "main:op_looked:succeeded:result", 200)),
    (effects.waits, "I4", lambda found: _asked_to_wait(found)),
    (persons.limits, "I22", _facts(LOOKED, 3, "intent", max_status_requests=20)),
    (persons.limits, "I22", _facts(ORDERED, 4, deadline_at=us(9000))),
    (persons.limits, "I22", lambda found: _granted(found, max_status_requests=12)),
    (persons.limits, "I22", lambda found: _granted(found, deadline_at=us(9000))),
    (persons.limits, "I22", _edit(LOOKED, allowance=replace(world().cases[0].operation.allowance, max_status_requests=11))),
    (persons.answers, "I22", _ask(answer_by=us(100))),
    (persons.answers, "I22", _ask(digest="another")),
    (persons.answers, "I22", _ask(id="esc_2")),
    (persons.answers, "I22", _act(0, wrong_digest=True)),
    (persons.answers, "I22", _more(ORDERED, 6, "decision", 150, decision="answered", by_kind="human", escalation="esc_1", digest="q")),
    (persons.answers, "W20", lambda found: changed(found, ORDERED, 3, by_kind="agent", verb="extend")),
    (persons.call_backs, "I20", lambda found: _pushed(found, "succeeded")),
    (persons.call_backs, "W35", _more(LOOKED, 4, "intent", 200, claimed_at=us(200), asks=True)),
    (persons.one_end, "I21", _more(LOOKED, 4, "decision", 200, state="failed", state_before="waiting")),
    (persons.one_end, "I21", _facts(LOOKED, 3, effects=["twice", "twice"])),
    (journal.replayed, "W28", _tell("op_x run 1: different")),
    (journal.replayed, "W44", _tell("W44 op_x run 1: sent_past_limit")),
    (journal.in_order, "I25", lambda found: without(found, LOOKED, 1, kind="intent")),
    (journal.sources, "W26", _facts(LOOKED, 1, delay_source=None)),
    (journal.kept_runs, "P06", lambda found: setattr(found, "rows", {**found.rows, "run": found.rows["run"][:4]})),
    (pace.versions, "P05", _row("poll_object", 0, version=3)),
    (pace.paused, "P09", lambda found: found.people.acts.append(Act(9, at(60), at(60), "pause_poll", "feed-0", True))),
    (pace.spared, "P10", _then(_row("poll_spec", 0, spec='{"schedule": {"every_s": 3600}}'),
                               _more(POLL, 2, "decision", 73, decision="run", status="failed", failures=1))),
    (pace.spared, "P10", _then(_row("poll_spec", 0, spec='{"schedule": {"every_s": 90}}'), _more(
        POLL, 2, "decision", 73, decision="run", status="failed", failures=1, error="planted: throttled"))),
    (polls.cursors, "P04", _row("poll_object", 0, content_hash="h1")),
    (polls.cursors, "P04", _unread),
    (polls.cursors, "P04", _row("poll", 0, cursor="7")),
    (polls.told, "P01", lambda found: setattr(found, "deliveries", found.deliveries[:3])),
    (polls.told, "P01", _row("poll_spec", 0, spec='{"actions": [{"name": "least"}], "baseline": false}')),
    (polls.told, "P07", _row("poll_object", 0, version=1)),
    (polls.up_to_date, "P01", _row("poll", 0, cursor="1")),
    (polls.waits, "I4", _reading(2, at=at(80), host_at=at(80))),
)  # fmt: skip


def _late(found: Evidence, seconds: float) -> Evidence:
    """The last run of the looked-at operation is claimed, and decided, that much later."""
    moved = [replace(row, at=us(seconds)) if row.run == 3 else row for row in found.journal[LOOKED]]
    return written(found, {**found.journal, LOOKED: moved})


def _durable(found: Evidence, name: str, seconds: float) -> Evidence:
    """The last claim of a subject became durable at that instant of true time, the others when they say."""
    rows = [replace(row, true=row.at) for row in found.journal[name]]
    last = max(place for place, row in enumerate(rows) if row.kind == "intent")
    rows[last] = replace(rows[last], true=us(seconds))
    return written(found, {**found.journal, name: rows})


def _asked_to_wait(found: Evidence) -> Evidence:
    """The first attempt of a delivery was asked to wait for five minutes, and the second came after one."""
    first = arrival("tell", "main:op_looked:succeeded:tell", 116, told=OutcomeKind.RETRY, effect=False, waits_until=at(416))
    second = arrival("tell", "main:op_looked:succeeded:tell", 176, attempt=2)
    found.arrivals = [first, second]
    return changed(found, "dlv_tell", 1, outcome="retry")


def _in_order(found: Evidence, name: str) -> Evidence:
    """The rows of one subject by their instants, numbered anew."""
    rows = sorted(found.journal[name], key=lambda row: row.at)
    return written(found, {**found.journal, name: [replace(row, seq=place) for place, row in enumerate(rows, 1)]})


def _granted(found: Evidence, **limits: object) -> Evidence:
    """The answer gave these limits, and they hold from then on."""
    rows = [
        replace(row, facts={**row.facts, **limits}) if row.seq >= 108 and "deadline_at" in row.facts else row
        for row in found.journal[ORDERED]
    ]
    return written(found, {**found.journal, ORDERED: rows})


def _pushed(found: Evidence, state: str) -> Evidence:
    rows = [replace(row, facts={**row.facts, "state": state}) if row.word == "pushed" else row for row in found.journal[ORDERED]]
    return written(found, {**found.journal, ORDERED: rows})


@pytest.mark.parametrize(("check", "says", "broken"), BROKEN, ids=lambda part: getattr(part, "__name__", str(part)))
def test_a_check_finds_what_it_is_there_for(check: Check, says: str, broken: Break) -> None:
    """The books with one thing broken give a line that begins with the rule's id."""
    found = world()
    found = broken(found) or found
    lines = list(check(found))
    assert any(line.startswith(f"{says} ") for line in lines), lines


@pytest.mark.parametrize(
    "check", [check for _, check in CHECKS], ids=lambda check: f"{check.__module__.split('.')[-1]}.{check.__name__}"
)
def test_a_check_finds_nothing_where_everything_held(check: Check) -> None:
    """A world with a lost look, a lost submit, an interrupted delivery and a failed reading breaks no rule."""
    assert list(check(world())) == []


def test_every_check_is_broken_once() -> None:
    """No check is there that no books were broken for."""
    assert {check for _, check in CHECKS} == {check for check, _, _ in BROKEN}


_STEPPED = _then(
    _processes(steps=[Step(at(20), 4.0)]),
    lambda found: setattr(
        found, "clock", Clock([(at(0), at(0)), (at(19), at(19)), (at(21), at(25)), (at(7200), at(7204))], found.processes.steps)
    ),
)

HARMLESS: tuple[tuple[Check, str, Break], ...] = (
    (waits.kept, "an answer that was lost asks for nothing", _then(_SOON, _facts(LOOKED, 1, observation=seen("throttled", 99)))),
    (waits.kept, "a clock put right by a few seconds is drift",
     _then(_STEPPED, _request(LOOKED, "looks", 1, at=at(38), answered=at(38)))),
    (waits.smallest, "a clock put right by a few seconds is drift", _then(_STEPPED, _request(LOOKED, "looks", 1, at=at(20.5)),
                                                                          _request(LOOKED, "looks", 0, at=at(19)))),
    (waits.cooled_down, "a person took the lease away",
     _then(_facts(LOOKED, 2, "intent", lease_until=us(140)), _more(LOOKED, 0, "decision", 100, decision="answered", by_kind="human"),
           lambda found: _in_order(found, LOOKED))),
    (counts.wasted, "a count is lost with a process that died",
     lambda found: setattr(_case(found), "looks", _case(found).looks[::2])),
    (counts.wasted, "a count is lost with a commit that is not known",
     _then(_processes(deaths=[], store_faults=[("w1.1", at(46), "commit_operation: lost")]),
           lambda found: setattr(_case(found), "looks", _case(found).looks[::2]))),
    (truth.stopped, "the contract lets it pass for a while", _request(LOOKED, "looks", 0, stops=True, tolerable=True)),
    (truth.stopped, "the answer that stops was lost", _request(LOOKED, "looks", 1, stops=True)),
    (submits.submitted, "the provider itself started two jobs",
     _then(_request(ORDERED, "submits", 1, took=True), lambda found: setattr(_case(found, ORDERED), "broke", True))),
    (effects.received, "a person queued it again",
     _then(_AGAIN, _more("dlv_once", 2, "decision", 176, decision="retry", by_kind="human"))),
    (effects.received, "the receiver knew the key", _arrive("tell", "main:op_looked:succeeded:tell", 200, effect=False, attempt=2)),
    (polls.told, "the baseline came in pages",
     _then(_reading(0, more=True), lambda found: setattr(found, "deliveries", found.deliveries[:3]))),
    (pace.paused, "somebody resumed it", lambda found: found.people.acts.extend(
        Act(number, at(seconds), at(seconds), word, "feed-0", True)
        for number, seconds, word in ((9, 60, "pause_poll"), (10, 100, "resume_poll")))),
    (polls.waits, "a person asked for a run",
     _then(_reading(2, at=at(80), host_at=at(80)),
           lambda found: found.people.acts.append(Act(9, at(75), at(75), "run_poll", "feed-0", True)))),
    (waits.asleep, "another process slept", _processes(pauses=[Pause("w2.1", at(90), at(115))])),
    (bursts.pools, "another limit held", lambda found: found.people.pools.append((at(5), POOL, PoolLimits(rate=1.0, burst=5)))),
    (fences.overlaps, "a lease ran out while the look was open", _request(LOOKED, "looks", 1, at=at(10.7))),
    (persons.limits, "an answer raised them by what it says", lambda found: _then(
        _edit(ORDERED, allowance=replace(_case(found, ORDERED).operation.allowance, deadline_at=at(2700))))(
            _granted(found, deadline_at=us(2700)))),
    (endings.ended, "a world that ends at once has no time to end everything",
     _then(_edit(LOOKED, state=OperationState.WAITING), _processes(calm_at=at(7190)))),
)  # fmt: skip


@pytest.mark.parametrize(("check", "why", "change"), HARMLESS, ids=lambda part: getattr(part, "__name__", str(part)))
def test_a_check_excuses_that_very_thing(check: Check, why: str, change: Break) -> None:
    """What a fault, a person or the contract explains is no violation."""
    found = world()
    found = change(found) or found
    assert list(check(found)) == [], why


def test_I3_a_death_excuses_no_count_of_another_time_or_process() -> None:
    """A reason counts for its own process and its own time alone."""
    for reason in (Death("w0.1", at(47), ""), Death("w1.1", at(900), "")):
        found = world()
        found.processes.deaths = [reason]
        _case(found).looks = _case(found).looks[::2]
        assert any(line.startswith("I3 ") for line in counts.wasted(found)), reason


def test_every_invariant_is_checked_or_named_with_the_test_that_shows_it() -> None:
    """I1 to I34 are in CHECKS, or in NOT_HERE with a reason and a test that is there."""
    checked = {name for names, _ in CHECKS for name in names}
    wanted = {f"I{number}" for number in range(1, 35)}
    assert wanted - checked == set(NOT_HERE)
    for why, where in NOT_HERE.values():
        assert why and (not where or (ROOT / where).is_file()), where


def test_the_table_of_the_checks_names_each_of_them() -> None:
    """The docstring's table and CHECKS say the same, rule by rule."""
    said: dict[str, set[str]] = {}
    for rules, names in re.findall(r"^\| ([A-Z]\d+[^|]*) \| ([^|]+) \|$", TABLE or "", re.MULTILINE):
        for rule in rules.split(", "):
            said.setdefault(rule, set()).update(names.strip().split(", "))
    there: dict[str, set[str]] = {}
    for rules, check in CHECKS:
        for rule in rules:
            there.setdefault(rule, set()).add(f"{check.__module__.rsplit('.', 1)[-1]}.{check.__name__}")
    assert said == there


def test_a_clock_counts_what_it_gained_alone() -> None:
    """A fast rate and small steps forward count; steps back, a slow rate and steps that are noticed do not."""
    entries = [(at(0), at(0)), (at(100), at(100)), (at(200), at(203)), (at(300), at(303)), (at(400), at(383))]
    clock = Clock(entries, [Step(at(150), 3.0)])
    assert clock.gained(at(100), at(200)) == pytest.approx(3)
    assert clock.gained(at(200), at(300)) == clock.gained(at(300), at(400)) == 0
    assert clock.odd(at(100), at(200)) and clock.odd(at(300), at(400)) and not clock.odd(at(200), at(300))
    assert Clock([(at(0), at(0)), (at(100), at(200))]).gained(at(0), at(100)) == pytest.approx(100)
    large = Clock([(at(0), at(0)), (at(100), at(3700))], [Step(at(50), 3600.0)])
    assert large.gained(at(0), at(100)) == 0 and large.odd(at(0), at(100))


def test_I23_no_more_of_a_wait_may_be_missing_than_a_clock_gains_unnoticed() -> None:
    """Whatever the clock gained: four seconds and a two-thousandth of the wait, since more is put right (ADR 0006)."""
    fast = Clock([(at(0), at(0)), (at(1000), at(2000))])
    assert evidence_with(fast).planned(at(0), at(1000)).total_seconds() == pytest.approx(1000 + 4 + 1060 / 2000)
    slow = Clock([(at(0), at(0)), (at(1000), at(1001))])
    assert evidence_with(slow).planned(at(0), at(1000)).total_seconds() == pytest.approx(1001)


def evidence_with(clock: Clock) -> Evidence:
    """Nothing but a clock."""
    return Evidence(times=LeaseTimes(), began=at(0), ended=at(0), ended_host=at(0), clock=clock)


def test_P04_a_removal_has_to_be_stored_but_where_the_reading_said_that_there_is_more() -> None:
    """A longer reading proves no removal: so says the contract of sources."""
    found = world()
    poll, feed, _ = next(polls._polls(found))
    seq = int(poll["cursor"])
    feed.versions = [one for one in feed.versions if one.seq < seq] + [replace(feed.versions[-1], seq=seq, content_hash="")]
    assert [line[:3] for line in polls.cursors(found)] == ["P04"]
    last = next(place for place, one in enumerate(feed.readings) if one.next_cursor == poll["cursor"])
    feed.readings[last] = replace(feed.readings[last], more=True)
    assert list(polls.cursors(found)) == []
