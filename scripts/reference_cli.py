"""The reference page of the command line, written from its own help."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cyclopts import App

INTRODUCTION = """Commands are written `noun verb`; a few bare verbs stand alone. `--json` on any of them prints one document that names its schema.
[Exit codes](errors.md#exit-codes-of-the-commands). Times are shown in your zone."""


@contextmanager
def _called_sereno() -> Iterator[None]:
    """The help names the program that runs; here that is whoever writes the page."""
    saved, sys.argv = sys.argv, ["sereno"]
    try:
        yield
    finally:
        sys.argv = saved


def commands(app: App) -> str:
    """Every command with its arguments and flags."""
    with _called_sereno():
        text = app.generate_docs(output_format="markdown", heading_level=1, flatten_commands=True)
    _, _, body = text.partition("**Commands**:")
    overview, _, rest = body.partition("\n# ")
    whole = f"# Commands\n\n{INTRODUCTION}\n{overview}\n## {re.sub(r'(?m)^# ', '## ', rest)}"
    return whole.replace("(#sereno-install-completion)", "(#sereno---install-completion)")


def undescribed(page: str) -> list[str]:
    """Lists the commands, arguments and flags that say nothing about themselves."""
    found, command = [], ""
    for line in page.splitlines():
        if line.startswith("## "):
            command = line.removeprefix("## ")
        if re.fullmatch(r"\* (\[`[^`]+`\]\([^)]*\)|`[^`]+`):? *(\*\*?\[.*)?", line.strip()):
            found.append(f"{command}: {line.strip()}")
    return found
