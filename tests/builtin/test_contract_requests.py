"""Submits of shipped contracts as they leave: method, address, headers and body, with the key in its place and form."""

import json
from urllib.parse import parse_qsl

import pytest

from sereno.builtin.calling import send_body, send_request
from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.call import CallKind, CallState, ProviderCall
from sereno.core.contract import Contract
from sereno.core.reading.address import Filled
from sereno.core.values import Json
from sereno.service.contracting.cases import NOW, waiting

CATALOGUE = Catalogue()
CONTRACTS = {name: CATALOGUE.contract(CATALOGUE.document(name)) for name in CATALOGUE.names() if name != "generic-status"}
KEY = "sub_0123456789abcdefghjkmnpqrs"
NAME = "sub-0123456789abcdefghjkmnpqrs-"


def call_of(submitted: Json, key: str = KEY) -> ProviderCall:
    """A submit that is to be sent."""
    return ProviderCall("op_1:submit", CallKind.SUBMIT, "op_1:submit", key, submitted, CallState.SENDING, NOW)


def sent(name: str, submitted: Json, **parameters: str) -> Filled:
    """The request of a submit over HTTP."""
    call = call_of(submitted)
    return send_request(waiting(CONTRACTS[name], parameters, call=call), CONTRACTS[name], call)


def given(contract: Contract, submitted: Json, key: str = KEY) -> Json:
    """The body of a submit, or the input of an AWS operation."""
    call = call_of(submitted, key)
    return send_body(waiting(contract, {"region": "eu-central-1"}, call=call), contract, call)


def test_W31_stripe_takes_a_form() -> None:
    """Inner names in brackets, no JSON, and the key in its header."""
    found = sent(
        "stripe-report-run", {"report_type": "balance.summary.1", "parameters": {"interval_start": 1, "columns": ["a b", "c"]}}
    )
    assert (found.method, found.url) == ("POST", "https://api.stripe.com/v1/reporting/report_runs")
    assert found.headers == {"content-type": "application/x-www-form-urlencoded", "Idempotency-Key": KEY}
    assert parse_qsl((found.body or b"").decode()) == [
        ("report_type", "balance.summary.1"),
        ("parameters[interval_start]", "1"),
        ("parameters[columns][]", "a b"),
        ("parameters[columns][]", "c"),
    ]


def test_W31_jenkins_takes_a_form() -> None:
    """The parameters of the build; the job's path as pieces."""
    found = sent(
        "jenkins-queue-item", {"BRANCH": "main&x", "DRY": True}, base="https://ci.example/jenkins", job="folder/job/site"
    )
    assert (found.method, found.url) == ("POST", "https://ci.example/jenkins/job/folder/job/site/buildWithParameters")
    assert found.headers == {"content-type": "application/x-www-form-urlencoded"} and found.body == b"BRANCH=main%26x&DRY=true"


def test_W31_airflow_gets_a_logical_date_if_only_as_null() -> None:
    """The server refuses a body without it; one that is given stays."""
    place = {"base": "https://flow.example", "dag": "etl"}
    assert json.loads(sent("airflow-dag-run", {"conf": {}}, **place).body or b"") == {
        "conf": {},
        "dag_run_id": KEY,
        "logical_date": None,
    }
    body = json.loads(sent("airflow-dag-run", {"logical_date": "2026-01-01T00:00:00Z"}, **place).body or b"")
    assert body == {"logical_date": "2026-01-01T00:00:00Z", "dag_run_id": KEY}


def test_W21_kubernetes_gets_the_key_as_a_name() -> None:
    """In the metadata, beside what is there."""
    manifest: Json = {"kind": "Job", "metadata": {"labels": {"a": "b"}}, "spec": {}}
    body = json.loads(sent("kubernetes-job", manifest, base="https://api.example", namespace="default").body or b"")
    assert body["metadata"]["labels"] == {"a": "b"} and body["metadata"]["name"].startswith(NAME)


def test_W21_bigquery_gets_the_key_as_an_id() -> None:
    """Beside project and location."""
    body = json.loads(sent("bigquery-job", {"configuration": {"query": {}}}, project="p", location="EU").body or b"")
    assert body["configuration"] == {"query": {}}
    assert body["jobReference"].pop("jobId").startswith(NAME) and body["jobReference"] == {"projectId": "p", "location": "EU"}


@pytest.mark.parametrize(
    ("name", "place", "length"),
    [
        ("aws-athena", "ClientRequestToken", 32),
        ("aws-bedrock-batch", "clientRequestToken", 32),
        ("aws-emr-serverless", "clientToken", 32),
        ("aws-redshift-data", "ClientToken", 32),
        ("aws-ssm-automation", "ClientToken", 36),
        ("aws-sagemaker-training", "TrainingJobName", 43),
        ("aws-transcribe", "TranscriptionJobName", 43),
        ("aws-step-functions", "name", 43),
        ("aws-textract-text", "ClientRequestToken", 32),
        ("aws-textract-analysis", "ClientRequestToken", 32),
        ("aws-codebuild", "idempotencyToken", 30),
    ],
)
def test_W21_a_key_stands_where_the_service_wants_it(name: str, place: str, length: int) -> None:
    """In the operation's input, in the form of the contract, and always the same."""
    contract = CONTRACTS[name]
    found = given(contract, {"Other": 1})
    assert isinstance(found, dict) and found == {"Other": 1, place: found[place]} and len(str(found[place])) == length
    assert given(contract, {"Other": 1}) == found != given(contract, {"Other": 1}, KEY[:-1] + "t")


def test_W21_a_form_of_the_key_reaches_url_and_header() -> None:
    """Wherever `{key}` stands, and where the key is a header."""
    document = dict(CATALOGUE.document("stripe-report-run"))
    submit = document["submit"]
    assert isinstance(submit, dict)
    keyed = {**submit["idempotency"], "form": "hex32"}  # type: ignore[dict-item]
    url = "https://api.stripe.com/v1/reporting/report_runs?k={key}"
    contract = CATALOGUE.contract({**document, "submit": {**submit, "url": url, "idempotency": keyed}})  # type: ignore[dict-item]
    call = call_of({})
    found = send_request(waiting(contract, {}, call=call), contract, call)
    key = found.headers["Idempotency-Key"]
    assert len(key) == 32 and found.url.endswith(f"?k={key}")
