"""The scenarios as data: what stands at the provider, which faults strike in which order, what people do, and how it ends."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("scenarios.toml")


@dataclass(frozen=True, slots=True)
class JobOf:
    """One operation: registered where its contract is of jobs that are there, submitted otherwise."""

    contract: str
    ends: str = "done"
    """The word in which the job ends at the provider; `running` = it never ends."""
    after: float = 20.0
    """Seconds from the start of the job to its end."""
    actions: Sequence[str] = ()
    minutes: float = 60
    requests: int = 25
    business_minutes: float | None = None


@dataclass(frozen=True, slots=True)
class PollOf:
    """One poll with the script of its feed: (seconds, object, content), "" = the object vanished."""

    kind: str
    script: Sequence[tuple[float, str, str]]
    actions: Sequence[str] = ("sim-keyed",)
    every: int = 60
    keep: str = "payload"
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class ActOf:
    """One thing that people do: `at` so many seconds, or when the point `on` is passed for the `nth` time."""

    do: str
    to: int = 0
    """Place of the operation, or of the poll."""
    at: float | None = None
    on: str = ""
    nth: int = 1
    body: str = ""
    """Of a push."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario. Faults are taken in order, "" = none; after the last one everything is honest."""

    name: str
    about: str
    jobs: Sequence[JobOf] = ()
    polls: Sequence[PollOf] = ()
    acts: Sequence[ActOf] = ()
    faults: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By `looks`, `submits`, `cancels`, `waits`, `hints`, `deliveries`, `reads`, and `connects`: seconds until a connection stands."""
    outage: tuple[float, float] | None = None
    """Seconds between which the provider's host answers nobody but with 503."""
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By category of question: the options chosen in order, the last one for ever; nobody answers what is not named."""
    workers: int = 1
    slots: int = 4
    until: float = 0.0
    """The scenario goes on for at least so many seconds: polls have no end of their own."""
    awake: float = 0.0
    """Seconds from the beginning in which the host does not sleep, though nothing is due."""
    end: Sequence[str] = ()
    """How each operation ends without a crash: its state, and in brackets what people were asked meanwhile."""
    or_ends: Sequence[str] = ()
    """Other ends that a crash or an error of the database may lead to, one of these for any operation."""
    or_questions: bool = False
    """A crash wastes a request, and people may be asked once more or less."""
    or_jobs: bool = False
    """A crash may leave another number of jobs at the provider than without it: nobody can know whether a submit arrived."""


_LISTS = {"jobs": JobOf, "polls": PollOf, "acts": ActOf}


def _made(given: Mapping[str, Any]) -> Scenario:
    lists = {name: [kind(**one) for one in given.get(name, ())] for name, kind in _LISTS.items()}
    return Scenario(**{**given, **lists})


@cache
def scenarios() -> Mapping[str, Scenario]:
    """All scenarios by name, in the order of the file. Raises TypeError for an unknown field, ValueError for a name given twice."""
    found = [_made(one) for one in tomllib.loads(FILE.read_text("utf-8"))["scenario"]]
    by_name = {one.name: one for one in found}
    if len(by_name) < len(found):
        raise ValueError("two scenarios have one name")
    return by_name
