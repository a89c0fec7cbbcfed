"""Logging to standard error: structured fields, known secrets taken out. A program's own structlog set-up is never changed."""

import logging
import sys

import structlog
from structlog.typing import Processor

from sereno.outside.redaction import Redaction


class StandardError:
    """Writes lines to the standard error of this moment. A reader that went away never ends the work that is told of."""

    def msg(self, message: str) -> None:
        """Writes one line, or drops it where nobody can read it."""
        try:
            sys.stderr.write(f"{message}\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            return

    log = debug = info = warning = error = critical = exception = msg


def set_up_logs(redaction: Redaction, *, level: str = "warning", form: str = "text") -> None:
    """Sets up structured logs. `level` is debug, info, warning or error; `form` is text or json."""
    last: Processor = structlog.processors.JSONRenderer() if form == "json" else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            redaction.processor,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=lambda *names: StandardError(),
        cache_logger_on_first_use=False,
    )


def quiet_logs(redaction: Redaction) -> None:
    """Warnings only, unless somebody has set up structlog already."""
    if not structlog.is_configured():
        set_up_logs(redaction)
