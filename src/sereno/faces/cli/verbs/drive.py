"""`sereno up` and `sereno once`: the two ways to let due work run."""

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from sereno.faces.cli.output import Output
from sereno.faces.cli.pulse import running
from sereno.faces.cli.session import DEFAULT, Flags, run
from sereno.faces.cli.verbs.setup import tell_applied
from sereno.service.doctor import Health

if TYPE_CHECKING:
    from sereno.app import Sereno

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]
LogLevel = Annotated[Level, Parameter(name="--log-level", help="Least level that is logged.")]
LogFormat = Annotated[Format, Parameter(name="--log-format", help="How log lines on standard error look.")]


def up(*, log_level: LogLevel = "warning", log_format: LogFormat = "text", flags: Flags = DEFAULT) -> int:
    """Keep watch: run what falls due until told to end. Ctrl-C or SIGTERM lets running work finish first."""

    async def body(sereno: "Sereno", out: Output) -> None:
        sereno.set_up_logs(level=log_level, form=log_format)
        await sereno.check_start()
        tell_applied(out, await sereno.apply())
        watching = await _watching(sereno)
        with running(sereno.loaded.database):
            async with sereno.stopping_on_signals(lambda busy: _tell_draining(out, busy)):
                out.say(watching)
                sys.stdout.flush()
                tally = await sereno.run()
        out.say(f"Ended. {_counted(tally.done, 'piece')} of work done.{_left_open(await sereno.doctor.look(whole=False))}")
        out.answer("up", {"tally": tally})

    return run(flags, body, stays=True, creates=True)


def _tell_draining(out: Output, busy: int) -> None:
    if busy:
        out.say(f"Finishing {_counted(busy, 'piece')} of work; Ctrl-C again ends at once.")
        sys.stdout.flush()


async def _watching(sereno: "Sereno") -> str:
    health = await sereno.doctor.look(whole=False)
    counts = health.counts
    polls = 0 if counts is None else counts.polls.get("active", 0)
    waits = 0 if counts is None else counts.operations.get("waiting", 0)
    submits = 0 if counts is None else counts.operations.get("submitting", 0)
    to_submit = f", {_counted(submits, 'job')} to submit" if submits else ""
    asked = 0 if counts is None else counts.open_escalations
    questions = f", {_counted(asked, 'question')} for you (sereno escalation list)" if asked else ""
    watched = f"Watching {_counted(polls, 'poll')}, waiting on {_counted(waits, 'job')}{to_submit}{questions}"
    return f"{watched}; database {sereno.loaded.database}. Ctrl-C ends."


def _left_open(health: Health) -> str:
    """What nobody drives from now on, unless another process does."""
    found = {} if health.counts is None else health.counts.operations
    left = found.get("waiting", 0) + found.get("submitting", 0)
    return f" {_counted(left, 'wait')} {'stays' if left == 1 else 'stay'} open until the next start." if left else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


async def _counts(sereno: "Sereno", since: datetime) -> dict[str, int]:
    """What this process did since then, by its run records; the newest 1000 are looked at."""
    mine = [
        one
        for one in await sereno.runs.list(limit=1000)
        if one.started_at >= since and one.claimed_by.endswith(f":{os.getpid()}")
    ]
    told = sum(one.kind == "delivery" and one.status == "ok" for one in mine)
    looked = sum(one.kind != "delivery" for one in mine)
    return {"runs": looked, "told": told, "failed": sum(one.status == "failed" for one in mine)}


def _summed(counts: dict[str, int]) -> str:
    if not any(counts.values()):
        return ""
    return f" ({_counted(counts['runs'], 'run')}, {counts['told']} told, {counts['failed']} failed)"


def once(*, log_level: LogLevel = "warning", log_format: LogFormat = "text", flags: Flags = DEFAULT) -> int:
    """Do what is due now, and the effects of that, then end. Made for cron; safe beside a running `sereno up`."""

    async def body(sereno: "Sereno", out: Output) -> None:
        sereno.set_up_logs(level=log_level, form=log_format)
        applied = await sereno.apply()
        tell_applied(out, applied)
        started = sereno.kit.clock.now()
        async with sereno.stopping_on_signals():
            tally = await sereno.once()
        counts = await _counts(sereno, started)
        left = f", {tally.unavailable} put off" if tally.unavailable else ""
        lost = f", {tally.lost} taken over by another process" if tally.lost else ""
        out.say(f"Done: {_counted(tally.done, 'piece')} of work{_summed(counts)}{left}{lost}.")
        out.answer("once", {"tally": tally, "counts": counts, "applied": applied})

    return run(flags, body, creates=True)
