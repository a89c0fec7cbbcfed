"""How a run of a scenario ended, as its books show it, and what is different from the end without a crash."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sereno.core.delivery import DeliveryState
from sereno.core.effect import Policy
from sereno.testing.simulation.crashing.scenario import Scenario
from sereno.testing.simulation.lived import Lived
from sereno.testing.simulation.outside.receivers import POLICIES

_DISABLED = re.compile(r"@disabled-\d+:")


@dataclass(frozen=True, slots=True)
class End:
    """What is compared. Ids are replaced by the provider's references."""

    operations: Mapping[str, str]
    """By reference: the state, and in brackets what people were asked."""
    jobs: Mapping[str, int]
    """By reference: jobs that a submit really started."""
    effects: Mapping[tuple[str, str], int]
    """By (action, key): how often it took effect at its receiver."""
    unclear: frozenset[str]
    """Keys of the deliveries that are shown as unknown."""
    resent: frozenset[str]
    """Keys of those that people sent again."""


def end_of(lived: Lived) -> End:
    """Reads the books."""
    people, names, states = lived.outside.acted, dict[str, str](), dict[str, str]()
    asked: dict[str, set[str]] = {}
    for row in lived.persisted.rows["escalation"]:
        asked.setdefault(row["operation"], set()).add(row["category"])
    for operation in sorted(lived.persisted.operations, key=lambda one: list(people.refs).index(one.id)):
        ref = people.refs[operation.id]
        name = f"{ref}+" if ref in names.values() else ref
        names[operation.id] = name
        questions = asked.get(operation.id)
        states[name] = str(operation.state) + (f" ({', '.join(sorted(questions))})" if questions else "")
    counted: Counter[tuple[str, str]] = Counter()
    for delivery in lived.persisted.deliveries:
        counted[delivery.effect.action.type, _named(delivery.effect.dedupe_key, names)] += 0
    for arrival in lived.outside.received.arrivals:
        counted[arrival.action, _named(arrival.key, names)] += arrival.effect
    again = {act.subject for act in people.acts if act.accepted and act.word == "retry_delivery"}
    resent = [one.effect.dedupe_key for one in lived.persisted.deliveries if one.id in again]
    unclear = [one.effect.dedupe_key for one in lived.persisted.deliveries if one.state is DeliveryState.AMBIGUOUS]
    return End(
        states,
        {ref: len(order.jobs) for ref, order in lived.outside.provider.orders.items()},
        dict(counted),
        frozenset(_named(key, names) for key in unclear),
        frozenset(_named(key, names) for key in resent),
    )


def _named(key: str, names: Mapping[str, str]) -> str:
    """The key with the name of its operation. Which change of a poll it was that switched it off makes no difference."""
    for operation, name in names.items():
        key = key.replace(operation, name)
    return _DISABLED.sub("@disabled:", key)


def expected(scenario: Scenario, whole: End) -> Iterator[str]:
    """What of the run without a crash is not as the scenario says."""
    ends = list(whole.operations.values())
    if ends != list(scenario.end):
        yield f"END without a crash: {ends}, and the scenario says {list(scenario.end)}"


def differences(scenario: Scenario, whole: End, after: End, *, deaths: int = 1) -> Iterator[str]:
    """What ended otherwise than without a crash, and is not among the ends that the scenario names."""
    other = False
    for name, end in after.operations.items():
        wanted = whole.operations.get(name)
        if end != wanted and end in scenario.or_ends:
            other = True
        elif end != wanted:
            yield f"END {name}: {end}, and without it {wanted}"
    if not scenario.or_jobs:
        yield from (
            f"END {ref}: {count} jobs were started, and without it {whole.jobs.get(ref, 0)}"
            for ref, count in after.jobs.items()
            if count != whole.jobs.get(ref, 0)
        )
    if not other:
        yield from _effects(scenario, whole, after, deaths)


def _effects(scenario: Scenario, whole: End, after: End, deaths: int) -> Iterator[str]:
    keys: Sequence[tuple[str, str]] = sorted({*whole.effects, *after.effects})
    for action, key in keys:
        if scenario.or_questions and ":escalated-" in key:
            continue
        before, now = whole.effects.get((action, key)), after.effects.get((action, key))
        if before is None or now is None:
            yield f"END {key}: {'no such effect' if now is None else 'another effect'} than without it"
        elif now not in _right(POLICIES[action], before, unclear=key in after.unclear, again=key in after.resent, deaths=deaths):
            yield f"END {key}: took effect {now} times, and without it {before} times"


def _right(policy: Policy, before: int, *, unclear: bool, again: bool, deaths: int) -> range:
    """How often it may take effect. At most once may be in doubt instead, and is sent again by people alone; at least once is repeated
    once after each death; a key takes effect as often as without it."""
    if policy is Policy.AT_LEAST_ONCE:
        return range(min(before, 1), before + deaths + 1)
    if policy is Policy.AT_MOST_ONCE and (unclear or again):
        return range(0, 2 + again)
    return range(before, before + 1)
