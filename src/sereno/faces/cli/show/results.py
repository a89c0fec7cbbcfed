"""How a kept result is shown: where it stands, its parts, and its text where a terminal can take it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sereno.faces.cli.output import Output, safe
from sereno.service.results import CopyState, KeptPart, KeptResult

MOST_SHOWN = 262_144
"""Bytes of a result that are printed; a longer one goes to a file."""

_STEERING = "\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f{_STEERING}]")


def is_text(content_type: str) -> bool:
    """True for media types that are text."""
    media = content_type.partition(";")[0].strip().lower()
    return media.startswith("text/") or is_json(content_type) or media in ("application/xml", "application/yaml")


def is_json(content_type: str) -> bool:
    """True for JSON and what is built on it."""
    media = content_type.partition(";")[0].strip().lower()
    return media == "application/json" or media.endswith("+json") or media == "application/x-ndjson"


def printable(content: bytes, content_type: str) -> str | None:
    """The text with all that could steer a terminal as an escape, line ends kept; None for what is no UTF-8 text.

    In JSON an escape is one that JSON has, so that what is printed reads back the same.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    text = text.replace("\r\n", "\n")
    if is_json(content_type):
        return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def why_not_shown(part: KeptPart) -> str | None:
    """Why a part is not printed, in words; None where it may be."""
    if part.artifact.size > MOST_SHOWN:
        return f"it has {part.artifact.size:,} bytes"
    if not is_text(part.artifact.content_type):
        return f"it is {safe(part.artifact.content_type, most=80)}"
    return None


def list_parts(out: Output, result: KeptResult) -> None:
    """Prints the parts as a table."""
    rows = [
        (number, part.artifact.name or "-", part.artifact.content_type, f"{part.artifact.size:,}", part.artifact.digest[:16])
        for number, part in enumerate(result.parts, 1)
    ]
    out.table(("part", "name", "type", "bytes", "sha256"), rows)


def show_reference(out: Output, result: KeptResult) -> None:
    """Prints where the provider has the result, for one that is not copied."""
    out.say(f"{result.operation} has succeeded. Its contract asks for no copy of the result.")
    out.pairs([("result", result.result_ref or "the provider names no place")])


def result_row(result: KeptResult, *, written: Mapping[int, str] | None = None) -> dict[str, Any]:
    """The result as JSON: `path` is the file that this command wrote, by part."""
    return {
        "operation_id": result.operation,
        "copy": result.state,
        "result_ref": result.result_ref,
        "kept_until": result.kept_until,
        "delivery": result.delivery,
        "parts": [_part_row(number, part, written or {}) for number, part in enumerate(result.parts, 1)],
    }


def _part_row(number: int, part: KeptPart, written: Mapping[int, str]) -> dict[str, Any]:
    artifact = part.artifact
    return {
        "part": number,
        "digest": artifact.digest,
        "size": artifact.size,
        "type": artifact.content_type,
        "name": artifact.name,
        "from": part.source,
        "path": written.get(number),
    }


def stands(result: KeptResult) -> tuple[str, str]:
    """Code and sentence for a result that is not there (yet)."""
    if result.state is CopyState.COPYING:
        tried = f"; the newest try: {result.says}" if result.says else ""
        return "result_copying", f"the result is being copied{tried}"
    until = f"; the provider keeps it until {result.kept_until:%Y-%m-%d %H:%M:%S} UTC" if result.kept_until else ""
    return "result_not_kept", f"the result could not be copied ({result.says or 'no reason was kept'}){until}"


def numbered(parts: Sequence[KeptPart], number: int | None) -> int | None:
    """The number of the one part that is meant; None where there are several and none was named. Raises IndexError."""
    if number is None:
        return 1 if len(parts) == 1 else None
    if not 1 <= number <= len(parts):
        raise IndexError(number)
    return number
