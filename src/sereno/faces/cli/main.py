"""The entry point. `sereno version` answers before anything heavy is imported; each noun is imported when it is used."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from types import TracebackType

NOUNS = ("poll", "operation", "escalation", "run", "delivery", "contract", "report", "config")
VERBS = ("init", "up", "once", "wait", "submit", "apply", "demo", "doctor", "backup", "restore")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one command and exits with its code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    open_closed_streams()
    if arguments in (["version"], ["--version"], ["-V"]):
        print(f"sereno {version('sereno')}")
        sys.exit(0)
    if os.environ.get("SERENO_DEBUG") != "1":
        sys.excepthook = tell_bug
    try:
        from sereno.faces.cli.commands import run_command

        code = run_command(arguments)
    except KeyboardInterrupt:
        code = 130
    # The command is over and its exit code stands: a late Ctrl-C must not turn the end into a death by signal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def open_closed_streams() -> None:
    """Puts the null device where a standard stream is closed (`>&-`): else the next file or socket would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")


def tell_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Tells of a fault of our own in one line; Python then exits with 1. The error's text stays out: it may hold foreign content."""
    while error.__cause__ is not None:
        error = error.__cause__
    kind, trace = type(error), error.__traceback__ or trace
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
    message = f"this is a fault of Sereno's own ({kind.__name__}{place}); what was stored stays as it was"
    hint = "run the same command with SERENO_DEBUG=1 and report what it prints"
    if "--json" in sys.argv:
        body = {"code": "bug", "message": message, "subject": None, "hint": hint}
        print(json.dumps({"schema": "sereno.error/1", "error": body}))
    else:
        print(f"sereno: {message} — {hint}", file=sys.stderr)


if __name__ == "__main__":
    main()
