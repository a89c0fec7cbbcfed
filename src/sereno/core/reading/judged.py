"""Judged: reads paths, words, statuses and tests, which several sections share."""

import re
from collections.abc import Sequence

from sereno.core.reading.document import Table
from sereno.core.reading.judging import CompilePath, FieldTest, JudgeBy, Path
from sereno.core.values import Json

STATUS = re.compile(r"[2-5](?:\d\d|xx)", re.ASCII)
"""An HTTP status or a class of them."""

TEST_KEYS = ("absent", "value", "differs", "above", "below", "among", "empty")
"""What may stand beside the `path` of a test; at most one of them."""

_KINDS = {
    "absent": JudgeBy.ABSENT,
    "value": JudgeBy.EQUALS,
    "differs": JudgeBy.DIFFERS,
    "above": JudgeBy.ABOVE,
    "below": JudgeBy.BELOW,
    "among": JudgeBy.AMONG,
    "empty": JudgeBy.EMPTY,
}


def word_of(value: Json) -> str | None:
    """Writes a state value as the word it is looked up by: a text as it is, a boolean or number as JSON writes it, else None."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return value if isinstance(value, str) else None


def compiled(table: Table, key: str, text: str, compile_path: CompilePath) -> Path | None:
    """Compiles an expression that stands at `key`; notes a fault where it does not compile."""
    try:
        return compile_path(text)
    except ValueError as error:
        table.fault(key, str(error))
        return None


def read_path(table: Table, key: str, compile_path: CompilePath) -> Path | None:
    """Takes a path expression, compiled, or None where it is absent or does not compile."""
    text = table.optional_text(key)
    return None if text is None else compiled(table, key, text, compile_path)


def read_paths(table: Table, key: str, compile_path: CompilePath) -> list[Path]:
    """Takes a list of path expressions."""
    found = [compiled(table, f"{key}[{index}]", text, compile_path) for index, text in enumerate(table.texts(key))]
    return [path for path in found if path is not None]


def read_word(table: Table, key: str, *, caseless: bool) -> str | None:
    """Takes a state word that is required."""
    word = word_of(table.scalar(key))
    if word is None and key not in table.values:
        table.fault(key, "is missing")
    return word.lower() if caseless and word is not None else word


def read_statuses(table: Table, key: str, default: Sequence[str] = ()) -> list[str]:
    """Takes a list of HTTP statuses and classes; absent is the default."""
    if not table.has(key):
        return list(default)
    found = []
    for index, item in enumerate(table.items(key)):
        word = word_of(item) if isinstance(item, str | int) else None
        if word is None or not STATUS.fullmatch(word):
            table.fault(f"{key}[{index}]", 'must be a status such as 404, or a class such as "5xx"')
        else:
            found.append(word)
    if not found and table.values[key] == []:
        table.fault(key, "must name at least one status")
    return found


def read_tests(table: Table, compile_path: CompilePath, *, judges_path: bool = True) -> list[FieldTest]:
    """Reads the tests of one table: inline (`path` and how it is judged), or `tests = [...]`; none is an empty list.

    `judges_path` False says that a `value` beside no path belongs to something else (the header of an `[[http]]`).
    """
    several = table.has("tests")
    inner = table.tables("tests")
    if not several:
        if table.has("path"):
            return [test for test in [read_test(table, compile_path)] if test is not None]
        _refuse(
            table, [key for key in TEST_KEYS if table.has(key) and (judges_path or key != "value")], "needs the path it judges"
        )
        return []
    if table.values["tests"] == []:
        table.fault("tests", "must hold at least one test")
    given = [key for key in ("path", *TEST_KEYS) if table.has(key) and (judges_path or key != "value")]
    _refuse(table, given, "and tests exclude each other", "write it as one of tests")
    return [test for one in inner if (test := read_test(one, compile_path)) is not None]


def read_test(table: Table, compile_path: CompilePath) -> FieldTest | None:
    """Reads one test: a path, and at most one way to judge it."""
    if not table.has("path"):
        table.fault("path", "is missing")
    path = read_path(table, "path", compile_path)
    values = {key: _judged_by(table, key) for key in TEST_KEYS if table.has(key)}
    given = [key for key, value in values.items() if not (key in ("absent", "empty") and value is False)]
    _refuse(table, given[1:], f"and {given[0] if given else ''} exclude each other")
    if path is None:
        return None
    if not given:
        return FieldTest(path)
    kind = _KINDS[given[0]]
    return FieldTest(path, kind, None if kind in (JudgeBy.ABSENT, JudgeBy.EMPTY) else values[given[0]])


def _judged_by(table: Table, key: str) -> Json:
    if key in ("absent", "empty"):
        return table.flag(key)
    if key in ("above", "below"):
        return table.number(key)
    if key == "among":
        return list(table.scalars(key))
    return table.scalar(key)


def _refuse(table: Table, keys: Sequence[str], says: str, hint: str | None = None) -> None:
    for key in keys:
        table.fault(key, says, hint)
