"""What the engine works with, put together once by the app."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from sereno.core.contract import Contract
from sereno.core.values import Json
from sereno.core.work import LeaseTimes
from sereno.ports import Clock, Condition, Ids, Plugins, Redact, Transport, WorkStore, unchanged

CACHE_SIZE = 2_000


@dataclass(frozen=True, slots=True)
class Kit:
    """The seams, the plug-ins and the lease arithmetic; `pinned_contract` reads a stored contract document by digest."""

    store: WorkStore
    plugins: Plugins
    transport: Transport
    clock: Clock
    ids: Ids
    times: LeaseTimes
    pinned_contract: Callable[[str], Awaitable[Mapping[str, Json]]]
    answer_within: timedelta = timedelta(days=1)
    redact: Redact = unchanged
    """Applied to what was read, once it is decoded: a secret spelled in pieces is whole only then (I27)."""
    crash_point: Callable[[str], None] = lambda name: None
    """Named crash points: the tests make one of them end the process; in production it does nothing."""
    _contracts: dict[str, Contract] = field(default_factory=dict)
    _conditions: dict[str, Condition] = field(default_factory=dict)

    async def contract(self, digest: str) -> Contract:
        """The compiled contract that an operation pins; compiled once."""
        if digest not in self._contracts:
            document = await self.pinned_contract(digest)
            _make_room(self._contracts)
            self._contracts[digest] = self.plugins.contracts.contract(document)
        return self._contracts[digest]

    def condition(self, text: str) -> Condition:
        """The compiled condition; compiled once. Raises ValueError for one that no longer compiles."""
        if text not in self._conditions:
            _make_room(self._conditions)
            self._conditions[text] = self.plugins.conditions.compile(text)
        return self._conditions[text]


def _make_room(cache: dict[str, object] | dict[str, Contract] | dict[str, Condition]) -> None:
    while len(cache) >= CACHE_SIZE:
        cache.pop(next(iter(cache)))
