"""AWS services by their botocore models: builds the request of an operation and parses its answer, with no connection of its own.

Needs the extra `aws`. A model is read once and kept: some milliseconds for most services, half a second for the largest.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from sereno.core.observation import HttpReply
from sereno.core.reading.document import nearest
from sereno.core.values import BadJson, Json, parse_json

_GATE_SETS = frozenset({"content-length", "transfer-encoding", "host", "user-agent", "expect"})
MOST_TAGS = 100_000
"""Tags of an XML answer that is parsed."""
_SIGNED = ("v4", "s3v4", "s3")


@dataclass(frozen=True, slots=True)
class Built:
    """One request, not signed yet; `signs_for` are the service and region of its signature."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    signs_for: tuple[str, str]
    encoded_once: bool = False
    """True where the signature takes the path as it is sent (S3); else each segment is encoded once more."""


class Service:
    """One service. All names are those of botocore."""

    def __init__(self, model: Any, rules: Mapping[str, Any], partitions: Mapping[str, Any]):
        from botocore.parsers import create_parser  # noqa: PLC0415 - the declared extra `aws`
        from botocore.serialize import create_serializer  # noqa: PLC0415 - the declared extra `aws`

        self._model, self._rules, self._partitions = model, rules, partitions
        protocol = model.resolved_protocol
        self._speaks_json = "json" in protocol
        self._serializer, self._parser = create_serializer(protocol), create_parser(protocol)

    def problem(self, operation: str, region: str) -> str | None:
        """Says what is wrong with a name, or None."""
        names = list(self._model.operation_names)
        if operation not in names:
            return f"{self._model.service_name} has no operation {operation!r}" + _hint(operation, names)
        known = [name for part in self._partitions["partitions"] for name in part["regions"]]
        if region not in known:
            return f"{region!r} is not an AWS region" + _hint(region, known)
        if self._model.metadata.get("signatureVersion") not in _SIGNED:
            return f"requests to {self._model.service_name} are not signed with SigV4"
        if self._model.operation_model(operation).has_event_stream_output:
            return f"{operation} answers with an event stream"
        return None

    def build(self, operation: str, given: Json, region: str, base: str | None) -> Built:
        """Builds the request of one operation. `base` replaces the endpoint. Raises ValueError saying what is wrong."""
        from botocore.awsrequest import create_request_object, prepare_request_dict  # noqa: PLC0415 - extra `aws`
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - the declared extra `aws`

        if (problem := self.problem(operation, region)) is not None:
            raise ValueError(problem)
        model = self._model.operation_model(operation)
        try:
            given = _typed(given, model.input_shape)
            written = self._serializer.serialize_to_request(given, model)
            endpoint = self._endpoint(model, given, region, base)
        except BotoCoreError as error:
            says = " ".join(str(error).split())[:500]
            raise ValueError(f"{operation}: {says}") from None
        if base is not None:
            written.pop("host_prefix", None)
        prepare_request_dict(written, endpoint.url)
        sent = create_request_object(written).prepare()
        headers = {name: _text(value) for name, value in sent.headers.items() if name.lower() not in _GATE_SETS}
        body = sent.body.encode() if isinstance(sent.body, str) else sent.body
        once = str(self._model.metadata.get("signatureVersion")).startswith("s3")
        return Built(sent.method, sent.url, headers, body, self._signs_for(endpoint, region), once)

    def parse(self, operation: str, reply: HttpReply) -> HttpReply:
        """The answer as botocore understands it, as JSON: instants as RFC 3339, bytes as base64. What cannot be parsed stays as it is."""
        from botocore.awsrequest import HeadersDict  # noqa: PLC0415 - the declared extra `aws`
        from botocore.parsers import ResponseParserError  # noqa: PLC0415 - the declared extra `aws`

        if not self._may_be_parsed(reply.body):
            return reply
        answer = {"status_code": reply.status, "headers": HeadersDict(reply.headers), "body": reply.body, "context": {}}
        shape = self._model.operation_model(operation).output_shape
        try:
            parsed = self._parser.parse(answer, shape)
            about = parsed.pop("ResponseMetadata", {})
            body = json.dumps(parsed, default=_plain, allow_nan=False).encode()
        except (ResponseParserError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            return reply
        headers = [(name, value) for name, value in reply.headers if name.lower() != "content-type"]
        if isinstance(named := about.get("RequestId"), str) and reply.header("x-amzn-requestid") is None:
            headers.append(("x-amzn-requestid", named))
        return replace(reply, body=body, headers=[*headers, ("content-type", "application/json")])

    def _may_be_parsed(self, body: bytes) -> bool:
        """False for JSON that is not strict or too deep, and for XML with a DOCTYPE, with too many tags (each becomes an object of some
        hundred bytes), or in UTF-16, where neither could be seen: botocore's parsers do not ask."""
        if not self._speaks_json:
            return b"<!DOCTYPE" not in body and b"\0" not in body and body.count(b"<") <= MOST_TAGS
        try:
            return not body or parse_json(body) is not None
        except BadJson:
            return False

    def _endpoint(self, model: Any, given: Json, region: str, base: str | None) -> Any:
        from botocore.endpoint_provider import RuleSetEndpoint  # noqa: PLC0415 - the declared extra `aws`
        from botocore.hooks import HierarchicalEmitter  # noqa: PLC0415 - the declared extra `aws`
        from botocore.regions import EndpointResolverBuiltins, EndpointRulesetResolver  # noqa: PLC0415 - extra `aws`

        if base is not None:
            return RuleSetEndpoint(url=base, properties={}, headers={})
        builtins = {EndpointResolverBuiltins.AWS_REGION: region, EndpointResolverBuiltins.AWS_USE_FIPS: False}
        builtins[EndpointResolverBuiltins.AWS_USE_DUALSTACK] = False
        resolver = EndpointRulesetResolver(
            self._rules, self._partitions, self._model, builtins, client_context={}, event_emitter=HierarchicalEmitter()
        )
        return resolver.construct_endpoint(model, given, request_context={})

    def _signs_for(self, endpoint: Any, region: str) -> tuple[str, str]:
        schemes = endpoint.properties.get("authSchemes", [])
        scheme: Mapping[str, str] = next((scheme for scheme in schemes if scheme.get("name") == "sigv4"), {})
        return scheme.get("signingName") or self._model.signing_name, scheme.get("signingRegion") or region


@lru_cache(maxsize=32)
def service(name: str) -> Service:
    """The service of that botocore name. Raises ValueError for one that is not known, and where the extra is not installed."""
    try:
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - the declared extra `aws`
        from botocore.loaders import Loader  # noqa: PLC0415 - the declared extra `aws`
        from botocore.model import ServiceModel  # noqa: PLC0415 - the declared extra `aws`
    except ImportError:
        raise ValueError('calls to AWS need the extra "aws": pip install "sereno[aws]"') from None
    # Only the models that come with botocore: none of the home directory or of AWS_DATA_PATH.
    loader = Loader(extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)
    try:
        model = ServiceModel(loader.load_service_model(name, "service-2"), service_name=name)
        rules = loader.load_service_model(name, "endpoint-rule-set-1")
        return Service(model, rules, loader.load_data("partitions"))
    except BotoCoreError:
        known = loader.list_available_services("service-2")
        raise ValueError(f"botocore knows no service {name!r}" + _hint(name, known)) from None


def _typed(given: Json, shape: Any) -> Json:
    """The input with whole numbers where the model wants them: a template can only write a text."""
    kind = shape.type_name if shape is not None else ""
    if kind in ("integer", "long") and isinstance(given, str) and given.isascii() and given.isdecimal() and len(given) <= 19:
        return int(given)
    if kind == "structure" and isinstance(given, dict):
        return {name: _typed(cast(Json, one), shape.members.get(name)) for name, one in given.items()}
    if kind == "list" and isinstance(given, list):
        return [_typed(cast(Json, one), shape.member) for one in given]
    return given


def _hint(name: str, known: list[str]) -> str:
    found = nearest(name, known)
    return f"; {found}" if found else ""


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _plain(value: object) -> str:
    match value:
        case datetime():
            aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not JSON")
