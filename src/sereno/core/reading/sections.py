"""Sections: reads where the state comes from, what its words mean, what HTTP answers mean, and what success must bring."""

from collections.abc import Sequence
from datetime import timedelta

from sereno.core.reading.document import Table
from sereno.core.reading.judged import STATUS, read_path, read_test, read_tests, read_word, word_of
from sereno.core.reading.judging import CompilePath
from sereno.core.reading.terms import (
    RULE_MEANINGS,
    SIGNATURE_MEANINGS,
    STATE_MEANINGS,
    Condition,
    Meaning,
    ResultField,
    Rule,
    Signature,
    StateSource,
)

__all__ = [
    "RESULT_TYPES",
    "STATE_SOURCES",
    "read_result",
    "read_rules",
    "read_signatures",
    "read_state",
    "read_states",
    "word_of",
]

RESULT_TYPES = ("any", "string", "number", "integer", "boolean", "object", "array", "url")
STATE_SOURCES = ("path", "http", "conditions")
MAX_STEADY = 10
MAX_CHECKS = 1000
NEVER_STATES = ("401", "403", "429")
"""Statuses that say nothing about the job, whatever a contract says."""


def read_state(table: Table, conditions: Sequence[Table], compile_path: CompilePath, *, path_required: bool) -> StateSource:
    """Reads `[state]` and `[[conditions]]`: where the state word comes from."""
    caseless = table.flag("caseless")
    kind = table.one_of("from", STATE_SOURCES, "path")
    path, second = read_path(table, "path", compile_path), read_path(table, "second", compile_path)
    absent = word_of(table.scalar("absent"))
    absent = absent.lower() if caseless and absent is not None else absent
    if kind == "path" and path_required and "path" not in table.values:
        table.fault("path", "is missing", 'name the field that holds the state, or write from = "http" or "conditions"')
    if kind != "path" and any(key in table.values for key in ("path", "second", "absent")):
        table.fault("from", f"is {kind}, so path, second and absent mean nothing")
    steady = table.whole("steady", least=1, most=MAX_STEADY) or 1
    if kind == "conditions" and not conditions:
        table.fault("from", "is conditions, and there is no [[conditions]]")
    found = _read_conditions(conditions, compile_path, caseless=caseless, wanted=kind == "conditions")
    return StateSource(kind, path, second, absent, found, _read_aliases(table.table("aliases"), caseless), steady)


def _read_aliases(table: Table, caseless: bool) -> dict[str, str]:
    found = {}
    for spelling in table.values:
        word = word_of(table.scalar(spelling))
        if word is not None:
            found[spelling.lower() if caseless else spelling] = word.lower() if caseless else word
    return found


def _read_conditions(tables: Sequence[Table], compile_path: CompilePath, *, caseless: bool, wanted: bool) -> list[Condition]:
    found = []
    for index, table in enumerate(tables):
        word, http = read_word(table, "word", caseless=caseless), word_of(table.scalar("http"))
        if http is not None and (not STATUS.fullmatch(http) or http in NEVER_STATES):
            table.fault("http", 'must be a status such as 404, or a class such as "4xx"; 401, 403 and 429 are never a state')
        tests = read_tests(table, compile_path)
        if not wanted:
            table.fault("", 'needs from = "conditions" in [state]')
        elif http is None and not table.has("path") and not table.has("tests") and index + 1 < len(tables):
            table.fault("path", "is missing: only the last condition may have no test")
        if word is not None:
            found.append(Condition(word, http, tests))
    return found


def read_states(table: Table, *, caseless: bool) -> dict[str, Meaning]:
    """Reads `[states]`: every documented word under its meaning, each word once (W03), or why no word means failure."""
    found: dict[str, Meaning] = {}
    table.optional_text("no_failure")
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
    """Reads `[[rules]]`: what the body beside the word makes of it."""
    found = []
    for table in tables:
        word = read_word(table, "word", caseless=caseless)
        tests = read_tests(table, compile_path)
        meaning = Meaning(table.one_of("meaning", RULE_MEANINGS))
        checks = table.whole("checks", least=1, most=MAX_CHECKS)
        then = Meaning(table.one_of("then", RULE_MEANINGS, Meaning.UNKNOWN_STATE))
        says_more = table.has("path") or table.has("tests") or "checks" in table.values or meaning not in STATE_MEANINGS
        if not says_more:
            table.fault("path", "is missing: without a test or checks the table of [states] says the same")
        if "then" in table.values and "checks" not in table.values:
            table.fault("then", "means nothing without checks")
        found.append(Rule(word or "", meaning, tests, checks, then))
    return found


def read_signatures(tables: Sequence[Table], compile_path: CompilePath) -> list[Signature]:
    """Reads `[[http]]`: what an HTTP answer means before its body is looked at as a state."""
    found = []
    for table in tables:
        status = word_of(table.scalar("status")) or ""
        if not STATUS.fullmatch(status):
            table.fault("status", 'must be a status such as 404, or a class such as "5xx"')
        meaning = Meaning(table.one_of("meaning", SIGNATURE_MEANINGS))
        header = table.optional_text("header")
        tests = read_tests(table, compile_path, judges_path=header is None)
        if header is not None and table.has("path"):
            table.fault("header", "and path exclude each other", "write the tests of the body as tests = [...]")
        value = table.scalar("value") if header is not None else None
        grace, checks, then = _read_window(table, meaning)
        has_value = header is not None and "value" in table.values
        found.append(Signature(status, meaning, tests, value, grace, checks, then, header, has_value))
    return found


def _read_window(table: Table, meaning: Meaning) -> tuple[timedelta | None, int | None, Meaning]:
    grace, checks = table.duration("grace"), table.whole("checks", least=1, most=MAX_CHECKS)
    then = Meaning(table.one_of("then", SIGNATURE_MEANINGS, Meaning.UNKNOWN_OPERATION))
    given = [key for key in ("grace", "checks", "then") if key in table.values]
    if meaning is not Meaning.NOT_FOUND_YET and given:
        table.fault("meaning", "is not not_found_yet, so grace, checks and then mean nothing")
    if meaning is Meaning.NOT_FOUND_YET and "grace" not in given and "checks" not in given:
        table.fault("grace", "is missing: not_found_yet needs a window (grace, checks or both)")
    if then is Meaning.NOT_FOUND_YET:
        table.fault("then", "must be something else than not_found_yet, or it would never end")
    return grace, checks, then


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
        when = read_test(field.table("when"), compile_path) if field.has("when") else None
        if path is not None:
            found.append(ResultField(path, kind, allow_empty, allow_null, alternative, when))
    return found
