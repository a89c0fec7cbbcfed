"""Jobs at AWS services that moto plays, through the whole program: submit, wait, result, cancel."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.moto_api import state_manager
from moto.server import ThreadedMotoServer

from sereno.core.operation import OperationState
from tests.peers.serving import opened, submitted, waited

SECRET = "AKIDCANARY0000000001:canary/Secret+0123456789abcdefghijklmnop"
REGION = {"region": "eu-west-1"}
MODELS = ("athena::execution", "stepfunctions::execution")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an AWS that runs here; a query goes on for two looks."""
    for model in MODELS:
        state_manager.set_transition(model, {"progression": "manual", "times": 2})
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()
    for model in MODELS:
        state_manager.unset_transition(model)


def aws(port: int) -> str:
    """The settings of the account."""
    return f'[credentials.aws]\norigin = "http://127.0.0.1:{port}"\nscheme = "AWS4-HMAC-SHA256"\nvalue = {{ env = "PEER_AWS" }}\n'


async def test_W31_an_athena_query_from_submit_to_result(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped contract, the shipped carrier, and a server that nobody here wrote."""
    monkeypatch.setenv("PEER_AWS", SECRET)
    base = f"http://127.0.0.1:{port}"
    async with opened(tmp_path, port, more=aws(port)) as app:
        given = {"QueryString": "SELECT 1", "ResultConfiguration": {"OutputLocation": "s3://b/out/"}}
        operation = await submitted(app, "aws-athena", given, base=base, parameters=REGION, account="aws")
        found = await waited(app, operation)
    assert (found.state, found.last_state) == (OperationState.SUCCEEDED, "SUCCEEDED")
    assert (found.result_ref or "").startswith("s3://b/out/")
    assert found.spend.status_requests > 1
    _no_secret(tmp_path)


async def test_W24_an_athena_query_is_cancelled(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cancel is sent, and the next look shows the end."""
    monkeypatch.setenv("PEER_AWS", SECRET)
    monkeypatch.setitem(state_manager._transitions, "athena::execution", {"progression": "manual", "times": 1000})
    base = f"http://127.0.0.1:{port}"
    async with opened(tmp_path, port, more=aws(port)) as app:
        operation = await submitted(app, "aws-athena", {"QueryString": "SELECT 1"}, base=base, parameters=REGION, account="aws")
        await _until_started(app, operation)
        await app.operations.cancel(operation)
        found = await waited(app, operation)
    assert (found.state, found.last_state) == (OperationState.CANCELLED, "CANCELLED")


async def _until_started(app: Any, operation: str) -> None:
    """Drives one round: what is due now, which is the submit."""
    await app.once()
    found = (await app.operations.get(operation)).operation
    assert found.state is OperationState.WAITING and found.job_id


def _no_secret(folder: Path) -> None:
    """Neither database nor journal holds the key."""
    whole = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"canary" not in whole
