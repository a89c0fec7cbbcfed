"""Every contract that ships can be waited with and, where it says how, submitted with: the service asks for what is missing, no more."""

import io
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from sereno.app import open_app
from sereno.core.call import CallState
from sereno.core.contract import Contract
from sereno.core.operation import OperationState
from sereno.core.reading.calls import Via
from sereno.core.reading.templates import CALLER_URL
from sereno.service.operations import Wanted, WantedSubmit
from sereno.settings import parse_settings

BASE = "https://jobs.example"


def values(names: Sequence[str]) -> dict[str, str]:
    """A value for each parameter."""
    return {name: "eu-west-1" if name == "region" else "x1" for name in names}


def terms(contract: Contract, needs_base: bool) -> dict[str, object]:
    """What a caller says: limits, and words and a base where the contract leaves them open."""
    limits = {} if contract.via is Via.PUSH else {"max_status_requests": 5, "max_transport_failures": 2, "max_throttles": 2}
    words = {"states": {"success": ["a"], "failure": ["b"]}, "state_path": "s"} if contract.takes_states else {}
    base = {"base": BASE} if needs_base else {}
    return {"deadline": timedelta(minutes=30), "allow_unproven_status": True, **limits, **words, **base}


async def test_W03_every_shipped_contract_can_be_waited_with(tmp_path: Path) -> None:
    """With a job id, its parameters and limits; nothing is sent."""
    async with open_app(parse_settings("", tmp_path / "sereno.toml"), console=io.StringIO()) as app:
        contracts = app.contracts.list()
        for contract in contracts:
            job = f"{BASE}/j" if contract.status.url == CALLER_URL else "job1"
            more = terms(contract, contract.status.url.startswith("{base}"))
            wanted = Wanted(contract.name, job, parameters=values(contract.parameters), account="", **more)  # type: ignore[arg-type]
            assert (await app.operations.register(wanted)).is_new, contract.name
        assert len(await app.operations.list(state="waiting", limit=1000)) == len(contracts) >= 55


async def test_W31_every_shipped_submit_can_be_registered(tmp_path: Path) -> None:
    """What only the answer knows is not asked for; the submit is queued with a key and what it does."""
    async with open_app(parse_settings("", tmp_path / "sereno.toml"), console=io.StringIO()) as app:
        contracts = [contract for contract in app.contracts.list() if contract.submit is not None]
        assert len(contracts) >= 40
        for contract in contracts:
            assert contract.submit is not None
            given = values([name for name in contract.parameters if name not in contract.submit.parameters])
            more = terms(contract, "{base}" in contract.submit.call.url)
            wanted = WantedSubmit(contract.name, {"a": "b"}, parameters=given, account="", **more)  # type: ignore[arg-type]
            operation = (await app.operations.submit(wanted)).record.operation
            (call,) = await app.operations.calls(operation.id)
            assert (operation.state, call.call.state) == (OperationState.SUBMITTING, CallState.QUEUED)
            assert call.call.key and call.call.statement["effects"], contract.name
