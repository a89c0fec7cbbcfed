"""The checks of a simulated world: what the books of the outside, and the rows where a rule compares with them, say of each invariant.

Each check reads the provider's, the receivers' and the feeds' books, and of Sereno only what it persisted. A violation is one line that
begins with the id of the rule that was broken. Nothing is excused wholesale: an answer that a crash lost is excused, that one answer alone,
by its number, and then the cool-down of its claim has to hold instead.

| rule | check |
|---|---|
| I1 | counts.on_the_wire |
| I2, I30 | counts.before_the_send |
| I3 | counts.wasted |
| I4 | waits.kept, waits.cooled_down, effects.waits, polls.waits |
| I5 | waits.believed |
| I6 | waits.smallest |
| I7 | waits.after_a_pause, bursts.pools, bursts.ticks |
| I8 | fences.stale, fences.overlapping_runs, fences.given_up |
| I9 | fences.overlaps |
| I10 | endings.ended, endings.in_time |
| I11, I12 | endings.moves |
| I13 | truth.said, truth.stopped |
| I14 | truth.results |
| I15 | truth.said, truth.own_answers |
| I16 | truth.stopped |
| I17 | submits.submitted, effects.outbox, effects.received, polls.told |
| I18 | effects.outbox |
| I19 | effects.ambiguous |
| I20 | persons.call_backs |
| I21 | endings.moves, persons.one_end |
| I22 | persons.limits, persons.answers |
| I23 | waits.kept, waits.smallest |
| I24 | waits.asleep |
| I25 | effects.intents, effects.open_intents, journal.in_order |
| I31 | fences.recovered, fences.taken_over |
| P01 | polls.told, polls.up_to_date |
| P04 | polls.cursors |
| P05 | pace.versions |
| P06 | journal.kept_runs |
| P07 | polls.told |
| P09 | pace.paused |
| P10 | polls.waits, pace.spared |
| W05 | endings.strangers |
| W20 | persons.answers |
| W21 | submits.submitted |
| W24 | submits.cancels |
| W26 | journal.sources |
| W28, W44 | journal.replayed |
| W30 | effects.kept_results |
| W32 | endings.deadlines |
| W33 | counts.on_the_wire |
| W35 | persons.call_backs |
| W38 | truth.stopped |
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from sereno.testing.simulation.checks import (
    bursts,
    counts,
    effects,
    endings,
    fences,
    journal,
    pace,
    persons,
    polls,
    submits,
    truth,
    waits,
)
from sereno.testing.simulation.checks.evidence import Evidence
from sereno.testing.simulation.checks.gather import evidence_of
from sereno.testing.simulation.lived import Lived

Check = Callable[[Evidence], Iterator[str]]

CHECKS: Sequence[tuple[tuple[str, ...], Check]] = (
    (("I1", "W33"), counts.on_the_wire),
    (("I2", "I30"), counts.before_the_send),
    (("I3",), counts.wasted),
    (("I4", "I23"), waits.kept),
    (("I4",), waits.cooled_down),
    (("I5",), waits.believed),
    (("I6", "I23"), waits.smallest),
    (("I7",), waits.after_a_pause),
    (("I24",), waits.asleep),
    (("I7",), bursts.pools),
    (("I7",), bursts.ticks),
    (("I8",), fences.stale),
    (("I8",), fences.overlapping_runs),
    (("I8",), fences.given_up),
    (("I9",), fences.overlaps),
    (("I31",), fences.recovered),
    (("I31",), fences.taken_over),
    (("I10",), endings.ended),
    (("I10",), endings.in_time),
    (("I11", "I12", "I21"), endings.moves),
    (("W32",), endings.deadlines),
    (("W05",), endings.strangers),
    (("I13", "I15"), truth.said),
    (("I15",), truth.own_answers),
    (("I14",), truth.results),
    (("W38", "I13", "I16"), truth.stopped),
    (("I17", "W21"), submits.submitted),
    (("W24",), submits.cancels),
    (("I18", "I17"), effects.outbox),
    (("I17",), effects.received),
    (("I19",), effects.ambiguous),
    (("I25",), effects.intents),
    (("I25",), effects.open_intents),
    (("W30",), effects.kept_results),
    (("I4",), effects.waits),
    (("I22",), persons.limits),
    (("I22", "W20"), persons.answers),
    (("I20", "W35"), persons.call_backs),
    (("I21",), persons.one_end),
    (("W28", "W44"), journal.replayed),
    (("I25",), journal.in_order),
    (("W26",), journal.sources),
    (("P04",), polls.cursors),
    (("P01", "P07", "I17"), polls.told),
    (("P01",), polls.up_to_date),
    (("P10", "I4"), polls.waits),
    (("P05",), pace.versions),
    (("P09",), pace.paused),
    (("P10",), pace.spared),
    (("P06",), journal.kept_runs),
)

NOT_HERE: Mapping[str, tuple[str, str]] = {
    "I26": (
        "the chained audit log is built on the journal later; here the journal is append-only",
        "tests/store/test_commit.py",
    ),
    "I27": (
        "secrets are nowhere in a simulated world; canaries run through the real faces and logs",
        "tests/security/test_canaries.py",
    ),
    "I28": ("bytes, memory and stalls of the loop are real, so real responses show them", "tests/outside/test_bombs.py"),
    "I29": ("lateness is measured with a fleet of thousands", "tests/simulation/test_fleet.py"),
    "I32": ("there is no evaluator that calls a model yet", ""),
    "I33": ("conditions cost real time", "tests/outside/test_cel.py"),
    "I34": ("two runs are compared, not one world looked at", "tests/simulation/test_smoke.py"),
}
"""By invariant: why no check of one world shows it, and the tests that do ("" = nothing does, since there is nothing to show)."""


def violations(lived: Lived) -> list[str]:
    """All that must not have happened, in the order of the checks."""
    world = evidence_of(lived)
    return [found for _, check in CHECKS for found in check(world)]
