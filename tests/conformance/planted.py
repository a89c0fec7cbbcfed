"""Waiters that are wrong on purpose, one fault each, and one that is right; the suite must tell them apart. WRONG names the fault."""

import json
import os
import time
import urllib.request
from collections.abc import Callable

from conformance.stage import Stage, Told

NAME = "planted"
DIALECT = "plain"
OFFERS = ("deadline", "persistence")
PACKAGES = ()
CONFIGURATION = "one planted fault"


def look(stage: Stage, timeout: float | None = 30) -> dict[str, object]:
    """One look."""
    request = urllib.request.Request(f"{stage.base}/jobs/{stage.job}", headers={"X-Api-Key": stage.key})
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        job: dict[str, object] = json.loads(answer.read())
        return job


def pause(seconds: float) -> None:
    """Sleeps, in the suite's virtual time."""
    time.sleep(seconds)


def liar(stage: Stage) -> Told:
    """Says success without asking."""
    return Told("succeeded")


def tight(stage: Stage) -> Told:
    """Asks without a pause."""
    while look(stage)["status"] != "succeeded":
        pass
    return Told("succeeded")


def sleeper(stage: Stage) -> Told:
    """Sleeps longer than anybody waits."""
    pause(40 * 86400)
    return Told("succeeded")


def spinner(stage: Stage) -> Told:
    """Uses the processor up and asks nothing."""
    while True:
        pass


def forgetful(stage: Stage) -> Told:
    """Begins its count anew with every start."""
    for _ in range(stage.requests):
        look(stage)
        pause(30)
    return Told("timed_out")


def patient(stage: Stage) -> Told:
    """Gives a request no limit of its own."""
    while True:
        if look(stage, timeout=None)["status"] == "succeeded":
            return Told("succeeded")
        pause(5)


def right(stage: Stage) -> Told:
    """Counts before it sends, on disk; stops at its limits and at what it does not know."""
    spent = stage.work / "spent"
    while True:
        used = len(spent.read_text()) if spent.exists() else 0
        if used >= stage.requests or time.time() - 1780272000 >= stage.deadline:
            return Told("timed_out", f"{used} requests")
        with spent.open("a") as counter:
            counter.write(".")
        try:
            status = look(stage, timeout=10)["status"]
        except (TimeoutError, OSError):
            status = "running"
        if status in ("succeeded", "failed"):
            return Told(str(status))
        if status not in ("running", "queued"):
            return Told("stopped", str(status))
        pause(20)


FAULTS: dict[str, Callable[[Stage], Told]] = {
    function.__name__: function for function in (liar, tight, sleeper, spinner, forgetful, patient, right)
}


def wait(stage: Stage) -> Told:
    """The waiter that WRONG names."""
    return FAULTS[os.environ["WRONG"]](stage)
