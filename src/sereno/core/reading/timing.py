"""Timing: reads delays, hints, limits and expiry."""

from collections.abc import Sequence
from datetime import timedelta

from sereno.core.budget import Limits
from sereno.core.reading.calls import Via
from sereno.core.reading.document import Table
from sereno.core.reading.judged import read_path
from sereno.core.reading.judging import CompilePath
from sereno.core.reading.terms import Delays, Hint, HintUnit, Meaning

DEFAULT_HINT_CAP = timedelta(hours=1)
ANSWER_WITHIN = timedelta(seconds=10)
JITTERS = ("half", "full")
TTL_UNITS = (HintUnit.SECONDS, HintUnit.MILLISECONDS)
COUNTED_FROM = ("completion", "creation")
LIMIT_KEYS = ("deadline", "requests", "transport_failures", "throttles")
HINT_MEANINGS = tuple(Meaning)
"""A hint may be tied to any kind of answer, throttled and failed ones too."""


def read_delays(table: Table) -> Delays:
    """Reads `[delays]`; what is left out has the defaults of W06."""
    usual = Delays()
    names = {"first": "first", "base": "base", "max": "maximum", "min_gap": "min_gap"}
    given = {names[key]: table.duration(key) or getattr(usual, names[key]) for key in names}
    delays = Delays(**given, jitter=table.one_of("jitter", JITTERS, "half"), typical=table.duration("typical"))
    if delays.min_gap < timedelta(seconds=1):
        table.fault("min_gap", "is less than one second")
    if not timedelta(0) < delays.base <= delays.maximum:
        table.fault("base", "must be more than 0 and at most max")
    if delays.maximum < delays.min_gap:
        table.fault("max", "is less than min_gap")
    return delays


def read_positive(table: Table, key: str) -> timedelta | None:
    """Takes a duration of more than 0, or None."""
    found = table.duration(key)
    if found is not None and found <= timedelta(0):
        table.fault(key, "must be more than 0")
        return None
    return found


def read_span(table: Table, key: str, usual: timedelta) -> timedelta:
    """Takes a duration of more than 0, or the usual one."""
    return read_positive(table, key) or usual


def read_hints(tables: Sequence[Table], compile_path: CompilePath) -> list[Hint]:
    """Reads `[[hints]]`: where the provider says when to look again (W07)."""
    found = []
    for table in tables:
        unit = HintUnit(table.one_of("unit", tuple(HintUnit)))
        header, path = table.optional_text("header"), read_path(table, "path", compile_path)
        if ("header" in table.values) == ("path" in table.values):
            table.fault("header", "or path: give exactly one of them")
        only = Meaning(table.one_of("only", HINT_MEANINGS, Meaning.PENDING)) if table.has("only") else None
        found.append(Hint(unit, header, path, only))
    return found


def read_limits(table: Table, via: Via, *, given: bool) -> Limits | None:
    """Reads `[limits]`: all four or none (W41: none is ever made up). Where nothing is asked there is a deadline alone."""
    deadline = table.duration("deadline")
    counts = [table.whole(key, least=least) for key, least in (("requests", 1), ("transport_failures", 0), ("throttles", 0))]
    if not given:
        return None
    if deadline is not None and deadline <= timedelta(0):
        table.fault("deadline", "must be more than 0")
    for key in LIMIT_KEYS:
        if via is Via.PUSH and key != "deadline" and key in table.values:
            table.fault(key, 'means nothing with via = "push": nothing is asked')
        elif (via is not Via.PUSH or key == "deadline") and key not in table.values:
            table.fault(key, "is missing: a contract gives all four limits or no [limits] at all")
    if via is Via.PUSH:
        return None if deadline is None else Limits(deadline.total_seconds(), 0, 0, 0)
    requests, failures, throttles = counts
    if deadline is None or requests is None or failures is None or throttles is None:
        return None
    return Limits(deadline.total_seconds(), requests, failures, throttles)


def read_ttl_unit(table: Table) -> HintUnit:
    """Reads the unit of `ttl`, and notes a half of the pair `created` and `ttl`."""
    unit = HintUnit(table.one_of("ttl_unit", TTL_UNITS, HintUnit.SECONDS))
    for key, other in (("created", "ttl"), ("ttl", "created")):
        if table.has(key) and not table.has(other):
            table.fault(other, f"is missing: the expiry is created + ttl, and {key} is given")
    if "ttl_unit" in table.values and not table.has("ttl"):
        table.fault("ttl_unit", "means nothing without ttl")
    return unit
