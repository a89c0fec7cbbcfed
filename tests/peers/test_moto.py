"""Jobs at AWS services that moto plays, through the whole program: submit, wait, result, cancel."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.session import Session
from moto.core.config import default_user_config
from moto.moto_api import state_manager
from moto.server import ThreadedMotoServer

from sereno.core.errors import SetupError
from sereno.core.operation import OperationState
from tests.peers.serving import HERE, opened, submitted, waited

pytestmark = pytest.mark.full

SECRET = "AKIDCANARY0000000001:canary/Secret+0123456789abcdefghijklmnop"
REGION = {"region": "eu-west-1"}
MODELS = {"athena::execution": 2, "stepfunctions::execution": 2, "transcribe::transcriptionjob": 1}
"""How many looks each state of a service lasts."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an AWS that runs here; jobs go on for some looks, and a batch job needs no container."""
    kept, default_user_config["batch"] = default_user_config["batch"], {"use_docker": False}
    for model, times in MODELS.items():
        state_manager.set_transition(model, {"progression": "manual", "times": times})
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()
    default_user_config["batch"] = kept
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


def prepared(port: int) -> dict[str, dict[str, Any]]:
    """What each service needs before a job can be started, and what the job is given."""

    def boto(name: str) -> Any:
        place = f"http://127.0.0.1:{port}"
        return Session().create_client(
            name, REGION["region"], endpoint_url=place, aws_access_key_id="x", aws_secret_access_key="xxxxxx"
        )

    role = boto("iam").create_role(RoleName="peer", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    batch, states = boto("batch"), json.dumps({"StartAt": "a", "States": {"a": {"Type": "Succeed"}}})
    place = batch.create_compute_environment(computeEnvironmentName="place", type="UNMANAGED", state="ENABLED", serviceRole=role)
    order = [{"order": 1, "computeEnvironment": place["computeEnvironmentArn"]}]
    queue = batch.create_job_queue(jobQueueName="queue", priority=1, state="ENABLED", computeEnvironmentOrder=order)
    container = {"image": "busybox", "vcpus": 1, "memory": 4}
    task = batch.register_job_definition(jobDefinitionName="task", type="container", containerProperties=container)
    machine = boto("stepfunctions").create_state_machine(name="peer", definition=states, roleArn=role)
    return {
        "aws-batch": {"jobName": "one", "jobQueue": queue["jobQueueArn"], "jobDefinition": task["jobDefinitionArn"]},
        "aws-step-functions": {"stateMachineArn": machine["stateMachineArn"]},
        "aws-transcribe": {"LanguageCode": "en-US", "Media": {"MediaFileUri": "s3://b/a.mp3"}},
    }


async def test_W31_jobs_of_three_more_services(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch ends at once, a transcription goes through its states, an execution that never ends is stopped."""
    monkeypatch.setenv("PEER_AWS", SECRET)
    terms = {"base": f"http://127.0.0.1:{port}", "parameters": REGION, "account": "aws"}
    async with opened(tmp_path, port, more=aws(port)) as app:
        ids = {name: await submitted(app, name, given, **terms) for name, given in prepared(port).items()}
        for name in ids:
            await _until_started(app, ids[name])
        await app.operations.cancel(ids["aws-step-functions"])
        found = {name: await waited(app, operation) for name, operation in ids.items()}
    assert {name: (one.state, one.last_state) for name, one in found.items()} == {
        "aws-batch": (OperationState.SUCCEEDED, "SUCCEEDED"),
        "aws-step-functions": (OperationState.CANCELLED, "ABORTED"),
        "aws-transcribe": (OperationState.SUCCEEDED, "COMPLETED"),
    }


async def _until_started(app: Any, operation: str) -> None:
    """Drives one round: what is due now, which is the submit."""
    await app.once()
    found = (await app.operations.get(operation)).operation
    assert found.state is OperationState.WAITING and found.job_id


def _no_secret(folder: Path) -> None:
    """Neither database nor journal holds the key."""
    whole = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    assert b"canary" not in whole


@pytest.mark.parametrize(
    ("contract", "parameters", "says"),
    [
        ("aws-athena", {"region": "eu-wst-1"}, "did you mean 'eu-west-1'?"),
        ("misspelt", {"region": "eu-west-1"}, "did you mean 'DescribeJobs'?"),
    ],
)
async def test_what_botocore_does_not_know_is_refused_at_once(
    tmp_path: Path, contract: str, parameters: dict[str, str], says: str
) -> None:
    """Nothing is stored that could never be sent."""
    text = (HERE.parents[1] / "src/sereno/builtin/contracts/aws-batch.toml").read_text()
    misspelt = text.replace('contract = "aws-batch"', 'contract = "misspelt"').replace('"DescribeJobs"', '"DescribeJob"')
    async with opened(tmp_path, 1, contracts={"misspelt": misspelt}) as app:
        with pytest.raises(SetupError) as refused:
            await submitted(app, contract, {}, parameters=parameters, account="")
        assert says in str(refused.value)
        assert await app.operations.list() == []
