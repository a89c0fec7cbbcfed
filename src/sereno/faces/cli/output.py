"""What a command prints: calm text for people, or one JSON document with a `schema` name for programs."""

import json
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta, tzinfo
from enum import Enum
from importlib.metadata import version
from typing import Annotated, Any

from cyclopts import Parameter

from sereno.core.errors import SerenoError, SetupError, mapping_of
from sereno.core.values import format_duration

EXIT_OK, EXIT_BUG, EXIT_USAGE, EXIT_JOB_FAILED, EXIT_ESCALATED, EXIT_LIMIT, EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_INTERRUPTED = (
    0, 1, 2, 3, 4, 5, 6, 7, 130,
)  # fmt: skip


def plain(value: Any) -> Any:
    """Turns our values into plain JSON data: instants as RFC 3339, durations as text, enums as their word."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return value
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return format_duration(value)
        case bytes():
            return value.decode("utf-8", "replace")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value) if not field.name.startswith("_")}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


_HIDDEN_RANGES = ((0x200B, 0x2010), (0x202A, 0x202F), (0x2060, 0x2070), (0xFFF9, 0xFFFC), (0xE0000, 0xE0080))
_INVISIBLE = {code: None for code in (0xAD, 0x61C, 0x180E, 0xFEFF, *(code for ends in _HIDDEN_RANGES for code in range(*ends)))}
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x00, 0x20), *range(0x7F, 0xA0))}


def safe(text: object, *, most: int = 200) -> str:
    """Foreign text for a terminal: control characters escaped, invisible and direction marks removed, cut to `most` characters."""
    line = " ".join(str(text).split()) if isinstance(text, str) else str(text)
    line = line.translate(_INVISIBLE).translate(_CONTROL).encode("utf-8", "backslashreplace").decode()
    return line if len(line) <= most else line[: most - 1] + "…"


_UNSAFE_IN_JSON = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def json_line(body: Mapping[str, Any]) -> str:
    """One JSON document on one line; what could steer a terminal, or turn text round, stands as an escape."""
    return _UNSAFE_IN_JSON.sub(lambda match: json.dumps(match[0])[1:-1], json.dumps(body, ensure_ascii=False))


class Output:
    """Where one command writes: standard output for its answer, standard error for remarks."""

    def __init__(self, *, as_json: bool, zone: tzinfo | None = None):
        self.as_json = as_json
        self._zone = zone

    def answer(self, schema: str, body: Mapping[str, Any]) -> None:
        """Prints the JSON answer, with `schema` first; in text mode nothing."""
        if self.as_json:
            print(json_line({"schema": f"sereno.{schema}/1", **plain(body)}))

    def say(self, text: str = "") -> None:
        """Prints one line for a person; in JSON mode nothing."""
        if not self.as_json:
            print(text)

    def pairs(self, rows: Iterable[tuple[str, object]], *, indent: str = "") -> None:
        """Prints names and values in two columns, empty values left out; in JSON mode nothing."""
        shown = [(name, value) for name, value in rows if value not in (None, "")]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.say(f"{indent}{name.ljust(width)}  {safe(value, most=500)}")

    def paragraph(self, text: str, *, indent: str = "") -> None:
        """Prints a longer sentence wrapped at 100 characters; in JSON mode nothing."""
        for line in textwrap.wrap(
            safe(text, most=2000), 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ):
            self.say(line)

    def remark(self, text: str) -> None:
        """Prints a warning or progress for a person on standard error."""
        if not self.as_json:
            print(text, file=sys.stderr, flush=True)

    def handle(self, operation: str, text: str) -> None:
        """Prints the id of what will be waited for, before any wait and on standard error: whoever is cut off comes back by it. `text`
        begins with the id; in JSON mode it is one line of JSON instead."""
        line = json_line({"schema": "sereno.handle/1", "operation_id": operation}) if self.as_json else text
        print(line, file=sys.stderr, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Prints aligned columns; nothing in JSON mode."""
        if self.as_json:
            return
        cells = [[safe(cell, most=60) for cell in row] for row in rows]
        widths = [max(len(head), *(len(row[index]) for row in cells)) if cells else len(head) for index, head in enumerate(heads)]
        for line in ([head.upper() for head in heads], *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())

    def time(self, instant: datetime | None) -> str:
        """An instant in the user's zone, or a dash."""
        return "-" if instant is None else f"{instant.astimezone(self._zone):%Y-%m-%d %H:%M:%S %Z}"

    def fail(self, error: SerenoError) -> int:
        """Prints what happened, to which thing, and what to do; answers the exit code."""
        from sereno.app import without_secrets

        code = exit_code(error)
        if self.as_json:
            body: dict[str, Any] = {"code": error.code, "message": error.message, "subject": error.subject, "hint": error.hint}
            if isinstance(error, SetupError):
                body["faults"] = plain(error.faults)
            print(without_secrets(json_line({"schema": "sereno.error/1", "error": body})))
        else:
            for line in without_secrets(f"sereno: {error}").splitlines():
                print(line[: len(line) - len(line.lstrip(" "))] + safe(line, most=1000), file=sys.stderr)
        return code

    def interrupted(self) -> int:
        """Says that the user ended the command before it had an answer; answers the exit code."""
        if self.as_json:
            body = {"code": "interrupted", "message": "interrupted before there was an answer", "subject": None, "hint": None}
            print(json_line({"schema": "sereno.error/1", "error": body}))
        else:
            print("sereno: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def say_version(
    *, json_: Annotated[bool, Parameter(name="--json", help="Print one JSON document with a schema name.")] = False
) -> int:
    """Print the version."""
    out = Output(as_json=json_)
    out.say(f"sereno {version('sereno')}")
    out.answer("version", {"version": version("sereno")})
    return EXIT_OK


def exit_code(error: SerenoError) -> int:
    """The exit code of an error, from the one table."""
    return mapping_of(error).exit_code
