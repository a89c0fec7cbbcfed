"""Where a result stands: nothing before success, our copy after it, and the provider's word where none is made (W02, W24, W30)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sereno.core.artifact import Artifact
from sereno.core.budget import Allowance, Spend
from sereno.core.delivery import DeliveryState
from sereno.core.errors import NotFound, NotNow
from sereno.core.observation import DelaySource
from sereno.core.operation import Operation, OperationState
from sereno.core.record import DeliveryRecord, JournalEntry, OperationRecord
from sereno.core.values import Json
from sereno.core.work import Principal
from sereno.outside.artifacts.files import FileArtifacts
from sereno.ports import Page
from sereno.service.results import CopyState, KeptPart, Results, kept_until, read_receipt
from tests.builtin.feeds.scripted import NOW, delivery
from tests.builtin.kept import contract_of

OPERATION = Operation(
    id="op_1",
    workspace="main",
    contract="own",
    contract_digest="d",
    account="",
    job_id="j1",
    url="https://x.example/jobs/j1",
    parameters={},
    fingerprint="f",
    state=OperationState.SUCCEEDED,
    revision=1,
    allowance=Allowance(NOW, None, 1, 1, 1),
    spend=Spend(),
    pool="p",
    created_at=NOW - timedelta(hours=2),
    next_poll_at=None,
    delay_source=DelaySource.LOCAL_BACKOFF,
    last_checked_at=NOW,
    result_ref="https://x.example/out/1",
)
ROW = {"digest": "a" * 64, "size": 3, "content_type": "text/plain", "name": "x.txt", "from": "https://x.example/out/1"}
CONTRACT = replace(contract_of('from = "answer"'), retention=timedelta(hours=1))


def record(state: DeliveryState, *, type: str = "keep_result", id: str = "dlv_1", said: str | None = None) -> DeliveryRecord:
    """A delivery of the operation."""
    made = replace(delivery({}, type=type), id=id, state=state)
    return DeliveryRecord(made, None, NOW, None, said)


class Reads:
    """What the store would say; asks are noted."""

    def __init__(self, operation: Operation, deliveries: Sequence[DeliveryRecord] = (), receipt: str | None = None):
        self._operation, self._deliveries, self._receipt = operation, deliveries, receipt
        self.journals: list[str] = []

    async def operation(self, who: Principal, operation: str) -> OperationRecord:
        if operation != self._operation.id:
            raise NotFound("no such operation", subject=operation)
        return OperationRecord(self._operation, None, NOW)

    async def deliveries(self, who: Principal, page: Page) -> Sequence[DeliveryRecord]:
        assert page.subject == self._operation.id
        return self._deliveries

    async def journal(self, who: Principal, subject: str, after: int = 0, limit: int = 1000) -> Sequence[JournalEntry]:
        self.journals.append(subject)
        facts: list[Mapping[str, Json]] = [{"attempt": 1, "receipt": None}, {"receipt": self._receipt}, {"decision": "later"}]
        return [JournalEntry(number, NOW, subject, 1, "decision", fact) for number, fact in enumerate(facts)]

    async def contract(self, digest: str) -> Mapping[str, Json]:
        return {}


def results(reads: Reads, tmp_path: Path) -> Results:
    """The service over these rows, with a real folder."""
    contracts = SimpleNamespace(contract=lambda document: CONTRACT)
    deps: Any = SimpleNamespace(reads=reads, who=Principal(), plugins=SimpleNamespace(contracts=contracts))
    return Results(deps, FileArtifacts(tmp_path))


@pytest.mark.parametrize("state", [state for state in OperationState if state is not OperationState.SUCCEEDED])
async def test_W02_no_result_is_given_before_success(tmp_path: Path, state: OperationState) -> None:
    """Every other state is refused with the error that has a code, and nothing of a copy is even looked at."""
    reads = Reads(replace(OPERATION, state=state), [record(DeliveryState.DELIVERED)], json.dumps([ROW]))
    with pytest.raises(NotNow, match=f"is {state}, not succeeded") as caught:
        await results(reads, tmp_path).get("op_1")
    assert caught.value.code == "not_now" and reads.journals == []


async def test_an_operation_that_does_not_exist_has_no_result(tmp_path: Path) -> None:
    """The store's own word for it."""
    with pytest.raises(NotFound):
        await results(Reads(OPERATION), tmp_path).get("op_2")


async def test_W24_a_result_that_nobody_copies_is_with_the_provider(tmp_path: Path) -> None:
    """Deliveries of other kinds are no copies."""
    found = await results(Reads(OPERATION, [record(DeliveryState.DELIVERED, type="console")]), tmp_path).get("op_1")
    assert (found.state, found.result_ref, found.parts) == (CopyState.NONE, "https://x.example/out/1", ())


async def test_W30_a_kept_result_has_its_parts(tmp_path: Path) -> None:
    """As the receipt in the journal says, in its order."""
    second = {**ROW, "digest": "b" * 64, "name": ""}
    reads = Reads(OPERATION, [record(DeliveryState.DELIVERED)], json.dumps([ROW, second]))
    found = await results(reads, tmp_path).get("op_1")
    assert found.state is CopyState.KEPT and found.delivery == "dlv_1" and reads.journals == ["dlv_1"]
    assert found.parts == [
        KeptPart(Artifact("a" * 64, 3, "text/plain", "x.txt"), "https://x.example/out/1"),
        KeptPart(Artifact("b" * 64, 3, "text/plain", ""), "https://x.example/out/1"),
    ]


@pytest.mark.parametrize(
    ("state", "copy"),
    [
        (DeliveryState.QUEUED, CopyState.COPYING),
        (DeliveryState.SENDING, CopyState.COPYING),
        (DeliveryState.DEAD, CopyState.FAILED),
        (DeliveryState.AMBIGUOUS, CopyState.FAILED),
        (DeliveryState.DROPPED, CopyState.FAILED),
    ],
)
async def test_W30_a_copy_that_is_not_there_says_how_it_stands(tmp_path: Path, state: DeliveryState, copy: CopyState) -> None:
    """With the newest try and how long the provider keeps it."""
    found = await results(Reads(OPERATION, [record(state, said="refused: result_expired: x")]), tmp_path).get("op_1")
    assert (found.state, found.says, found.parts) == (copy, "refused: result_expired: x", ())
    assert found.kept_until == NOW + timedelta(hours=1)


async def test_the_newest_copy_counts(tmp_path: Path) -> None:
    """Deliveries come newest first."""
    both = [record(DeliveryState.QUEUED, id="dlv_2"), record(DeliveryState.DEAD)]
    assert (await results(Reads(OPERATION, both), tmp_path).get("op_1")).delivery == "dlv_2"


@pytest.mark.parametrize("receipt", [None, "", "exit 0", "{}", "[1", "null"])
async def test_a_receipt_that_cannot_be_read_is_said(tmp_path: Path, receipt: str | None) -> None:
    """It is no result without parts."""
    with pytest.raises(NotFound):
        await results(Reads(OPERATION, [record(DeliveryState.DELIVERED)], receipt), tmp_path).get("op_1")


def test_a_receipt_with_strange_rows_names_nothing_that_can_be_opened() -> None:
    """Values of other types count as empty."""
    (part,) = read_receipt('[{"digest": 1, "size": "x", "content_type": null}, 5]')
    assert part == KeptPart(Artifact("", 0, "", ""), "")


@pytest.mark.parametrize(
    ("changed", "contract", "until"),
    [
        ({}, {"retention": None}, None),
        ({}, {}, NOW + timedelta(hours=1)),
        ({}, {"retention_from": "creation"}, NOW - timedelta(hours=1)),
        ({"expires_at": NOW + timedelta(minutes=5)}, {}, NOW + timedelta(minutes=5)),
        ({"expires_at": NOW + timedelta(hours=5)}, {}, NOW + timedelta(hours=1)),
        ({"last_checked_at": None}, {}, None),
    ],
    ids=str,
)
def test_the_earliest_known_end_counts(changed: dict[str, Any], contract: dict[str, Any], until: object) -> None:
    """Retention from completion counts from the look that saw success."""
    assert kept_until(replace(OPERATION, **changed), replace(CONTRACT, **contract)) == until


async def test_reading_streams_from_the_store(tmp_path: Path) -> None:
    """By the digest, in pieces."""
    store = FileArtifacts(tmp_path)
    incoming = await store.incoming(max_bytes=10)
    incoming.begin(200, [])
    await incoming.write(b"content")
    artifact = await incoming.finish()
    found = results(Reads(OPERATION), tmp_path)
    assert b"".join([piece async for piece in found.read(artifact.digest)]) == b"content"
