"""Polls as people use them: add, look, change, run, remove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from sereno.core.change import Comparison, FailedReading, Keep, Reading, find_changes
from sereno.core.errors import Fault, NotNow, SetupError, nearest
from sereno.core.poll import PollSpec, PollState
from sereno.core.record import PollRecord
from sereno.core.schedule import next_due, next_instants, rested
from sereno.core.work import Principal
from sereno.ports import Guarded, Page
from sereno.service.actions import resolve_actions
from sereno.service.deps import Deps
from sereno.service.guess import derive_name, guess_source, secret_hint, secrets_of
from sereno.service.preview import Preview, Sampled, refuse_hopeless, warnings_of
from sereno.service.waiting.pools import hold_pools
from sereno.settings import PollModel, poll_to_model
from sereno.settings.definition import ActionModel
from sereno.settings.words import says

SAMPLE = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """What the source shows now against what the poll remembers; nothing is stored."""

    poll: str
    comparison: Comparison
    failure: FailedReading | None = None
    note: str | None = None
    whole: bool = True
    """Whether the poll keeps whole objects, so that a field that is not kept was not there."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A definition that passed all checks."""

    spec: PollSpec
    pool: str
    state: PollState = PollState.ACTIVE
    warnings: Sequence[str] = field(default=())


def read_model(body: Mapping[str, Any], *, where: str = "poll") -> PollModel:
    """Reads a definition from plain data. Raises SetupError with every fault."""
    try:
        return PollModel.model_validate(body)
    except ValidationError as error:
        faults = []
        for item in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in item["loc"] if part not in ("str", "ActionModel"))
            near = nearest(name, list(PollModel.model_fields)) if item["type"] == "extra_forbidden" else None
            message = f"unknown setting `{name}`" if item["type"] == "extra_forbidden" else says(item)
            faults.append(Fault(f"{where}.{name}" if name else where, message, f"did you mean `{near}`?" if near else None))
        raise SetupError("the poll is not right; nothing was stored", faults) from error


class Polls:
    """The use cases of polls, for one principal."""

    def __init__(self, deps: Deps):
        self._deps = deps

    @property
    def _who(self) -> Principal:
        return self._deps.who

    def check(self, model: PollModel, *, where: str, origin: str) -> Checked:
        """Checks a definition without sending anything. Raises SetupError with every fault."""
        deps = self._deps
        faults: list[Fault] = []
        source = deps.plugins.sources.get(model.source.type)
        if source is None:
            near = nearest(model.source.type, list(deps.plugins.sources))
            known = ", ".join(sorted(deps.plugins.sources))
            hint = f"did you mean `{near}`?" if near else f"known: {known}"
            faults.append(Fault(f"{where}: source.type", f"no source type `{model.source.type}`", hint))
        else:
            for fault in source.check(model.source.options(), origin=origin):
                place = f"{where}: source.{fault.where.removeprefix('source.')}"
                faults.append(Fault(place, fault.message, fault.hint or _secret_fix(deps, fault, model.source.options())))
        credential = model.source.options().get("credential")
        if credential is not None and credential not in deps.loaded.settings.credentials:
            near = nearest(str(credential), list(deps.loaded.settings.credentials))
            hint = f"did you mean `{near}`?" if near else f"add [credentials.{credential}] to the settings"
            faults.append(Fault(f"{where}: source.credential", f"no credential named `{credential}`", hint))
        try:
            deps.plugins.conditions.compile(model.when)
        except ValueError as error:
            faults.append(Fault(f"{where}: when", str(error)))
        try:
            next_due(model.schedule(), deps.clock.now(), model.name)
        except ValueError as error:
            faults.append(Fault(f"{where}: cron", str(error)))
        actions, more = resolve_actions(deps, model.actions, where=where, origin=origin)
        faults += more
        faults += _literal_secrets(deps, model, where, {fault.where for fault in faults})
        if faults or source is None:
            raise SetupError("the poll is not right; nothing was stored", faults)
        spec = model.spec(user=self._who.user, origin=origin, actions=tuple(actions))
        state = PollState.PAUSED if model.paused else PollState.ACTIVE
        return Checked(spec, source.place(spec.source).pool, state)

    async def guess(self, url: str, *, credential: str | None = None, name: str | None = None) -> PollModel:
        """Asks an address once and proposes a poll for it: feed, JSON or page; hourly; named after the address and free.

        Raises SetupError for a URL that carries a secret, RequestError where there is no answer to guess from.
        """
        source = await guess_source(self._deps, url, credential)
        return read_model({"name": name or await self.free_name(url), "source": source, "every": "1h"}, where=name or "poll")

    async def free_name(self, text: str) -> str:
        """A name made out of an address, a path or a command that no poll has."""
        wanted = derive_name(text)
        taken = {record.poll.spec.name for record in await self.all()}
        return next(name for name in (wanted, *(f"{wanted}-{number}" for number in range(2, 10_000))) if name not in taken)

    async def preview(self, model: PollModel, *, where: str = "poll") -> Preview:
        """Reads the source once and shows what the condition says; stores nothing, fires nothing."""
        checked = self.check(model, where=where, origin=self._deps.origin)
        return await self._preview(checked.spec)

    async def _preview(self, spec: PollSpec) -> Preview:
        deps = self._deps
        now = deps.clock.now()
        reading = await self._read(spec, None)
        instants = next_instants(spec.schedule, rested(spec.schedule, now), spec.name)
        if isinstance(reading, FailedReading):
            return Preview(spec, 0, (), instants, reading)
        condition = deps.plugins.conditions.compile(spec.condition)
        about = {"id": "", "name": spec.name, "user": spec.user}
        sample = [
            Sampled(
                found.external_id,
                found.title,
                found.url,
                found.payload,
                condition.judge(change="new", object=found.payload, before=None, poll=about, now=now),
                condition.judge(change="updated", object=found.payload, before=found.payload, poll=about, now=now),
            )
            for found in reading.objects[:SAMPLE]
        ]
        return Preview(spec, len(reading.objects), sample, instants, warnings=warnings_of(spec, len(reading.objects), sample))

    async def _read(self, spec: PollSpec, cursor: str | None) -> Reading | FailedReading:
        deps = self._deps
        limits = deps.loaded.settings.lease.times()
        guarded = Guarded(deps.transport, deps.clock.now(), limits.total_deadline)
        return deps.redact(await deps.plugins.sources[spec.source_type].read(spec.source, cursor, guarded))

    async def add(self, model: PollModel, *, look: bool = True, force: bool = False) -> tuple[PollRecord, Preview | None]:
        """Checks, looks at the source once and stores. Raises SetupError for what is wrong, and, unless `force`, RequestError
        for a condition that is an error on the whole sample, options that find nothing in the answer, or a refused address;
        AlreadyExists for a taken name."""
        checked = self.check(model, where=model.name, origin=self._deps.origin)
        preview = await self._preview(checked.spec) if look else None
        if preview is not None and not force:
            refuse_hopeless(self._deps, preview)
        record = await self.store(checked, managed_by="user")
        if preview is not None:
            after = rested(checked.spec.schedule, self._deps.clock.now())
            instants = next_instants(checked.spec.schedule, after, record.poll.id)
            preview = replace(preview, next_instants=instants)
        return record, preview

    async def reading_the_same(self, model: PollModel) -> Sequence[str]:
        """Names of the polls that read the same address, path or command with the same options."""
        source = (model.source.type, model.source.options())
        return [r.poll.spec.name for r in await self.all() if (r.poll.spec.source_type, dict(r.poll.spec.source)) == source]

    async def store(self, checked: Checked, *, managed_by: str) -> PollRecord:
        deps = self._deps
        now = await deps.definitions.now()
        await hold_pools(deps, [checked.pool])
        record = await deps.definitions.add_poll(self._who, checked.spec, pool=checked.pool, due=now, managed_by=managed_by)
        if checked.state is PollState.PAUSED:
            record = await deps.definitions.set_poll_state(self._who, checked.spec.name, PollState.PAUSED, due=None)
        deps.ring()
        return record

    async def edit(self, name: str, changes: Mapping[str, Any], *, reconsider: bool = False) -> PollRecord:
        """Changes parts of a definition; cursor and what was seen stay, nothing fires for objects already seen unless `reconsider`."""
        record = await self.get(name)
        body = poll_to_model(record.poll.spec) | dict(changes)
        if "cron" in changes:
            body.pop("every", None)
        checked = self.check(read_model(body, where=name), where=name, origin=self._deps.origin)
        return await self.replace(record, checked, managed_by="user", reconsider=reconsider)

    async def replace(self, record: PollRecord, checked: Checked, *, managed_by: str, reconsider: bool = False) -> PollRecord:
        deps = self._deps
        now = await deps.definitions.now()
        due = now if reconsider else next_due(checked.spec.schedule, now, record.poll.id).due
        name = record.poll.spec.name
        await hold_pools(deps, [checked.pool])
        found = await deps.definitions.edit_poll(
            self._who, name, checked.spec, pool=checked.pool, due=due, managed_by=managed_by, reconsider=reconsider
        )
        deps.ring()
        return found

    async def get(self, name: str) -> PollRecord:
        """One poll by name or id. Raises NotFound with the nearest name."""
        return await self._deps.reads.poll(self._who, name)

    async def list(self, *, state: str | None = None, limit: int = 1000, before: str | None = None) -> Sequence[PollRecord]:
        """Polls, newest first."""
        return await self._deps.reads.polls(self._who, Page(limit=limit, before=before, state=state))

    async def all(self, *, state: str | None = None) -> Sequence[PollRecord]:
        """Every poll, newest first; removed ones only where `state` asks for them."""
        found: tuple[PollRecord, ...] = ()
        while page := await self.list(state=state, before=found[-1].poll.id if found else None):
            found += tuple(page)
        return found

    async def pause(self, name: str) -> PollRecord:
        """Stops running it; what it remembers stays."""
        return await self._deps.definitions.set_poll_state(self._who, name, PollState.PAUSED, due=None)

    async def resume(self, name: str) -> PollRecord:
        """Runs it again, at its next instant; also after it was disabled or ended."""
        record = await self.get(name)
        if record.poll.state is PollState.ACTIVE:
            raise NotNow(f"poll {name} is running already")
        now = await self._deps.definitions.now()
        due = next_due(record.poll.spec.schedule, now, record.poll.id).due
        found = await self._deps.definitions.set_poll_state(self._who, name, PollState.ACTIVE, due=due)
        self._deps.ring()
        return found

    async def remove(self, name: str) -> PollRecord:
        """Ends it and frees its name; its runs stay on record."""
        return await self._deps.definitions.set_poll_state(self._who, name, PollState.REMOVED, due=None)

    async def run(self, name: str) -> PollRecord:
        """Makes it due now, inside its pool's limit; a driver performs it."""
        record = await self._deps.definitions.poll_due_now(self._who, name)
        self._deps.ring()
        return record

    async def export(self, names: Sequence[str] = ()) -> Sequence[Mapping[str, Any]]:
        """The `[[poll]]` tables that would make these polls (all where no name is given)."""
        records = [await self.get(name) for name in names] if names else await self.all()
        return [poll_to_model(record.poll.spec) for record in records]

    async def diff(self, name: str) -> Difference:
        """Reads the source now and compares it with what the poll remembers; stores nothing."""
        record = await self.get(name)
        reading = await self._read(record.poll.spec, None)
        if isinstance(reading, FailedReading):
            return Difference(record.poll.spec.name, Comparison(), reading)
        spec = record.poll.spec
        found = find_changes(reading, record.poll.known, self._deps.clock.now(), spec.keep, spec.fields)
        note = None if record.poll.baselined else "this poll has no baseline yet: everything is new"
        return Difference(spec.name, found, note=note, whole=spec.keep is Keep.PAYLOAD)


def _secret_fix(deps: Deps, fault: Fault, options: Mapping[str, Any]) -> str | None:
    """The fix, where a plug-in's fault is that an option carries a secret."""
    value = options.get(fault.where.rpartition(".")[2])
    return secret_hint(fault.message) if isinstance(value, str) and fault.message == deps.secret_check(value) else None


def _literal_secrets(deps: Deps, model: PollModel, where: str, told: set[str]) -> list[Fault]:
    """Secrets written out in a definition, less those that the plug-in told already."""
    inline = [item.options() if isinstance(item, ActionModel) else item for item in model.actions]
    found = secrets_of(deps, {"name": model.name, "source": model.source.options(), "when": model.when, "actions": inline}, where)
    placed = [Fault(fault.where.replace(f"{where}.", f"{where}: ", 1), fault.message, fault.hint) for fault in found]
    return [fault for fault in placed if fault.where not in told]
