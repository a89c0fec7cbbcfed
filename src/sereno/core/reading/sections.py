"""Sections: reads each table of a contract document into its type; faults gather in the `Table`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta

from sereno.core.budget import Limits
from sereno.core.reading.document import Table
from sereno.core.reading.terms import (
    RULE_MEANINGS,
    SIGNATURE_MEANINGS,
    STATE_MEANINGS,
    Cancel,
    CompilePath,
    Delays,
    Hint,
    HintUnit,
    Meaning,
    Path,
    ResultField,
    Rule,
    Signature,
    StateSource,
)
from sereno.core.values import Json

RESULT_TYPES = ("any", "string", "number", "integer", "boolean", "object", "array", "url")
SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token"})
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}", re.ASCII)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,1000}", re.ASCII)
_STATUS = re.compile(r"[2-5](?:\d\d|xx)", re.ASCII)
DEFAULT_HINT_CAP = timedelta(hours=1)


def word_of(value: Json) -> str | None:
    """Writes a state value as the word it is looked up by: a text as it is, a boolean or number as JSON writes it, else None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value if isinstance(value, str) else None


def read_path(table: Table, key: str, compile_path: CompilePath) -> Path | None:
    """Takes a path expression, compiled, or None where it is absent or does not compile."""
    text = table.optional_text(key)
    if text is None:
        return None
    try:
        return compile_path(text)
    except ValueError as error:
        table.fault(key, str(error))
        return None


def read_headers(table: Table) -> Mapping[str, str]:
    """Reads `[status.headers]`: fixed texts; a header that carries a secret is refused."""
    found: dict[str, str] = {}
    for name in table.values:
        value = table.text(name)
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            table.fault(name, "is not a header of plain ASCII text")
        elif name.lower() in SECRET_HEADERS:
            table.fault(name, "carries a secret", "leave it out and name a credential (account) when you wait")
        found[name] = value
    return found


def read_state(table: Table, compile_path: CompilePath, *, path_required: bool) -> StateSource:
    """Reads `[state]`: where the state word comes from."""
    kind = table.one_of("from", ("path", "http"), "path")
    path = read_path(table, "path", compile_path)
    second = read_path(table, "second", compile_path)
    absent = word_of(table.scalar("absent"))
    if kind == "path" and path_required and "path" not in table.values:
        table.fault("path", "is missing", 'name the field that holds the state, or write from = "http"')
    if kind == "http" and any(key in table.values for key in ("path", "second", "absent")):
        table.fault("from", "is http, so path, second and absent mean nothing")
    return StateSource(kind, path, second, absent)


def read_states(table: Table, *, caseless: bool) -> dict[str, Meaning]:
    """Reads `[states]`: every documented word under its meaning, each word once (W03)."""
    found: dict[str, Meaning] = {}
    for meaning in STATE_MEANINGS:
        for index, item in enumerate(table.items(meaning.value)):
            where = f"{meaning.value}[{index}]"
            word = word_of(item) if isinstance(item, str | int | float) else None
            if word is None:
                table.fault(where, "must be a text, a number, true or false")
                continue
            word = word.lower() if caseless else word
            if word in found:
                table.fault(where, f"{word!r} already means {found[word].value}")
            found.setdefault(word, meaning)
    return found


def read_rules(tables: Sequence[Table], compile_path: CompilePath, *, caseless: bool) -> list[Rule]:
    """Reads `[[rules]]`: what a field beside the word makes of it."""
    found = []
    for table in tables:
        word = word_of(table.scalar("word"))
        if word is None:
            table.fault("word", "is missing")
        if "path" not in table.values:
            table.fault("path", "is missing")
        path = read_path(table, "path", compile_path)
        meaning = Meaning(table.one_of("meaning", [m.value for m in RULE_MEANINGS]))
        absent, has_value = table.flag("absent"), "value" in table.values
        value = table.scalar("value")
        if absent and has_value:
            table.fault("absent", "and value exclude each other")
        if word is not None and path is not None:
            found.append(Rule(word.lower() if caseless else word, path, meaning, value, has_value, absent))
    return found


def read_result(table: Table, compile_path: CompilePath) -> list[ResultField]:
    """Reads `[[result.fields]]`: what success must bring (W04)."""
    found = []
    for field in table.tables("fields"):
        if "path" not in field.values:
            field.fault("path", "is missing")
        path = read_path(field, "path", compile_path)
        kind = field.one_of("type", RESULT_TYPES, "any")
        allow_empty, allow_null = field.flag("allow_empty"), field.flag("allow_null")
        alternative = field.optional_text("alternative")
        if path is not None:
            found.append(ResultField(path, kind, allow_empty, allow_null, alternative))
    return found


def read_signatures(tables: Sequence[Table], compile_path: CompilePath) -> list[Signature]:
    """Reads `[[http]]`: what an HTTP answer means before its body is looked at as a state."""
    found = []
    for table in tables:
        status = word_of(table.scalar("status")) or ""
        if not _STATUS.fullmatch(status):
            table.fault("status", 'must be a status such as 404, or a class such as "5xx"')
        meaning = Meaning(table.one_of("meaning", [m.value for m in SIGNATURE_MEANINGS]))
        path, header = read_path(table, "path", compile_path), table.optional_text("header")
        has_value, value = "value" in table.values, table.scalar("value")
        if path and header:
            table.fault("header", "and path exclude each other; write two [[http]] tables")
        if has_value and not path and not header:
            table.fault("value", "needs the path or header it is compared with")
        grace, checks = table.duration("grace"), table.whole("checks", least=1, most=1000)
        then = Meaning(table.one_of("then", [m.value for m in SIGNATURE_MEANINGS], Meaning.UNKNOWN_OPERATION.value))
        waits = meaning is Meaning.NOT_FOUND_YET
        if waits and "grace" not in table.values and "checks" not in table.values:
            table.fault("grace", "is missing: not_found_yet needs a window (grace, checks or both)")
        if not waits and (grace is not None or checks is not None or "then" in table.values):
            table.fault("meaning", "is not not_found_yet, so grace, checks and then mean nothing")
        found.append(Signature(status, meaning, path, value, grace, checks, then, header, has_value))
    return found


def read_delays(table: Table) -> Delays:
    """Reads `[delays]`; what is left out has the defaults of W06."""
    usual = Delays()
    names = {"first": "first", "base": "base", "max": "maximum", "min_gap": "min_gap"}
    given = {names[key]: table.duration(key) or getattr(usual, names[key]) for key in names}
    delays = Delays(**given, jitter=table.one_of("jitter", ("half", "full"), "half"), typical=table.duration("typical"))
    if delays.min_gap < timedelta(seconds=1):
        table.fault("min_gap", "is less than one second")
    if not timedelta(0) < delays.base <= delays.maximum:
        table.fault("base", "must be more than 0 and at most max")
    if delays.maximum < delays.min_gap:
        table.fault("max", "is less than min_gap")
    return delays


def read_hints(tables: Sequence[Table], compile_path: CompilePath) -> list[Hint]:
    """Reads `[[hints]]`: where the provider says when to look again (W07)."""
    found = []
    for table in tables:
        unit = HintUnit(table.one_of("unit", [unit.value for unit in HintUnit]))
        header, path = table.optional_text("header"), read_path(table, "path", compile_path)
        if ("header" in table.values) == ("path" in table.values):
            table.fault("header", "or path: give exactly one of them")
        only = table.one_of("only", [m.value for m in Meaning], Meaning.PENDING.value) if table.has("only") else None
        found.append(Hint(unit, header, path, Meaning(only) if only else None))
    return found


def read_limits(table: Table, *, given: bool) -> Limits | None:
    """Reads `[limits]`: all four or none (W41: none is ever made up)."""
    deadline = table.duration("deadline")
    counts = [table.whole(key, least=least) for key, least in (("requests", 1), ("transport_failures", 0), ("throttles", 0))]
    if not given:
        return None
    for key in ("deadline", "requests", "transport_failures", "throttles"):
        if key not in table.values:
            table.fault(key, "is missing: a contract gives all four limits or no [limits] at all")
    if deadline is not None and deadline <= timedelta(0):
        table.fault("deadline", "must be more than 0")
    requests, failures, throttles = counts
    if deadline is None or requests is None or failures is None or throttles is None:
        return None
    return Limits(deadline.total_seconds(), requests, failures, throttles)


def read_cancel(table: Table, *, given: bool) -> Cancel | None:
    """Reads `[cancel]`: how the provider documents cancelling; nothing sends it by itself (W24)."""
    method, url, effects = (table.optional_text(field.name) for field in fields(Cancel))
    if not given:
        return None
    for key in ("method", "url", "effects"):
        if key not in table.values:
            table.fault(key, "is missing")
    return Cancel(method or "", url or "", effects or "")
