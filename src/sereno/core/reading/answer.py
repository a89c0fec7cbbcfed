"""Answers: the pieces of reading one HTTP answer through a contract: body, signature, state word, rules, result fields, texts."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from sereno.core.reading.sections import word_of
from sereno.core.reading.terms import Contract, Meaning, Path, ResultField, Rule, Signature, StateSource
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


def find_signature(contract: Contract, status: int, header: Callable[[str], str | None], body: Json) -> Signature | None:
    """Finds the first signature of the contract that this answer carries."""
    return next((found for found in contract.signatures if _carries(found, status, header, body)), None)


def _carries(signature: Signature, status: int, header: Callable[[str], str | None], body: Json) -> bool:
    if signature.status not in (str(status), f"{status // 100}xx"):
        return False
    if signature.header is not None:
        value = header(signature.header)
        return value is not None and (not signature.has_value or value.strip() == word_of(signature.value))
    if signature.path is not None:
        found = signature.path.search(body)
        return same(found, signature.value) if signature.has_value else found is not None
    return True


def settle_signature(signature: Signature, *, waited: timedelta, not_found: int) -> Meaning:
    """What a signature means now: `not_found_yet` only inside its window (W16); `not_found` counts the earlier ones in a row."""
    if signature.meaning is not Meaning.NOT_FOUND_YET:
        return signature.meaning
    late = signature.grace is not None and waited >= signature.grace
    often = signature.grace_checks is not None and not_found >= signature.grace_checks
    return signature.then if late or often else signature.meaning


def state_word(source: StateSource, status: int, body: Json) -> str | None:
    """Reads the state word exactly as sent, or None where there is none or it is not a scalar."""
    if source.kind == "http":
        return str(status)
    found = source.path.search(body) if source.path is not None else None
    first = source.absent if found is None else word_of(found)
    second = source.second.search(body) if source.second is not None else None
    if first is None or second is None:
        return first
    joined = word_of(second)
    return None if joined is None else f"{first}/{joined}"


def classify(contract: Contract, word: str, body: Json) -> Meaning | None:
    """Looks the word up in the table and lets the first rule that holds refine it; None = not in the table (W03)."""
    key = word.lower() if contract.caseless else word
    rule = next((rule for rule in contract.rules if rule.word == key and rule_holds(rule, body)), None)
    return rule.meaning if rule is not None else contract.states.get(key)


def rule_holds(rule: Rule, body: Json) -> bool:
    """Tells whether a rule's condition is met by the body."""
    found = rule.path.search(body)
    if rule.absent:
        return found is None
    return same(found, rule.value) if rule.has_value else found is not None


def result_problem(contract: Contract, body: Json) -> str | None:
    """Says which required result field does not hold, or None (W04)."""
    problems: dict[str, list[str | None]] = {}
    for number, field in enumerate(contract.result):
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
