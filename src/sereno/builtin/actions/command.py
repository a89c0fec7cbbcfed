"""The `command` action: runs one local program with the effect on its standard input."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta

from sereno.builtin.message import document, last_check
from sereno.builtin.options import SecretCheck, check_options, duration, only_local, seconds_of, texts_of, userinfo_in_url
from sereno.builtin.process import Ended, Finished, Run, argv_rule, clean_environment, environment_names, last_words, run
from sereno.builtin.text import one_line
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault
from sereno.core.values import Json
from sereno.ports import Guarded, Place

MAX_OUTPUT = 65_536
TEMPORARY = 75
"""EX_TEMPFAIL of sysexits.h."""


class CommandAction:
    """Runs `argv` without a shell: exit 0 is done, 75 asks for a later try, any other status is a refusal.

    The effect is JSON on standard input, never an argument; `SERENO_DEDUPE_KEY` is in the environment, so that the program can tell a
    repeat. A run that was ended from outside may have acted: its outcome is unknown. Only from the configuration or the local command line.
    """

    type = "command"
    default_policy = Policy.AT_MOST_ONCE

    def __init__(self, secret_check: SecretCheck = userinfo_in_url, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._rules = {
            "argv": argv_rule(secret_check),
            "timeout": duration(timedelta(seconds=1), timedelta(minutes=10)),
            "env": environment_names,
        }

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        return [*only_local("action", "command action", origin), *check_options("action", options, self._rules, ["argv"])]

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of checked options."""
        return Place("local:command", one_line(" ".join(texts_of(options, "argv")), 200))

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Runs once, at most `timeout` (30 s) and never past the total deadline."""
        action = delivery.effect.action
        refused = only_local("action", "command action", action.origin)
        if refused:
            return Outcome(OutcomeKind.REFUSED, str(refused[0]))
        names = texts_of(action.options, "env")
        await last_check(guarded)
        done = await run(
            Run(
                texts_of(action.options, "argv"),
                {**clean_environment(self._environ, names), "SERENO_DEDUPE_KEY": delivery.effect.dedupe_key},
                seconds_of(action.options, "timeout", timedelta(seconds=30), guarded.total_deadline),
                MAX_OUTPUT,
                document(delivery),
            )
        )
        return _outcome(done, [self._environ[name] for name in names if self._environ.get(name)])


def _outcome(done: Finished, secrets: Sequence[str]) -> Outcome:
    match done.ended:
        case Ended.NOT_STARTED:
            return Outcome(OutcomeKind.REFUSED, f"the command could not be started: {done.problem}")
        case Ended.TIMEOUT:
            return Outcome(OutcomeKind.UNKNOWN, "the command ran too long and was ended with all it had started")
        case Ended.CAP:
            return Outcome(OutcomeKind.UNKNOWN, f"the command wrote more than {MAX_OUTPUT:,} bytes and was ended")
        case Ended.EXIT:
            return _exit(done.code if done.code is not None else -1, last_words(done, secrets))


def _exit(code: int, words: str) -> Outcome:
    if code == 0:
        return Outcome(OutcomeKind.DONE, "exit 0", receipt="exit 0")
    if code == TEMPORARY:
        return Outcome(OutcomeKind.RETRY, f"the command asks for a later try (75){words}")
    if code < 0:
        return Outcome(OutcomeKind.UNKNOWN, f"the command was ended by signal {-code}")
    return Outcome(OutcomeKind.REFUSED, f"the command ended with status {code}{words}")
