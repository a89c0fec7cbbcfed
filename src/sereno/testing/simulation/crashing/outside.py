"""The outside of a scenario: a provider, feeds and people that follow its script."""

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random

from sereno.core.values import digest
from sereno.ports import Clock, DefinitionStore, Ids, Plugins, PoolLimits, ReadStore
from sereno.testing.hostile.book import Job, Ordered
from sereno.testing.hostile.fates import NO_WAIT
from sereno.testing.hostile.options import POOL, Hostile
from sereno.testing.hostile.provider import HostileProvider
from sereno.testing.hostile.waits import HINTS, Wait
from sereno.testing.simulation.crashing.people import ScriptedPeople
from sereno.testing.simulation.crashing.plan import ScriptedPlan
from sereno.testing.simulation.crashing.scenario import JobOf, PollOf, Scenario
from sereno.testing.simulation.outside import Outside, receivers, sources
from sereno.testing.simulation.outside.fates import PlannedFates
from sereno.testing.simulation.outside.sources import Feed, Version
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.terms import Group, Options

LIMITS = PoolLimits(5.0, 20, None)
"""No pool holds a scenario up."""
_CONNECTED_S = 0.05
_NEVER_S = 30 * 86_400.0


class ScriptedFates(PlannedFates):
    """What strikes at the provider, in the order of the script."""

    def __init__(self, plan: ScriptedPlan, seed: int) -> None:
        super().__init__(plan, Random(f"fates:{seed}"), [])
        self._script = plan

    def connection(self) -> float:
        """The seconds of the next of `connects`; a moment where there is none."""
        return float(self._script.take("connects", Group.LOOK) or _CONNECTED_S)

    def look(self, job: Job, *, ended: bool) -> str | None:
        """The next of `looks`."""
        return self._script.take("looks", Group.LOOK)

    def hint(self) -> dict[str, object] | str | None:
        """The next of `hints`."""
        kind = self._script.take("hints", Group.WAIT)
        return HINTS.get(kind, kind) if kind is not None else None

    def submit(self, order: Ordered, *, known: bool) -> str | None:
        """The next of `submits`."""
        return self._script.take("submits", Group.SUBMIT)

    def cancel(self, job: Job) -> str | None:
        """The next of `cancels`."""
        return self._script.take("cancels", Group.CANCEL)

    def wait(self, now: datetime, skew: timedelta, *, likely: bool) -> tuple[str | None, Wait]:
        """The next of `waits`, beside a fault alone."""
        return super().wait(now, skew, likely=True) if likely else (None, NO_WAIT)


class ScriptedProvider(HostileProvider):
    """Its jobs end as the script says."""

    def __init__(self, seed: int, clock: Clock, fates: ScriptedFates) -> None:
        super().__init__(Hostile(seed=seed), clock, fates)
        self._true = clock
        self.script: dict[str, JobOf] = {}
        """By reference."""

    def start(self, ref: str, longest_s: float = 2400.0) -> Job:
        """Starts the job of a reference."""
        job = super().start(ref, longest_s)
        scripted = self.script[ref]
        after = _NEVER_S if scripted.ends == "running" else scripted.after
        job.word, job.ends_at = scripted.ends, self._true.now() + timedelta(seconds=after)
        return job


class ScriptedOutside(Outside):
    """See the module. `persons` are ScriptedPeople."""

    persons = ScriptedPeople

    def __init__(self, options: Options, clock: Clock, plan: Plan, scenario: Scenario) -> None:
        super().__init__(options, clock, plan)
        assert isinstance(plan, ScriptedPlan)
        self._script, self._scenario, self._began = plan, scenario, clock.now()
        fates = ScriptedFates(plan, options.seed)
        if scenario.outage is not None:
            begins, ends = scenario.outage
            fates.struck = [(self._began + timedelta(seconds=begins), self._began + timedelta(seconds=ends))]
        self.fates = fates
        self.scripted_provider = self.provider = ScriptedProvider(options.seed, clock, fates)
        self.feeds = {f"feed-{number}": _feed(f"feed-{number}", poll, self._began) for number, poll in enumerate(scenario.polls)}
        self.acting: ScriptedPeople | None = None
        self._timed = deque(sorted((act for act in scenario.acts if act.at is not None), key=lambda act: act.at or 0.0))
        self.open_acts = sum(act.at is None for act in scenario.acts)
        """Acts that wait for a point to be passed."""

    async def populate(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> None:
        """Sets pools, adds polls and registers the operations, in the order of the script."""
        self._host = self.provider.host = host
        people = self._of(definitions, reads, plugins, ids, host)
        assert isinstance(people, ScriptedPeople)
        self.acting = people
        for pool in (POOL, receivers.POOL, sources.POOL):
            await people.limit_to(pool, LIMITS, definitions)
        for feed, poll in zip(self.feeds.values(), self._scenario.polls, strict=True):
            await people.scripted_poll(feed, poll)
        for number, job in enumerate(self._scenario.jobs, start=1):
            self.scripted_provider.script[f"{job.contract}-{number}"] = job
            await people.scripted_job(job)

    async def people(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> None:
        """Waits for the points at which people act; what they do at an instant is driven by `act`."""
        assert self.acting is not None
        waiting = [(act, self._script.when(act.on, act.nth)) for act in self._scenario.acts if act.at is None]
        for act, event in waiting:
            await event.wait()
            await self.acting.do(act)
            self.open_acts -= 1
        while True:
            await host.sleep(3600.0)

    async def act(self) -> None:
        """Does what is due, and answers what was asked."""
        assert self.acting is not None
        while self._timed and self.next_act() <= self.clock.now():
            await self.acting.do(self._timed.popleft())
        await self.acting.answer_all(self._scenario.answers)

    def next_act(self) -> datetime:
        """True time of the next act, or of the end that the scenario names. No act = long ago."""
        after = (self._timed[0].at or 0.0) if self._timed else self._scenario.until
        return self._began + timedelta(seconds=after)

    def over(self) -> bool:
        """True where people have nothing left to do, and the scenario has lasted long enough."""
        return not self._timed and self.next_act() <= self.clock.now()


def scripted(scenario: Scenario) -> Callable[[Options, Clock, Plan], Outside]:
    """Makes the outside of a scenario."""
    return lambda options, clock, plan: ScriptedOutside(options, clock, plan, scenario)


def _feed(name: str, poll: PollOf, began: datetime) -> Feed:
    versions = []
    script = sorted(poll.script)
    for seq, (at, thing, content) in enumerate(script, start=1):
        until = next((began + timedelta(seconds=later) for later, other, _ in script[seq:] if other == thing), None)
        hashed = digest(f"{thing} {content}".encode()) if content else ""
        versions.append(Version(name, seq, thing, hashed, began + timedelta(seconds=at), until))
    return Feed(name, poll.kind, versions)
