"""The entry point. `sereno version` answers before anything heavy is imported; each noun is imported when it is used."""

import sys
from collections.abc import Sequence
from importlib.metadata import version

NOUNS = ("poll", "operation", "escalation", "run", "delivery", "contract", "config")
VERBS = ("init", "up", "once", "wait", "apply", "demo", "doctor", "backup", "restore")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["version"], ["--version"], ["-V"]):
        print(f"sereno {version('sereno')}")
        sys.exit(0)
    from sereno.faces.cli.commands import run_command

    sys.exit(run_command(arguments))


if __name__ == "__main__":
    main()
