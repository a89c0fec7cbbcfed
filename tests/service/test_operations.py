"""Operations through Python: who may decide, what a submit takes, which credential is taken, limits, and what looking costs."""

import io
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import timedelta
from pathlib import Path

import pytest

import sereno
from sereno.app import Seams, Sereno, open_app
from sereno.core.contract import sent_key
from sereno.core.errors import NotAllowed, NotNow, RequestError, SetupError, TooMuch
from sereno.core.operation import OperationState
from sereno.core.values import to_micros
from sereno.core.work import Principal
from sereno.ports import Clock
from sereno.service.operations import Wanted, WantedSubmit
from sereno.service.waiting.changes import differences
from sereno.settings import parse_settings
from tests.faces.conftest import QuickClock
from tests.faces.provider import CANCEL, CONTRACT, IDEMPOTENT, PUSHED, Provider

BASE = "http://127.0.0.1:8123"
SETTINGS = (
    'contracts = ["contracts"]\n[egress]\nallow = ["127.0.0.1"]\n'
    '[credentials.acme]\norigin = "http://127.0.0.1:8123"\nvalue = { env = "ACME" }\n'
    '[credentials.other]\norigin = "https://other.example"\nvalue = { env = "OTHER" }\n'
)


@asynccontextmanager
async def opened(
    folder: Path, kind: str = "human", contract: str = CONTRACT + IDEMPOTENT + CANCEL, *, clock: Clock | None = None
) -> AsyncIterator[Sereno]:
    """The app in a folder, for a principal of some kind."""
    place = folder / "contracts"
    place.mkdir(exist_ok=True)
    (place / "acme.toml").write_text(contract)
    (place / "caller.toml").write_text(PUSHED)
    loaded = parse_settings(SETTINGS, folder / "sereno.toml")
    seams = Seams() if clock is None else Seams(clock=clock)
    async with open_app(loaded, who=Principal(user="ada", kind=kind), console=io.StringIO(), seams=seams) as app:
        yield app


async def registered(app: Sereno, **more: object) -> str:
    """An open wait."""
    found = await app.operations.register(Wanted("acme", "job-1", base=BASE, **more))  # type: ignore[arg-type]
    return found.record.operation.id


@pytest.mark.parametrize("kind", ["agent", "system"])
async def test_W20_only_a_person_cancels_resubmits_or_changes_the_contract(tmp_path: Path, kind: str) -> None:
    """An agent cannot grant itself what a person decides; the store refuses it, and nothing is queued."""
    async with opened(tmp_path) as app:
        operation = await registered(app)
    edited = (CONTRACT + IDEMPOTENT + CANCEL).replace('"running"', '"running", "rendering"')
    async with opened(tmp_path, kind, edited) as app:
        with pytest.raises(NotAllowed):
            await app.operations.cancel(operation)
        with pytest.raises(NotAllowed):
            await app.operations.update_contract(operation)
        with pytest.raises(NotAllowed):
            await app.operations.resubmit(operation)
        assert await app.operations.calls(operation) == []


def moved(path: str) -> str:
    """The contract with another status address and a wider gap."""
    return CONTRACT.replace("{base}/jobs/{job_id}", path).replace(
        'base = "2s"\nmax = "4s"', 'min_gap = "20s"\nbase = "25s"\nmax = "30s"'
    )


async def test_W20_another_contract_brings_its_address_and_its_gap(tmp_path: Path) -> None:
    """The look follows the new address, never inside the new gap since the last request; the journal says from and to."""
    clock = QuickClock()
    async with opened(tmp_path, contract=CONTRACT, clock=clock) as app:
        operation = await registered(app)
        seen = await app.operations._deps.definitions.now()
    with closing(sqlite3.connect(tmp_path / ".sereno/sereno.db")) as rows, rows:
        rows.execute("UPDATE operation SET last_checked_at = ?", (to_micros(seen),))
    async with opened(tmp_path, contract=moved("{base}/v2/{job_id}"), clock=clock) as app:
        record = await app.operations.update_contract(operation)
        facts = (await app.operations.explain(operation)).entries[-1].facts
        assert record.operation.url == f"{BASE}/v2/job-1"
        assert record.due is not None and record.due == record.operation.next_poll_at == seen + timedelta(seconds=20)
        assert (facts["url_before"], facts["url"]) == (f"{BASE}/jobs/job-1", f"{BASE}/v2/job-1")
        assert (facts["min_gap_us_before"], facts["min_gap_us"]) == (1_000_000, 20_000_000)
        assert (await app.reports.replay(operation)).replay.same


async def test_W20_an_address_that_was_handed_over_stays_with_another_contract(tmp_path: Path) -> None:
    """What the provider named itself is not guessed anew; the gap moves all the same."""
    async with opened(tmp_path, contract=CONTRACT) as app:
        operation = await registered(app)
    with closing(sqlite3.connect(tmp_path / ".sereno/sereno.db")) as rows, rows:
        rows.execute("UPDATE operation SET url = ?", (f"{BASE}/elsewhere",))
    async with opened(tmp_path, contract=moved("{base}/v2/{job_id}")) as app:
        record = await app.operations.update_contract(operation)
        assert record.operation.url == f"{BASE}/elsewhere"
        assert (await app.reports.replay(operation)).replay.same


async def test_W20_another_contract_that_gives_no_address_is_refused(tmp_path: Path) -> None:
    """A parameter that the wait was never given: nothing is written, and the message names it."""
    async with opened(tmp_path, contract=CONTRACT) as app:
        operation = await registered(app)
        before = await app.operations.get(operation)
    edited = moved("{base}/{team}/{job_id}").replace("[status]", '[status]\nparameters = ["team"]', 1)
    async with opened(tmp_path, contract=edited) as app:
        with pytest.raises(NotNow, match="team"):
            await app.operations.update_contract(operation)
        assert await app.operations.get(operation) == before


async def test_W39_a_base_is_one_however_it_is_written(tmp_path: Path) -> None:
    """Case of scheme and host, a default port and a slash at the end make no other job."""
    async with opened(tmp_path, contract=CONTRACT) as app:
        await app.operations.register(Wanted("acme", "job-1", base="http://127.0.0.1"))
        again = await app.operations.register(Wanted("acme", "job-1", base="HTTP://127.0.0.1:80/"))
        assert not again.is_new and again.record.operation.parameters["base"] == "http://127.0.0.1"


async def test_W35_an_agent_hands_in_no_call_back(tmp_path: Path) -> None:
    """The system may, since a webhook face will; an agent may not."""
    async with opened(tmp_path) as app:
        operation = await registered(app)
    async with opened(tmp_path, "agent") as app:
        with pytest.raises(NotAllowed):
            await app.operations.push(operation, b"{}")
    async with opened(tmp_path, "system") as app:
        await app.operations.push(operation, b"{}")


async def test_W31_the_same_key_with_another_input_is_a_contradiction(tmp_path: Path) -> None:
    """Nothing is registered; the first operation stays."""
    async with opened(tmp_path) as app:
        first = await app.operations.submit(WantedSubmit("acme", {"scene": 1}, key="night-7", base=BASE))
        again = await app.operations.submit(WantedSubmit("acme", {"scene": 1}, key="night-7", base=BASE))
        assert (first.is_new, again.is_new) == (True, False)
        assert again.record.operation.id == first.record.operation.id
        with pytest.raises(RequestError, match="another input"):
            await app.operations.submit(WantedSubmit("acme", {"scene": 2}, key="night-7", base=BASE))
        assert len(await app.operations.list()) == 1


async def test_W31_keys_are_new_where_none_is_given(tmp_path: Path) -> None:
    """Two submits without a key are two jobs, each with a key of its own, stored before anything is sent."""
    async with opened(tmp_path) as app:
        found = [await app.operations.submit(sereno.WantedSubmit("acme", {"scene": 1}, base=BASE)) for _ in range(2)]
        keys = [call.call.key for one in found for call in await app.operations.calls(one.record.operation.id)]
        assert len(set(keys)) == 2 and all(key.startswith("sub_") for key in keys)


async def test_W31_a_program_submits_waits_and_reads_the_call(tmp_path: Path) -> None:
    """`submit`, `wait`, `calls`: the whole road from Python."""
    provider = Provider()
    try:
        async with opened(tmp_path, clock=QuickClock()) as app:
            found = await app.operations.submit(sereno.WantedSubmit("acme", {"scene": 1}, base=provider.base))
            assert found.record.operation.state is OperationState.SUBMITTING and provider.books.requests == []
            record = await app.operations.wait(found.record.operation.id)
            assert (record.operation.state, record.operation.job_id) == (OperationState.SUCCEEDED, "job-1")
            (call,) = await app.operations.calls(record.operation.id)
            assert [key for _, _, key in provider.books.sent("POST")] == [call.call.key]
            assert call.call.statement["effects"] == "starts a render; billed by the minute"
            assert call.call.statement["by"] == "ada"
    finally:
        provider.close()


async def test_W31_a_key_that_becomes_the_jobs_name_has_no_underscore(tmp_path: Path) -> None:
    """Few providers allow one in a name."""
    own = IDEMPOTENT.replace('"header"', '"job_id"').replace("Idempotency-Key", "{key}")
    contract = CONTRACT.replace('job_id = "id"\n', "").replace('url = "{base}/jobs"', 'url = "{base}/jobs/{key}"') + own
    async with opened(tmp_path, contract=contract) as app:
        found = await app.operations.submit(WantedSubmit("acme", {}, base=BASE))
        (call,) = await app.operations.calls(found.record.operation.id)
        assert call.call.key.startswith("sub-") and "_" not in call.call.key
    named = CONTRACT + IDEMPOTENT.replace('"Idempotency-Key"', '"Idempotency-Key"\nform = "dashed"')
    (tmp_path / "named").mkdir()
    async with opened(tmp_path / "named", contract=named) as app:
        found = await app.operations.submit(WantedSubmit("acme", {}, base=BASE))
        (call,) = await app.operations.calls(found.record.operation.id)
        submit = app.contracts.get("acme").submit
        assert submit is not None and sent_key(submit.idempotency, call.call.key) == call.call.key, "sent as it is shown"


async def test_W21_an_input_holds_nothing_else_where_the_key_goes(tmp_path: Path) -> None:
    """A name in the manifest would be replaced without a word; the same name as key is one."""
    named = CONTRACT + IDEMPOTENT.replace('"header"', '"body"').replace('"Idempotency-Key"', '"metadata.name"\nform = "dashed"')
    async with opened(tmp_path, contract=named) as app:
        manifest = {"metadata": {"name": "nightly", "labels": {}}}
        with pytest.raises(SetupError, match=r"holds metadata\.name, where the key goes"):
            await app.operations.submit(WantedSubmit("acme", manifest, base=BASE))
        assert (await app.operations.submit(WantedSubmit("acme", manifest, key="nightly", base=BASE))).is_new
        assert (await app.operations.submit(WantedSubmit("acme", {"metadata": "x"}, base=BASE))).is_new


@pytest.mark.parametrize("key", ["", "has space", "x" * 201, "a\nb", "ключ", "-first"])
async def test_a_key_that_could_not_be_sent_is_refused(tmp_path: Path, key: str) -> None:
    """Plain letters, digits and a few marks."""
    async with opened(tmp_path) as app:
        with pytest.raises(SetupError, match=r"submit\.key"):
            await app.operations.submit(WantedSubmit("acme", {}, key=key, base=BASE))


async def test_a_large_input_is_refused(tmp_path: Path) -> None:
    """One megabyte as JSON."""
    async with opened(tmp_path) as app:
        with pytest.raises(TooMuch):
            await app.operations.submit(WantedSubmit("acme", {"text": "x" * 1_000_000}, base=BASE))


@pytest.mark.parametrize(
    ("given", "base", "taken"),
    [(None, BASE, "acme"), ("", BASE, ""), (None, "http://127.0.0.1:10", ""), ("other", BASE, "other")],
)
async def test_the_contracts_credential_is_taken_where_it_fits(tmp_path: Path, given: str | None, base: str, taken: str) -> None:
    """Only where the caller names none, the settings have it, and it is bound to the address."""
    contract = CONTRACT.replace("observational", 'credential = "acme"\nobservational')
    async with opened(tmp_path, contract=contract) as app:
        waited = await app.operations.register(Wanted("acme", "job-1", base=base, account=given))
        submitted = await app.operations.submit(WantedSubmit("acme", {}, base=base, account=given))
        assert [one.record.operation.account for one in (waited, submitted)] == [taken, taken]
        assert waited.record.operation.parameters == {"base": base}


async def test_a_credential_that_the_settings_lack_is_not_demanded(tmp_path: Path) -> None:
    """The contract's usual name is a usual name; it is not there, so none is taken."""
    contract = CONTRACT.replace("observational", 'credential = "absent"\nobservational')
    async with opened(tmp_path, contract=contract) as app:
        found = await app.operations.register(Wanted("acme", "job-1", base=BASE))
        assert found.record.operation.account == ""


async def test_W41_a_deadline_past_the_retention_is_refused_with_the_arithmetic(tmp_path: Path) -> None:
    """Counted from the creation, the result would be gone before the wait ends."""
    expiry = '[expiry]\nretention = "20m"\ncounted_from = "creation"\n[submit]'
    async with opened(tmp_path, contract=CONTRACT.replace("[submit]", expiry)) as app:
        with pytest.raises(SetupError, match="20m"):
            await app.operations.register(Wanted("acme", "job-1", base=BASE, deadline=timedelta(hours=1)))
        with pytest.raises(SetupError, match="20m"):
            await app.operations.submit(WantedSubmit("acme", {}, base=BASE, deadline=timedelta(hours=1)))
        assert await app.operations.list() == []


async def test_W12_a_submit_needs_the_grant_for_its_looks_too(tmp_path: Path) -> None:
    """The looks that follow are the same status requests."""
    contract = "\n".join(line for line in CONTRACT.splitlines() if not line.startswith("observational")) + "\n"
    async with opened(tmp_path, contract=contract) as app:
        with pytest.raises(RequestError, match="no evidence"):
            await app.operations.submit(WantedSubmit("acme", {}, base=BASE))
        granted = await app.operations.submit(WantedSubmit("acme", {}, base=BASE, allow_unproven_status=True))
        assert granted.is_new


async def test_an_address_that_is_not_open_is_refused_before_the_submit_is_stored(tmp_path: Path) -> None:
    """Nothing was registered, nothing is sent."""
    async with opened(tmp_path) as app:
        with pytest.raises(NotAllowed, match="refused"):
            await app.operations.submit(WantedSubmit("acme", {}, base="http://10.0.0.1"))
        assert await app.operations.list() == []


async def test_a_contract_difference_is_plain(tmp_path: Path) -> None:
    """Lists of words are one line; tables in lists are taken apart; what is gone and what is new stand by their place."""
    old = {"a": 1, "rules": [{"word": "x", "checks": 2}], "states": {"pending": ["q"]}}
    new = {"a": 1, "rules": [{"word": "x", "checks": 3}], "states": {"pending": ["q", "r"]}, "b": {}}
    assert differences(old, new) == (
        "- rules[0].checks = 2",
        "+ rules[0].checks = 3",
        '- states.pending = ["q"]',
        '+ states.pending = ["q","r"]',
        "+ b = {}",
    )


async def test_a_contract_change_keeps_the_callers_words(tmp_path: Path) -> None:
    """A generic contract was filled with words at registration: they are no difference."""
    async with opened(tmp_path) as app:
        wanted = Wanted(
            "generic-status",
            f"{BASE}/jobs/1",
            states={"success": ["done"], "pending": ["queued"]},
            state_path="status",
            deadline=timedelta(hours=1),
            max_status_requests=10,
            max_transport_failures=3,
            max_throttles=3,
        )
        found = await app.operations.register(wanted)
        change = await app.operations.contract_change(found.record.operation.id)
        assert change.lines == ()


@pytest.mark.parametrize("content_type", ["", "json", "text/html\r\nx: y", "a/" + "b" * 101])
async def test_a_call_back_has_a_media_type(tmp_path: Path, content_type: str) -> None:
    """What is none is refused before anything is recorded; a charset may follow."""
    async with opened(tmp_path) as app:
        operation = await registered(app)
        with pytest.raises(RequestError, match="media type"):
            await app.operations.push(operation, b"{}", content_type)
        await app.operations.push(operation, b"{}", "application/json; charset=utf-8")
