"""Puts the parts together; the only module that names the concrete ones."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from sereno.builtin.actions.command import CommandAction
from sereno.builtin.actions.console import ConsoleAction
from sereno.builtin.actions.email import EmailAction
from sereno.builtin.actions.notify import NotifyAction
from sereno.builtin.actions.webhook import WebhookAction
from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.builtin.sources.command import CommandSource
from sereno.builtin.sources.feed import FeedSource
from sereno.builtin.sources.file import FileSource
from sereno.builtin.sources.guess import guess
from sereno.builtin.sources.http import HttpSource
from sereno.core.errors import Fault, NotAllowed, SetupError
from sereno.core.operation import OperationState
from sereno.core.work import Kind, Principal
from sereno.drivers.crew import Tally
from sereno.drivers.loop import Driver
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.outside.clock import SystemClock
from sereno.outside.credentials import Credentials, Unusable
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.gate import Gate
from sereno.outside.egress.resolve import Refused, SystemResolver, check_target, checked_addresses
from sereno.outside.ids import SystemIds
from sereno.outside.redaction import Redaction
from sereno.outside.secret import looks_like_secret, secrets_in_url
from sereno.outside.url import BadUrl, parse_url
from sereno.ports import Action, Clock, CredentialConfig, Ids, Only, Plugins, SecretPlace, Source, WorkStore
from sereno.service.apply import Applied, Apply
from sereno.service.contracts import Contracts
from sereno.service.deliveries import Deliveries, Runs
from sereno.service.deps import Deps
from sereno.service.doctor import Doctor
from sereno.service.escalations import Escalations
from sereno.service.operations import Operations
from sereno.service.polls import Polls
from sereno.settings import Loaded, Settings, load_settings
from sereno.settings.config import Reference
from sereno.store.backup import BackedUp, Restored, backup, restore
from sereno.store.definitions import Definitions
from sereno.store.open import Store, open_store
from sereno.store.reads import Reads
from sereno.store.work.store import SqliteWork

SQLITE = "sqlite:///"
WrapStore = Callable[[SqliteWork], WorkStore]


@dataclass(slots=True)
class Sereno:
    """Everything a face or a Python program uses. Made by `open`; starts no driver by itself."""

    kit: Kit
    loaded: Loaded
    who: Principal
    redaction: Redaction
    _store: Store
    _deps: Deps
    _drivers: list[Driver] = field(default_factory=list)

    @property
    def polls(self) -> Polls:
        """The standing instructions."""
        return Polls(self._deps)

    @property
    def operations(self) -> Operations:
        """The jobs we wait for."""
        return Operations(self._deps)

    @property
    def escalations(self) -> Escalations:
        """The questions to people."""
        return Escalations(self._deps)

    @property
    def deliveries(self) -> Deliveries:
        """What was sent, is to be sent, or died."""
        return Deliveries(self._deps)

    @property
    def runs(self) -> Runs:
        """The run records."""
        return Runs(self._deps)

    @property
    def contracts(self) -> Contracts:
        """How providers behave."""
        return Contracts(self._deps)

    @property
    def doctor(self) -> Doctor:
        """Whether all is well."""
        return Doctor(self._deps)

    async def apply(self, *, dry_run: bool = False, prune: bool = False) -> list[Applied]:
        """Brings pools and polls of the settings file into the database."""
        return list(await Apply(self._deps, self.polls).run(dry_run=dry_run, prune=prune))

    async def run(self) -> Tally:
        """The loop: runs until `stop`, or until the task is cancelled; drains on the way out."""
        return await self._drive(self._driver(Only()))

    async def once(self) -> Tally:
        """Performs what is due now, and the effects of that, then returns."""
        only = Only(due_by=self.kit.clock.now())

        async def finished() -> bool:
            return await self.kit.store.next_due(only) is None

        return await self._drive(self._driver(only), finished)

    async def drive_one(self, operation: str) -> None:
        """Drives one operation, under the same leases as everybody else, until it stops waiting."""

        async def finished() -> bool:
            record = await self._deps.reads.operation(self.who, operation)
            return record.operation.state is not OperationState.WAITING

        await self._drive(self._driver(Only(subject=operation, kinds=(Kind.OPERATION,)), slots=1), finished)

    def stop(self) -> None:
        """Asks every driver of this object to finish what is in hand and return."""
        for driver in self._drivers:
            driver.stop()

    def ring(self) -> None:
        """Wakes the drivers of this object: something was written."""
        for driver in self._drivers:
            driver.ring()

    @asynccontextmanager
    async def stopping_on_signals(self) -> AsyncIterator[None]:
        """SIGTERM and SIGINT drain; a second one ends at once: leases run out, nothing is lost."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def on_signal() -> None:
            if task is not None and all(driver.stopping for driver in self._drivers):
                task.cancel()
            self.stop()

        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _driver(self, only: Only, slots: int | None = None) -> Driver:
        worker = f"{os.uname().nodename}:{os.getpid()}"
        wanted = slots or self.loaded.settings.slots
        return Driver(self.kit, worker=worker, slots=wanted, only=only, purge=None if only.subject else self._purge)

    async def _purge(self) -> None:
        await self._store.work.purge(self.loaded.settings.keep_runs)

    async def _drive(self, driver: Driver, finished: Callable[[], Awaitable[bool]] | None = None) -> Tally:
        self._drivers.append(driver)
        try:
            return await driver.run(finished)
        finally:
            self._drivers.remove(driver)


@asynccontextmanager
async def open_app(
    loaded: Loaded,
    *,
    who: Principal | None = None,
    origin: str = "api",
    console: TextIO | None = None,
    seams: "Seams | None" = None,
) -> AsyncIterator[Sereno]:
    """Opens the database, puts the parts together, and closes them at the end. Raises SetupError, Unavailable."""
    seams, who = seams or Seams(), who or Principal()
    _refuse_secrets(loaded)
    outside = _Outside.build(loaded.settings, loaded)
    store = open_store(loaded.database, clock=seams.clock, ids=seams.ids)
    try:
        plugins = _plugins(loaded, outside, console or sys.stderr)
        yield _assemble(loaded, store, outside, plugins, _Caller(who, origin, seams))
    finally:
        await outside.close()
        await store.close()


@dataclass(frozen=True, slots=True)
class _Caller:
    """For whom the parts are put together."""

    who: Principal
    origin: str
    seams: "Seams"


def _assemble(loaded: Loaded, store: Store, outside: "_Outside", plugins: Plugins, caller: _Caller) -> Sereno:
    seams = caller.seams
    app: list[Sereno] = []
    deps = Deps(
        definitions=Definitions(store.executor, clock=seams.clock, ids=seams.ids),
        reads=Reads(store.executor, clock=seams.clock),
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
        secret_check=_secret_in,
    )
    kit = Kit(
        store=seams.wrap_store(store.work) if seams.wrap_store else store.work,
        plugins=plugins,
        transport=outside.gate,
        clock=seams.clock,
        ids=seams.ids,
        times=loaded.settings.lease.times(),
        pinned_contract=deps.reads.contract,
        answer_within=loaded.settings.waiting.answer_within,
        crash_point=seams.crash_point,
    )
    app.append(Sereno(kit, loaded, caller.who, outside.redaction, store, deps))
    return app[0]


def _no_crash(point: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Seams:
    """What tests put in place of the real thing."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    crash_point: Callable[[str], None] = _no_crash
    wrap_store: WrapStore | None = None


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


def backup_database(loaded: Loaded, target: Path, *, overwrite: bool = False) -> BackedUp:
    """Writes one consistent, checked copy while others go on. Raises NotFound, AlreadyExists, SetupError, Unavailable."""
    return backup(loaded.database, target, overwrite=overwrite)


def restore_database(loaded: Loaded, source: Path, *, force: bool = False) -> Restored:
    """Puts a backup in the place of the database; the replaced one is kept beside. Raises NotNow while somebody works in it."""
    return restore(source, loaded.database, now=SystemClock().now(), force=force)


@dataclass(frozen=True, slots=True)
class _Outside:
    """The one way out: gate, credentials, redaction, and the address check for what is not HTTP."""

    gate: Gate
    credentials: Credentials
    redaction: Redaction
    allow: Allow
    resolver: SystemResolver

    @classmethod
    def build(cls, settings: Settings, loaded: Loaded) -> "_Outside":
        try:
            allow = Allow.parse(settings.egress.allow)
        except ValueError as error:
            raise SetupError(
                "the settings are not right; nothing was started", [Fault(loaded.where("egress", "allow"), str(error))]
            ) from error
        redaction = Redaction()
        http = {name: model for name, model in settings.credentials.items() if not model.origin.startswith("smtp://")}
        configs = {
            name: CredentialConfig(model.origin, _place(model.value), model.header, model.scheme or "")
            for name, model in http.items()
        }
        try:
            credentials = Credentials(configs, redaction)
        except BadUrl as error:
            raise SetupError(
                "the settings are not right; nothing was started", [Fault(loaded.where("credentials"), str(error))]
            ) from error
        gate = Gate(allow=allow, credentials=credentials, redaction=redaction)
        return cls(gate, credentials, redaction, allow, SystemResolver(threads=4))

    async def address(self, host: str, port: int) -> str:
        """The one address to connect to for what is not HTTP (mail). Raises NotAllowed, OSError."""
        try:
            target = parse_url(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}")
            # The mail ports are on the list of ports that HTTP never asks; here the protocol is mail.
            if target.address is not None:
                check_target(parse_url(f"https://{host}"), self.allow)
            return str((await checked_addresses(target, self.allow, self.resolver))[0])
        except (Refused, BadUrl) as error:
            raise NotAllowed(str(error), subject=host, code="egress_refused") from error

    async def close(self) -> None:
        """Closes idle connections and resolver threads."""
        self.resolver.close()
        await self.gate.close()


def _place(reference: Reference) -> SecretPlace:
    return SecretPlace(env=reference.env, file=reference.file)


def _secret_in(text: str) -> str | None:
    """Says why a text that a person wrote holds a secret, or None."""
    in_url = ", ".join(secrets_in_url(text)) if "://" in text else ""
    return in_url or looks_like_secret(text)


def _refuse_secrets(loaded: Loaded) -> None:
    """A literal secret in the settings is refused: it belongs into the environment or a file. Raises SetupError with each place."""
    faults = [
        Fault(
            loaded.where(*location),
            f"`{'.'.join(map(str, location))}`: {why}",
            'write [credentials.NAME] with value = {env = "…"} and name it here',
        )
        for location, text in loaded.texts()
        if (why := _secret_in(text)) is not None
    ]
    if faults:
        raise SetupError(f"{loaded.path} holds secrets; nothing was started", faults, code="literal_secret")


def _plugins(loaded: Loaded, outside: _Outside, console: TextIO) -> Plugins:
    settings = loaded.settings

    def secret(name: str, origin: str) -> str:
        model = settings.credentials.get(name)
        if model is None:
            raise NotAllowed(
                f"there is no credential named {name!r}", subject=name, hint=f"add [credentials.{name}] to the settings"
            )
        if model.origin.rstrip("/") != origin:
            raise NotAllowed(f"credential {name!r} is bound to {model.origin}, not to {origin}", subject=name)
        return _read(outside, model.value, f"credential {name!r}")

    def notify_target(name: str, origin: str) -> str:
        model = settings.notify.get(name)
        if model is None:
            raise NotAllowed(
                f"there is no notify target named {name!r}", subject=name, hint=f"add [notify.{name}] to the settings"
            )
        return _read(outside, model.url, f"notify target {name!r}")

    sources: list[Source] = [HttpSource(_secret_in), FeedSource(_secret_in), FileSource(), CommandSource(_secret_in)]
    actions: list[Action] = [
        ConsoleAction(console),
        EmailAction(secret, outside.address),
        WebhookAction(secret, _secret_in),
        CommandAction(_secret_in),
        NotifyAction(notify_target),
    ]
    folder = loaded.path.parent if loaded.path is not None else Path.cwd()
    return Plugins(
        sources={source.type: source for source in sources},
        actions={action.type: action for action in actions},
        provider=HttpProvider(),
        contracts=Catalogue([folder / name for name in settings.contracts]),
        conditions=CelConditions(),
    )


def _read(outside: _Outside, place: Reference, subject: str) -> str:
    try:
        return outside.credentials.read(_place(place), subject).reveal()
    except Unusable as error:
        raise NotAllowed(str(error)) from error
