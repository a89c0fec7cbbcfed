"""The `command` source: the output of one local program."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sereno.builtin.options import SecretCheck, check_options, duration, number, only_local, seconds_of, texts_of, userinfo_in_url
from sereno.builtin.page import CONTENT_RULES, BadContent, check_content, extract
from sereno.builtin.process import Ended, Finished, Run, argv_rule, clean_environment, environment_names, last_words, run
from sereno.builtin.text import one_line
from sereno.core.change import FailedReading, ReadFailure, Reading
from sereno.core.errors import Fault
from sereno.core.values import Json, canonical, digest
from sereno.ports import Guarded, Place

MAX_BYTES = 10_000_000
TEMPORARY = 75
"""EX_TEMPFAIL of sysexits.h: the program asks to be tried later."""


class CommandSource:
    """Runs `argv` without a shell and reads its standard output as text, lines or JSON.

    The program is found on PATH or by absolute path and runs in `/`, with PATH, HOME, LANG and the variables named in `env`. It may
    be set only from the configuration or the local command line.
    """

    type = "command"

    def __init__(self, secret_check: SecretCheck = userinfo_in_url, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._rules = {
            "argv": argv_rule(secret_check),
            "timeout": duration(timedelta(seconds=1), timedelta(minutes=10)),
            "max_bytes": number(1, MAX_BYTES),
            "env": environment_names,
            **CONTENT_RULES,
        }

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        faults = check_options("source", options, self._rules, ["argv"])
        return [*only_local("source", "command source", origin), *faults, *check_content("source", options)]

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of checked options."""
        return Place("local:command", one_line(" ".join(texts_of(options, "argv")), 200))

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Runs once, at most `timeout` (30 s) and never past the total deadline; the cursor is the hash of the output."""
        if guarded.before_first_byte is not None:
            await guarded.before_first_byte()
        names = texts_of(options, "env")
        limit = options.get("max_bytes")
        command = Run(
            texts_of(options, "argv"),
            clean_environment(self._environ, names),
            seconds_of(options, "timeout", timedelta(seconds=30), guarded.total_deadline),
            limit if isinstance(limit, int) else 1_000_000,
        )
        done = await run(command)
        failed = _failure(done, command, [self._environ[name] for name in names if self._environ.get(name)])
        if failed is not None:
            return failed
        mark = digest(canonical(dict(options)))[:16] + ":" + digest(done.output)
        if mark == cursor:
            return Reading(cursor=cursor, unchanged=True)
        try:
            return Reading(extract(options, done.output, None, "output"), cursor=mark)
        except BadContent as error:
            return FailedReading(ReadFailure.BAD_CONTENT, str(error))


def _failure(done: Finished, command: Run, secrets: Sequence[str]) -> FailedReading | None:
    match done.ended:
        case Ended.NOT_STARTED:
            return FailedReading(ReadFailure.MISSING, f"the command could not be started: {done.problem}")
        case Ended.TIMEOUT:
            return FailedReading(
                ReadFailure.UNREACHABLE, f"the command was ended after {command.seconds:g}s with all it had started"
            )
        case Ended.CAP:
            return FailedReading(
                ReadFailure.BAD_CONTENT, f"the command wrote more than {command.max_bytes:,} bytes and was ended"
            )
        case Ended.EXIT if done.code == 0:
            return None
        case Ended.EXIT:
            failure = ReadFailure.UNREACHABLE if done.code == TEMPORARY else ReadFailure.BAD_CONTENT
            return FailedReading(failure, f"the command ended with status {done.code}{last_words(done, secrets)}")
