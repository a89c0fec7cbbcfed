"""Everything outside of Sereno in one world: the provider, sources, receivers and people, each with its own book."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from sereno.core.operation import KEEP_RESULT
from sereno.ports import Action, Clock, DefinitionStore, Ids, Plugins, ReadStore, Source, Transport
from sereno.service.deps import Deps
from sereno.settings import Loaded, Settings
from sereno.testing.hooks import Hooks
from sereno.testing.hostile.fates import (
    CANCEL_FAULTS,
    HOST_FAULTS,
    LOOKS,
    MORE_CANCEL_FAULTS,
    MORE_SUBMIT_FAULTS,
    SUBMIT_FAULTS,
    WAIT_KINDS,
)
from sereno.testing.hostile.options import POOL, Hostile
from sereno.testing.hostile.provider import HostileProvider, Line
from sereno.testing.simulation.outside import receivers, sources
from sereno.testing.simulation.outside.contracts import Versions
from sereno.testing.simulation.outside.fates import PlannedFates
from sereno.testing.simulation.outside.people import People, PeopleBook
from sereno.testing.simulation.outside.receivers import ReceiverBook, SimulatedReceiver
from sereno.testing.simulation.outside.seam import Seam
from sereno.testing.simulation.outside.sources import Feed, SimulatedSource
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.terms import Group, Options
from sereno.testing.yard import WHO, Contracts, nobody

KINDS: Mapping[Group, Sequence[str]] = {
    Group.LOOK: (*LOOKS, *HOST_FAULTS),
    Group.SUBMIT: (*SUBMIT_FAULTS, *MORE_SUBMIT_FAULTS),
    Group.CANCEL: (*CANCEL_FAULTS, *MORE_CANCEL_FAULTS),
    Group.WAIT: WAIT_KINDS,
    Group.READ: sources.READ_KINDS,
    Group.ACT: receivers.ACT_KINDS,
}
"""Every fault of the outside, by group: each is counted by the plan when it strikes."""
POINTS: Sequence[str] = (
    *(f"{word}.{point}" for word in ("wire", "submit", "cancel") for point in ("before", "sent", "replied")),
    *(f"read.{point}" for point in ("before", "sent", "replied")),
    *(f"act.{point}" for point in ("before", "took", "replied")),
)
"""Every crash point of the outside: after the send guard and before the book; in the book and not answered; answered and not read."""
_AT_FIRST = 0.45
"""Share of the operations that are there from the beginning; the others come over the whole time awake."""
_LEAST = (0.3, 0.5, 0.7)
"""The smallest share of looks with a fault, one of these for each world."""
_SILENT = 0.08
"""Share of the worlds in which one delivery is never confirmed. They go on for most of a day of sleep."""
_ACTS = 120
"""How often people do something in one world, about."""


class Outside:
    """Made once a world. `clock` is true time: it neither steps nor drifts; the books are kept in it.

    The world calls `plugins` and `transport` once for each life of a process, `populate` once, and runs `people` beside the processes
    until the faults end. `provider` (requests, jobs, orders), `feeds`, `received` and `acted` are the books.
    """

    persons: type[People] = People

    def __init__(self, options: Options, clock: Clock, plan: Plan) -> None:
        self.options, self.clock, self.plan = options, clock, plan
        self.dice = Random(f"outside:{options.seed}")
        began, seed = clock.now(), options.seed
        least = self.dice.choice(_LEAST)
        self.fates = PlannedFates(plan, Random(f"fates:{seed}"), self._outages(began), least=least, seed=seed)
        self.provider = HostileProvider(Hostile(seed=seed), clock, self.fates)
        self.received = ReceiverBook(silent=bool(options.shares) and Random(f"mute:{seed}").random() < _SILENT)
        self.acted = PeopleBook()
        self.feeds: dict[str, Feed] = {}
        for number in range(options.polls):
            kind = self.dice.choice((sources.LOG, sources.LIST))
            name = f"feed-{number}"
            self.feeds[name] = sources.script(name, kind, Random(f"{name}:{seed}"), began=began, hours=options.awake_hours)
        self._versions = Versions()
        self._host: Clock = clock
        self._people: People | None = None
        self._later: list[str] = []

    def _outages(self, began: datetime) -> list[tuple[datetime, datetime]]:
        """One or two windows of hours in which the provider's host may answer nobody."""
        hours = self.options.awake_hours
        starts = sorted(self.dice.uniform(0.0, hours) for _ in range(self.dice.randint(1, 2)))
        return [
            (began + timedelta(hours=at), began + timedelta(hours=at + self.dice.uniform(0.3, min(6.0, hours / 3 + 0.3))))
            for at in starts
        ]

    @property
    def contracts(self) -> Contracts:
        """The contracts of the provider."""
        return self._versions

    def transport(self, hooks: Hooks) -> Transport:
        """The wire as one life of a process has it, with its crash points."""
        return Line(self.provider, hooks)

    def sources(self, hooks: Hooks) -> Mapping[str, Source]:
        """The sources as one life of a process has them."""
        return {kind: SimulatedSource(kind, self.feeds, self._seam(hooks)) for kind in (sources.LOG, sources.LIST)}

    def actions(self, hooks: Hooks) -> Mapping[str, Action]:
        """The receivers as one life of a process has them."""
        kinds = (receivers.KEYED, receivers.ONCE, receivers.LEAST, KEEP_RESULT)
        return {kind: SimulatedReceiver(kind, self.received, self._seam(hooks)) for kind in kinds}

    def _seam(self, hooks: Hooks) -> Seam:
        return Seam(self.clock, self._host, self.plan, hooks)

    async def populate(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> None:
        """Sets pools, registers the first operations, submits and polls. It comes before the first process is made."""
        self._host = self.provider.host = host
        people = self._of(definitions, reads, plugins, ids, host)
        for pool in (POOL, receivers.POOL, sources.POOL):
            await people.limit(pool, definitions)
        for feed in self.feeds.values():
            await people.poll(feed, self.options.awake_hours)
        wanted = ["job"] * self.options.jobs + ["order"] * self.options.orders
        self.dice.shuffle(wanted)
        first = max(2, round(len(wanted) * _AT_FIRST))
        for word in wanted[:first]:
            await (people.job() if word == "job" else people.order())
        self._later = wanted[first:]

    async def people(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> None:
        """People who register more, answer, cancel, pause, call back, until they are cancelled. Each act is one transaction of the service."""
        people = self._of(definitions, reads, plugins, ids, host)
        began, awake = host.monotonic(), self.options.awake_hours * 3600.0
        due = sorted(began + self.dice.uniform(0.0, awake * 0.9) for _ in self._later)
        coming = list(zip(due, self._later, strict=True))
        while True:
            pause = self.dice.uniform(30.0, 30.0 + 2.0 * awake / _ACTS)
            if coming:
                pause = max(0.0, min(pause, coming[0][0] - host.monotonic()))
            await host.sleep(pause)
            if coming and coming[0][0] <= host.monotonic() + 0.001:
                word = coming.pop(0)[1]
                await (people.job() if word == "job" else people.order())
            else:
                await people.disturb()

    def _of(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> People:
        """The people of this world, on the store that they are given: they keep what they know."""
        deps = Deps(
            definitions=definitions,
            reads=reads,
            plugins=plugins,
            transport=self.provider,
            clock=host,
            ids=ids,
            loaded=Loaded(Settings(), None, Path(":memory:")),
            who=WHO,
            drive_one=nobody,
        )
        if self._people is None:
            self._people = self.persons(
                deps,
                clock=self.clock,
                provider=self.provider,
                feeds=self.feeds,
                versions=self._versions,
                book=self.acted,
                dice=Random(f"people:{self.options.seed}"),
            )
        self._people.stand_on(deps)
        return self._people
