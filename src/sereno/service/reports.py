"""Reports: decides recorded steps again, checks the audited facts, and measures how well waiting works. Reads only (W28, W36, W44)."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sereno.core.contract import Contract
from sereno.core.errors import SerenoError
from sereno.core.operation import KEEP_RESULT
from sereno.core.record import ChangeRecord, JournalEntry, OperationRecord, StepRecord
from sereno.core.reviewing.checking import JournalFault, check_journal
from sereno.core.reviewing.quality import Measured, WaitingQuality, read_timing
from sereno.core.reviewing.replay import Replay, replay
from sereno.ports import Page
from sereno.service.deps import Deps

PAGE = 200
"""Operations that are read at once."""
ENTRIES = 1000
"""Journal rows that are read at once."""
MOST_CONTRACTS = 500
"""Compiled contracts that are kept while many operations are read."""
CLOCK = "clock"
"""The journal's subject for steps of the host's clock."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One operation, with what came of deciding it again or of checking it."""

    record: OperationRecord
    replay: Replay
    faults: Sequence[JournalFault] = ()


class Reports:
    """The use cases of reports, for one principal. Nothing here asks a provider or changes anything."""

    def __init__(self, deps: Deps):
        self._deps = deps
        self._contracts: dict[str, Contract | None] = {}

    async def replay(self, operation: str, *, run: int | None = None) -> Reviewed:
        """Decides every recorded step again, or those of one run. Raises NotFound."""
        record = await self._deps.reads.operation(self._deps.who, operation)
        return Reviewed(record, await self._replay(record.operation.id, run))

    async def check(self, operation: str) -> Reviewed:
        """The faults that the journal of one operation shows. Raises NotFound."""
        record = await self._deps.reads.operation(self._deps.who, operation)
        return Reviewed(record, Replay(()), await self._faults(await self._journal(record.operation.id), await self._clock()))

    async def check_all(self) -> AsyncIterator[Reviewed]:
        """The same for every operation, newest first, one after the other."""
        clock = await self._clock()
        async for record in self._operations():
            yield Reviewed(record, Replay(()), await self._faults(await self._journal(record.operation.id), clock))

    async def waiting(self, *, since: timedelta | None = None, contract: str | None = None) -> AsyncIterator[WaitingQuality]:
        """Measures operations, newest first: those registered within `since`, of one contract. The same figures are handed out after
        each operation, so that whoever asks can show how far it is; the last time they are whole. None at all where there are none."""
        now, clock = await self._deps.definitions.now(), await self._clock()
        quality = WaitingQuality(now)
        async for record in self._operations(None if since is None else now - since):
            if contract is None or record.operation.contract == contract:
                quality.add(await self._measured(record, clock))
                yield quality

    async def _measured(self, record: OperationRecord, clock: Sequence[JournalEntry]) -> Measured:
        operation = record.operation
        entries = await self._journal(operation.id)
        faults, found = await self._faults(entries, clock), await self._replay(operation.id, None)
        return Measured(operation, read_timing(entries), found, tuple(faults), await self._copies(operation.id))

    async def _copies(self, operation: str) -> tuple[str, ...]:
        page = Page(limit=100, subject=operation)
        told = await self._deps.reads.deliveries(self._deps.who, page)
        return tuple(str(one.delivery.state) for one in told if one.delivery.effect.action.type == KEEP_RESULT)

    async def _operations(self, after: datetime | None = None) -> AsyncIterator[OperationRecord]:
        """Every operation, newest first, a page at a time; ids sort by their registration."""
        before = None
        while page := await self._deps.reads.operations(self._deps.who, Page(limit=PAGE, before=before)):
            for record in page:
                if after is not None and record.operation.created_at < after:
                    return
                yield record
            before = page[-1].operation.id

    async def _journal(self, subject: str) -> Sequence[JournalEntry]:
        entries: list[JournalEntry] = []
        while page := await self._deps.reads.journal(
            self._deps.who, subject, after=entries[-1].seq if entries else 0, limit=ENTRIES
        ):
            entries += page
        return entries

    async def _clock(self) -> Sequence[JournalEntry]:
        return await self._journal(CLOCK)

    async def _faults(self, entries: Sequence[JournalEntry], clock: Sequence[JournalEntry]) -> Sequence[JournalFault]:
        digests = {str(entry.facts["contract_digest"]) for entry in entries if "contract_digest" in entry.facts}
        return check_journal(entries, await self._pinned(digests), clock)

    async def _replay(self, operation: str, run: int | None) -> Replay:
        steps = await self._deps.reads.steps(self._deps.who, operation)
        changes = await self._deps.reads.changes(self._deps.who, operation)
        return replay(steps, changes, await self._pinned(_digests(steps, changes)), wanted=run)

    async def _pinned(self, digests: Iterable[str]) -> Mapping[str, Contract]:
        """The contracts that can be read, by digest."""
        found = {digest: await self._contract(digest) for digest in sorted(digests)}
        return {digest: contract for digest, contract in found.items() if contract is not None}

    async def _contract(self, digest: str) -> Contract | None:
        if digest not in self._contracts:
            if len(self._contracts) >= MOST_CONTRACTS:
                self._contracts.clear()
            self._contracts[digest] = await self._load(digest)
        return self._contracts[digest]

    async def _load(self, digest: str) -> Contract | None:
        try:
            return self._deps.plugins.contracts.contract(await self._deps.reads.contract(digest))
        except SerenoError:
            return None


def _digests(steps: Sequence[StepRecord], changes: Sequence[ChangeRecord]) -> set[str]:
    known = [*(step.operation for step in steps), *(change.operation for change in changes)]
    return {operation.contract_digest for operation in known if operation is not None}
