"""Brings the `[[poll]]`s of the settings file into the database, by name; the database stays the only truth at run time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sereno.core.errors import AlreadyExists, Fault, SetupError
from sereno.core.poll import PollState
from sereno.core.record import PollRecord
from sereno.core.telling.message import counted
from sereno.service.deps import Deps
from sereno.service.polls import Checked, Polls
from sereno.service.waiting.pools import hold_pools


@dataclass(frozen=True, slots=True)
class Applied:
    """What happened, or would happen, to one poll: `created`, `changed`, `unchanged`, `paused` (gone from the file), `pruned`."""

    name: str
    action: str
    where: str


def file_of(managed_by: str) -> str:
    """The owner of a definition without the line that it stands on: `file:PATH`, or `user`."""
    return re.sub(r"^(file:.*):\d+$", r"\1", managed_by)


class Apply:
    """`sereno apply`, also at the start of `up` and `once`."""

    def __init__(self, deps: Deps, polls: Polls):
        self._deps = deps
        self._polls = polls

    async def run(self, *, dry_run: bool = False, prune: bool = False) -> Sequence[Applied]:
        """Applies the file. Raises SetupError with every fault; then nothing was changed."""
        loaded = self._deps.loaded
        if not dry_run:
            await hold_pools(self._deps)
        if loaded.path is None:
            return []
        owner = f"file:{loaded.path}"
        wanted = self._check(owner)
        existing = {record.poll.spec.name: record for record in await self._polls.all()}
        self._refuse_foreign(wanted, existing, owner)
        done = []
        for index, (name, checked) in enumerate(wanted.items()):
            done.append(await self._apply_one(checked, existing.get(name), loaded.where("poll", index), dry_run))
        gone = [record for name, record in existing.items() if file_of(record.managed_by) == owner and name not in wanted]
        return done + [await self._gone(record, dry_run, prune) for record in gone]

    def _check(self, owner: str) -> dict[str, Checked]:
        faults: list[Fault] = []
        wanted: dict[str, Checked] = {}
        for index, model in enumerate(self._deps.loaded.settings.poll):
            try:
                wanted[model.name] = self._polls.check(model, where=self._deps.loaded.where("poll", index), origin="config")
            except SetupError as error:
                faults += error.faults
        faults = list(dict.fromkeys(faults))  # a fault of a named action comes once for each poll that names it
        if faults:
            raise SetupError(
                f"{owner.removeprefix('file:')} has {counted(len(faults), 'fault', 'faults')}; nothing was changed", faults
            )
        return wanted

    def _refuse_foreign(self, wanted: dict[str, Checked], existing: dict[str, PollRecord], owner: str) -> None:
        faults = [
            Fault(
                self._deps.loaded.where("poll", index),
                f"poll `{name}` exists already, managed by {existing[name].managed_by}",
                "rename one, or remove the other",
            )
            for index, name in enumerate(wanted)
            if name in existing and file_of(existing[name].managed_by) != owner
        ]
        if faults:
            raise SetupError("the same poll is defined twice; nothing was changed", faults)

    async def _apply_one(self, checked: Checked, record: PollRecord | None, where: str, dry_run: bool) -> Applied:
        name, owner = checked.spec.name, f"file:{where}"
        if record is None and (dry_run or await self._created(checked, owner)):
            return Applied(name, "created", where)
        record = record or await self._polls.get(name)
        state_differs = (checked.state is PollState.PAUSED) != (record.poll.state is PollState.PAUSED)
        same = record.poll.spec == checked.spec
        if not dry_run:
            if not same or record.managed_by != owner:
                # An equal definition that moved inside the file only takes its new line along.
                await self._polls.replace(record, checked, managed_by=owner)
            if state_differs:
                await (self._polls.pause(name) if checked.state is PollState.PAUSED else self._polls.resume(name))
        return Applied(name, "unchanged" if same and not state_differs else "changed", where)

    async def _created(self, checked: Checked, owner: str) -> bool:
        """False when another process that applies the same file was faster: then its poll is compared like any other."""
        try:
            await self._polls.store(checked, managed_by=owner)
        except AlreadyExists:
            record = await self._polls.get(checked.spec.name)
            if file_of(record.managed_by) != file_of(owner):
                raise
            return False
        return True

    async def _gone(self, record: PollRecord, dry_run: bool, prune: bool) -> Applied:
        name = record.poll.spec.name
        if not dry_run:
            if prune:
                await self._polls.remove(name)
            elif record.poll.state is PollState.ACTIVE:
                await self._polls.pause(name)
        return Applied(name, "pruned" if prune else "paused", record.managed_by)
