"""All commands under one grammar, imported when they are used."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from sereno.faces.cli.main import NOUNS, VERBS
from sereno.faces.cli.output import EXIT_INTERRUPTED, EXIT_USAGE


def build() -> App:
    """The whole grammar: `noun verb`, and a few bare verbs."""
    app = App(
        name="sereno",
        help="Sereno keeps watch: it waits for other people's jobs, polls what you name, and acts once.",
        help_format="plaintext",
        version_flags=[],
        result_action="return_value",
    )
    for noun in NOUNS:
        app.command(f"sereno.faces.cli.{noun}:app", name=noun)
    for verb in VERBS:
        app.command(f"sereno.faces.cli.verbs_{_MODULES[verb]}:{verb}", name=verb)
    app.register_install_completion_command()
    return app


_MODULES = {
    "init": "setup", "apply": "setup", "doctor": "setup", "backup": "setup", "restore": "setup",
    "up": "drive", "once": "drive", "wait": "wait", "demo": "demo",
}  # fmt: skip


def run_command(arguments: Sequence[str]) -> int:
    """Runs one command; a usage error is told with exit code 2."""
    try:
        result = build()(list(arguments), exit_on_error=False, print_error=True)
    except CycloptsError:
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader went away (`| head`): nothing is wrong.
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0
