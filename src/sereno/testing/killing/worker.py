"""One life of a worker: the real parts put together over the shared database, with crash points that end the process for real."""

import asyncio
import os
import signal
import socket
from collections.abc import Mapping
from mmap import mmap
from typing import Any

from sereno.builtin.actions.webhook import WebhookAction
from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.builtin.sources.http import HttpSource
from sereno.core.contract import Via
from sereno.core.errors import NotAllowed
from sereno.core.values import Json
from sereno.drivers.loop import Driver
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.outside.clock import SystemClock
from sereno.outside.credentials import Credentials
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.gate import Gate, Seams
from sereno.outside.ids import SystemIds
from sereno.outside.redaction import Redaction
from sereno.ports import Claimed, Plugins
from sereno.store.open import Store, open_store
from sereno.store.reads import Reads
from sereno.testing.killing.options import COMMITS, POINTS, TIMES, Options, address_of, worker_name
from sereno.testing.mutants import MUTANTS

ARMED, COUNTDOWN, FIRED, SIGNAL = range(4)
SLOT = 4
"""Bytes of shared memory a worker: armed point + 1, hits left, point that ended it + 1, signal to send to itself."""


class Trap:
    """Ends (or stops) this process at the point that the parent armed in shared memory."""

    def __init__(self, page: mmap, worker: int) -> None:
        self._page, self._at = page, worker * SLOT

    def spring(self, point: str, *, writing: bool = False) -> None:
        """Called at each named point. A process that is `writing` is not stopped: it would hold the database's one lock."""
        page, at = self._page, self._at
        armed = page[at + ARMED]
        if not armed or POINTS[armed - 1] != point or (writing and page[at + SIGNAL] == signal.SIGSTOP):
            return
        if page[at + COUNTDOWN] > 1:
            page[at + COUNTDOWN] -= 1
            return
        page[at + ARMED], page[at + FIRED] = 0, armed
        os.kill(os.getpid(), page[at + SIGNAL])


class TrappedStore:
    """The store with a named point on both sides of each transaction. A claim that brought nothing is no point."""

    def __init__(self, inner: Any, executor: Any, trap: Trap) -> None:
        self._inner, self._executor, self._trap = inner, executor, trap
        self.claimed = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in COMMITS:
            return method

        async def around(*arguments: Any, **named: Any) -> Any:
            self._trap.spring(f"{name}.before", writing=self._executor._writer._busy)
            done = await method(*arguments, **named)
            if isinstance(done, Claimed):
                self.claimed = len(done.works)
            if not isinstance(done, Claimed) or done.works:
                self._trap.spring(f"{name}.after")
            return done

        return around


def _no_secret(name: str, origin: str) -> str:
    raise NotAllowed(f"no secret {name} for {origin}", subject=name)


def _gate(port: int, address: str) -> Gate:
    """The real gate; only the sender's loopback address is chosen, so that the others can tell one life from the next."""

    def bound(info: Any) -> socket.socket:
        made = socket.socket(family=info[0], type=info[1], proto=info[2])
        made.bind((address, 0))
        return made

    redaction = Redaction()
    credentials = Credentials({}, redaction, {})
    return Gate(
        allow=Allow.parse([f"127.0.0.1:{port}"]), credentials=credentials, redaction=redaction, seams=Seams(open_socket=bound)
    )


def _kit(options: Options, store: Store, gate: Gate, trap: Trap) -> Kit:
    mutant = MUTANTS.get(options.mutant)
    executor: Any = store.executor
    trapped: Any = TrappedStore(store.work if mutant is None else mutant(store.work), store.executor, trap)
    clock = SystemClock()
    reads = Reads(store.executor, clock=clock)

    async def pinned(wanted: str) -> Mapping[str, Json]:
        return await reads.contract(wanted)

    def point(name: str) -> None:
        if name != "claim.done" or trapped.claimed:
            trap.spring(name, writing=executor._writer._busy)

    return Kit(
        store=trapped,
        plugins=Plugins(
            sources={"http": HttpSource()},
            actions={"webhook": WebhookAction(_no_secret)},
            providers={Via.HTTP: HttpProvider()},
            contracts=Catalogue(),
            conditions=CelConditions(),
        ),
        transport=gate,
        clock=clock,
        ids=SystemIds(),
        times=TIMES,
        pinned_contract=pinned,
        crash_point=point,
    )


async def live(options: Options, port: int, life: int, trap: Trap) -> None:
    """Drives until SIGTERM, then drains; or until it is killed."""
    store = open_store(options.database, clock=SystemClock(), ids=SystemIds())
    gate = _gate(port, address_of(life))
    driver = Driver(_kit(options, store, gate, trap), worker=worker_name(life), slots=options.slots)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, driver.stop)
    await driver.run()
    await gate.close()
    await store.close()
