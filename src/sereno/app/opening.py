"""Opens the database and puts the parts together."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from sereno.app.damage import NotingExecutor
from sereno.app.home import Home, set_foreign_log_aside
from sereno.app.keeping import build_artifacts, with_kept_results
from sereno.app.parts import Outside, build_catalogue, build_plugins, refuse_secrets, secret_in
from sereno.app.running import Sereno
from sereno.builtin.contracts.waiters import import_waiter
from sereno.builtin.sources.guess import guess
from sereno.core.errors import SetupError
from sereno.core.work import Principal
from sereno.engine.kit import Kit
from sereno.outside.clock import SystemClock
from sereno.outside.ids import SystemIds
from sereno.outside.logs import quiet_logs
from sereno.ports import Clock, Ids, Plugins, WorkStore
from sereno.service.contracts import Contracts
from sereno.service.deps import Deps
from sereno.settings import Loaded, load_settings
from sereno.store.backup import BackedUp, Restored, backup, restore
from sereno.store.definitions import Definitions
from sereno.store.executor import ThreadExecutor
from sereno.store.open import Store, open_store
from sereno.store.reads import Reads
from sereno.store.work.store import SqliteWork

SQLITE = "sqlite:///"
WrapStore = Callable[[SqliteWork], WorkStore]


def _no_crash(point: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Seams:
    """What tests put in place of the real thing."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    crash_point: Callable[[str], None] = _no_crash
    wrap_store: WrapStore | None = None


@dataclass(frozen=True, slots=True)
class _Caller:
    """For whom the parts are put together."""

    who: Principal
    origin: str
    seams: Seams
    home: Home


@asynccontextmanager
async def open_app(
    loaded: Loaded,
    *,
    who: Principal | None = None,
    origin: str = "api",
    console: TextIO | None = None,
    seams: Seams | None = None,
) -> AsyncIterator[Sereno]:
    """Opens the database, puts the parts together, and closes them at the end. Raises SetupError, Unavailable."""
    seams, who = seams or Seams(), who or Principal()
    refuse_secrets(loaded)
    outside = Outside.build(loaded.settings, loaded)
    quiet_logs(outside.redaction)
    home = Home(loaded.database)
    store = open_store(
        loaded.database, clock=seams.clock, ids=seams.ids, executor=lambda path: NotingExecutor(ThreadExecutor(path))
    )
    try:
        home.opened()
        plugins = build_plugins(loaded, outside, console or sys.stderr)
        yield _assemble(loaded, store, outside, plugins, _Caller(who, origin, seams, home))
    finally:
        await outside.close()
        await store.close()
        home.leave()


def _assemble(loaded: Loaded, store: Store, outside: Outside, plugins: Plugins, caller: _Caller) -> Sereno:
    seams = caller.seams
    app: list[Sereno] = []
    reads = Reads(store.executor, clock=seams.clock)
    artifacts = build_artifacts(loaded, outside.gate)
    plugins = with_kept_results(plugins, reads.contract, artifacts, loaded.settings.artifacts.longest)
    deps = Deps(
        definitions=Definitions(store.executor, clock=seams.clock, ids=seams.ids),
        reads=reads,
        plugins=plugins,
        transport=outside.gate,
        clock=seams.clock,
        ids=seams.ids,
        loaded=loaded,
        who=caller.who,
        drive_one=lambda operation: app[0].drive_one(operation),
        ring=lambda: app[0].ring(),
        origin=caller.origin,
        guess=guess,
        secret_check=secret_in,
        address_check=outside.refusal,
        redact=outside.redaction.redact_record,
        learn=outside.credentials.learn,
    )
    kit = Kit(
        store=seams.wrap_store(store.work) if seams.wrap_store else store.work,
        plugins=plugins,
        transport=outside.gate,
        clock=seams.clock,
        ids=seams.ids,
        times=loaded.settings.lease.times(),
        pinned_contract=reads.contract,
        answer_within=loaded.settings.waiting.answer_within,
        crash_point=seams.crash_point,
        redact=outside.redaction.redact_record,
    )
    app.append(Sereno(kit, loaded, caller.who, outside.redaction, store, deps, artifacts, caller.home))
    return app[0]


@asynccontextmanager
async def open_sereno(
    database: str | None = None, *, config: str | None = None, user: str | None = None
) -> AsyncIterator[Sereno]:
    """Opens Sereno for a Python program; published as `sereno.open`.

    `database` is `sqlite:///PATH` (three slashes relative, four absolute) and wins over the settings; without it, and without
    `config`, the settings that hold here are used. No driver is started: `await s.run()` is the loop, `await s.once()` one round,
    `await s.operations.wait(id)` drives one operation. Raises SetupError with every fault, Unavailable.
    """
    loaded = load_settings(config, os.environ, Path.cwd())
    if database is not None:
        loaded = replace(loaded, database=_path_of(database))
    async with open_app(loaded, who=Principal(user=user or "local"), origin="api") as app:
        yield app


def _path_of(address: str) -> Path:
    if not address.startswith(SQLITE) or len(address) == len(SQLITE):
        raise SetupError(f"{address!r} is no database address", hint="write sqlite:///path/to/sereno.db")
    return Path(address.removeprefix(SQLITE)).expanduser().resolve()


def contracts_of(loaded: Loaded) -> Contracts:
    """The contracts that hold here; opens no database."""
    refuse_secrets(loaded)
    return Contracts(build_catalogue(loaded), clock=SystemClock(), import_waiter=import_waiter)


def backup_database(loaded: Loaded, target: Path, *, overwrite: bool = False) -> BackedUp:
    """Writes one consistent, checked copy while others go on. Raises NotFound, AlreadyExists, SetupError, Unavailable."""
    if loaded.database.exists():
        set_foreign_log_aside(loaded.database)
    return backup(loaded.database, target, overwrite=overwrite)


def restore_database(loaded: Loaded, source: Path, *, force: bool = False) -> Restored:
    """Puts a backup in the place of the database; the replaced one is kept beside. Raises NotNow while somebody works in it."""
    if loaded.database.exists():
        set_foreign_log_aside(loaded.database)
    return restore(source, loaded.database, now=SystemClock().now(), force=force)
