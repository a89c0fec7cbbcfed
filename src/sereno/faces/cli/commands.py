"""All commands under one grammar, imported when they are used."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console

from sereno.faces.cli.main import NOUNS, VERBS
from sereno.faces.cli.output import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, say_version

WIDTH = 100

_MODULES = {
    "init": "setup", "apply": "setup", "doctor": "setup", "backup": "setup", "restore": "setup",
    "up": "drive", "once": "drive", "wait": "wait", "demo": "demo",
}  # fmt: skip


def build() -> App:
    """The whole grammar: `noun verb`, and a few bare verbs."""
    app = App(
        name="sereno",
        help="Sereno keeps watch: it waits for other people's jobs, polls what you name, and acts once.",
        help_format="plaintext",
        help_formatter="plain",
        version_flags=[],
        default_parameter=Parameter(negative="", show_default=False),
        console=Console(width=WIDTH, highlight=False, no_color=True, markup=False),
        result_action="return_value",
    )
    for noun in NOUNS:
        app.command(f"sereno.faces.cli.nouns.{noun}:app", name=noun)
    for verb in VERBS:
        app.command(f"sereno.faces.cli.verbs_{_MODULES[verb]}:{verb}", name=verb)
    app.command(say_version, name="version")
    app.register_install_completion_command()
    return app


def run_command(arguments: Sequence[str]) -> int:
    """Runs one command; a usage error is told with exit code 2."""
    try:
        result = build()(list(arguments), exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except CycloptsError as error:
        return _tell_usage(error, arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): nothing is wrong, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    return result if isinstance(result, int) else EXIT_OK


def _tell_usage(error: CycloptsError, arguments: Sequence[str]) -> int:
    chain = " ".join(["sereno", *(error.command_chain or ())])
    message = " ".join(str(error).split())
    hint = f"see `{chain} --help`"
    if "--json" in arguments:
        body = {"code": "usage", "message": message, "subject": None, "hint": hint}
        print(json.dumps({"schema": "sereno.error/1", "error": body}, ensure_ascii=False))
    else:
        print(f"sereno: {message} — {hint}", file=sys.stderr)
    return EXIT_USAGE


def commands() -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command with its words, sub-commands included, in the order of the grammar."""
    root = build()
    for name in (*NOUNS, *VERBS, "version"):
        app = root[name]
        yield (name,), app
        if name in NOUNS:
            yield from (((name, verb), app[verb]) for verb in app if not verb.startswith("-"))


def help_text(words: Sequence[str]) -> str:
    """The help of one command, as `sereno WORDS --help` prints it."""
    app = build()
    console = Console(width=WIDTH, highlight=False, no_color=True, markup=False)
    with console.capture() as capture:
        app.help_print([*words], console=console)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip() + "\n"


def reference() -> str:
    """The reference page of all commands, as Markdown."""
    parts = [
        "# Commands\n",
        f"The words of every command of `sereno` {version('sereno').rpartition('.')[0]}. Each knows `--json` (one document with a"
        " `schema` name) and `--config FILE`; [errors and exit codes](errors.md) are the same everywhere.\n",
        f"```text\n{help_text(())}```\n",
    ]
    parts += [f"## sereno {' '.join(words)}\n\n```text\n{help_text(words)}```\n" for words, _ in commands()]
    return "\n".join(parts)
