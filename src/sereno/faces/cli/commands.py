"""All commands under one grammar, imported when they are used."""

import errno
import os
import re
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from sereno.faces.cli.help import Columns, help_console
from sereno.faces.cli.output import EXIT_INTERRUPTED, EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE, json_line, safe, say_version

_COMMANDS = {
    "init": ("verbs.setup:init", "Write a sereno.toml with examples here."),
    "up": ("verbs.drive:up", "Keep watch: run what falls due until told to end."),
    "once": ("verbs.drive:once", "Do what is due now, and the effects of that, then end; for cron."),
    "wait": ("verbs.wait:wait", "Wait for a job that somebody else runs."),
    "submit": ("verbs.submit:submit", "Start a job at a provider, once, and wait for it."),
    "apply": ("verbs.setup:apply", "Bring the polls of the settings file into the database."),
    "demo": ("verbs.demo:demo", "See Sereno at work for a minute, in a playground of its own."),
    "doctor": ("verbs.setup:doctor", "Say whether all is well."),
    "backup": ("verbs.setup:backup", "Write a copy of the database, while everything goes on."),
    "restore": ("verbs.setup:restore", "Put a copy in the place of the database."),
    "poll": ("nouns.poll:app", "Say what to watch, look at it, change it."),
    "operation": ("nouns.operation:app", "Look at waits for other people's jobs; cancel, resubmit, push."),
    "escalation": ("nouns.escalation:app", "Look at questions to you, and answer them."),
    "run": ("nouns.run:app", "Look at what ran, why, and what came of it."),
    "delivery": ("nouns.delivery:app", "Look at what was told; retry or drop what could not be."),
    "contract": ("nouns.contract:app", "Look at how providers behave; write and test contracts of your own."),
    "report": ("nouns.report:app", "Measure how well Sereno works."),
    "config": ("nouns.config:app", "Look at the settings that hold here."),
}
"""Where each command is, and its line in the help; the modules are imported when they are used."""


def build() -> App:
    """The whole grammar: `noun verb`, and a few bare verbs."""
    app = App(
        name="sereno",
        help="Sereno keeps watch: it waits for other people's jobs, polls what you name, and acts once.",
        help_format="plaintext",
        help_formatter=Columns(),
        version_flags=[],
        default_parameter=Parameter(negative="", show_default=False),
        console=help_console(),
        result_action="return_value",
    )
    for name, (place, says) in _COMMANDS.items():
        app.command(f"sereno.faces.cli.{place}", name=name, help=says, sort_key=list(_COMMANDS).index(name))
    app.command(say_version, name="version", sort_key=len(_COMMANDS))
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
        _write_no_more()
        return EXIT_OK
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _write_no_more()
        print(f"sereno: standard output cannot be written: {error.strerror}; what was done stays done", file=sys.stderr)
        return EXIT_UNAVAILABLE
    return result if isinstance(result, int) else EXIT_OK


def _write_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tidy(message: str) -> str:
    """The parser's sentence without its shouting: one sentence, our quotes."""
    message = re.sub(r" ?Available commands:.*", "", message).rstrip(". ")
    message = re.sub(
        r'^Unknown (\w+):? "?(\S+?)"?\. Did you mean "?(\S+?)"?\?', r"there is no \1 `\2`; did you mean `\3`?", message
    )
    return re.sub(r'^Unknown (\w+):? "?(\S+?)"?$', r"there is no \1 `\2`", message)


def _tell_usage(error: CycloptsError, arguments: Sequence[str]) -> int:
    from sereno.app import without_secrets

    chain = " ".join(["sereno", *(error.command_chain or ())])
    message = _tidy(safe(without_secrets(str(error)), most=1000))
    hint = f"see `{chain} --help`"
    if arguments and arguments[0].startswith("-") and not error.command_chain:
        message, hint = (
            f"{safe(arguments[0], most=60)} goes after the command",
            "for example: sereno poll list --config other.toml",
        )
    if "--json" in arguments:
        body = {"code": "usage", "message": message, "subject": None, "hint": hint}
        print(json_line({"schema": "sereno.error/1", "error": body}))
    else:
        print(f"sereno: {message} — {hint}", file=sys.stderr)
    return EXIT_USAGE
