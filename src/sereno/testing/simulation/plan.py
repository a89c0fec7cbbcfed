"""The fault plan: which faults a world knows, when one strikes, and how often each did."""

from collections import Counter
from collections.abc import Sequence
from random import Random

from sereno.testing.simulation.terms import Group, Options

_SELDOM_PASSED = tuple(f"store.{name}." for name in ("release", "check", "extend", "note_clock_step", "snapshot", "purge"))
_SELDOM = 0.15
"""Share of deaths at points that few worlds pass: each is to be died at too."""


class Plan:
    """Draws faults by the seed and counts the ones that struck. `calm` ends them all: the liveness phase."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._dice = {group: Random(f"fault:{group}:{options.seed}") for group in Group}
        self.calm = False
        self.struck: Counter[str] = Counter()
        """By `group.name`."""

    def draw(self, group: Group, among: Sequence[str], *, share: float | None = None) -> str | None:
        """The name of the fault that strikes at this event, or None. The caller makes it happen; it is counted here.

        `share` stands in for the group's share, where an event has a chance of its own. Kinds that the options exclude never strike.
        """
        if self.calm or not among:
            return None
        dice, chance = self._dice[group], self._options.shares.get(group, 0.0)
        if share is not None and chance:
            chance = share
        if dice.random() >= chance:
            return None
        name = dice.choice(among)
        if not self.knows(group, name):
            return None
        self.struck[f"{group}.{name}"] += 1
        return name

    def knows(self, group: Group, name: str) -> bool:
        """Whether the options let this kind strike."""
        kind = f"{group}.{name}"
        return kind not in self._options.without and (self._options.kinds is None or kind in self._options.kinds)

    def dies(self, process: str, point: str) -> bool:
        """True where the process dies at this point. Asked at every named point before the calm, in the order in which they are passed."""
        if not self._options.shares.get(Group.CRASH):
            return False
        return self.draw(Group.CRASH, ("point",), share=_SELDOM if point.startswith(_SELDOM_PASSED) else None) is not None

    def share(self, group: Group, least: float) -> float:
        """The group's share, but not less than that where it has any: for groups with many kinds and few events."""
        return max(self._options.shares.get(group, 0.0), least)

    def dice(self, group: Group) -> Random:
        """The dice of one group, for the size of a fault that struck."""
        return self._dice[group]
