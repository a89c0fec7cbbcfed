"""What is refused or remarked before a wait or a submit is stored: secrets, depth, naive instants, credentials, limits, addresses."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.app import Sereno, open_app
from sereno.core.errors import RequestError, SetupError
from sereno.core.operation import OperationState
from sereno.core.values import Json
from sereno.service.operations import Wanted, WantedSubmit
from sereno.service.waiting.doubts import doubts_of
from sereno.settings import parse_settings
from tests.faces.provider import CONTRACT, IDEMPOTENT

BASE = "http://127.0.0.1:8123"
VALUE = "correct horse battery"
ACME = f'[credentials.acme]\norigin = "{BASE}"\nvalue = {{ env = "ACME_KEY" }}\n'


@asynccontextmanager
async def opened(folder: Path, *, settings: str = ACME, origin: str = "api") -> AsyncIterator[Sereno]:
    """The app in a folder."""
    (folder / "contracts").mkdir(exist_ok=True)
    (folder / "contracts" / "acme.toml").write_text(CONTRACT + IDEMPOTENT)
    text = f'contracts = ["contracts"]\n[egress]\nallow = ["127.0.0.1"]\n{settings}'
    loaded = parse_settings(text, folder / "sereno.toml")
    async with open_app(loaded, origin=origin, console=io.StringIO()) as app:
        yield app


def faults_of(error: SetupError) -> str:
    """The faults as one text."""
    return "\n".join(f"{fault.where}: {fault.message} ({fault.hint})" for fault in error.faults)


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted("acme", VALUE, base=BASE),
        Wanted("acme", "job-1", base=BASE, assistant_task_id=f"task {VALUE}"),
        Wanted("acme", "job-1", base=BASE, parameters={"place": VALUE}),
        WantedSubmit("acme", {"prompt": ["a", f"say {VALUE}"]}, base=BASE),
    ],
)
async def test_W25_the_value_of_a_configured_credential_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: Wanted | WantedSubmit
) -> None:
    """It was not used here yet, and looks like no key; it is not stored, and not repeated."""
    monkeypatch.setenv("ACME_KEY", VALUE)
    async with opened(tmp_path) as app:
        register = app.operations.register if isinstance(wanted, Wanted) else app.operations.submit
        with pytest.raises(SetupError) as caught:
            await register(wanted)  # type: ignore[arg-type]
        assert "holds the value of a configured credential" in faults_of(caught.value)
        assert VALUE not in faults_of(caught.value) + str(caught.value)
        assert await app.operations.list() == []


@pytest.mark.parametrize("depth", [70, 2_000])
async def test_W31_an_input_that_is_too_deep_is_a_bad_request(tmp_path: Path, depth: int) -> None:
    """Not a fault of the program."""
    deep: Json = 1
    for _ in range(depth):
        deep = [deep]
    async with opened(tmp_path) as app:
        with pytest.raises(RequestError, match="deeper than 64"):
            await app.operations.submit(WantedSubmit("acme", deep, base=BASE))


async def test_W10_a_deadline_without_time_zone_is_a_bad_request(tmp_path: Path) -> None:
    """It names no instant."""
    async with opened(tmp_path) as app:
        with pytest.raises(RequestError) as caught:
            await app.operations.register(Wanted("acme", "job-1", base=BASE, business_deadline_at=datetime(2030, 1, 1)))
        assert "give an aware datetime" in (caught.value.hint or "")


@pytest.mark.parametrize(("origin", "none"), [("api", 'account=""'), ("cli", "--credential ''")])
async def test_W25_a_contract_whose_credential_is_not_set_is_remarked(tmp_path: Path, origin: str, none: str) -> None:
    """Only where the caller says nothing about it, and none of that name is set."""
    async with opened(tmp_path, origin=origin) as app:
        found = await app.operations.register(Wanted("replicate", "job-1"))
        (warning,) = found.warnings
        assert "[credentials.replicate]" in warning and "unsigned" in warning and none in warning
        assert (await app.operations.register(Wanted("replicate", "job-2", account=""))).warnings == ()
    own = '[credentials.replicate]\norigin = "https://api.replicate.com"\nvalue = { env = "REPLICATE" }\n'
    async with opened(tmp_path, settings=own) as app:
        assert (await app.operations.register(Wanted("replicate", "job-3"))).warnings == ()


async def test_W25_a_call_to_aws_that_nothing_signs_is_refused(tmp_path: Path) -> None:
    """At once, and not by a question after the first look."""
    async with opened(tmp_path) as app:
        with pytest.raises(SetupError) as caught:
            await app.operations.register(Wanted("aws-batch", "job-1", parameters={"region": "eu-central-1"}))
        assert 'scheme = "AWS4-HMAC-SHA256"' in faults_of(caught.value)


@pytest.mark.parametrize(("more", "warned"), [({}, False), ({"deadline": timedelta(days=20)}, True)])
async def test_W41_only_a_deadline_that_the_caller_gave_is_remarked(tmp_path: Path, more: dict[str, Any], warned: bool) -> None:
    """A result is kept from completion on: the contract's own deadline contradicts nothing."""
    async with opened(tmp_path) as app:
        found = await app.operations.register(Wanted("replicate", "job-1", account="", **more))
        assert bool(found.warnings) is warned


@pytest.mark.parametrize(
    ("origin", "wanted", "says"),
    [
        ("cli", Wanted("acme", "j", base="foo"), "(write --base https://host)"),
        ("api", Wanted("acme", "j", base="foo"), '(write base="https://host")'),
        ("cli", Wanted("acme", "j"), "(add --base https://host)"),
        ("api", Wanted("acme", "j"), '(add base="https://host")'),
        ("cli", Wanted("acme", "j", base=BASE, max_status_requests=0), "--max-requests (in Python: max_status_requests)"),
        ("cli", Wanted("acme", "j", base=BASE, deadline=timedelta(0)), "--deadline (in Python: deadline)"),
    ],
)
async def test_W41_a_fault_names_what_to_write(tmp_path: Path, origin: str, wanted: Wanted, says: str) -> None:
    """In the words of whoever asks."""
    async with opened(tmp_path, origin=origin) as app:
        with pytest.raises(SetupError) as caught:
            await app.operations.register(wanted)
        assert says in faults_of(caught.value)


async def test_W35_a_call_back_that_cannot_do_what_was_meant_is_remarked(tmp_path: Path) -> None:
    """A body that is not what its type says; an operation that has ended."""
    async with opened(tmp_path) as app:
        found = await app.operations.register(Wanted("acme", "job-1", base=BASE))
        operation = found.record.operation
        ask = app.operations.push_doubts
        assert not await ask(operation.id, b'{"status": "done"}') and not await ask(operation.id)
        assert not await ask(operation.id, b"done", "text/plain")
        (doubt,) = await ask(operation.id, b"{done", "application/json; charset=utf-8")
        assert "is not JSON" in doubt
        ended = replace(operation, state=OperationState.SUCCEEDED)
        assert "has ended (succeeded): nothing is looked at" in doubts_of(ended, b"", "application/json")[0]
