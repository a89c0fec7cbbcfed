"""Small value types used everywhere: ids, instants, durations, strict JSON, canonical bytes, digests.

Instants are timezone-aware UTC `datetime`; in SQLite they are integer microseconds since 1970 (`to_micros`).
"""

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import NewType

PollId = NewType("PollId", str)
OperationId = NewType("OperationId", str)
DeliveryId = NewType("DeliveryId", str)
EscalationId = NewType("EscalationId", str)

PREFIXES = ("poll_", "op_", "dlv_", "eval_", "esc_", "evt_", "task_", "sub_", "call_")
"""Every id starts with one of these; the rest is a UUIDv7 in lower-case base32, so ids sort by creation time."""

Json = dict[str, "object"] | list["object"] | str | int | float | bool | None

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)


def format_id(prefix: str, uuid7: int) -> str:
    """Writes a 128-bit UUIDv7 as `prefix` + 26 characters of lower-case Crockford base32, order kept."""
    assert prefix in PREFIXES, prefix
    assert 0 <= uuid7 < 1 << 128
    return prefix + "".join(_ALPHABET[(uuid7 >> shift) & 31] for shift in range(125, -1, -5))


def run_id(subject: str, number: int) -> str:
    """Names one run: `SUBJECT.NUMBER`; the number is also the fence."""
    return f"{subject}.{number}"


def to_micros(instant: datetime) -> int:
    """Turns an aware instant into whole microseconds since 1970 UTC."""
    assert instant.tzinfo is not None, "instants are timezone-aware"
    since = instant - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_micros(micros: int) -> datetime:
    """Turns microseconds since 1970 back into an aware UTC instant."""
    return _EPOCH + timedelta(0, 0, micros)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII | re.IGNORECASE)
LONGEST = timedelta(days=3660)


def parse_duration(text: str) -> timedelta:
    """Reads `90s`, `1h30m`, `2d`, `500ms` or ISO 8601 (`PT1H30M`). Raises ValueError saying what would be right."""
    compact = text.strip().replace(" ", "")
    seconds = _iso_seconds(compact) if compact[:1] in "Pp" and compact else _short_seconds(compact)
    if seconds is None:
        raise ValueError(f"{text[:80]!r} is not a duration; write for example 90s, 1h30m, 2d or PT1H30M")
    if not seconds <= LONGEST.total_seconds():
        raise ValueError(f"{text[:80]!r} is longer than ten years")
    return timedelta(seconds=seconds)


def _short_seconds(compact: str) -> float | None:
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _iso_seconds(compact: str) -> float | None:
    match = _ISO.fullmatch(compact)
    if match is None or not any(match.groups()):
        return None
    scale = (604800, 86400, 3600, 60, 1)
    return sum(float(number) * unit for number, unit in zip(match.groups(), scale, strict=True) if number)


def format_duration(span: timedelta) -> str:
    """Writes a duration the way `parse_duration` reads it: `1h30m`, `90ms`, `0s`."""
    millis = round(span.total_seconds() * 1000)
    sign, millis = ("-", -millis) if millis < 0 else ("", millis)
    out = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, millis = divmod(millis, size)
        out += f"{count}{unit}" if count else ""
    return sign + (out or "0s")


MAX_DEPTH = 64
MAX_NODES = 200_000


class BadJson(ValueError):
    """The text is not JSON we accept: not JSON at all, duplicate keys, NaN or Infinity, too deep, too large."""


def parse_json(text: bytes | str) -> Json:
    """Parses foreign JSON strictly (RFC 8259 and no more).

    Refuses duplicate keys, NaN, Infinity, numbers that overflow, lone surrogates, a byte order mark, nesting deeper
    than 64 and more than 200,000 values. Raises BadJson; never RecursionError.
    """
    try:
        raw, text = (text, text.decode()) if isinstance(text, bytes) else (text.encode(), text)
    except UnicodeError as error:
        raise BadJson("not UTF-8") from error
    _check_shape(text)
    try:
        value: Json = (_CAREFUL if _has_long_number(raw) else _QUICK).decode(text)
    except json.JSONDecodeError as error:
        raise BadJson(f"not JSON: {error.msg} at line {error.lineno} column {error.colno}") from error
    if "\\ud" in text or "\\uD" in text:
        _refuse_surrogates(value)
    return value


# Possessive, and content to end at the end of the text: each character is looked at once, whatever the text.
_STRING = re.compile(r'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}


def _check_shape(text: str) -> None:
    """Bounds depth and number of values before the recursive parser sees the text; short flat texts are proven by counting."""
    if text.count("[") + text.count("{") <= MAX_DEPTH and len(text) <= MAX_NODES:
        return
    if text.count('"') - text.count('\\"') > 4 * MAX_NODES:  # two a string, a key and a value each: told before the costly look
        raise BadJson(f"more than {MAX_NODES} values")
    bare = _STRING.sub("", text)
    opened = bare.count("[") + bare.count("{")
    if opened + bare.count(",") >= MAX_NODES:
        raise BadJson(f"more than {MAX_NODES} values")
    if opened > MAX_DEPTH and max(accumulate(map(_STEP.__getitem__, _BRACKET.findall(bare)))) > MAX_DEPTH:
        raise BadJson(f"nested deeper than {MAX_DEPTH}")


_FOLDED = bytes.maketrans(b"123456789E-", b"000000000e+")
_LONG = b"0" * 65


def _has_long_number(raw: bytes) -> bool:
    """What a number needs to be long or to overflow; without it the parser's own numbers are safe, and much quicker."""
    folded = raw.translate(_FOLDED)
    return b"e000" in folded or b"e+000" in folded or _LONG in folded


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJson("an object names the same key twice")
    return found


def _refuse_surrogates(value: Json) -> None:
    try:
        canonical(value)
    except UnicodeEncodeError as error:
        raise BadJson("a lone surrogate in a string") from error


def _refuse_constant(name: str) -> object:
    raise BadJson(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadJson("a number too large")
    return value


def _short_int(text: str) -> int:
    if len(text.lstrip("-")) > 64:
        raise BadJson("an integer of more than 64 digits")
    return int(text)


_QUICK = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_short_int
)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Json) -> bytes:
    """Writes our own JSON so that equal values give equal bytes: sorted keys, no spaces, UTF-8."""
    return _CANONICAL.encode(value).encode()


def digest(data: bytes) -> str:
    """Hashes bytes with SHA-256, as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()
