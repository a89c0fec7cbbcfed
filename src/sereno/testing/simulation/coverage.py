"""What a run of worlds visited: fault kinds, crash points, cells of the transition tables, probes. Counters that can be added up."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

AREAS = ("faults", "points", "cells", "probes")


@dataclass(slots=True)
class Coverage:
    """How often each was visited. What must be visited is said beside it: see `unvisited`."""

    faults: Counter[str] = field(default_factory=Counter)
    """`group.name` of each fault that struck."""
    points: Counter[str] = field(default_factory=Counter)
    """Named crash points at which a process really died."""
    cells: Counter[str] = field(default_factory=Counter)
    """`table: state × input → state`: cells of the transition tables that were committed."""
    probes: Counter[str] = field(default_factory=Counter)
    """Situations that must come up sometimes, by name."""

    def add(self, other: "Coverage") -> None:
        """Adds the counts of another run."""
        for area in AREAS:
            getattr(self, area).update(getattr(other, area))

    def as_json(self) -> dict[str, dict[str, int]]:
        """Plain counts, in order of their names."""
        return {area: dict(sorted(getattr(self, area).items())) for area in AREAS}

    @classmethod
    def of_json(cls, kept: Mapping[str, Mapping[str, int]]) -> "Coverage":
        """What `as_json` gave."""
        return cls(**{area: Counter(kept.get(area, {})) for area in AREAS})


@dataclass(frozen=True, slots=True)
class Required:
    """What has to be visited, and how often at least."""

    faults: Sequence[str]
    points: Sequence[str]
    cells: Sequence[str]
    probes: Sequence[str]
    least: Mapping[str, int] = field(default_factory=lambda: {"faults": 100, "points": 1, "cells": 1, "probes": 1})

    def unvisited(self, seen: Coverage) -> Iterator[str]:
        """Each one that was visited too seldom, with its count."""
        for area in AREAS:
            counts: Counter[Any] = getattr(seen, area)
            for name in getattr(self, area):
                if counts[name] < self.least[area]:
                    yield f"{area}: {name}: {counts[name]}"
