"""Answers: the pieces of reading one HTTP answer through a contract: body, tests, signature, state word, rules, result, texts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast
from urllib.parse import urlsplit

from sereno.core.reading.judged import word_of
from sereno.core.reading.judging import FieldTest, JudgeBy, Path
from sereno.core.reading.terms import Condition, Contract, Meaning, ResultField, Rule, Signature
from sereno.core.values import BadJson, Json, canonical, parse_json

STATE_CHARS = 200
TEXT_CHARS = 2000
_PLAIN = frozenset({"", "text/plain"})
_STRANGE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


def clean(text: str, limit: int) -> str:
    """Cuts foreign text and replaces control, direction and surrogate characters, so that it is safe to store and to show."""
    return _STRANGE.sub("\ufffd", text[:limit].replace("\t", " ").replace("\n", " "))


def text_at(path: Path | None, body: Json, limit: int) -> str | None:
    """Reads what a path finds as cleaned text: a word as it is, anything else as JSON; None where there is nothing."""
    found = path.search(body) if path is not None else None
    if found is None or found == "":
        return None
    word = word_of(found)
    return clean(canonical(found).decode() if word is None else word, limit)


@dataclass(frozen=True, slots=True)
class Body:
    """A body as JSON, or why it is none. `problem` is one clause for a person."""

    value: Json = None
    problem: str | None = None
    html: bool = False
    empty: bool = False


def read_body(content: bytes, content_type: str) -> Body:
    """Parses a body strictly. HTML and other media types are refused even where the bytes would parse (§2.3)."""
    if not content.strip():
        return Body(problem="the body is empty", empty=True)
    html = "html" in content_type or content.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))
    if html:
        return Body(problem="the body is an HTML page", html=True)
    if "json" not in content_type and content_type not in _PLAIN:
        return Body(problem=f"the body is {clean(content_type, 80)!r}, not JSON")
    try:
        return Body(parse_json(content))
    except BadJson as error:
        return Body(problem=f"the body is not acceptable JSON ({clean(str(error), 120)})")


def same(found: Json, wanted: Json) -> bool:
    """Compares as JSON does: 1 equals 1.0, but true is not 1."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return found == wanted


def holds(test: FieldTest, body: Json) -> bool:
    """Tells whether one test is met by a body. `null` counts as absent; what is no number is neither above nor below one."""
    found = test.path.search(body)
    if test.kind is JudgeBy.ABSENT:
        return found is None
    return found is not None and _JUDGES[test.kind](found, test.value)


def _number(value: Json) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _above(found: Json, wanted: Json) -> bool:
    this, that = _number(found), _number(wanted)
    return this is not None and that is not None and this > that


_JUDGES: Mapping[JudgeBy, Callable[[Json, Json], bool]] = {
    JudgeBy.PRESENT: lambda found, wanted: True,
    JudgeBy.EQUALS: same,
    JudgeBy.DIFFERS: lambda found, wanted: not same(found, wanted),
    JudgeBy.ABOVE: _above,
    JudgeBy.BELOW: lambda found, wanted: _above(wanted, found),
    JudgeBy.AMONG: lambda found, wanted: isinstance(wanted, list) and any(same(found, cast(Json, one)) for one in wanted),
    JudgeBy.EMPTY: lambda found, wanted: found in ("", [], {}),
}


def all_hold(tests: Sequence[FieldTest], body: Json) -> bool:
    """Tells whether every test is met; no test is always met."""
    return all(holds(test, body) for test in tests)


def fits(status: int, pattern: str) -> bool:
    """True where a status is the one named (`404`) or of the class named (`5xx`)."""
    return pattern in (str(status), f"{status // 100}xx")


def find_signature(contract: Contract, status: int, header: Callable[[str], str | None], body: Json) -> Signature | None:
    """Finds the first signature of the contract that this answer carries."""
    return next((found for found in contract.signatures if _carries(found, status, header, body)), None)


def _carries(signature: Signature, status: int, header: Callable[[str], str | None], body: Json) -> bool:
    if not fits(status, signature.status) or not all_hold(signature.tests, body):
        return False
    if signature.header is None:
        return True
    value = header(signature.header)
    return value is not None and (not signature.has_value or value.strip() == word_of(signature.value))


def settle_signature(signature: Signature, *, waited: timedelta, not_found: int) -> Meaning:
    """What a signature means now: `not_found_yet` only inside its window (W16); `not_found` counts the earlier ones in a row."""
    if signature.meaning is not Meaning.NOT_FOUND_YET:
        return signature.meaning
    late = signature.grace is not None and waited >= signature.grace
    often = signature.grace_checks is not None and not_found >= signature.grace_checks
    return signature.then if late or often else signature.meaning


def state_word(contract: Contract, status: int, body: Body) -> str | None:
    """Reads the state word exactly as sent, or None where there is none or it is not a scalar."""
    source = contract.state
    if source.kind == "http":
        return str(status)
    if source.kind == "conditions":
        met = find_condition(contract, status, body)
        return met.word if met is not None else None
    found = source.path.search(body.value) if source.path is not None else None
    first = source.absent if found is None else word_of(found)
    second = source.second.search(body.value) if source.second is not None else None
    if first is None or second is None:
        return first
    joined = word_of(second)
    return None if joined is None else f"{first}/{joined}"


def find_condition(contract: Contract, status: int, body: Body) -> Condition | None:
    """Finds the first condition that holds. One without `http` speaks of a 2xx; what tests a body, or takes whatever else comes,
    does not hold for a body that cannot be read."""
    for found in contract.state.conditions:
        if not fits(status, found.http or "2xx"):
            continue
        if body.problem is not None and (found.tests or found.http is None):
            continue
        if all_hold(found.tests, body.value):
            return found
    return None


def table_word(contract: Contract, word: str) -> str:
    """The word of the table that a word as sent stands for: in lower case where the contract is caseless, another spelling replaced."""
    key = word.lower() if contract.caseless else word
    return contract.state.aliases.get(key, key)


def find_rule(contract: Contract, word: str, body: Json) -> Rule | None:
    """Finds the first rule of a word that holds."""
    key = table_word(contract, word)
    return next((rule for rule in contract.rules if rule.word == key and all_hold(rule.tests, body)), None)


def classify(contract: Contract, word: str, body: Json, *, tolerated: int = 0) -> tuple[Meaning | None, bool]:
    """What a word means (None = not in the table, W03), and whether that holds only by a rule's own count.

    The first rule that holds refines the table. A rule with `checks` holds while fewer answers in a row were `tolerated` before.
    """
    rule = find_rule(contract, word, body)
    if rule is None:
        return contract.states.get(table_word(contract, word)), False
    if rule.checks is None:
        return rule.meaning, False
    within = tolerated < rule.checks
    return (rule.meaning if within else rule.then), within


def result_problem(contract: Contract, body: Json) -> str | None:
    """Says which required result field does not hold, or None (W04)."""
    problems: dict[str, list[str | None]] = {}
    for number, field in enumerate(contract.result):
        if field.when is not None and not holds(field.when, body):
            continue
        problems.setdefault(field.alternative or f"#{number}", []).append(_field_problem(field, field.path.search(body)))
    for group in problems.values():
        if all(group):
            return " and ".join(problem for problem in group if problem)
    return None


def _field_problem(field: ResultField, value: Json) -> str | None:
    name = field.path.expression
    if value is None:
        return None if field.allow_null else f"{name} is missing"
    if value in ("", [], {}):
        return None if field.allow_empty else f"{name} is empty"
    return None if has_type(value, field.type) else f"{name} is not of type {field.type}"


def has_type(value: Json, wanted: str) -> bool:
    """Checks the type of a result field; a boolean is not a number, a `url` is http or https with a host."""
    if wanted == "url":
        return isinstance(value, str) and is_url(value)
    if wanted in ("number", "integer"):
        return not isinstance(value, bool) and isinstance(value, int if wanted == "integer" else int | float)
    kinds = {"string": str, "boolean": bool, "object": dict, "array": list, "any": object}
    return isinstance(value, kinds[wanted])


def is_url(text: str) -> bool:
    """True for an absolute http or https URL with a host."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def reference(text: str) -> str:
    """Makes a place of a result storable: a URL loses user name, query and fragment, which may be a key to it."""
    if not is_url(text):
        return clean(text, TEXT_CHARS)
    parts = urlsplit(text)
    return clean(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", TEXT_CHARS)


def read_instant(value: Json) -> datetime | None:
    """Reads an instant as RFC 3339 text or epoch seconds, or None. (Python's own parser takes forms RFC 3339 does not have.)"""
    try:
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None
