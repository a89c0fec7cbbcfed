"""A scenario: what a provider does, in abstract terms, and what a correct waiter does about it. Read from one TOML file.

docs/how-to/conformance.md describes the format; `read` refuses everything that is not in it.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "scenarios"
GROUPS = {
    "ends": "Plain ends",
    "unknown": "Unknown states",
    "contradiction": "Contradictions",
    "hints": "Retry-After and other hints",
    "budgets": "Storms and budgets",
    "not-found": "Not found",
    "authorization": "Authorization",
    "bodies": "Bodies",
    "redirects": "Redirects and credentials",
    "transport": "Transport",
    "restart": "Restart",
    "flapping": "Flapping",
    "many": "Many at once",
    "submit": "Submit",
}
OUTCOMES = ("succeeded", "failed", "stopped", "timed_out")
"""What a waiter can tell its caller: the job succeeded; it ended without success; the waiter stopped and asks; its own limit ended it."""
WORDS = ("running", "queued", "succeeded", "failed", "cancelled", "expired", "paused", "partial", "unknown", "unknown-terminal")
"""Classes of words. `running` and `succeeded` exist in every dialect; the others are a capability."""
PLAIN = {"running", "succeeded"}
CAPABILITIES = {
    "failed": "a word for a failed job",
    "not-found": "an answer for 'no such job' that is not 'not yet'",
    "body": "a status answer whose body is read",
    "queued": "a word for a job that has not begun",
    "cancelled": "a word for a cancelled job",
    "expired": "a word for an expired job",
    "paused": "a word for a job that waits for a person",
    "partial": "a word for a job of which a part failed",
    "unknown": "words for states, so that there can be one that nobody documented",
    "unknown-terminal": "words for states, so that there can be one that nobody documented",
    "result": "a place for the result in the status answer",
    "error": "a place for an error in the status answer",
    "id": "the id of the job in the status answer",
    "expiry": "the provider's own expiry of the job",
    "poll-hint": "a wish of the provider, other than Retry-After, when to be asked again",
    "status-url": "a status address that the provider gives and can change",
    "persistence": "a wait that is kept outside the process",
    "submit": "the waiter sends the job itself",
    "state": "a field that always says the state",
    "deadline": "a time limit that the caller sets",
}
BODIES = ("html", "empty", "truncated", "duplicate", "nan", "deep", "huge", "bomb", "utf16", "list", "text", "null")
FAULTS = ("reset", "close", "cut", "drip")
REDIRECTS = ("other-host", "loop", "same-host")


class BadScenario(ValueError):
    """A scenario file that says something the format does not know."""


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: object) -> float:
    """Reads "90s", "1.5h", "30d"."""
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(ms|s|m|h|d)", str(text))
    if not match:
        raise BadScenario(f"{text!r} is no length of time; write 90s, 15m, 2h or 30d")
    return float(match[1]) * _UNITS[match[2]]


@dataclass(frozen=True, slots=True)
class Step:
    """What the provider does for a while. Without `until` and `looks` it holds on for ever."""

    say: str | None = None
    looks: int | None = None
    until: float | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    fault: str | None = None
    late: float = 0.0
    without: Sequence[str] = ()
    beside: Sequence[str] = ()
    id: str | None = None
    redirect: str | None = None
    hint: float | None = None
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Gap:
    """No request for `pause` seconds after the look number `after`."""

    after: int
    pause: float


@dataclass(frozen=True, slots=True)
class Expect:
    """What a correct waiter does."""

    outcome: Sequence[str]
    most: int | None = None
    gaps: Sequence[Gap] = ()
    spacing: float | None = None
    ends_before: float | None = None
    other_host: str = "no-credential"
    submits: int | None = None
    same_second: int | None = None
    memory_mb: int | None = None
    success_after: float | None = None
    most_in_last: int | None = None
    last_look_before: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file."""

    id: str
    group: str
    title: str
    why: str
    steps: Sequence[Step]
    expect: Expect
    source: str = ""
    dispute: str = ""
    needs: Sequence[str] = ()
    deadline: float = 3600.0
    requests: int = 100
    kill_at: Sequence[float] = ()
    kill_on_look: Sequence[int] = ()
    down: float = 30.0
    copies: int = 1
    submit: str = ""
    status_host: str = ""


def _only(where: str, table: Mapping[str, Any], known: set[str]) -> None:
    for key in table:
        if key not in known:
            raise BadScenario(f"{where}: {key} is not known; known are {', '.join(sorted(known))}")


def _among(where: str, value: object, known: Sequence[str]) -> None:
    if value is not None and value not in known:
        raise BadScenario(f"{where}: {value!r} is not one of {', '.join(known)}")


def _step(where: str, table: dict[str, Any]) -> Step:
    _only(where, table, {item.name for item in fields(Step)})
    for key in ("until", "late", "hint", "expires"):
        if key in table:
            table[key] = seconds(table[key])
    _among(f"{where}: say", table.get("say"), WORDS)
    _among(f"{where}: body", table.get("body"), BODIES)
    _among(f"{where}: fault", table.get("fault"), FAULTS)
    _among(f"{where}: redirect", table.get("redirect"), REDIRECTS)
    for key in table.get("without", ()):
        _among(f"{where}: without", key, ("result", "state", "id"))
    for key in table.get("beside", ()):
        _among(f"{where}: beside", key, ("error", "result"))
    if not {"say", "status", "body", "fault", "redirect"} & table.keys():
        raise BadScenario(f"{where}: a step says something: say, status, body, fault or redirect")
    return Step(**table)


def _expect(where: str, table: dict[str, Any]) -> Expect:
    _only(where, table, {item.name for item in fields(Expect)})
    for outcome in table.get("outcome", ()):
        _among(f"{where}: outcome", outcome, OUTCOMES)
    if not table.get("outcome"):
        raise BadScenario(f"{where}: outcome is missing")
    _among(f"{where}: other_host", table.get("other_host"), ("nothing", "no-credential"))
    for key in ("spacing", "ends_before", "success_after", "last_look_before"):
        if key in table:
            table[key] = seconds(table[key])
    table["gaps"] = [Gap(gap["after"], seconds(gap["pause"])) for gap in table.get("gaps", ())]
    return Expect(**table)


def _needed(scenario: Scenario) -> set[str]:
    """The capabilities that the script shows to be needed; the file has to name them."""
    found = {step.say for step in scenario.steps if step.say and step.say not in PLAIN}
    for step in scenario.steps:
        found |= {key for key in (*step.without, *step.beside) if key in CAPABILITIES}
        found |= {"id"} if step.id else set()
        found |= {"poll-hint"} if step.hint is not None else set()
        found |= {"body"} if step.body and (step.status or 200) < 300 else set()
        found |= {"not-found"} if step.status == 404 else set()
        found |= {"expiry"} if step.expires is not None else set()
    found |= {"persistence"} if scenario.kill_at or scenario.kill_on_look else set()
    found |= {"submit"} if scenario.submit else set()
    found |= {"status-url"} if scenario.status_host else set()
    return found


def read(path: Path) -> Scenario:
    """Reads and checks one file. Raises BadScenario."""
    where = path.name
    table = tomllib.loads(path.read_text())
    _only(where, table, {item.name for item in fields(Scenario)})
    if table.get("id") != path.stem:
        raise BadScenario(f"{where}: id is {table.get('id')!r}, the file is named {path.stem!r}")
    for key in ("group", "title", "why", "steps", "expect"):
        if not table.get(key):
            raise BadScenario(f"{where}: {key} is missing")
    _among(f"{where}: group", table["group"], tuple(GROUPS))
    _among(f"{where}: submit", table.get("submit") or None, ("fine", "lost", "slow", "refused"))
    _among(f"{where}: status_host", table.get("status_host") or None, ("other-host",))
    for key in ("deadline", "down"):
        if key in table:
            table[key] = seconds(table[key])
    table["kill_at"] = [seconds(text) for text in table.get("kill_at", ())]
    table["steps"] = [_step(f"{where}: step {n}", step) for n, step in enumerate(table["steps"], 1)]
    table["expect"] = _expect(f"{where}: expect", table["expect"])
    scenario = Scenario(**table)
    for need in scenario.needs:
        _among(f"{where}: needs", need, tuple(CAPABILITIES))
    if missing := sorted(_needed(scenario) - set(scenario.needs)):
        raise BadScenario(f"{where}: the script uses {', '.join(missing)}; write it into needs")
    if scenario.steps[-1].until is not None or scenario.steps[-1].looks is not None:
        raise BadScenario(f"{where}: the last step has an end; the last one holds on")
    return scenario


def read_all(folder: Path = FOLDER) -> list[Scenario]:
    """Every scenario, in the order of groups and ids."""
    found = [read(path) for path in sorted(folder.glob("*.toml"))]
    order = list(GROUPS)
    return sorted(found, key=lambda scenario: (order.index(scenario.group), scenario.id))
