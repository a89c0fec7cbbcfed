"""Polls: the standing instruction, and the pure decision that ends a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

from sereno.core.change import Change, Comparison, FailedReading, Keep, KnownObject, Reading
from sereno.core.effect import ActionRef, Effect
from sereno.core.schedule import Schedule
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


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll as loaded with its claim, cursor and snapshot whole."""

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


class VerdictKind(StrEnum):
    MATCH = "match"
    NO_MATCH = "no_match"
    ERROR = "error"
    """A condition error: recorded, shown, never a match, never re-arms."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition said about one change or one object."""

    kind: VerdictKind
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """One thing the condition was asked about. For `FireOn.STATE` with an unchanged object `change` is None."""

    external_id: str
    verdict: Verdict
    change: Change | None
    title: str
    url: str | None
    payload: Json
    before: Json


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


def needs_judging(poll: Poll, reading: Reading, comparison: Comparison) -> Sequence[tuple[str, Change | None]]:
    """Lists what the condition must be asked about: nothing on a baseline run of CHANGE polls; each change; for STATE polls
    each object that is present in the reading (on the baseline run too, so that the first true is known and not fired)."""
    raise NotImplementedError


def decide_poll(
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

    Failure: the cursor and snapshot stay, failures + 1, due = backoff (interval · 2^n to 1 day, 50–100 % jitter, never sooner than the
    schedule or a Retry-After). `more`: due at once. Otherwise due = the next instant of the schedule after `now`; passed instants are
    counted as `missed`, never made up. The baseline run fires nothing unless `spec.baseline` is False.
    """
    raise NotImplementedError


DEFAULT_FAILURE_BACKOFF_MAX = timedelta(days=1)
