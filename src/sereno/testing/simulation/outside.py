"""Everything outside of Sereno in one world: the provider, sources, receivers and people, each with its own book."""

from collections.abc import Mapping
from random import Random

from sereno.ports import Action, Clock, DefinitionStore, Ids, Plugins, ReadStore, Source, Transport
from sereno.testing.hostile.options import Hostile
from sereno.testing.hostile.provider import HostileProvider
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.terms import Hooks, Options
from sereno.testing.yard import Contracts


class Outside:
    """Made once a world. `clock` is true time: it neither steps nor drifts; the books are kept in it.

    The world calls `plugins` and `transport` once for each life of a process, `populate` once, and runs `people` beside the processes
    until the faults end.
    """

    def __init__(self, options: Options, clock: Clock, plan: Plan) -> None:
        self.options, self.clock, self.plan = options, clock, plan
        self.dice = Random(f"outside:{options.seed}")
        self.provider = HostileProvider(Hostile(seed=options.seed), clock)

    @property
    def contracts(self) -> Contracts:
        """The contracts of the provider."""
        raise NotImplementedError

    def transport(self, hooks: Hooks) -> Transport:
        """The wire as one life of a process has it, with its crash points."""
        raise NotImplementedError

    def sources(self, hooks: Hooks) -> Mapping[str, Source]:
        """The sources as one life of a process has them."""
        raise NotImplementedError

    def actions(self, hooks: Hooks) -> Mapping[str, Action]:
        """The receivers as one life of a process has them."""
        raise NotImplementedError

    async def populate(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> None:
        """Sets pools, registers the first operations, submits and polls."""
        raise NotImplementedError

    async def people(self, definitions: DefinitionStore, reads: ReadStore, plugins: Plugins, ids: Ids, host: Clock) -> None:
        """People who register more, answer, cancel, pause, call back, until they are cancelled. Each act is one transaction of the service."""
        raise NotImplementedError
