"""Kept results as people look at them. A result exists only once the operation has succeeded (W02); looking asks no provider."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sereno.core.artifact import Artifact
from sereno.core.contract import Contract
from sereno.core.delivery import DeliveryState
from sereno.core.errors import NotFound
from sereno.core.operation import Operation, ready_result
from sereno.core.record import DeliveryRecord
from sereno.core.values import BadJson, parse_json
from sereno.ports import ArtifactStore, Page
from sereno.service.deps import Deps

KEEP = "keep_result"
"""The type of the action that copies; its deliveries say where a copy stands."""


class CopyState(StrEnum):
    """Where the copy of a result stands."""

    KEPT = "kept"
    COPYING = "copying"
    FAILED = "failed"
    NONE = "none"
    """Nothing is to be copied: the contract does not ask for it. `result_ref` says where the provider has the result."""


@dataclass(frozen=True, slots=True)
class KeptPart:
    """One kept artifact, and the address it came from, without query."""

    artifact: Artifact
    source: str


@dataclass(frozen=True, slots=True)
class KeptResult:
    """The result of an operation that succeeded: the provider's reference, and our copy."""

    operation: str
    state: CopyState
    result_ref: str | None
    parts: Sequence[KeptPart] = ()
    delivery: str | None = None
    """The delivery that copies: `delivery retry` tries a failed one again."""
    says: str | None = None
    """How the newest try ended."""
    kept_until: datetime | None = None
    """How long the provider keeps it, as far as it is known."""


class Results:
    """The use cases of results, for one principal."""

    def __init__(self, deps: Deps, artifacts: ArtifactStore):
        self._deps = deps
        self._artifacts = artifacts

    async def get(self, operation: str) -> KeptResult:
        """Says where the result is. Raises NotFound; NotNow while the operation has not succeeded."""
        record = await self._deps.reads.operation(self._deps.who, operation)
        found, reference = record.operation, ready_result(record.operation)
        copy = await self._copy_of(found.id)
        if copy is None:
            return KeptResult(found.id, CopyState.NONE, reference)
        return KeptResult(
            operation=found.id,
            state=_STATES.get(copy.delivery.state, CopyState.FAILED),
            result_ref=reference,
            parts=await self._parts(copy) if copy.delivery.state is DeliveryState.DELIVERED else (),
            delivery=copy.delivery.id,
            says=copy.last_outcome,
            kept_until=kept_until(found, await self._contract(found)),
        )

    def read(self, digest: str) -> AsyncIterator[bytes]:
        """The content of a kept artifact in pieces. Raises NotFound; Unavailable where it cannot be read or is damaged."""
        return self._artifacts.read(digest)

    async def _copy_of(self, operation: str) -> DeliveryRecord | None:
        """The newest delivery that copies this operation's result."""
        page = Page(limit=1000, subject=operation)
        records = await self._deps.reads.deliveries(self._deps.who, page)
        return next((record for record in records if record.delivery.effect.action.type == KEEP), None)

    async def _parts(self, copy: DeliveryRecord) -> Sequence[KeptPart]:
        """What the delivery's journal remembers of the copy."""
        entries = await self._deps.reads.journal(self._deps.who, copy.delivery.id)
        receipt = next((found for entry in reversed(entries) if isinstance(found := entry.facts.get("receipt"), str)), None)
        if receipt is None:
            raise NotFound("the copy left no receipt", subject=copy.delivery.id)
        return read_receipt(receipt)

    async def _contract(self, operation: Operation) -> Contract:
        return self._deps.plugins.contracts.contract(await self._deps.reads.contract(operation.contract_digest))


_STATES = {
    DeliveryState.DELIVERED: CopyState.KEPT,
    DeliveryState.QUEUED: CopyState.COPYING,
    DeliveryState.SENDING: CopyState.COPYING,
}


def read_receipt(receipt: str) -> Sequence[KeptPart]:
    """Reads the list that the copy left. Raises NotFound for anything else."""
    try:
        rows = parse_json(receipt)
    except BadJson:
        rows = None
    if not isinstance(rows, list):
        raise NotFound("the receipt of the copy cannot be read")
    return [_part(row) for row in rows if isinstance(row, dict)]


def _part(row: dict[str, object]) -> KeptPart:
    def text(name: str) -> str:
        found = row.get(name)
        return found if isinstance(found, str) else ""

    size = row.get("size")
    artifact = Artifact(text("digest"), size if isinstance(size, int) else 0, text("content_type"), text("name"))
    return KeptPart(artifact, text("from"))


def kept_until(operation: Operation, contract: Contract) -> datetime | None:
    """The earliest instant that we know of at which the provider may forget the result."""
    known = [operation.expires_at] if operation.expires_at is not None else []
    since = operation.started_at if contract.retention_from == "creation" else operation.last_checked_at
    if contract.retention is not None and since is not None:
        known.append(since + contract.retention)
    return min(known, default=None)
