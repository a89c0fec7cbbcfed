"""The places that came with calls, hand-overs, carriers and kept results: each takes one text of the corpus as far as it goes."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from sereno.app.keeping import build_artifacts
from sereno.app.parts import Outside
from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.core.artifact import Artifact
from sereno.core.call import CallAnswer, CallKind, CallOutcome, CallState, ProviderCall
from sereno.core.contract import Contract, status_url
from sereno.core.delivery import Outcome
from sereno.core.errors import SetupError
from sereno.core.observation import Asked, HttpReply, NoReply, NoReplyKind, Observation, read_observation
from sereno.core.operation import Operation, read_call
from sereno.core.reading.calls import Via
from sereno.core.reading.templates import CALLER_URL
from sereno.core.values import Json, digest
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.artifacts.s3 import Bucket, S3Artifacts
from sereno.ports import Fetch
from sereno.service.operations import Wanted
from sereno.settings import parse_settings
from tests.core.waiting import make_operation
from tests.security.places import NOW, SHORT, Send, Stage, _registered, delivery, origin_in, own_contract, place

AWS_KEY = "AKIDEXAMPLE:aws-canary-of-the-matrix"
SHIPPED = tuple(sorted(path.stem for path in (Path(__file__).parents[2] / "src/sereno/builtin/contracts").glob("*.toml")))
"""Every contract that ships; a test compares them with the catalogue."""
JOB = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
"""Long enough for every service."""
TRIED = "the address was read, and nobody is asked"
REFUSED = NoReply(NoReplyKind.REFUSED_ADDRESS, "refused while it was read", sent=False)
"""What a refusal before the gate is turned into."""


def call_of(kind: CallKind, given: Json = None) -> ProviderCall:
    """A call that is sent for the first time."""
    return ProviderCall("call_1", kind, f"op_1:{kind}", "sub-1", given, CallState.SENDING, NOW, attempts=1)


def operation_of(contract: Contract, url: str = "", *, kind: CallKind | None = None, **parameters: str) -> Operation:
    """An operation with every parameter of the contract, and a call under way where `kind` says so."""
    known = {name: "us-east-1" if name == "region" else "1" for name in contract.parameters}
    account = "aws" if contract.via is Via.AWS else ""
    call = None if kind is None else call_of(kind, {} if kind is CallKind.SUBMIT else None)
    return make_operation(
        contract=contract.name, url=url, account=account, job_id=JOB, parameters={**known, **parameters}, call=call
    )


async def look(stage: Stage, contract: Contract, operation: Operation) -> object:
    """One look by the carrier of the contract."""
    return await stage.app.kit.plugins.providers[contract.via].look(operation, contract, stage.guarded())


async def sent(stage: Stage, contract: Contract, operation: Operation) -> object:
    """The call under way, sent by the carrier of the contract."""
    assert operation.call is not None
    carrier = stage.app.kit.plugins.providers[Via.HTTP if contract.via is Via.PUSH else contract.via]
    return await carrier.send(operation, contract, operation.call, stage.guarded())


# --- every contract that ships, past the service


@dataclass(frozen=True)
class Based:
    """One call of one shipped contract under a base; `goes` makes it. Raises ValueError for a text that is no base."""

    contract: Contract
    kind: CallKind | None

    async def goes(self, stage: Stage, base: str) -> object:
        """Sends it as the engine would."""
        contract = self.contract
        if self.kind is not None:
            url = base if contract.via is Via.MCP else ""
            return await sent(stage, contract, operation_of(contract, url, kind=self.kind, base=base))
        if contract.via is Via.AWS:
            return await look(stage, contract, operation_of(contract, base=base))
        parameters = {name: "1" for name in contract.parameters}
        own = contract.status.url == CALLER_URL
        url = status_url(contract, job_id=base if own else JOB, parameters=parameters, base=None if own else base)
        return await look(stage, contract, operation_of(contract, url, base=base))


def based(stage: Stage, kind: CallKind | None) -> Iterator[Based]:
    """That call of every shipped contract that has it."""
    for name in SHIPPED:
        contract = stage.app.contracts.get(name)
        described = {None: contract.via is not Via.PUSH, CallKind.SUBMIT: contract.submit, CallKind.CANCEL: contract.cancel}[kind]
        if described and not contract.takes_states:
            yield Based(contract, kind)


def _every(kind: CallKind | None) -> Send:
    async def send(stage: Stage, url: str) -> object:
        result: object = REFUSED
        for one in based(stage, kind):
            try:
                found = await one.goes(stage, url)
            except ValueError:
                continue
            assert isinstance(found, NoReply) and not found.sent, (one.contract.name, url, found)
            result = found
        return result

    return send


place("every shipped contract: --base of the look", slow=True, times=len(SHIPPED))(_every(None))
place("every shipped contract: --base of the submit", slow=True, times=len(SHIPPED))(_every(CallKind.SUBMIT))
place("every shipped contract: --base of the cancel", slow=True, times=len(SHIPPED))(_every(CallKind.CANCEL))


# --- a contract of the deployment


@place("contract of the deployment: submit.url and its origin")
async def submit_url(stage: Stage, url: str) -> object:
    """Where a job is started; a template is always https."""
    contract = own_contract(stage, origin_in(url.replace("http://", "https://", 1)))
    return await sent(stage, contract, operation_of(contract, kind=CallKind.SUBMIT))


@place("contract of the deployment: cancel.url and its origin")
async def cancel_url(stage: Stage, url: str) -> object:
    """Where a job is cancelled, while the look goes elsewhere."""
    secure = origin_in(url.replace("http://", "https://", 1))
    tables = {"status": {"origins": ["https://h.example", secure]}, "cancel": {"url": secure + "/{job_id}"}}
    contract = own_contract(stage, **tables)  # type: ignore[arg-type]
    return await sent(stage, contract, operation_of(contract, kind=CallKind.CANCEL))


@place("contract of the deployment: the URL of an MCP server")
async def mcp_url(stage: Stage, url: str) -> object:
    """A fixed address of a server."""
    secure = origin_in(url.replace("http://", "https://", 1))
    document = {**stage.app.contracts.document("mcp-task-extension")}
    given = document["status"]
    assert isinstance(given, dict)
    document |= {"contract": "own", "status": {**given, "url": secure + "/mcp", "origins": [secure]}}
    contract = stage.app.kit.plugins.contracts.contract(document)
    return await look(stage, contract, operation_of(contract, contract.status.url))


# --- what a provider answers with


def _poisoned(stage: Stage, url: str, **tables: Json) -> Contract:
    """A contract of the server of the test that lists the evil origin as its own, behind the reading of contracts."""
    contract = own_contract(stage, **tables)
    return replace(contract, origins=(*contract.origins, origin_in(url)))


def _submit(stage: Stage, url: str, **submit: Json) -> Contract:
    """The same, whose submit goes to the server of the test."""
    return _poisoned(stage, url, status={"url": "{base}/{job_id}"}, submit={"url": "{base}/jobs", **submit})


async def _submitted(stage: Stage, contract: Contract, *, based: bool = True) -> object:
    """Submits to the server of the test, and looks where its answer says."""
    base = {"base": stage.server.rstrip("/")} if based else {}
    operation = operation_of(contract, kind=CallKind.SUBMIT, **base)
    reply = await sent(stage, contract, replace(operation, job_id=""))
    assert isinstance(reply, HttpReply) and operation.call is not None, reply
    answer = read_call(contract, operation, operation.call, reply, received_at=NOW)
    if answer.job_id is None or answer.url is None:
        assert isinstance(answer, CallAnswer) and answer.outcome is CallOutcome.UNREADABLE, answer
        return REFUSED
    return await look(stage, contract, replace(operation, url=answer.url, job_id=answer.job_id, parameters=answer.parameters))


@place("answer to a submit: status_url in the body", before=True)
async def answered_body(stage: Stage, url: str) -> object:
    """The address comes as JSON."""
    stage.says = {"id": "1", "place": url}
    return await _submitted(stage, _submit(stage, url, status_url="place"))


@place("answer to a submit: status_url in a header", header=True)
async def answered_header(stage: Stage, url: str) -> object:
    """The address comes as Location."""
    stage.says, stage.heads = {"id": "1"}, {"Location": url}
    return await _submitted(stage, _submit(stage, url, status_url_header="Location"))


def _addressed(stage: Stage, contract: Contract) -> Contract:
    """The contract with the job's id as its status URL, and a submit that goes to the server of the test without a base."""
    assert contract.submit is not None
    call = replace(contract.submit.call, url=stage.server + "jobs")
    return replace(contract, status=replace(contract.status, url=CALLER_URL), submit=replace(contract.submit, call=call))


@place("answer to a submit: the job id is the status URL", before=True)
async def answered_id(stage: Stage, url: str) -> object:
    """For contracts whose job id is the address."""
    stage.says = {"id": url}
    return await _submitted(stage, _addressed(stage, _submit(stage, url)), based=False)


@place("answer to a submit: Location is the job id and the status URL", header=True)
async def answered_location(stage: Stage, url: str) -> object:
    """As generic-202 has it."""
    stage.says, stage.heads = {}, {"Location": url}
    document: dict[str, Json] = {**own_contract(stage).document}
    document["submit"] = {"url": "{base}/jobs", "effects": "starts", "job_id_header": "Location"}
    contract = replace(stage.app.kit.plugins.contracts.contract(document), origins=(origin_in(url),))
    return await _submitted(stage, _addressed(stage, contract), based=False)


@place("answer to a submit: a parameter of the status call", before=True, never=True)
async def answered_parameter(stage: Stage, url: str) -> object:
    """A value that the answer names stays one piece of the path."""
    stage.says = {"id": "1", "shard": url}
    tables: dict[str, Json] = {
        "status": {"url": "{base}/{shard}/{job_id}", "parameters": ["shard"]},
        "submit": {"url": "{base}/jobs", "parameters": {"shard": "shard"}},
    }
    return await _submitted(stage, _poisoned(stage, url, **tables))


def _handover(where: str, template: str | None) -> Send:
    async def send(stage: Stage, url: str) -> object:
        moved: dict[str, Json] = {"header": "Location"} if where == "header" else {"path": "next"}
        contract = _poisoned(stage, url, handover=[{**moved, **({"url": template} if template else {})}])
        stage.says, stage.heads = {"status": "running", "next": url}, ({"Location": url} if where == "header" else {})
        operation = operation_of(contract, stage.server + "1", base=stage.server.rstrip("/"))
        reply = await look(stage, contract, operation)
        assert isinstance(reply, HttpReply)
        asked = Asked("1", NOW, url=operation.url, parameters=operation.parameters)
        seen = read_observation(contract, asked, reply, received_at=NOW)
        if seen.next_url is None:
            assert isinstance(seen, Observation)
            return REFUSED
        return await look(stage, contract, replace(operation, url=seen.next_url))

    return send


place("hand-over: the address in the body", before=True)(_handover("body", None))
place("hand-over: the address in a header", header=True)(_handover("header", None))
place("hand-over: a value in a template", before=True, never=True)(_handover("body", "{base}/b/{value}/api"))
place("hand-over: several pieces in a template", before=True, never=True)(_handover("body", "{base}/{value*}"))


def _moved(contract: str, kind: CallKind | None, status: str = "307 Temporary Redirect") -> Send:
    async def send(stage: Stage, url: str) -> object:
        stage.location, stage.says = url, None
        stage.status = status
        found = own_contract(stage) if contract == "own" else stage.app.contracts.get(contract)
        if contract == "own":
            calls = {"submit": {"url": "{base}/jobs"}, "cancel": {"url": "{base}/{job_id}/c"}}
            found = own_contract(stage, status={"url": "{base}/{job_id}"}, **calls)  # type: ignore[arg-type]
        server = stage.server.rstrip("/")
        operation = operation_of(found, server, kind=kind, base=server)
        reply = await (look(stage, found, operation) if kind is None else sent(stage, found, operation))
        # Unfollowed, the redirect itself is what comes back.
        refused = isinstance(reply, NoReply) or (isinstance(reply, HttpReply) and reply.status in (302, 307))
        assert refused, reply
        return REFUSED

    return send


place("submit: Location of a redirect", header=True, never=True)(_moved("own", CallKind.SUBMIT))
place("cancel: Location of a redirect", header=True, never=True)(_moved("own", CallKind.CANCEL))
place("MCP look: Location of a redirect", header=True, never=True)(_moved("mcp-task-extension", None))
place("MCP session: Location of a redirect", header=True, never=True)(_moved("mcp-task", None, "302 Found"))
place("AWS look: Location of a redirect", header=True, never=True)(_moved("aws-batch", None))


@place("MCP session: the id that the server gives", header=True, never=True)
async def mcp_session(stage: Stage, url: str) -> object:
    """It goes back to its server as a header and nowhere else."""
    stage.says = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25"}}
    stage.heads = {"Mcp-Session-Id": url}
    contract = stage.app.contracts.get("mcp-task")
    await look(stage, contract, operation_of(contract, stage.server, session="new"))
    await look(stage, contract, operation_of(contract, stage.server, session=url))
    return REFUSED


# --- AWS


@place("AWS: --base through the service", slow=True)
async def aws_base(stage: Stage, url: str) -> object:
    """The endpoint of a test server."""
    parameters = {"region": "us-east-1"}
    return await _registered(stage, Wanted("aws-batch", stage.name(), base=url, parameters=parameters, account="aws"))


@place("AWS: the region through the service", never=True)
async def aws_region(stage: Stage, url: str) -> object:
    """A region is a name that botocore knows, or nothing."""
    return await _registered(stage, Wanted("aws-batch", "1", parameters={"region": url}, account="aws"))


@place("AWS: the region of a stored operation", never=True)
async def aws_region_stored(stage: Stage, url: str) -> object:
    """A row that was never checked."""
    contract = stage.app.contracts.get("aws-batch")
    return await look(stage, contract, operation_of(contract, region=url))


@place("AWS: the input of a submit", never=True)
async def aws_input(stage: Stage, url: str) -> object:
    """Texts that botocore puts into hosts and paths: bucket, account, endpoint."""
    contract = stage.app.contracts.get("aws-batch")
    for service, name, given in (
        ("s3", "HeadObject", {"Bucket": url, "Key": url}),
        ("s3control", "DescribeJob", {"AccountId": url, "JobId": url}),
        ("events", "PutEvents", {"Entries": [], "EndpointId": url}),
        ("lambda", "GetFunction", {"FunctionName": url}),
    ):
        status = replace(contract.status, service=service, operation=name, body=given)  # type: ignore[arg-type]
        other = replace(contract, status=status)
        found = await look(stage, other, operation_of(other))
        assert isinstance(found, NoReply) and not found.sent, (service, url, found)
    return REFUSED


# --- results


def _keeps(source: str, **more: Json) -> Send:
    async def send(stage: Stage, url: str) -> object:
        path = str(more.get("path", "place"))
        stage.says, stage.location = {"status": "done", path: url}, url
        if source == "moved":
            stage.says = {"status": "done", path: stage.server + "moved"}
        keep: dict[str, Json] = {"from": "call" if source == "call" else "url", "path": path, "credential": True, **more}
        contract = _poisoned(stage, url, result={"keep": keep})
        if source == "base":
            contract = own_contract(stage, result={"keep": {"from": "call", "url": "{base}/{job_id}/out"}})
        done = await _kept(stage, contract, url if source == "base" else stage.server.rstrip("/"))
        if source == "call" and done.receipt is not None:  # the server of the test was asked for it, and nobody else
            assert all(row["from"].startswith(stage.server) for row in json.loads(done.receipt)), done
            return REFUSED
        return done

    return send


async def _kept(stage: Stage, contract: Contract, base: str) -> Outcome:
    """Copies as the action does; the status comes from the server of the test."""

    async def pinned(_: str) -> Contract:
        return contract

    action = KeepResultAction(stage.app.kit.plugins.providers, pinned, FileArtifacts(stage.folder / "kept"), SHORT)
    job: dict[str, Json] = {
        **{"operation": "op_1", "contract_digest": "d" * 64, "account": "", "job_id": "1", "url": stage.server + "1"},
        **{"parameters": {"base": base}, "pins": {}},
    }
    return await action.perform(delivery("keep_result", job), stage.guarded())


place("result: the address that the status answer names", before=True)(_keeps("url"))
place("result: Location of a redirect", header=True)(_keeps("moved"))
place("result: base of its own call", before=True)(_keeps("base"))
place("result: a value in the URL of its own call", before=True, never=True)(_keeps("call", url="{base}/{value*}"))
place("result: a value in a header of its own call", before=True, never=True)(
    _keeps("call", url="{base}/out", headers={"X-Value": "{value}"})
)


def _bucket(text: str) -> Bucket:
    return Bucket(endpoint=text, bucket="b", credential="c")


@place("[artifacts.s3] endpoint, as it is read")
async def s3_settings(stage: Stage, url: str) -> object:
    """The settings, the store that they make, and one object that it writes."""
    text = url.removesuffix("/x")
    quoted = json.dumps(text)
    if any(not " " <= char <= "~" for char in text):
        quoted = '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\u{ord(c):04x}" for c in text) + '"'
    settings = (
        f'[credentials.c]\norigin = {quoted}\nscheme = "AWS4-HMAC-SHA256"\nvalue = {{env = "AWS_CANARY"}}\n'
        f'[egress]\nallow = {[*stage.allow]!r}\n[artifacts.s3]\nendpoint = {quoted}\nbucket = "kept"\ncredential = "c"\n'
    )
    loaded = parse_settings(settings, stage.folder / "other.toml")
    outside = Outside.build(loaded.settings, loaded)
    try:
        store = build_artifacts(loaded, outside.gate)
        assert isinstance(store, S3Artifacts)
        await store.put(Artifact(digest(b"x"), 1, "text/plain"), b"x")
    finally:
        await outside.close()
    return TRIED


@place("[artifacts.s3] endpoint, that nobody read")
async def s3_unread(stage: Stage, url: str) -> object:
    """The store over an endpoint that was never checked; its credential is that of the stage."""
    with tempfile.TemporaryDirectory() as folder:
        bucket = replace(_bucket(url.removesuffix("/x")), credential="aws")
        store = S3Artifacts(stage.app.kit.transport, bucket, FileArtifacts(Path(folder)))
        try:
            await store.put(Artifact(digest(b"x"), 1, "text/plain"), b"x")
        except ValueError:
            return REFUSED
    return TRIED


@place("[artifacts.s3] Location of a redirect", header=True, never=True)
async def s3_moved(stage: Stage, url: str) -> object:
    """A bucket that moves is not followed."""
    stage.location, stage.says, stage.status = url, None, "307 Temporary Redirect"
    fetch = S3Artifacts(stage.app.kit.transport, _bucket(stage.server), FileArtifacts(stage.folder))._fetch("PUT", "0" * 64, {})
    assert isinstance(fetch, Fetch) and fetch.before_hop is None
    reply = await stage.app.kit.transport.fetch(replace(fetch, credential=None, signer=None))
    assert isinstance(reply, HttpReply) and reply.status == 307
    return REFUSED


# --- texts that look like addresses and are none


@place("contract new: --url", never=True)
async def started(stage: Stage, url: str) -> object:
    """A contract is begun from saved answers; nobody is asked."""
    try:
        stage.app.contracts.start("own", via=Via.HTTP, url=url, answers=[])
    except SetupError:
        return REFUSED
    return REFUSED


@place("result.ref: what the answer says of its place", before=True, never=True)
async def referred(stage: Stage, url: str) -> object:
    """It is recorded, and nobody goes there."""
    stage.says, stage.heads = {"status": "done", "output": url}, {}
    contract = _poisoned(stage, url, result={"ref": "output"})
    await look(stage, contract, operation_of(contract, stage.server + "1"))
    return REFUSED
