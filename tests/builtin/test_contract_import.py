"""Waiters of botocore as contracts: every one that it ships, and what each makes of answers, against botocore's own reading."""

import gzip
import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path as File
from random import Random
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.waiter import AcceptorConfig, is_valid_waiter_error
from jmespath.exceptions import JMESPathError

from sereno.builtin.awsservice import service
from sereno.builtin.contracts.waiter_input import NotSayable, named_member
from sereno.builtin.contracts.waiters import Waiter, contract_of, find_waiter, import_waiter
from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.contract import Contract, fill_body
from sereno.core.errors import NotFound, SerenoError, SetupError
from sereno.core.observation import Asked, HttpReply, Observation, ObservationKind, read_observation

CATALOGUE = Catalogue()
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LEAST = 600
DIFFER = {"s3 BucketExists"}
"""Waiters that call a refused request a success; a contract never does."""


def shipped() -> Iterator[tuple[str, str, str]]:
    """Service, API version and name of every waiter that botocore ships, old versions of services too."""
    for file in sorted(File(Loader.BUILTIN_DATA_PATH).glob("*/*/waiters-2.json*")):
        opened = gzip.open(file) if file.suffix == ".gz" else file.open("rb")
        with opened as stream:
            for name in json.load(stream)["waiters"]:
                yield file.parent.parent.name, file.parent.name, name


def contract(waiter: Waiter) -> Contract:
    """The contract of a waiter, read as any contract is."""
    return CATALOGUE.contract(tomllib.loads(contract_of(waiter).text))


def test_every_waiter_of_botocore_becomes_a_contract_that_parses() -> None:
    """All of at least 600; each refusal would be listed with its reason. Differences in meaning are written into the file."""
    refused, differ, count = [], set(), 0
    for named, api, name in shipped():
        count += 1
        try:
            waiter = find_waiter(named, name, api)
            found = contract_of(waiter)
            read = CATALOGUE.contract(tomllib.loads(found.text))
        except SerenoError as error:
            refused.append(f"{named} {api} {name}: {error}")
            continue
        assert read.name == found.name and read.status.service == named
        assert read.limits is not None and read.limits.max_status_requests == waiter.attempts
        assert all(f"# DIFFERS: {differs}." in found.text for differs in found.differs)
        if found.differs:
            differ.add(f"{named} {name}")
    assert refused == []
    assert count >= LEAST
    assert differ == DIFFER


# Of different kinds: one field, several fields, lists of which all or any count, counts, errors, statuses, no error at all.
SAMPLE = (
    "acm CertificateValidated",
    "acm-pca CertificateIssued",
    "appconfig DeploymentComplete",
    "elasticache ReplicationGroupAvailable",
    "cloudformation StackCreateComplete",
    "cloudformation StackDeleteComplete",
    "cloudformation StackExists",
    "cloudfront DistributionDeployed",
    "codedeploy DeploymentSuccessful",
    "dms ReplicationTaskReady",
    "dynamodb TableExists",
    "dynamodb TableNotExists",
    "ec2 InstanceRunning",
    "ec2 ImageAvailable",
    "ec2 SpotInstanceRequestFulfilled",
    "ec2 VpcPeeringConnectionDeleted",
    "ec2 PasswordDataAvailable",
    "ecs ServicesStable",
    "ecs TasksStopped",
    "eks ClusterActive",
    "elb InstanceDeregistered",
    "elbv2 TargetDeregistered",
    "emr ClusterRunning",
    "glacier VaultExists",
    "iam RoleExists",
    "kinesis StreamNotExists",
    "lambda FunctionActiveV2",
    "lambda FunctionExists",
    "mediaconnect FlowActive",
    "medialive ChannelRunning",
    "s3 ObjectExists",
    "rds DBInstanceAvailable",
    "rds DBInstanceDeleted",
    "s3 ObjectNotExists",
    "ses IdentityExists",
    "ssm CommandExecuted",
)
TRIES = 400


def value_of(shape: Any, texts: Sequence[str], rng: Random, depth: int = 0) -> object:
    """A value of a shape; its texts are those that acceptors ask for, the enumeration's own, or strange."""
    match shape.type_name:
        case "structure":
            names = [name for name in shape.members if rng.random() < (0.9 if depth < 3 else 0.5)]
            return {name: value_of(shape.members[name], texts, rng, depth + 1) for name in names} if depth < 7 else {}
        case "list":
            return [value_of(shape.member, texts, rng, depth + 1) for _ in range(rng.choice((0, 1, 1, 2)))] if depth < 7 else []
        case "map":
            return {f"key{n}": value_of(shape.value, texts, rng, depth + 1) for n in range(rng.choice((0, 1, 2)))}
        case "boolean":
            return rng.random() < 0.5
        case "integer" | "long" | "float" | "double":
            return rng.choice((0, 1, 2))
        case "string" if shape.enum:
            wanted = [text for text in texts if text in shape.enum]
            return rng.choice(wanted if wanted and rng.random() < 0.7 else list(shape.enum))
    return rng.choice((*texts, "strange", ""))


def answers(waiter: Waiter, rng: Random) -> Iterator[Mapping[str, Any]]:
    """Parsed responses as botocore has them: good ones of the operation's shape, and errors by the codes that acceptors name."""
    texts = [one["expected"] for one in waiter.acceptors if isinstance(one["expected"], str)]
    codes = [one["expected"] for one in waiter.acceptors if one["matcher"] == "error" and isinstance(one["expected"], str)]
    shape = waiter.operation.output_shape
    for status in (404, 301, 400):
        code = str(status) if status == 404 else "Strange"
        yield {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    for code in codes:
        statuses = [one.metadata.get("error", {}).get("httpStatusCode", 400) for one in waiter.operation.error_shapes
                    if code in (one.error_code, one.name)]  # fmt: skip
        for status in statuses or [400]:
            yield {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    likely = [text for text in texts if text not in codes] or ["strange"]
    for _ in range(TRIES):
        # Most answers are of one mind, as those of one job are: else nothing would ever be true of all in a list.
        some = [rng.choice(likely)] if rng.random() < 0.6 else likely
        body = value_of(shape, some, rng) if shape is not None else {}
        yield {**(body if isinstance(body, dict) else {}), "ResponseMetadata": {"HTTPStatusCode": 200}}


def botocore_says(waiter: Waiter, response: Mapping[str, Any]) -> str:
    """As `botocore.waiter.Waiter.wait` takes it: the first acceptor, else an error fails, else it is retried."""
    for acceptor in map(AcceptorConfig, waiter.acceptors):
        try:
            if acceptor.matcher_func(response):
                return str(acceptor.state)
        except JMESPathError:  # a path that fails (the length of nothing) ends botocore's wait with a bug of its own
            return "broken"
    return "failure" if is_valid_waiter_error(response) else "retry"


def read(found: Contract, response: Mapping[str, Any]) -> Observation:
    """The same response through the contract, as the AWS carrier hands it over."""
    status = response["ResponseMetadata"]["HTTPStatusCode"]
    body = json.dumps({key: value for key, value in response.items() if key != "ResponseMetadata"}).encode()
    reply = HttpReply(status, [("content-type", "application/json")], body, "https://aws.example/", timedelta(0))
    asked = Asked(job_id="job-1", started_at=NOW - timedelta(minutes=1), parameters={"region": "eu-central-1"})
    return read_observation(found, asked, reply, received_at=NOW)


RETRIED = {
    ObservationKind.PENDING,
    ObservationKind.TRANSPORT,
    ObservationKind.THROTTLED,
}


def sereno_says(seen: Observation) -> str:
    """In botocore's words: what stops and asks a person is no success either, and no retry."""
    return "success" if seen.kind is ObservationKind.SUCCESS else "retry" if seen.kind in RETRIED else "failure"


@pytest.mark.parametrize("named", SAMPLE)
def test_a_contract_makes_of_answers_what_botocore_does(named: str) -> None:
    """Success, failure and retry agree on every generated response but for the one rule of ours: a field without its state stops."""
    waiter = find_waiter(*named.split())
    found, rng = contract(waiter), Random(named)
    met: Counter[str] = Counter()
    for response in answers(waiter, rng):
        theirs, seen = botocore_says(waiter, response), read(found, response)
        if theirs == "broken":
            continue
        if seen.kind is ObservationKind.INTEGRATION_FAILURE and "no state where" in seen.reason:
            assert theirs == "retry" and found.state.kind == "path", response
            continue
        assert sereno_says(seen) == theirs, (response, seen)
        met[theirs] += 1
    assert {"success", "failure", "retry"} - set(met) == set(), f"too few kinds of answers: {met}"


def test_the_sample_has_all_kinds_of_acceptors() -> None:
    """At least 30 waiters; each matcher with each state that botocore ships it with."""
    waiters = [find_waiter(*named.split()) for named in SAMPLE]
    assert len(waiters) >= 30
    kinds = {(one["matcher"], one["state"]) for waiter in waiters for one in waiter.acceptors}
    assert {matcher for matcher, _ in kinds} == {"path", "pathAll", "pathAny", "status", "error"}
    assert {("error", "success"), ("error", "retry"), ("error", "failure"), ("status", "retry"), ("pathAny", "retry")} <= kinds


def test_other_values_of_one_field_are_written_out_to_review() -> None:
    """A word that the waiter does not name is not swept up: it stands in the file, and an unknown one stops the wait."""
    found = import_waiter("dynamodb", "TableExists")
    table = CATALOGUE.contract(tomllib.loads(found.text))
    assert table.state.kind == "path" and "REVIEW" in found.text
    assert {"CREATING", "UPDATING", "DELETING", "ARCHIVED"} <= set(table.states)
    assert read(table, {"Table": {"TableStatus": "NEW"}, "ResponseMetadata": {"HTTPStatusCode": 200}}).kind == "unknown_state"
    assert "words that the waiter does not name count as pending" in found.review


def test_a_waiter_that_catches_the_rest_says_so() -> None:
    """The last condition, its comment, and `verified` all say that this is botocore's rule and nobody checked it."""
    found = import_waiter("ecs", "services_stable")
    assert found.name == "aws-ecs-services-stable"
    assert "# REVIEW: botocore's rule is that whatever matches no acceptor is retried" in found.text
    assert tomllib.loads(found.text)["verified"].startswith("unverified: whatever matches no acceptor")


def test_required_members_become_parameters_and_the_job() -> None:
    """The last one is the job; a list holds it; a name that templates keep for themselves is changed."""
    bodies = {
        "appconfig DeploymentComplete": {"ApplicationId": "{application_id}", "EnvironmentId": "{environment_id}", "DeploymentNumber": "{job_id}"},
        "ecs ServicesStable": {"services": ["{job_id}"]},
        "ec2 InstanceRunning": {"InstanceIds": ["{job_id}"]},
        "rds DBSnapshotAvailable": {"DBSnapshotIdentifier": "{job_id}"},
        "redshift SnapshotAvailable": {"SnapshotIdentifier": "{job_id}"},
        "s3 ObjectExists": {"Bucket": "{bucket}", "Key": "{job_id}"},
        "dms ReplicationTaskReady": {"Filters": [{"Name": "{filter_name}", "Values": ["{job_id}"]}]},
        "ecr ImageScanComplete": {"repositoryName": "{repository_name}", "imageId": {"imageTag": "{job_id}"}},
    }  # fmt: skip
    for named, body in bodies.items():
        assert contract(find_waiter(*named.split())).status.body == body, named


@pytest.mark.parametrize(
    ("named", "values", "sent"),
    [
        ("appconfig DeploymentComplete", {"application_id": "app", "environment_id": "env", "job_id": "17"}, "/deployments/17"),
        ("ecs ServicesStable", {"job_id": "17"}, '"services": ["17"]'),
        ("ec2 InstanceRunning", {"job_id": "i-17"}, "InstanceId.1=i-17"),
        ("groundstation ContactUpdated", {"contact_id": "c" * 36, "job_id": "17"}, "/versions/17"),
        ("dms ReplicationTaskReady", {"filter_name": "replication-task-id", "job_id": "t-17"}, '"Values": ["t-17"]'),
    ],
)
def test_the_input_of_an_imported_contract_can_be_sent(named: str, values: dict[str, str], sent: str) -> None:
    """botocore's own check of parameters takes it: numbers are numbers."""
    found = contract(find_waiter(*named.split()))
    assert set(found.parameters) == {"region", *values} - {"job_id"}
    body = fill_body(found.status, values, None)
    built = service(found.status.service or "").build(found.status.operation or "", body, "eu-central-1", None)
    assert sent in built.url + (built.body or b"").decode()


def test_an_operation_without_a_place_for_the_job_is_refused() -> None:
    """Nothing is made up."""
    waiter = find_waiter("ecs", "ServicesStable")

    class Nothing:
        name, input_shape, output_shape, error_shapes = "Ping", None, waiter.operation.output_shape, ()

    with pytest.raises(SetupError, match="Ping: Ping takes nothing that could name a job"):
        contract_of(Waiter("x", "Y", "1", "1", Nothing, waiter.acceptors, 1, 1))
    assert issubclass(NotSayable, ValueError) and named_member("DescribeThings", {}) is None


def test_an_unknown_name_gets_the_nearest() -> None:
    """Services and waiters; a name of your own must be one."""
    with pytest.raises(NotFound, match="did you mean ecs"):
        import_waiter("ecss", "ServicesStable")
    with pytest.raises(NotFound, match="did you mean ServicesStable"):
        import_waiter("ecs", "ServiceStable")
    with pytest.raises(SetupError, match="lower-case"):
        import_waiter("ecs", "ServicesStable", "My Name")


def test_members_that_are_left_out_are_to_review() -> None:
    """The cluster of a service is optional for AWS: the file says how to add it, and which credential is usual."""
    text = contract_of(find_waiter("ecs", "ServicesStable")).text
    assert "# REVIEW: it also takes cluster" in text
    assert 'body = { …, cluster = "{cluster}" } and parameters' in text
    assert tomllib.loads(text)["status"]["credential"] == "aws"
