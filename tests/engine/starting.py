"""A job that is started first: its contract, and how a test registers, cancels and calls back."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.budget import Allowance
from sereno.core.contract import Contract, Via
from sereno.core.observation import HttpReply
from sereno.core.operation import Operation, Pushed, decide_cancel, decide_push
from sereno.core.values import Json, canonical
from sereno.ports import Change, NewOperation, NewSubmit
from tests.drivers.stage import WHO
from tests.engine.desk import Desk

ORIGIN = "https://example.com"
KEYED: Json = {"place": "header", "name": "Idempotency-Key", "duplicate": "replay", "window": "24h"}
REJECTS: Mapping[str, Json] = {
    "idempotency": {"place": "header", "name": "Idempotency-Key", "duplicate": "reject", "window": "24h"},
    "duplicate": {"status": ["409"]},
}


def document(submit: Mapping[str, Json] | None = None, **sections: Json) -> dict[str, Json]:
    """The contract of the job, with more terms of its submit."""
    return {
        "format": 1,
        "contract": "acme",
        "version": 1,
        "title": "Acme job",
        "source": "made for a test",
        "verified": "verified: all of it",
        "status": {"url": f"{ORIGIN}/jobs/{{job_id}}", "origins": [ORIGIN], "observational": "it only reads"},
        "state": {"path": "status"},
        "states": {"pending": ["running"], "success": ["done"], "failure": ["failed"], "cancelled": ["canceled"]},
        "delays": {"first": "2s", "base": "5s", "max": "1m"},
        "job": {"id": "id"},
        "submit": {"url": f"{ORIGIN}/jobs", "effects": "starts a job", "job_id": "id", **(submit or {})},
        "cancel": {"url": f"{ORIGIN}/jobs/{{job_id}}/cancel", "effects": "ends it"},
        **sections,
    }


def pushed_document() -> dict[str, Json]:
    """The same job at a provider that only calls back."""
    whole = document(status={"via": "push", "origins": [ORIGIN]})
    del whole["cancel"]
    return whole


def compiled(found: Mapping[str, Json]) -> Contract:
    """The contract of a document."""
    return Catalogue().contract(found)


async def submit(desk: Desk, found: Mapping[str, Json], key: str = "key-1", **changes: Any) -> str:
    """Registers a job to be started; its submit is due now."""
    now = desk.hand.now()
    new = NewOperation(
        contract="acme",
        document=found,
        account="",
        job_id="",
        url="",
        parameters={},
        fingerprint=f"submit-{key}",
        allowance=Allowance(now + changes.pop("deadline", timedelta(hours=1)), None, 100, 5, 5),
        pool="provider:example.com",
        first_look_at=now,
        submit=NewSubmit({"n": 1}, key),
        pushed_only=compiled(found).via is Via.PUSH,
        **changes,
    )
    record, _ = await desk.definitions.register(WHO, new)
    return record.operation.id


async def cancel(desk: Desk, operation: str, found: Mapping[str, Json]) -> None:
    """A person asks for the job to be cancelled."""

    def rule(current: Operation, now: Any) -> Any:
        return decide_cancel(current, compiled(found), now)

    await desk.definitions.change_operation(WHO, operation, Change("cancel_requested", rule))


async def call_back(desk: Desk, operation: str, found: Mapping[str, Json], body: Json) -> None:
    """The provider calls back now."""

    def rule(current: Operation, now: Any) -> Any:
        return decide_push(current, compiled(found), Pushed(canonical(body), "application/json", now), now)

    await desk.definitions.change_operation(WHO, operation, Change("pushed", rule))


def says(status: int = 201, **body: Json) -> HttpReply:
    """An answer of the provider; without fields it names job-1."""
    whole = canonical(body or {"id": "job-1", "status": "running"})
    return HttpReply(status, (("content-type", "application/json"), ("x-request-id", "req-7")), whole, ORIGIN, timedelta(0))
