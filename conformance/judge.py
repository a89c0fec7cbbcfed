"""Holds what a waiter did against what a correct one does; every broken expectation is a sentence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.scenario import Expect, Scenario

SLACK_S = 0.01
SETTLED_S = 20.0
"""Waits that began together may still be together so long."""
Record = Mapping[str, Any]
"""One run, as conformance.child writes it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one scenario with one waiter."""

    outcome: str
    detail: str
    requests: int
    faults: Sequence[str]

    @property
    def passed(self) -> bool:
        """No expectation was broken."""
        return not self.faults


def judge(scenario: Scenario, records: Sequence[Record]) -> Verdict:
    """Judges all copies of a scenario together; the first fault of each kind is kept."""
    faults: dict[str, None] = {}
    for record in records:
        faults |= dict.fromkeys(_faults(scenario, record["told"], record["book"]))
    faults |= dict.fromkeys(_together(scenario.expect, records))
    worst = next((record["told"] for record in records if record["told"]["outcome"] not in scenario.expect.outcome), None)
    told = worst or records[0]["told"]
    requests = sum(entry["kind"] in ("look", "submit", "other") for record in records for entry in record["book"])
    return Verdict(told["outcome"], told["detail"], requests, tuple(faults))


def _faults(scenario: Scenario, told: Record, book: Sequence[Record]) -> Iterator[str]:
    expect, looks = scenario.expect, [entry for entry in book if entry["kind"] == "look"]
    if told["outcome"] not in expect.outcome:
        yield f"said {told['outcome'].replace('_', ' ')}; right is {' or '.join(expect.outcome).replace('_', ' ')}"
    elif told["outcome"] == "succeeded" and expect.success_after is not None and told["t"] < expect.success_after:
        yield f"said succeeded after {_length(told['t'])}, before the job had ended"
    if expect.ends_before is not None and told["t"] is not None and told["outcome"] != "never" and told["t"] > expect.ends_before:
        yield f"ended after {_length(told['t'])}, not within {_length(expect.ends_before)}"
    yield from _counts(scenario, looks)
    yield from _pauses(expect, looks)
    yield from _elsewhere(expect, book)
    if expect.memory_mb is not None and told["memory_mb"] > expect.memory_mb:
        yield f"held more than {expect.memory_mb} MB for one answer"


def _counts(scenario: Scenario, looks: Sequence[Record]) -> Iterator[str]:
    expect = scenario.expect
    if expect.most is not None and len(looks) > expect.most:
        yield f"{len(looks)} looks, {expect.most} at most"
    last = sum(entry["step"] == len(scenario.steps) - 1 for entry in looks)
    if expect.most_in_last is not None and last > expect.most_in_last:
        yield f"{last} looks in the last step, {expect.most_in_last} at most"
    late = [entry["t"] for entry in looks if expect.last_look_before is not None and entry["t"] >= expect.last_look_before]
    if late:
        yield f"a look at {_length(late[0])}, when the time was over"


def _pauses(expect: Expect, looks: Sequence[Record]) -> Iterator[str]:
    for gap in expect.gaps:
        if gap.after < len(looks):
            pause = looks[gap.after]["t"] - looks[gap.after - 1]["t"]
            if pause < gap.pause - SLACK_S:
                yield f"came back after {_length(pause)}, not {_length(gap.pause)}"
                break
    if expect.spacing is not None:
        short = [b["t"] - a["t"] for a, b in zip(looks, looks[1:], strict=False) if b["t"] - a["t"] < expect.spacing - SLACK_S]
        if short:
            yield f"two looks within {_length(min(short))}, {_length(expect.spacing)} are due"


def _elsewhere(expect: Expect, book: Sequence[Record]) -> Iterator[str]:
    foreign = [entry for entry in book if entry["kind"] == "other-host"]
    if any(entry["credential"] for entry in foreign):
        yield "sent the credential to another host"
    elif foreign and expect.other_host == "nothing":
        yield "asked another host"
    if expect.submits is not None:
        sent = [entry["key"] for entry in book if entry["kind"] == "submit"]
        jobs = len({key for key in sent if key}) + sum(key is None for key in sent)
        if jobs > expect.submits:
            yield f"made {jobs} jobs, {expect.submits} was asked for"


def _together(expect: Expect, records: Sequence[Record]) -> Iterator[str]:
    if expect.same_second is None:
        return
    times = sorted(
        entry["t"] for record in records for entry in record["book"] if entry["kind"] == "look" and entry["t"] > SETTLED_S
    )
    most = max((sum(start <= t < start + 1 for t in times) for start in times), default=0)
    if most > expect.same_second:
        yield f"{most} looks of {len(records)} waits in one second"


def _length(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 120:
        return f"{seconds:.2f}".rstrip("0").rstrip(".") + " s"
    return f"{seconds / 60:.1f}".rstrip("0").rstrip(".") + " min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
