"""What a person hands to a command: JSON, a file or standard input; and a typed yes."""

import signal
import sys
from pathlib import Path

from sereno.core.errors import Fault, RequestError, SetupError
from sereno.core.values import BadJson, Json, parse_json
from sereno.faces.cli.output import Output


def read_given(flag: str, text: str, most: int) -> bytes:
    """The bytes of `@FILE`, of standard input for `-`, else of the text itself; at most `most`. Raises SetupError."""
    try:
        if text == "-":
            found = sys.stdin.buffer.read(most + 1)
        elif text.startswith("@"):
            with Path(text[1:]).expanduser().open("rb") as file:
                found = file.read(most + 1)
        else:
            found = text.encode()
    except OSError as error:
        raise _wrong(flag, f"{text[1:101]} cannot be read: {error.strerror}") from error
    except (UnicodeError, ValueError) as error:
        raise _wrong(flag, f"cannot be read: {error}") from error
    if len(found) > most:
        raise _wrong(flag, f"has more than {most:,} bytes")
    return found


def read_json(flag: str, text: str, most: int) -> Json:
    """The same, read as strict JSON. Raises SetupError."""
    try:
        return parse_json(read_given(flag, text, most))
    except BadJson as error:
        raise _wrong(flag, str(error), f'write {flag} \'{{"prompt": "a harbour"}}\', {flag} @FILE or {flag} -') from error


def _wrong(flag: str, says: str, hint: str | None = None) -> SetupError:
    return SetupError("this cannot be taken; nothing was stored", [Fault(flag, says, hint)])


def confirmed(out: Output, *, yes: bool, question: str, subject: str) -> bool:
    """True for `--yes`, or when a person types yes on a terminal. Without a terminal `--yes` is needed: raises RequestError."""
    if yes:
        return True
    if out.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RequestError(
            "without a terminal a decision needs --yes",
            subject=subject,
            hint="read what was shown, then run the same command with --yes",
            code="yes_needed",
        )
    return typed(f"{question} Type yes: ") in ("y", "yes")


def typed(prompt: str) -> str:
    """What a person types; the end of input is nothing. Ctrl-C ends the command at once, although a loop is running."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt).strip().lower()
    except EOFError:
        return ""
    finally:
        signal.signal(signal.SIGINT, before)
