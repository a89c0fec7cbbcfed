"""Credentials stay at the origin they are bound to, wherever a provider, a contract or a redirect points a request (W15, W25)."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sereno.app import open_app
from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.core.artifact import Artifact
from sereno.core.call import CallKind
from sereno.core.contract import Contract
from sereno.core.delivery import Outcome, OutcomeKind
from sereno.core.errors import Unavailable
from sereno.core.observation import Asked, HttpReply, NoReply, NoReplyKind, Reply, read_observation
from sereno.core.operation import Operation, read_call
from sereno.core.reading.templates import CALLER_URL
from sereno.core.values import Json, digest
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.artifacts.s3 import Bucket, S3Artifacts
from sereno.settings import parse_settings
from tests.outside.rawserver import RawServer, ok
from tests.outside.test_redaction import leaks
from tests.security.places import NOW, SHORT, Stage, delivery, own_contract
from tests.security.places_calls import look, operation_of, sent

SECRET = "cnry-origin-0123456789"
AWS = "AKIDEXAMPLE:cnry-aws-0123456789"
INPUT = "cnry-input-of-the-job"


@dataclass
class Two:
    """The app, the server that the credential is bound to (`stage.server`), and another one that must never see it."""

    stage: Stage
    home: RawServer
    away: RawServer
    pages: dict[str, bytes] = field(default_factory=dict)
    """What the home server says, by path; else it redirects to the other with `status`."""

    def own(self, **tables: Json) -> Contract:
        """A contract of both servers, behind the reading of contracts, which wants https."""
        contract = own_contract(self.stage, status={"url": "{base}/{job_id}"}, **tables)
        return replace(contract, origins=(self.home.url, self.away.url))

    def operation(self, contract: Contract, url: str = "", kind: CallKind | None = None) -> Operation:
        """An operation at home, with the credential."""
        made = operation_of(contract, url, kind=kind, base=self.home.url)
        call = made.call and replace(made.call, input={"text": INPUT} if kind is CallKind.SUBMIT else None)
        return replace(made, account="aws" if contract.via == "aws" else "account", call=call)

    def say(self, path: str, body: Json, **heads: str) -> None:
        """Lets the home server answer."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in heads.items()).encode()
        self.pages[path] = ok(json.dumps(body).encode(), headers=b"Content-Type: application/json\r\n" + lines)


@asynccontextmanager
async def two(folder: Path, monkeypatch: pytest.MonkeyPatch, status: bytes = b"307 Temporary Redirect") -> AsyncIterator[Two]:
    """Both servers are open in the settings; the credentials belong to the first."""
    monkeypatch.setenv("ORIGIN_CANARY", SECRET)
    monkeypatch.setenv("ORIGIN_AWS", AWS)
    found: Two | None = None

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        assert found is not None
        page = found.pages.get(request.split(b" ")[1].decode())
        moved = f"Location: {found.away.url}/moved\r\n".encode()
        writer.write(page or ok(b"", headers=moved, status=status))

    async with RawServer(answer) as home, RawServer(ok(b"{}", headers=b"Content-Type: application/json\r\n")) as away:
        text = f'[egress]\nallow = ["127.0.0.1:{home.port}", "127.0.0.1:{away.port}"]\n'
        text += f'[credentials.account]\norigin = "{home.url}"\nvalue = {{env = "ORIGIN_CANARY"}}\n'
        text += f'[credentials.aws]\norigin = "{home.url}"\nscheme = "AWS4-HMAC-SHA256"\nvalue = {{env = "ORIGIN_AWS"}}\n'
        async with open_app(parse_settings(text, folder / "sereno.toml"), origin="cli") as app:
            found = Two(Stage(app, home.url + "/", folder, ()), home, away)
            yield found


def refused(reply: object) -> bool:
    """True where the request was stopped because its credential does not belong there."""
    return isinstance(reply, NoReply) and reply.kind is NoReplyKind.NO_CREDENTIAL and not reply.sent


Scenario = Callable[[Two], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}
ASKED_WITHOUT = ("look: redirect that is followed", "result: the address is elsewhere", "result: redirect elsewhere")
"""Scenarios in which the other server is asked, without the credential; in all others it is not asked at all."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Registers one."""

    def register(found: Scenario) -> Scenario:
        SCENARIOS[name] = found
        return found

    return register


async def _handed_over(two: Two, moved: dict[str, Json], **heads: str) -> None:
    contract = two.own(handover=[moved])
    first = two.operation(contract, two.home.url + "/1")
    two.say("/1", {"status": "running", "next": two.away.url + "/2"}, **heads)
    reply = await look(two.stage, contract, first)
    assert isinstance(reply, HttpReply)
    seen = read_observation(
        contract, Asked(first.job_id, NOW, url=first.url, parameters=first.parameters), reply, received_at=NOW
    )
    assert seen.next_url == two.away.url + "/2"
    assert refused(await look(two.stage, contract, replace(first, url=seen.next_url)))


@scenario("hand-over: address in the body")
async def handed_body(two: Two) -> None:
    """The contract lists both origins; the credential belongs to one."""
    await _handed_over(two, {"path": "next"})


@scenario("hand-over: address in a header")
async def handed_header(two: Two) -> None:
    """The same by a header."""
    await _handed_over(two, {"header": "Location"}, Location=two.away.url + "/2")


@scenario("hand-over: an origin that the contract does not list")
async def handed_strange(two: Two) -> None:
    """It is refused while it is read, and the wait asks a person."""
    contract = replace(two.own(handover=[{"path": "next"}]), origins=(two.home.url,))
    two.say("/1", {"status": "running", "next": two.away.url + "/2"})
    reply = await look(two.stage, contract, two.operation(contract, two.home.url + "/1"))
    assert isinstance(reply, HttpReply)
    seen = read_observation(contract, Asked("1", NOW, url=two.home.url + "/1"), reply, received_at=NOW)
    assert seen.next_url is None and "another origin" in seen.reason


async def _submitted(two: Two, contract: Contract, body: Json, **heads: str) -> None:
    two.say("/jobs", body, **heads)
    operation = two.operation(contract, kind=CallKind.SUBMIT)
    reply = await sent(two.stage, contract, operation)
    assert isinstance(reply, HttpReply) and operation.call is not None
    answer = read_call(contract, operation, operation.call, reply, received_at=NOW)
    assert answer.url == two.away.url + "/2", answer
    moved = replace(operation, url=answer.url, call=None)
    assert refused(await look(two.stage, contract, moved))
    cancelled = replace(moved, call=two.operation(contract, kind=CallKind.CANCEL).call, parameters={"base": two.away.url})
    assert refused(await sent(two.stage, contract, cancelled))


@scenario("answer to a submit: status_url in the body")
async def answered_body(two: Two) -> None:
    """Neither the look nor the cancel goes there."""
    submit: dict[str, Json] = {"url": "{base}/jobs", "status_url": "place"}
    await _submitted(two, two.own(submit=submit), {"id": "1", "place": two.away.url + "/2"})


@scenario("answer to a submit: Location")
async def answered_header(two: Two) -> None:
    """The same by a header."""
    submit: dict[str, Json] = {"url": "{base}/jobs", "status_url_header": "Location"}
    await _submitted(two, two.own(submit=submit), {"id": "1"}, Location=two.away.url + "/2")


@scenario("answer to a submit: the id is the address")
async def answered_id(two: Two) -> None:
    """The same as the job's id."""
    contract = two.own(submit={"url": "{base}/jobs"})
    contract = replace(contract, status=replace(contract.status, url=CALLER_URL))
    two.say("/jobs", {"id": two.away.url + "/2"})
    operation = replace(two.operation(contract, kind=CallKind.SUBMIT), parameters={"base": two.home.url})
    reply = await sent(two.stage, contract, operation)
    assert isinstance(reply, HttpReply) and operation.call is not None
    answer = read_call(contract, operation, operation.call, reply, received_at=NOW)
    assert answer.job_id is None and "another origin" in answer.reason, answer


@scenario("submit: redirect")
async def moved_submit(two: Two) -> None:
    """Not followed: neither credential nor input arrives elsewhere."""
    contract = two.own(submit={"url": "{base}/jobs"})
    reply = await sent(two.stage, contract, two.operation(contract, kind=CallKind.SUBMIT))
    assert isinstance(reply, HttpReply) and reply.status in (302, 303, 307, 308)


@scenario("cancel: redirect")
async def moved_cancel(two: Two) -> None:
    """Not followed."""
    contract = two.own(cancel={"url": "{base}/{job_id}/cancel"})
    reply = await sent(two.stage, contract, two.operation(contract, kind=CallKind.CANCEL))
    assert isinstance(reply, HttpReply) and reply.status in (302, 303, 307, 308)


@scenario("look: redirect that is followed")
async def moved_look(two: Two) -> None:
    """A contract that follows redirects to an origin of its own leaves the credential behind."""
    contract = replace(two.own(), redirects=True)
    reply = await look(two.stage, contract, two.operation(contract, two.home.url + "/1"))
    assert isinstance(reply, HttpReply) and reply.hops == 2


@scenario("look: the stored address is elsewhere")
async def stored(two: Two) -> None:
    """A row that was edited."""
    contract = two.own()
    assert refused(await look(two.stage, contract, two.operation(contract, two.away.url + "/1")))


@scenario("submit: the base is elsewhere")
async def based(two: Two) -> None:
    """The account of one service at the address of another."""
    contract = two.own(submit={"url": "{base}/jobs"})
    operation = replace(two.operation(contract, kind=CallKind.SUBMIT), parameters={"base": two.away.url})
    assert refused(await sent(two.stage, contract, operation))
    two.say("/jobs", {"id": "1"})
    await sent(two.stage, contract, two.operation(contract, kind=CallKind.SUBMIT))


async def _kept(two: Two, keep: Json, place: str, base: str | None = None) -> Outcome:
    contract = two.own(result={"keep": keep})
    two.say("/1", {"status": "done", "place": place})

    async def pinned(_: str) -> Contract:
        return contract

    action = KeepResultAction(two.stage.app.kit.plugins.providers, pinned, FileArtifacts(two.stage.folder / "kept"), SHORT)
    job: dict[str, Json] = {
        **{"operation": "op_1", "contract_digest": "d" * 64, "account": "account", "job_id": "1", "url": two.home.url + "/1"},
        **{"parameters": {"base": base or two.home.url}, "pins": {}},
    }
    return await action.perform(delivery("keep_result", job), two.stage.guarded())


@scenario("result: the address is elsewhere")
async def kept_elsewhere(two: Two) -> None:
    """An address at another origin of the provider is asked without a credential, as signed addresses are."""
    done = await _kept(two, {"from": "url", "path": "place"}, two.away.url + "/2?sig=short-lived")
    assert done.kind is OutcomeKind.DONE and "short-lived" not in repr(done)


@scenario("result: the address is elsewhere, and the contract wants the credential")
async def kept_with_credential(two: Two) -> None:
    """The contract lists that origin, the credential is not bound to it: nobody is asked."""
    done = await _kept(two, {"from": "url", "path": "place", "credential": True}, two.away.url + "/2")
    assert done.kind is OutcomeKind.REFUSED and "credential" in done.message


@scenario("result: its own call elsewhere, with the credential")
async def kept_call(two: Two) -> None:
    """The base leads elsewhere."""
    keep: dict[str, Json] = {"from": "call", "url": "{base}/{job_id}/out", "credential": True}
    done = await _kept(two, keep, "x", base=two.away.url)
    assert done.kind is OutcomeKind.REFUSED and "credential" in done.message


@scenario("result: redirect elsewhere")
async def kept_moved(two: Two) -> None:
    """A download that moves on leaves the credential behind."""
    done = await _kept(two, {"from": "url", "path": "place", "credential": True}, two.home.url + "/moving")
    assert done.kind is OutcomeKind.DONE


@pytest.mark.parametrize("name", ["mcp-task", "mcp-task-extension"])
async def test_W25_an_mcp_server_that_moves_takes_nothing_along(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither credential nor session nor the tool's arguments reach where a redirect points, in a look, a submit or a cancel."""
    async with two(tmp_path, monkeypatch) as found:
        contract = found.stage.app.contracts.get(name)
        for kind in (None, CallKind.SUBMIT, CallKind.CANCEL):
            operation = replace(found.operation(contract, found.home.url + "/", kind=kind), parameters={"session": "s-1"})
            call = operation.call and replace(
                operation.call, input={"name": "t", "arguments": {"text": INPUT}} if kind == "submit" else None
            )
            await (look if kind is None else sent)(found.stage, contract, replace(operation, call=call))
            away = replace(operation, url=found.away.url + "/", call=call)
            assert refused(await (look if kind is None else sent)(found.stage, contract, away))
        assert SECRET.encode() in b"".join(found.home.requests) and found.away.requests == []


async def test_W25_aws_signatures_stay_at_their_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint elsewhere and a redirect get no signed request; the secret key itself goes nowhere at all."""
    async with two(tmp_path, monkeypatch) as found:
        contract = found.stage.app.contracts.get("aws-batch")
        for kind in (None, CallKind.CANCEL):
            operation = found.operation(contract, kind=kind)
            await (look if kind is None else sent)(found.stage, contract, operation)
            away = replace(operation, parameters={**operation.parameters, "base": found.away.url})
            assert refused(await (look if kind is None else sent)(found.stage, contract, away))
        home = b"".join(found.home.requests)
        assert len(found.home.requests) == 2 and b"AKIDEXAMPLE/" in home and not leaks(home.decode("latin-1"), AWS.split(":")[1])
        assert found.away.requests == []


async def test_W25_a_bucket_elsewhere_gets_no_signed_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another endpoint, and a redirect of the endpoint: no request, no content."""
    async with two(tmp_path, monkeypatch) as found:
        for server in (found.home, found.away):
            bucket = Bucket(endpoint=server.url, bucket="b", credential="aws")
            store = S3Artifacts(found.stage.app.kit.transport, bucket, FileArtifacts(tmp_path / "spool"))
            with pytest.raises(Unavailable) as caught:
                await store.put(Artifact(digest(b"x"), 1, "text/plain"), b"x")
            assert not leaks(str(caught.value), AWS.split(":")[1])
            with pytest.raises(Unavailable):
                [piece async for piece in store.read(digest(b"x"))]
        assert len(found.home.requests) == 2 and found.away.requests == []
        assert not leaks(b"".join(found.home.requests).decode("latin-1"), AWS.split(":")[1])


@pytest.mark.parametrize("name", SCENARIOS)
async def test_W25_a_credential_stays_at_its_origin(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server it is bound to gets it; the other gets no request, or one without credential, input and signed address of the first
    (incident 26)."""
    async with two(tmp_path, monkeypatch) as found:
        await SCENARIOS[name](found)
        away = b"".join(found.away.requests).decode("latin-1")
        assert not leaks(away, SECRET) and INPUT not in away and "authorization" not in away.lower(), away
        assert bool(away) == (name in ASKED_WITHOUT), away
        if name != "look: the stored address is elsewhere":
            assert SECRET.encode() in b"".join(found.home.requests)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]
)
@pytest.mark.parametrize("name", ["submit: redirect", "cancel: redirect"])
async def test_W24_no_kind_of_redirect_sends_a_call_again(
    name: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each status that redirects: one request at home, none elsewhere."""
    async with two(tmp_path, monkeypatch, status.encode()) as found:
        contract = found.own(submit={"url": "{base}/jobs"}, cancel={"url": "{base}/{job_id}/cancel"})
        kind = CallKind.SUBMIT if name.startswith("submit") else CallKind.CANCEL
        reply: Reply | object = await sent(found.stage, contract, found.operation(contract, kind=kind))
        assert isinstance(reply, HttpReply) and reply.status == int(status[:3])
        assert len(found.home.requests) == 1 and found.away.requests == []
