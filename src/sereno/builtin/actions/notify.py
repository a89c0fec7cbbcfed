"""The `notify` action: Apprise, in a process of its own. Its targets are the one exception to the egress gate."""

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from sereno.builtin.message import ResolveSecret, body_of, last_check, secret_of, title_of
from sereno.builtin.options import Rule, check_options, credential_name, texts_of
from sereno.builtin.process import Ended, Finished, Run, clean_environment, run
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault
from sereno.core.values import Json, canonical
from sereno.ports import Guarded, Place

CHILD = "sereno.builtin.actions.notify_child"
_MAX_BODY = 4_000


class NotifyAction:
    """Notifies one target of `[notify.NAME]`; the target's URL is a secret and reaches the child on standard input only.

    Apprise opens its own connections and blocks, so it runs in a child process with a clean environment that can be ended whole. What it
    writes is thrown away: it may repeat the URL.
    """

    type = "notify"
    default_policy = Policy.AT_LEAST_ONCE

    _rules: Mapping[str, Rule] = {"target": credential_name}

    def __init__(
        self, resolve_target: ResolveSecret, python: str = sys.executable, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._resolve = resolve_target
        self._python = python
        self._environ = environ

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options; a URL as target is refused."""
        faults = check_options("action", options, self._rules, ["target"])
        if find_spec("apprise") is None:
            faults.append(Fault("action", "notify needs Apprise, which is not installed", "pip install 'sereno[notify]'"))
        return faults

    def place(self, options: Mapping[str, Json]) -> Place:
        """One pool for all targets; the target's NAME for people."""
        return Place("local:notify", "".join(texts_of(options, "target")))

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Notifies once."""
        url = secret_of(delivery.effect.action.options, "target", "notify:", self._resolve)
        if url is None or isinstance(url, Outcome):
            return url or Outcome(OutcomeKind.REFUSED, "the action names no target")
        await last_check(guarded)
        done = await run(
            Run(
                [self._python, "-P", "-m", CHILD],
                clean_environment(self._environ, ["PYTHONPATH"]),
                guarded.total_deadline.total_seconds(),
                4_096,
                canonical({"url": url, "title": title_of(delivery), "body": body_of(delivery, _MAX_BODY)}),
            )
        )
        return _outcome(done)


def _outcome(done: Finished) -> Outcome:
    if done.ended is Ended.NOT_STARTED:
        return Outcome(OutcomeKind.RETRY, "the process for notifications could not be started")
    if done.ended is not Ended.EXIT or done.code is None or done.code < 0:
        return Outcome(OutcomeKind.UNKNOWN, "the notification was ended before it reported")
    match done.code:
        case 0:
            return Outcome(OutcomeKind.DONE, "taken by the target", receipt="notify")
        case 64:
            return Outcome(OutcomeKind.REFUSED, "the target's URL is not one that Apprise knows")
        case 69:
            return Outcome(OutcomeKind.REFUSED, "Apprise is not installed; install the extra `notify`")
        case _:
            return Outcome(OutcomeKind.RETRY, "the target did not take the notification")
