"""What a world is made of, drawn from its seed: a swarm of worlds that differ in what befalls them."""

from collections.abc import Mapping
from datetime import timedelta
from random import Random

from sereno.core.work import LeaseTimes
from sereno.testing.simulation.terms import Group, Options


def _times(lease: float, total_deadline: float, tick: float, commit_time: float) -> LeaseTimes:
    return LeaseTimes(
        lease=timedelta(seconds=lease),
        total_deadline=timedelta(seconds=total_deadline),
        guard=timedelta(seconds=1),
        commit_time=timedelta(seconds=commit_time),
        tick=timedelta(seconds=tick),
    )


PROFILES = (
    (_times(20, 10, 7, 2), (0.08, 0.2)),
    (_times(60, 30, 20, 5), (0.25, 0.7)),
    (_times(300, 60, 200, 10), (2.0, 6.0)),
)
"""Lease arithmetic, and the hours that a world of it is awake: the shorter its tick, the more of its time is work."""
_PROCESSES = 2.5
"""Where there are more processes than this, their hours are fewer: each of them looks for work at every tick."""
_FULL: Mapping[Group, float] = {Group.STORE: 0.12, Group.CRASH: 0.02, Group.PROCESS: 1.0, Group.CLOCK: 1.0}
"""The most of a group; 0.3 where none is named. Process and clock have a chance of their own: they are on or off."""
_LITTLE: Mapping[Group, float] = {Group.STORE: 0.008, Group.CRASH: 0.002, Group.PROCESS: 1.0, Group.CLOCK: 1.0}
"""The share of a group in a world that has everything rarely; 0.02 where none is named."""


def draw(seed: int) -> Options:
    """Draws the options; printed with every failure."""
    dice = Random(f"options:{seed}")
    times, (least, most) = dice.choices(PROFILES, weights=(2, 3, 5))[0]
    workers = dice.choice((2, 2, 3, 3, 4, 5))
    return Options(
        seed=seed,
        workers=workers,
        slots=dice.choice((2, 8, 8, 30)),
        jobs=dice.randint(2, 6),
        orders=dice.randint(2, 6),
        polls=dice.randint(1, 3),
        awake_hours=round(dice.uniform(least, most) * _PROCESSES / workers, 2),
        times=times,
        shares=_shares(dice),
    )


def _shares(dice: Random) -> Mapping[Group, float]:
    """A few worlds without faults, some with one group often, some with a few, some with everything rarely."""
    kind = dice.random()
    if kind < 0.02:
        return {}
    if kind < 0.13:
        return _often(dice, 1)
    if kind < 0.35:
        return _often(dice, dice.randint(2, 4))
    rarely = {group: _LITTLE.get(group, 0.02) for group in Group}
    if kind < 0.65:
        return rarely
    return {**rarely, **_often(dice, dice.randint(1, 3))}


def _often(dice: Random, count: int) -> dict[Group, float]:
    return {group: _FULL.get(group, 0.3) for group in dice.sample(list(Group), count)}
