"""Probes: situations that have to come up sometimes. A simulation that never sees them proves less than it seems to."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any

from sereno.testing.simulation.coverage import Coverage
from sereno.testing.simulation.lived import Lived
from sereno.testing.simulation.terms import Group


class Seen:
    """What probes look at."""

    def __init__(self, lived: Lived, coverage: Coverage) -> None:
        self.lived, self.coverage, self.book = lived, coverage, lived.processes
        self.rows, self.options = lived.persisted.rows, lived.options

    @cached_property
    def facts(self) -> Sequence[Mapping[str, Any]]:
        """The decisions in the journal, with their subject."""
        return [
            {"subject": row["subject"], **json.loads(row["facts"])} for row in self.rows["journal"] if row["kind"] == "decision"
        ]

    @cached_property
    def categories(self) -> Counter[str]:
        """Why people were asked."""
        return Counter(row["category"] for row in self.rows["escalation"])

    @cached_property
    def runs(self) -> Counter[str]:
        """Runs by status."""
        return Counter(row["status"] for row in self.rows["run"])

    @cached_property
    def dead_at(self) -> Counter[str]:
        """Deaths by the method or phase that they struck in."""
        return Counter(death.point.rpartition(".")[0] or "anywhere" for death in self.book.deaths)

    def operations(self, column: str, *values: Any) -> int:
        """How many operations have one of the values in a column."""
        return sum(row[column] in values for row in self.rows["operation"])

    def deliveries(self, column: str, *values: Any) -> int:
        """As `operations`."""
        return sum(row[column] in values for row in self.rows["delivery"])

    def store(self, text: str) -> int:
        """Database faults whose description holds a text."""
        return sum(text in kind for _, _, kind in self.book.store_faults)


def _ended(state: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.operations("state", state) > 0


def _asked(category: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.categories[category] > 0


def _delivered(state: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.deliveries("state", state) > 0


def _struck(kind: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.coverage.faults[kind] > 0


def _overlaps(seen: Seen) -> bool:
    """A process was dead or stopped while another one worked on."""
    return len({pause.process for pause in seen.book.pauses if pause.process}) > 1


def _later_run(seen: Seen) -> bool:
    """Somebody took over what another one had claimed."""
    workers: dict[str, set[str]] = {}
    for row in seen.rows["run"]:
        workers.setdefault(row["subject"], set()).add(row["claimed_by"])
    return any(len(found) > 1 for found in workers.values())


def _long_pause(seen: Seen) -> bool:
    lease = seen.options.times.lease
    return any(pause.process and pause.until - pause.at > lease for pause in seen.book.pauses)


def _wire(seen: Seen) -> Mapping[str, Any]:
    return seen.lived.outside.provider.jobs


PROBES: Mapping[str, Callable[[Seen], bool]] = {
    **{f"an operation ended {state}": _ended(state) for state in ("succeeded", "failed", "cancelled", "expired", "stopped")},
    **{
        f"a person was asked: {category}": _asked(category)
        for category in (
            "deadline_exceeded",
            "request_budget_exhausted",
            "rate_limited",
            "unknown_state",
            "contradiction",
            "authorization_denied",
            "provider_unreachable",
            "integration_failure",
            "ambiguous_delivery",
            "submit_unknown",
            "unknown_operation",
            "needs_input",
            "partial_result",
        )
    },
    **{f"a delivery became {state}": _delivered(state) for state in ("delivered", "dead", "ambiguous")},
    "a delivery was tried again": lambda seen: any(row["attempt"] > 1 for row in seen.rows["delivery"]),
    "a delivery was tried five times": lambda seen: any(row["attempt"] > 4 for row in seen.rows["delivery"]),
    "a delivery was interrupted": lambda seen: any(facts.get("interrupted") for facts in seen.facts),
    "a run was abandoned": lambda seen: seen.runs["abandoned"] > 0,
    "a run was given back": lambda seen: seen.runs["released"] > 0,
    "a run failed": lambda seen: seen.runs["failed"] > 0,
    "somebody took work over": _later_run,
    "two processes were stopped in one world": _overlaps,
    "a process was stopped past its lease": _long_pause,
    "a process lived again": lambda seen: len(seen.book.deaths) > 0,
    "a process died five times over": lambda seen: len(seen.book.deaths) > 9,
    "a process died in a claim": lambda seen: seen.dead_at["store.claim"] > 0,
    "a process died in the commit of a step": lambda seen: seen.dead_at["store.commit_operation"] > 0,
    "a process died in the commit of a run": lambda seen: seen.dead_at["store.commit_poll"] > 0,
    "a process died in the commit of an attempt": lambda seen: seen.dead_at["store.commit_delivery"] > 0,
    "a process died between two points": lambda seen: seen.dead_at["anywhere"] > 0,
    "a process died before it sent": lambda seen: any("before_send" in death.point for death in seen.book.deaths),
    "a process died with an answer in hand": lambda seen: any("replied" in death.point for death in seen.book.deaths),
    "a process died after it acted": lambda seen: any("acted" in death.point for death in seen.book.deaths),
    "a claim failed": lambda seen: seen.store("claim: ") > 0,
    "a claim was executed and reported as failed": lambda seen: seen.store("claim: lost") > 0,
    "the commit of a step was executed and reported as failed": lambda seen: seen.store("commit_operation: lost") > 0,
    "the commit of an attempt was executed and reported as failed": lambda seen: seen.store("commit_delivery: lost") > 0,
    "the commit of a run was executed and reported as failed": lambda seen: seen.store("commit_poll: lost") > 0,
    "the commit of a step failed": lambda seen: seen.store("commit_operation: ") > seen.store("commit_operation: lost"),
    "the fence could not be read": lambda seen: seen.store("check: ") > 0,
    "a lease could not be prolonged": lambda seen: seen.store("extend: ") > 0,
    "a pinned contract could not be read": lambda seen: seen.store("contract: ") > 0,
    "the disk was full": lambda seen: seen.store(": full") > 0,
    "the database was read-only": lambda seen: seen.store(": readonly") > 0,
    "the database took its time": lambda seen: seen.store(": slow") > 0,
    "the host slept": lambda seen: any(not pause.process for pause in seen.book.pauses),
    "the host slept for more than a day": lambda seen: any(
        not pause.process and pause.until - pause.at > timedelta(days=1) for pause in seen.book.pauses
    ),
    "the wall clock was set back": lambda seen: any(step.seconds < 0 for step in seen.book.steps),
    "the wall clock was set back for hours": lambda seen: any(step.seconds < -3600 for step in seen.book.steps),
    "the wall clock was set forward by years": lambda seen: any(step.seconds > 1e7 for step in seen.book.steps),
    "open waits were moved with the clock": lambda seen: any(
        row["subject"] == "clock" and '"moved":true' in row["facts"].replace(" ", "") for row in seen.rows["journal"]
    ),
    "a clock step was noticed": lambda seen: any(row["subject"] == "clock" for row in seen.rows["journal"]),
    "a process stood apart from the database's clock": _struck(f"{Group.CLOCK}.skew"),
    "a clock ran at another rate": _struck(f"{Group.CLOCK}.rate"),
    "a driver drained": _struck(f"{Group.PROCESS}.drained"),
    "nothing was struck": lambda seen: not seen.coverage.faults,
    "fifty faults in one world": lambda seen: seen.coverage.faults.total() >= 50,
    "ten kinds of faults in one world": lambda seen: len(seen.coverage.faults) >= 10,
    "five processes": lambda seen: seen.options.workers == 5,
    "a wait outlived its deadline by a clock": lambda seen: any(
        facts.get("event") == "hit_limit" and facts.get("observation") for facts in seen.facts
    ),
    "a question was answered by silence": lambda seen: any(facts.get("event") == "silence" for facts in seen.facts),
    "a person let a wait go on": lambda seen: any(facts.get("event") == "answered_go_on" for facts in seen.facts),
    "a submit was sent again": lambda seen: any(facts.get("event") == "submit_again" for facts in seen.facts),
    "a change was made while a step was under way": lambda seen: any(facts.get("edited") for facts in seen.facts),
    "a provider went back from an end": lambda seen: any("regression" in (facts.get("facts") or {}) for facts in seen.facts),
    "a job was looked at ten times": lambda seen: any(len(job.looks) >= 10 for job in _wire(seen).values()),
    "a provider asked to wait": lambda seen: any(job.waits for job in _wire(seen).values()),
    "a cancel reached the provider": lambda seen: any(job.cancelled for job in _wire(seen).values()),
    "ticks were missed and made one": lambda seen: any((facts.get("missed") or 0) > 0 for facts in seen.facts),
    "a poll matched": lambda seen: any(row["matched"] for row in seen.rows["run"]),
}


def probed(lived: Lived, coverage: Coverage) -> Counter[str]:
    """The probes that one world reached, each once."""
    seen = Seen(lived, coverage)
    return Counter(name for name, reached in PROBES.items() if reached(seen))
