"""Messages: the plain text and the data that tell a person or a program of matches.

Watched content is quoted, never obeyed (P13).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from sereno.core.values import Json, canonical

TITLE_CAP = 200
BODY_CAP = 2_000
EXCERPT_CAP = 500
PAYLOAD_CAP = 65_536
"""Bytes of canonical JSON."""

Event = Literal["match", "more_matches", "disabled", "ended"]

_COMPARED = 200_000
"""Characters of a text that are compared to find its new lines."""
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Control, bidirectional and invisible characters. Joiners (U+200C, U+200D) stay: scripts and emoji need them."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"\s+")


def plain(text: str, cap: int) -> str:
    """Makes foreign text one safe line of at most `cap` characters; what was cut ends in `…`."""
    return _capped(_clean(_SPACE.sub(" ", text[: 8 * cap])).strip(), cap)


def plain_lines(text: str, cap: int) -> str:
    """Makes foreign text safe but keeps its lines, without empty ones; at most `cap` characters."""
    lines = (_clean(_SPACE.sub(" ", line)).strip() for line in text[: 8 * cap].splitlines())
    return _capped("\n".join(line for line in lines if line), cap)


def counted(number: int, singular: str = "entry", plural: str = "entries") -> str:
    """`1 entry`, `300 entries`."""
    return f"{number} {singular if number == 1 else plural}"


def body_of(lines: Sequence[str]) -> str:
    """Joins lines that are already safe, within the cap of a body."""
    return _capped("\n".join(line for line in lines if line), BODY_CAP)


def excerpt(payload: Json, before: Json) -> str:
    """Shows what matters of a payload in a few lines: of an object the fields that changed first, of a text its new lines."""
    if isinstance(payload, dict):
        return plain_lines("\n".join(_field_lines(payload, before if isinstance(before, dict) else {})), EXCERPT_CAP)
    if payload is None or isinstance(payload, list):
        return ""
    if isinstance(payload, str) and isinstance(before, str):
        known = set(before[:_COMPARED].splitlines())
        added = [line for line in payload[:_COMPARED].splitlines() if line not in known]
        payload = "\n".join(added) or payload
    return plain_lines(_scalar(payload), EXCERPT_CAP)


def fitted(payload: Mapping[str, Json]) -> dict[str, Json]:
    """Keeps a payload within 64 KB: first the foreign `before` is left out, then the foreign `payload` is cut to an excerpt.

    Anything that cannot be written as JSON goes the same way. `cut` says whether something is missing.
    """
    whole: dict[str, Json] = {**payload, "cut": False}
    if _fits(whole):
        return whole
    described = payload.get("object")
    foreign = described.get("untrusted") if isinstance(described, dict) else None
    quoted: dict[str, object] = dict(foreign) if isinstance(foreign, dict) else {}
    quoted["before"] = None
    cut: dict[str, Json] = {**payload, "cut": True, "object": {"untrusted": quoted}}
    if _fits(cut):
        return cut
    shown = quoted.get("payload")
    quoted["payload"] = excerpt(shown, None) if isinstance(shown, dict | str) else None
    return cut


def _fits(payload: Mapping[str, Json]) -> bool:
    try:
        return len(canonical(dict(payload))) <= PAYLOAD_CAP
    except (ValueError, TypeError, RecursionError):
        return False


def _clean(text: str) -> str:
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", text))


def _capped(text: str, cap: int) -> str:
    return text if len(text) <= cap else text[: cap - 1].rstrip() + "…"


def _scalar(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int) and abs(value) > 1 << 256:
        return "a very large number"
    return str(value)


_MOST_FIELDS = 12
_FIELD_CAP = 160


def _field_lines(payload: Mapping[str, object], before: Mapping[str, object]) -> list[str]:
    """One line a scalar field; the changed ones first, as `price: 25 → 19`."""
    changed, same = [], []
    for name, value in list(payload.items())[:200]:
        if value is None or isinstance(value, dict | list):
            continue
        line = f"{plain(name, 60)}: "
        old = before.get(name)
        now = plain(_scalar(value), _FIELD_CAP)
        if name in before and not isinstance(old, dict | list) and old != value:
            changed.append(f"{line}{plain(_scalar(old), _FIELD_CAP) if old is not None else 'nothing'} → {now}")
        elif now:
            same.append(line + now)
    return (changed + same)[:_MOST_FIELDS]
