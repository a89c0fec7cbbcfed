"""Polls: the standing instruction, and the pure decision that ends a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from sereno.core.change import Change, Comparison, FailedReading, Keep, KnownObject, ReadFailure, Reading
from sereno.core.effect import ActionRef, Effect
from sereno.core.quick import quick
from sereno.core.schedule import Schedule, next_due, next_instants, rested
from sereno.core.telling.matches import MAX_MATCHES, About, Match, match_effects, news_effects
from sereno.core.telling.message import Event, counted, plain
from sereno.core.telling.seen import UNCHANGED, baseline_text, seen_text
from sereno.core.telling.verdict import Judged as Judged
from sereno.core.telling.verdict import Verdict as Verdict
from sereno.core.telling.verdict import VerdictKind as VerdictKind
from sereno.core.telling.verdict import condition_error, condition_errors
from sereno.core.values import Json


class PollState(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"
    """Switched off by Sereno after repeated authorization failures; told once (P10)."""
    ENDED = "ended"
    """A stop condition was met (P09)."""
    REMOVED = "removed"


class FireOn(StrEnum):
    """What the condition is judged against (P07)."""

    CHANGE = "change"
    """Event-like: each new, updated or removed object; occurrence = its version."""
    STATE = "state"
    """State: each present object on every run; occurrence = the number of its false→true episode."""


@dataclass(frozen=True, slots=True)
class Stop:
    """When a poll ends by itself (P09). A poll with none gets `after_failures=100`."""

    after_matches: int | None = None
    after_runs: int | None = None
    after_failures: int | None = 100
    """Failures in a row."""
    after: datetime | None = None
    auth_failures: int = 3
    """Authorization failures in a row that disable the poll."""


@quick
@dataclass(frozen=True, slots=True)
class PollSpec:
    """What a person writes: everything that defines a poll, nothing that happens to it. Bounds are checked by `service`."""

    name: str
    source_type: str
    source: Mapping[str, Json]
    """Options of the source plug-in; `source["url"]` or the like is the source_ref. Credential NAMES only."""
    schedule: Schedule
    condition: str = "change in ['new', 'updated']"
    fire_on: FireOn = FireOn.CHANGE
    actions: Sequence[ActionRef] = ()
    keep: Keep = Keep.PAYLOAD
    fields: Sequence[str] = ()
    baseline: bool = True
    """First run only remembers (P05)."""
    stop: Stop = field(default_factory=Stop)
    priority: int = 1
    """0 low, 1 normal, 2 high."""
    user: str = "local"
    origin: str = "cli"


@quick
@dataclass(frozen=True, slots=True)
class Poll:
    """A poll as loaded with its claim. `known` is its snapshot where that was asked for: a claim leaves it empty."""

    id: str
    workspace: str
    spec: PollSpec
    state: PollState
    revision: int
    condition_version: int
    pool: str
    created_at: datetime
    cursor: str | None = None
    known: Mapping[str, KnownObject] = field(default_factory=dict)
    baselined: bool = False
    failures: int = 0
    auth_failures: int = 0
    runs: int = 0
    matches: int = 0
    last_run_at: datetime | None = None
    last_error: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class PollDecision:
    """All that one run of a poll writes, in one transaction."""

    state: PollState
    due: datetime | None
    cursor: str | None
    remember: Mapping[str, KnownObject]
    """Objects to insert or replace."""
    forget: Sequence[str]
    """External ids to delete: seen ids of a windowed source beyond its bound (never one that is in the reading)."""
    effects: Sequence[Effect]
    status: str
    """`ok` or `failed`: the run's status."""
    checked: int
    changed: int
    matched: int
    failures: int
    auth_failures: int
    baselined: bool
    missed: int
    requests: int
    summary: str
    """One sentence for a person, e.g. `baseline of 300 entries, nothing fired`."""
    error: str | None = None
    condition_errors: Sequence[str] = ()
    tell_user: str | None = None
    """A notice beside the effects (disabled, ended), already in `effects` as well."""


@quick
@dataclass(frozen=True, slots=True)
class _Plan:
    due: datetime
    missed: int
    more: bool
    remark: str = ""


LONGEST_WAIT = timedelta(days=7)
"""A Retry-After beyond this is not obeyed in full: a poll must not fall silent for ever (I5)."""
DEFAULT_FAILURE_BACKOFF_MAX = timedelta(days=1)
MIN_REMEMBERED = 2_000
WINDOWS_REMEMBERED = 4
"""Ids kept beyond the present reading: at most the larger of MIN_REMEMBERED and this many readings."""


def needs_judging(poll: Poll, reading: Reading, comparison: Comparison) -> Sequence[tuple[str, Change | None]]:
    """Lists what the condition must be asked about: nothing on a baseline run of CHANGE polls; each change; for STATE polls
    each object that is present in the reading (on the baseline run too, so that the first true is known and not fired)."""
    if poll.spec.fire_on is FireOn.CHANGE:
        return [] if _is_baseline(poll) else [(change.external_id, change) for change in comparison.changes]
    changes = {change.external_id: change for change in comparison.changes}
    present = dict.fromkeys(found.external_id for found in reading.objects)
    return [(external_id, changes.get(external_id)) for external_id in present]


def decide_poll(  # noqa: PLR0913 - what one run learned, by name
    poll: Poll,
    reading: Reading | FailedReading,
    comparison: Comparison,
    judged: Sequence[Judged],
    *,
    scheduled_for: datetime,
    now: datetime,
    rng: Random,
) -> PollDecision:
    """Turns one reading into the one thing to write down (P01–P10).

    Failure: the cursor and snapshot stay, failures + 1, due = backoff (interval · 2^n to 1 day, 50–100 % jitter, never sooner
    than the schedule or a Retry-After). `more`: due at once. Otherwise due = the next instant of the schedule after `now`; passed
    instants are counted as `missed`, never made up. The baseline run fires nothing unless `spec.baseline` is False.
    """
    if isinstance(reading, FailedReading):
        return _decide_failure(poll, reading, scheduled_for=scheduled_for, now=now, rng=rng)
    plan = _plan(poll, reading, scheduled_for, now)
    if reading.unchanged and not (reading.objects or judged or comparison.changes or comparison.remember):
        return _decide_quiet(poll, reading, plan, now)
    return _decide_found(poll, reading, comparison, judged, plan, now)


def _decide_found(
    poll: Poll, reading: Reading, comparison: Comparison, judged: Sequence[Judged], plan: _Plan, now: datetime
) -> PollDecision:
    baseline = _is_baseline(poll)
    remember, fired = _settle(poll, comparison, judged, baseline)
    forget = _forget(poll, reading, remember)
    error = condition_error(judged)
    ended = _ending(poll, len(fired), plan, now)
    newly = poll.spec.fire_on is FireOn.STATE
    seen = baseline_text(reading, judged, more=plan.more) if baseline else seen_text(reading, comparison, len(fired), newly=newly)
    return PollDecision(
        state=poll.state if ended is None else PollState.ENDED,
        due=plan.due if ended is None else None,
        cursor=poll.cursor if reading.unchanged and reading.cursor is None else reading.cursor,
        remember={external_id: known for external_id, known in remember.items() if external_id not in forget},
        forget=sorted(forget),
        effects=match_effects(_about(poll), fired, ended) if fired or not ended else _news(poll, _ENDED, ended, ()),
        status="ok",
        checked=len({found.external_id for found in reading.objects}),
        changed=0 if baseline else len(comparison.changes),
        matched=len(fired),
        failures=0,
        auth_failures=0,
        baselined=poll.baselined or _completes_baseline(poll, reading, plan),
        missed=plan.missed,
        requests=reading.requests,
        summary="; ".join(part for part in (seen, *_remarks(reading, plan, len(fired)), error, ended) if part),
        error=error,
        condition_errors=condition_errors(judged),
        tell_user=ended,
    )


def _is_baseline(poll: Poll) -> bool:
    return poll.spec.baseline and not poll.baselined


def _completes_baseline(poll: Poll, reading: Reading, plan: _Plan) -> bool:
    """With the last page, or where nothing changed behind a cursor of ours: all up to there is remembered then."""
    return not plan.more and (not reading.unchanged or poll.cursor is not None)


def _settle(
    poll: Poll, comparison: Comparison, judged: Sequence[Judged], baseline: bool
) -> tuple[dict[str, KnownObject], list[Match]]:
    """Finds what fires, and writes the observed truths of a state condition. An error changes nothing (P07).

    An unchanged object that this condition never judged (the condition was edited; the store then clears `matching`) was seen
    before: its truth is noted, not fired.
    """
    remember = dict(comparison.remember)
    fired: list[Match] = []
    for one in judged:
        matches = one.verdict.kind is VerdictKind.MATCH
        if one.verdict.kind is VerdictKind.ERROR:
            continue
        if poll.spec.fire_on is FireOn.CHANGE:
            if matches and one.change is not None and not baseline:
                fired.append(_match(one, f"v{one.change.version}"))
            continue
        known = remember.get(one.external_id) or poll.known[one.external_id]
        if known.matching is matches:
            continue
        remember[one.external_id] = replace(known, matching=matches, episodes=known.episodes + matches)
        seen_before = known.matching is None and one.change is None
        if matches and not baseline and not seen_before:
            fired.append(_match(one, f"e{known.episodes + 1}"))
    return remember, fired


def _match(one: Judged, occurrence: str) -> Match:
    change = one.change.kind.value if one.change is not None else ""
    return Match(one.external_id, occurrence, change, one.title, one.url, one.payload, one.before)


def _forget(poll: Poll, reading: Reading, remember: Mapping[str, KnownObject]) -> frozenset[str]:
    """Picks the ids longest unseen beyond the bound. One that comes back starts at version 1: its old dedupe key keeps it quiet."""
    if reading.unchanged:
        return frozenset()
    present = {found.external_id for found in reading.objects}
    bound = max(MIN_REMEMBERED, WINDOWS_REMEMBERED * len(present))
    excess = len(poll.known) + sum(1 for external_id in remember if external_id not in poll.known) - bound
    if excess <= 0:
        return frozenset()
    absent = [known for external_id, known in {**poll.known, **remember}.items() if external_id not in present]
    absent.sort(key=lambda known: (known.last_seen_at, known.external_id))
    return frozenset(known.external_id for known in absent[:excess])


def _plan(poll: Poll, reading: Reading, scheduled_for: datetime, now: datetime) -> _Plan:
    """When to read again. A source that asks for more without moving its cursor waits for the schedule, else it would spin."""
    wait = _wait(reading.minimum_wait_until, now)
    soonest = rested(poll.spec.schedule, now)
    following = next_due(poll.spec.schedule, now, poll.id, served=scheduled_for)
    more = reading.more and reading.cursor != poll.cursor
    remark = "the source asked for more without moving on" if reading.more and not more else ""
    if more:
        return _Plan(wait, following.missed, more)
    after = max(wait, soonest)
    due = following.due if after < following.due else next_due(poll.spec.schedule, after, poll.id).due
    return _Plan(due, following.missed, more, remark)


def _wait(asked: datetime | None, now: datetime) -> datetime:
    return now if asked is None else max(now, min(asked, now + LONGEST_WAIT))


def _by_matches(poll: Poll, matched: int) -> bool:
    limit = poll.spec.stop.after_matches
    return limit is not None and matched > 0 and poll.matches + matched >= limit


def _ending(poll: Poll, matched: int, plan: _Plan, now: datetime) -> str | None:
    """Says why the poll ends with this run, or None (P09). A poll whose next run lies past its end date ends now."""
    stop = poll.spec.stop
    if _by_matches(poll, matched):
        return f"ended after {counted(poll.matches + matched, 'match', 'matches')}"
    if stop.after_runs is not None and not plan.more and poll.runs + 1 >= stop.after_runs:
        return f"ended after {counted(poll.runs + 1, 'run', 'runs')}"
    if stop.after is not None and max(plan.due, now) > stop.after:
        return f"ended: its end date {stop.after:%Y-%m-%d %H:%M} UTC comes before the next run"
    return None


def _decide_quiet(poll: Poll, reading: Reading, plan: _Plan, now: datetime) -> PollDecision:
    """The same for the run that nearly all runs are: nothing changed, so there is nothing to compare, judge, keep or forget."""
    ended = _ending(poll, 0, plan, now)
    known = poll.baselined or _completes_baseline(poll, reading, plan)
    seen = UNCHANGED if known or not poll.spec.baseline else baseline_text(reading, (), more=False)
    if reading.note or plan.missed or plan.remark or ended:
        seen = "; ".join(part for part in (seen, *_remarks(reading, plan, 0), ended) if part)
    return PollDecision(
        state=poll.state if ended is None else PollState.ENDED,
        due=plan.due if ended is None else None,
        cursor=poll.cursor if reading.cursor is None or (poll.cursor is None and _is_baseline(poll)) else reading.cursor,
        remember={},
        forget=(),
        effects=() if ended is None else _news(poll, _ENDED, ended, ()),
        status="ok",
        checked=0,
        changed=0,
        matched=0,
        failures=0,
        auth_failures=0,
        baselined=known,
        missed=plan.missed,
        requests=reading.requests,
        summary=seen,
        tell_user=ended,
    )


def _decide_failure(poll: Poll, failed: FailedReading, *, scheduled_for: datetime, now: datetime, rng: Random) -> PollDecision:
    refused = failed.failure is ReadFailure.AUTH
    failures, auth_failures = poll.failures + 1, poll.auth_failures + refused
    message = plain(failed.message, 300)
    missed = next_due(poll.spec.schedule, now, poll.id, served=scheduled_for).missed
    due = _retry_at(poll, failed, now, rng)
    state, event, notice = poll.state, _ENDED, None
    if refused and auth_failures >= poll.spec.stop.auth_failures:
        state, event = PollState.DISABLED, _DISABLED
        notice = f"switched off after {counted(auth_failures, 'authorization failure', 'authorization failures')} in a row"
    elif poll.spec.stop.after_failures is not None and failures >= poll.spec.stop.after_failures:
        state, notice = PollState.ENDED, f"ended after {counted(failures, 'failure', 'failures')} in a row"
    elif (notice := _ending(poll, 0, _Plan(due, missed, more=False), now)) is not None:
        state = PollState.ENDED
    after = notice or f"next try {due:%Y-%m-%d %H:%M:%S} UTC"
    lines = (f"Last error: {message}", f"Start it again with: sereno poll resume {poll.spec.name}")
    return PollDecision(
        state=state,
        due=due if notice is None else None,
        cursor=poll.cursor,
        remember={},
        forget=(),
        effects=_news(poll, event, notice, lines) if notice else (),
        status="failed",
        checked=0,
        changed=0,
        matched=0,
        failures=failures,
        auth_failures=auth_failures,
        baselined=poll.baselined,
        missed=missed,
        requests=failed.requests,
        summary=f"could not read ({failed.failure.value}): {message}; {after}",
        error=message,
        tell_user=notice,
    )


_ENDED: Event = "ended"
_DISABLED: Event = "disabled"


def _retry_at(poll: Poll, failed: FailedReading, now: datetime, rng: Random) -> datetime:
    """Backoff from the poll's own pace; a throttled source is left alone for longer: 4^n, from the first time on."""
    first, second = next_instants(poll.spec.schedule, now, poll.id, 2)
    throttled = failed.failure is ReadFailure.THROTTLED
    growth = 4.0 ** min(poll.failures + 1, 30) if throttled else 2.0 ** min(poll.failures, 30)
    raw = min(DEFAULT_FAILURE_BACKOFF_MAX.total_seconds(), (second - first).total_seconds() * growth)
    later = now + timedelta(seconds=raw * (0.5 + rng.random() / 2))
    return max(first, later, _wait(failed.minimum_wait_until, now))


def _about(poll: Poll) -> About:
    return About(poll.workspace, poll.spec.user, poll.id, poll.spec.name, poll.condition_version, poll.spec.actions)


def _news(poll: Poll, event: Event, notice: str, lines: Sequence[str]) -> list[Effect]:
    return news_effects(_about(poll), event, poll.runs + 1, notice, lines)


def _remarks(reading: Reading, plan: _Plan, matched: int) -> tuple[str, ...]:
    missed = f"{counted(plan.missed, 'missed run', 'missed runs')} not made up" if plan.missed else ""
    flood = f"{matched - MAX_MATCHES} of the matches told in one summary" if matched > MAX_MATCHES else ""
    return (missed, plan.remark, plain(reading.note, 200) if reading.note else "", flood)
