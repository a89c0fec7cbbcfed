"""The AWS carrier: against moto on loopback (three protocols), against botocore's own signer, and with secrets that must not show."""

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from botocore.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st
from moto.core.config import default_user_config
from moto.moto_api import state_manager
from moto.server import ThreadedMotoServer

from sereno.builtin.awsservice import service
from sereno.builtin.providers.aws import AwsProvider
from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.sigv4 import SigV4
from sereno.core.call import CallAnswer, CallKind, CallOutcome
from sereno.core.contract import Contract
from sereno.core.observation import (
    HttpReply,
    NoReply,
    NoReplyKind,
    Observation,
    ObservationKind,
    Reply,
    read_observation,
)
from sereno.core.operation import Operation, read_call
from sereno.core.values import Json
from sereno.outside.redaction import Redaction
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.builtin.carrying import NOW, Recording, asked, call, contract, guarded, operation
from tests.outside.rawserver import RawServer, make_gate

REGION = "eu-west-1"
KEY, SECRET, TOKEN = "AKIDCANARY0000000001", "canary/Secret+0123456789abcdefghijklmnop", "canary-token-0123456789/+=="
K = ObservationKind
CATALOGUE = Catalogue()
SCHEME = "AWS4-HMAC-SHA256"


@pytest.fixture(scope="module")
def moto() -> Iterator[int]:
    """The port of an AWS that runs here; its batch jobs need no container."""
    kept, default_user_config["batch"] = default_user_config["batch"], {"use_docker": False}
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()
    default_user_config["batch"] = kept


@pytest.fixture
def steps() -> Iterator[None]:
    """Each state lasts for one look."""
    models = ("athena::execution", "batch::job", "transcribe::transcriptionjob", "stepfunctions::execution")
    for model in models:
        state_manager.set_transition(model, {"progression": "manual", "times": 1})
    yield
    for model in models:
        state_manager.unset_transition(model)


class Account:
    """One AWS account at moto, asked through the carrier."""

    def __init__(self, port: int, made: Contract, *, value: str = f"{KEY}:{SECRET}") -> None:
        self.base, self.contract = f"http://127.0.0.1:{port}", made
        self._allow, self._value = f"127.0.0.1:{port}", value

    async def look(self, job: str, **parameters: str) -> Observation:
        """One status step, read through the contract."""
        of = self._operation(job, **parameters)
        return read_observation(self.contract, asked(of), await self.ask(of), received_at=NOW)

    async def ask(self, of: Operation) -> Reply:
        """What the carrier brings back."""
        gate = make_gate(self._allow, credentials=self._credentials(), environment={"AWS": self._value})
        try:
            return await AwsProvider().look(of, self.contract, guarded(gate))
        finally:
            await gate.close()

    async def send(self, kind: CallKind, given: Json = None, job: str = "") -> CallAnswer:
        """A submit or cancel, read through the contract."""
        of, sent = self._operation(job), call(kind, given, key="key-1")
        gate = make_gate(self._allow, credentials=self._credentials(), environment={"AWS": self._value})
        try:
            reply = await AwsProvider().send(of, self.contract, sent, guarded(gate))
        finally:
            await gate.close()
        return read_call(self.contract, of, sent, reply, received_at=NOW)

    def _operation(self, job: str, **parameters: str) -> Operation:
        return operation("", account="aws", job_id=job, **{"region": REGION, "base": self.base, **parameters})

    def _credentials(self) -> dict[str, CredentialConfig]:
        return {"aws": CredentialConfig(self.base, SecretPlace(env="AWS"), scheme=SCHEME)}


def shipped(name: str) -> Contract:
    """A contract of the catalogue."""
    return CATALOGUE.contract(CATALOGUE.document(name))


def boto(name: str, port: int) -> Any:
    """botocore's own client at moto, to set the scene."""
    return Session().create_client(
        name, REGION, endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id="x", aws_secret_access_key="xxxxxx"
    )


async def test_athena_from_submit_to_result(moto: int, steps: None) -> None:
    """JSON over POST with a target header."""
    athena = Account(moto, shipped("aws-athena"))
    answer = await athena.send(
        CallKind.SUBMIT, {"QueryString": "SELECT 1", "ResultConfiguration": {"OutputLocation": "s3://b/out/"}}
    )
    assert answer.outcome is CallOutcome.ACCEPTED
    job = answer.job_id or ""
    seen = [await athena.look(job) for _ in range(3)]
    assert [one.state for one in seen] == ["RUNNING", "SUCCEEDED", "SUCCEEDED"]
    assert [one.kind for one in seen] == [K.PENDING, K.SUCCESS, K.SUCCESS]
    assert (seen[-1].result_ref or "").startswith("s3://b/out/")


async def test_athena_cancelled(moto: int, steps: None) -> None:
    """The cancel is its own call; the next look tells."""
    athena = Account(moto, shipped("aws-athena"))
    job = (await athena.send(CallKind.SUBMIT, {"QueryString": "SELECT 1"})).job_id or ""
    assert (await athena.send(CallKind.CANCEL, job=job)).outcome is CallOutcome.ACCEPTED
    assert (await athena.look(job)).kind is K.CANCELLED


async def test_an_aws_error_is_read_as_its_code(moto: int) -> None:
    """An unknown execution: HTTP 400 with `Error.Code`, read by the contract."""
    arn = f"arn:aws:states:{REGION}:123456789012:execution:nope:1"
    seen = await Account(moto, shipped("aws-step-functions")).look(arn)
    assert (seen.http_status, seen.error_code) == (400, "ExecutionDoesNotExist")
    assert seen.kind in (K.NOT_FOUND_YET, K.UNKNOWN_OPERATION)


async def test_transcribe_takes_the_key_as_its_name(moto: int, steps: None) -> None:
    """Instants come back as RFC 3339; the same name again is a duplicate."""
    transcribe = Account(moto, shipped("aws-transcribe"))
    given: Json = {"LanguageCode": "en-US", "Media": {"MediaFileUri": "s3://b/a.mp3"}}
    assert (await transcribe.send(CallKind.SUBMIT, given)).job_id == "key-1"
    seen = [await transcribe.look("key-1") for _ in range(4)]
    assert [one.state for one in seen] == ["QUEUED", "IN_PROGRESS", "COMPLETED", "COMPLETED"]
    assert {kind for one in seen for kind in one.pins.values()} == {next(iter(seen[0].pins.values()))}
    datetime.fromisoformat(next(iter(seen[0].pins.values())))
    again = await transcribe.send(CallKind.SUBMIT, given)
    assert (again.outcome, again.job_id) == (CallOutcome.DUPLICATE, "key-1")


async def test_W21_sagemaker_names_the_job_by_the_request(moto: int) -> None:
    """Its answer has another name for the job than its status call. (moto refuses no second job of one name, as the service does.)"""
    sagemaker = Account(moto, shipped("aws-sagemaker-training"))
    given: Json = {
        "AlgorithmSpecification": {"TrainingImage": "1.dkr.ecr.eu-west-1.amazonaws.com/x:1", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/x",
        "OutputDataConfig": {"S3OutputPath": "s3://b/out/"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
    }
    answer = await sagemaker.send(CallKind.SUBMIT, given)
    assert (answer.outcome, answer.job_id) == (CallOutcome.ACCEPTED, "key-1")
    seen = await sagemaker.look("key-1")
    assert (seen.kind, seen.state) == (K.SUCCESS, "Completed") and (seen.result_ref or "").startswith("s3://b/out/")


async def test_step_functions_from_submit_to_stop(moto: int, steps: None) -> None:
    """A running execution is stopped and ends as cancelled."""
    role, definition = "arn:aws:iam::123456789012:role/x", json.dumps({"StartAt": "a", "States": {"a": {"Type": "Succeed"}}})
    machine = boto("stepfunctions", moto).create_state_machine(name="m1", definition=definition, roleArn=role)["stateMachineArn"]
    functions = Account(moto, shipped("aws-step-functions"))
    answer = await functions.send(CallKind.SUBMIT, {"stateMachineArn": machine})
    assert answer.outcome is CallOutcome.ACCEPTED
    job = answer.job_id or ""
    assert job.endswith(":key-1") and (await functions.look(job)).kind is K.PENDING
    assert (await functions.send(CallKind.CANCEL, job=job)).outcome is CallOutcome.ACCEPTED
    seen = await functions.look(job)
    assert (seen.kind, seen.state) == (K.CANCELLED, "ABORTED")


def job_queue(port: int) -> dict[str, Json]:
    """What a batch job is given: its queue and definition."""
    role = boto("iam", port).create_role(RoleName="batch", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    batch = boto("batch", port)
    place = batch.create_compute_environment(computeEnvironmentName="place", type="UNMANAGED", state="ENABLED", serviceRole=role)
    order = [{"order": 1, "computeEnvironment": place["computeEnvironmentArn"]}]
    queue = batch.create_job_queue(jobQueueName="queue", priority=1, state="ENABLED", computeEnvironmentOrder=order)
    container = {"image": "busybox", "vcpus": 1, "memory": 4}
    definition = batch.register_job_definition(jobDefinitionName="task", type="container", containerProperties=container)
    return {"jobName": "one", "jobQueue": queue["jobQueueArn"], "jobDefinition": definition["jobDefinitionArn"]}


async def test_batch_from_submit_to_result(moto: int) -> None:
    """REST: the operation is in the path, input and answer are JSON."""
    batch = Account(moto, shipped("aws-batch"))
    answer = await batch.send(CallKind.SUBMIT, job_queue(moto))
    assert answer.outcome is CallOutcome.ACCEPTED
    seen = await batch.look(answer.job_id or "")
    assert (seen.kind, seen.state) == (K.SUCCESS, "SUCCEEDED")
    assert (seen.result_ref or "").startswith("arn:aws:batch:")


async def test_batch_speaks_rest_and_has_no_404(moto: int) -> None:
    """REST with JSON: the operation is in the path; a job that is not there is an empty list."""
    seen = await Account(moto, shipped("aws-batch")).look("nope")
    assert (seen.http_status, seen.state) == (200, None)
    assert seen.kind in (K.NOT_FOUND_YET, K.UNKNOWN_OPERATION)


def images(**more: Json) -> Contract:
    """A wait on a machine image, which EC2 answers in XML."""
    return contract(
        {
            "via": "aws",
            "service": "ec2",
            "operation": "DescribeImages",
            "body": {"ImageIds": ["{job_id}"]},
            "parameters": ["region"],
            **more,
        },
        state={"path": "Images[0].State"},
        states={"pending": ["pending"], "success": ["available"], "failure": ["failed"]},
        job={"id": "Images[0].ImageId"},
        error={"code": "Error.Code", "text": "Error.Message"},
    )


async def test_ec2_speaks_query_and_xml(moto: int) -> None:
    """A form goes out, XML comes back; the id of the request stands in the body and is kept as the header others have."""
    ec2 = boto("ec2", moto)
    instance = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    image = ec2.create_image(InstanceId=instance, Name="one")["ImageId"]
    account = Account(moto, images())
    seen = await account.look(image)
    assert (seen.kind, seen.state) == (K.SUCCESS, "available")
    assert seen.provider_request_id
    missing = await account.look("ami-0123456789abcdef0")
    assert (missing.http_status, missing.error_code) == (400, "InvalidAMIID.NotFound")


@pytest.mark.parametrize(
    ("change", "parameters", "says"),
    [
        ({"service": "ec3"}, {}, "knows no service 'ec3'; did you mean 'ecs'?"),
        ({"operation": "DescribeImage"}, {}, "ec2 has no operation 'DescribeImage'"),
        ({"body": {"ImageId": "{job_id}"}}, {}, "ImageId"),
        ({}, {"region": "eu-wst-1"}, "'eu-wst-1' is not an AWS region; did you mean 'eu-west-1'?"),
        ({}, {"region": ""}, "'' is not an AWS region"),
        ({}, {"base": "nowhere"}, "starts with https://host"),
    ],
)
async def test_what_botocore_does_not_know_is_said_and_not_sent(
    change: dict[str, Json], parameters: dict[str, str], says: str
) -> None:
    """A sentence for a person, and the reservation is given back (W33)."""
    transport, made = Recording(), images(**change)
    reply = await AwsProvider().look(operation("", account="aws", **{"region": REGION, **parameters}), made, guarded(transport))
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.REFUSED_ADDRESS, False)
    assert says in reply.message and "\n" not in reply.message
    assert transport.asked == []


async def test_what_botocore_does_not_know_is_told_before_registering() -> None:
    """Service, operation and region, of the submit and cancel too."""
    aws = AwsProvider()
    assert aws.problem(shipped("aws-athena"), {"region": REGION}) is None
    assert "not an AWS region" in (aws.problem(shipped("aws-athena"), {}) or "")
    assert "no operation" in (aws.problem(images(operation="Nope"), {"region": REGION}) or "")
    assert "knows no service" in (aws.problem(images(service="nope"), {"region": REGION}) or "")


@pytest.mark.parametrize("name", [name for name in CATALOGUE.names() if name.startswith("aws-")])
def test_every_shipped_contract_names_what_botocore_knows(name: str) -> None:
    """A misspelt operation would be found by nobody else."""
    assert AwsProvider().problem(shipped(name), {"region": REGION}) is None


async def test_without_an_account_nothing_is_sent() -> None:
    """AWS answers no unsigned request; a person has to name a credential."""
    transport = Recording()
    reply = await AwsProvider().look(operation("", region=REGION), images(), guarded(transport))
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.NO_CREDENTIAL, False)
    assert transport.asked == []


async def test_W25_the_endpoint_is_the_only_place_asked() -> None:
    """Region and service give the address; a credential bound elsewhere is not used there."""
    transport = Recording()
    await AwsProvider().look(operation("", account="aws", region="cn-north-1"), shipped("aws-step-functions"), guarded(transport))
    (request,) = transport.asked
    assert request.url == "https://states.cn-north-1.amazonaws.com.cn/"
    assert list(request.allowed_origins) == ["https://states.cn-north-1.amazonaws.com.cn"]
    assert (request.before_hop, request.credential) == (None, "aws")
    gate = make_gate(
        credentials={"aws": CredentialConfig("https://athena.eu-west-1.amazonaws.com", SecretPlace(env="AWS"), scheme=SCHEME)},
        environment={"AWS": f"{KEY}:{SECRET}"},
    )
    try:
        reply = await gate.fetch(Fetch("https://states.eu-west-1.amazonaws.com/", credential="aws", signer=request.signer))
    finally:
        await gate.close()
    assert isinstance(reply, NoReply) and not reply.sent


@pytest.mark.parametrize("value", [f"{KEY}:{SECRET}", f"{KEY}:{SECRET}:{TOKEN}"])
@pytest.mark.parametrize(
    ("method", "url", "headers", "body"),
    [
        (
            "POST",
            "https://athena.eu-west-1.amazonaws.com/",
            {"X-Amz-Target": "A.B", "Content-Type": "application/x-amz-json-1.1"},
            b"{}",
        ),
        ("GET", "https://x.eu-west-1.amazonaws.com/jobs/a%2Fb%20c/runs/%C3%A4~.-_?b=2&a=1&a=%2F&flag", {}, None),
        ("DELETE", "http://127.0.0.1:8080/a/b/", {"x-spaces": "  two   words "}, None),
        ("GET", "https://x.eu-west-1.amazonaws.com", {}, None),
    ],
)
def test_the_signature_is_the_one_botocore_makes(
    method: str, url: str, headers: dict[str, str], body: bytes | None, value: str
) -> None:
    """An independent implementation of the same rules, over every part of a request."""
    moment = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
    mine = SigV4("athena", REGION, moment)(Fetch(url, method, headers, body), value)
    theirs = AWSRequest(
        method=method, url=url, headers={**headers, "X-Amz-Content-SHA256": mine["X-Amz-Content-SHA256"]}, data=body
    )
    theirs.context["timestamp"] = "20260301T120005Z"
    signer = SigV4Auth(BotoCredentials(*value.split(":")), "athena", REGION)
    signer._modify_request_before_signing(theirs)
    canonical = signer.canonical_request(theirs)
    signer._inject_signature_to_request(theirs, signer.signature(signer.string_to_sign(theirs, canonical), theirs))
    assert mine["Authorization"] == theirs.headers["Authorization"]
    assert mine.get("X-Amz-Security-Token") == theirs.headers.get("X-Amz-Security-Token")


def _reply(body: bytes, kind: str, status: int = 200) -> HttpReply:
    return HttpReply(status, [("content-type", kind)], body, "https://x", NOW - NOW)


@pytest.mark.parametrize(
    ("name", "operation_name", "reply"),
    [
        ("athena", "GetQueryExecution", _reply(b'{"QueryExecution": ' + b"[" * 100_000, "application/x-amz-json-1.1")),
        ("athena", "GetQueryExecution", _reply(b"<html>502</html>", "text/html", 502)),
        (
            "athena",
            "GetQueryExecution",
            _reply(b'{"QueryExecution": {"Status": {"SubmissionDateTime": {}}}}', "application/json"),
        ),
        ("ec2", "DescribeImages", _reply(b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "text/xml")),
        ("ec2", "DescribeImages", _reply(b"<a><b>", "text/xml")),
    ],
)
def test_W37_what_botocore_cannot_parse_stays_as_it_is(name: str, operation_name: str, reply: HttpReply) -> None:
    """The contract says that it cannot be read; nothing raises, however hostile."""
    assert service(name).parse(operation_name, reply) is reply


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("QueryExecution", "Status", "__type", "x")), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(body=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()), status=st.sampled_from((200, 400, 500)))
def test_W37_no_json_answer_makes_the_parser_raise(body: bytes, status: int) -> None:
    """Wrong types, odd errors, plain noise: an answer comes back, and what was parsed is JSON."""
    parsed = service("athena").parse("GetQueryExecution", _reply(body, "application/x-amz-json-1.1", status))
    assert parsed.status == status
    if parsed.content_type == "application/json":
        json.loads(parsed.body)


XML = st.recursive(
    st.text("ab1 &", max_size=6),
    lambda inner: st.tuples(
        st.sampled_from(("imagesSet", "item", "creationDate", "Error", "Errors", "Code")), st.lists(inner, max_size=3)
    ).map(lambda node: f"<{node[0]}>{''.join(node[1])}</{node[0]}>"),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(inner=XML, root=st.sampled_from(("DescribeImagesResponse", "Response", "html")), status=st.sampled_from((200, 400, 500)))
def test_W37_no_xml_answer_makes_the_parser_raise(inner: str, root: str, status: int) -> None:
    """The same for the services that speak XML."""
    parsed = service("ec2").parse("DescribeImages", _reply(f"<{root}>{inner}</{root}>".encode(), "text/xml", status))
    assert parsed.status == status
    if parsed.content_type == "application/json":
        json.loads(parsed.body)


def test_bytes_and_instants_become_json() -> None:
    """Bytes as base64, instants as RFC 3339 in UTC."""
    body = json.dumps({"KeyId": "k", "CiphertextBlob": "AAEC", "Plaintext": "AwQF"}).encode()
    parsed = json.loads(service("kms").parse("GenerateDataKey", _reply(body, "application/x-amz-json-1.1")).body)
    assert parsed == {"KeyId": "k", "CiphertextBlob": "AAEC", "Plaintext": "AwQF"}
    when = json.dumps({"QueryExecution": {"Status": {"SubmissionDateTime": 1772366400.5}}}).encode()
    parsed = json.loads(service("athena").parse("GetQueryExecution", _reply(when, "application/x-amz-json-1.1")).body)
    assert parsed["QueryExecution"]["Status"]["SubmissionDateTime"] == "2026-03-01T12:00:00.500000Z"


async def test_W25_the_secret_is_in_no_reply_error_log_or_repr(caplog: pytest.LogCaptureFixture) -> None:
    """A server that says everything again: the signature goes out, and neither secret nor session token is seen anywhere."""
    caplog.set_level(logging.DEBUG)
    redaction = Redaction()

    async def echo(request: bytes, writer: Any) -> None:
        said = json.dumps({"Message": request.decode("latin-1"), "again": [SECRET, TOKEN], "__type": "Oops"}).encode()
        head = b"HTTP/1.1 400 X\r\nContent-Type: application/x-amz-json-1.1\r\nX-Said: " + SECRET.encode()
        writer.write(head + b"\r\nContent-Length: " + str(len(said)).encode() + b"\r\n\r\n" + said)

    async with RawServer(echo) as server:
        gate = make_gate(
            f"127.0.0.1:{server.port}",
            credentials={"aws": CredentialConfig(server.url, SecretPlace(env="AWS"), scheme=SCHEME)},
            environment={"AWS": f"{KEY}:{SECRET}:{TOKEN}"},
            redaction=redaction,
        )
        of, means = operation("", account="aws", region=REGION, base=server.url), guarded(gate)
        reply = await AwsProvider().look(of, shipped("aws-athena"), means)
        await gate.close()
    (request,) = server.requests
    assert b"x-amz-security-token: " + TOKEN.encode() in request.replace(b"X-Amz-Security-Token", b"x-amz-security-token")
    assert SECRET.encode() not in request
    assert isinstance(reply, HttpReply) and b"[secret]" in reply.body
    shown = "\n".join([repr(reply), repr(of), repr(gate), repr(means), caplog.text, redaction.redact(repr(reply))])
    assert SECRET not in shown and TOKEN not in shown


@pytest.mark.parametrize("value", [f"{KEY}{SECRET}", f"{KEY}:{SECRET}:{TOKEN}:more", f"{KEY}::{TOKEN}", f":{SECRET}"])
async def test_W25_a_key_of_another_form_is_refused_without_showing_it(value: str) -> None:
    """Nothing leaves, and the message names the credential alone."""
    async with RawServer(b"") as server:
        gate = make_gate(
            f"127.0.0.1:{server.port}",
            credentials={"aws": CredentialConfig(server.url, SecretPlace(env="AWS"), scheme=SCHEME)},
            environment={"AWS": value},
        )
        of = operation("", account="aws", region=REGION, base=server.url)
        reply = await AwsProvider().look(of, shipped("aws-athena"), guarded(gate))
        await gate.close()
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.NO_CREDENTIAL, False)
    assert "ACCESS_KEY_ID:SECRET" in reply.message
    assert SECRET not in repr(reply) and TOKEN not in repr(reply)
    assert server.requests == []
