"""Waiters of botocore as contracts: `sereno contract import botocore SERVICE WAITER`. Needs the extra `aws`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from sereno.builtin.contracts.waiter_input import Input, NotSayable, input_of
from sereno.builtin.contracts.waiter_states import States, states_of, written
from sereno.core.errors import Fault, NotFound, SetupError, did_you_mean
from sereno.core.values import Json, format_duration
from sereno.core.writing.imported import Imported
from sereno.core.writing.toml import comment, toml_text, toml_value

_READS = ("Describe", "Get", "List", "Head", "BatchGet")
_LEAST_DEADLINE = 60
"""Seconds: a wait that ends sooner could hardly be answered."""
_MOST_OTHERS = 12
"""Optional members that are named."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Waiter:
    """One waiter and the operation that it asks, as botocore describes them."""

    service: str
    name: str
    api: str
    version: str
    operation: Any
    acceptors: Sequence[Mapping[str, Any]]
    delay: int
    attempts: int


def import_waiter(service: str, waiter: str, name: str | None = None) -> Imported:
    """Makes a contract of the newest version of a waiter. Raises NotFound with the nearest name, SetupError without the extra."""
    return contract_of(find_waiter(service, waiter), name)


@lru_cache(maxsize=2)
def _described(service: str, api: str | None) -> tuple[Mapping[str, Any], Any, str]:
    """The waiters of a service, its model, and the version of botocore that has them."""
    try:
        import botocore  # noqa: PLC0415 - the declared extra `aws`
        from botocore.exceptions import DataNotFoundError  # noqa: PLC0415 - the declared extra `aws`
        from botocore.loaders import Loader  # noqa: PLC0415 - the declared extra `aws`
        from botocore.model import ServiceModel  # noqa: PLC0415 - the declared extra `aws`
    except ImportError:
        raise SetupError("waiters of AWS need the extra aws", hint='pip install "sereno[aws]"') from None
    # Only the data that comes with botocore: none of the home directory or of AWS_DATA_PATH.
    loader = Loader(extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)
    try:
        waiters = loader.load_service_model(service, "waiters-2", api)["waiters"]
        model = ServiceModel(loader.load_service_model(service, "service-2", api), service_name=service)
    except DataNotFoundError:
        known = loader.list_available_services("waiters-2")
        raise NotFound(
            "botocore has no waiters of this service", subject=service[:80], hint=did_you_mean(service, known)
        ) from None
    return waiters, model, str(botocore.__version__)


def find_waiter(service: str, waiter: str, api: str | None = None) -> Waiter:
    """Reads a waiter from botocore's own data. `waiter` is its name, `ServicesStable` or `services_stable`."""
    waiters, model, version = _described(service, api)
    found = next((one for one in waiters if _plain(one) == _plain(waiter)), None)
    if found is None:
        hint = did_you_mean(waiter, waiters) or f"there are {', '.join(sorted(waiters))}"
        raise NotFound(f"{service} has no such waiter", subject=waiter[:80], hint=hint)
    about = waiters[found]
    operation = model.operation_model(about["operation"])
    return Waiter(service, found, model.api_version, version, operation, about["acceptors"], about["delay"], about["maxAttempts"])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def contract_of(waiter: Waiter, name: str | None = None) -> Imported:
    """Writes the contract of a waiter. Raises SetupError where the operation has no place for a job id."""
    named = name or _named(waiter)
    if not _NAME.fullmatch(named):
        raise SetupError("nothing was written", [Fault("--name", "must be lower-case letters, digits and hyphens, at most 64")])
    try:
        given = input_of(waiter.operation)
    except NotSayable as error:
        raise SetupError(
            f"{waiter.service} {waiter.name} cannot be a contract", [Fault(waiter.operation.name, str(error))]
        ) from None
    states = states_of(waiter.acceptors, waiter.operation)
    lines = [*_head(waiter, named, states), *_status(waiter, given), "", *written(states, waiter.name), "", *_rest(waiter)]
    return Imported(named, "\n".join(lines) + "\n", _review(given, states), states.differs)


def _named(waiter: Waiter) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", waiter.name).lower()
    return re.sub(r"[^a-z0-9-]", "-", f"aws-{waiter.service}-{words}")[:64].rstrip("-")


def _review(given: Input, states: States) -> list[str]:
    found = list(given.review)
    if states.catches_all:
        found.append("whatever matches no acceptor counts as pending")
    if any(rule.review for rule in states.rules):
        found.append("words that the waiter does not name count as pending")
    if not states.fails:
        found.append("nothing means failure")
    return found


def _head(waiter: Waiter, name: str, states: States) -> Iterator[str]:
    unsure = "whatever matches no acceptor is retried, as botocore does" if states.catches_all else "words without an acceptor"
    verified = f"unverified: {unsure}; verified: the acceptors, as botocore {waiter.version} has them"
    yield comment(
        f"Made of botocore's waiter {waiter.service} {waiter.name} by `sereno contract import`. Lines with REVIEW are for you."
    )
    for differs in states.differs:
        yield comment(f"DIFFERS: {differs}.")
    yield "format = 1"
    yield f"contract = {toml_text(name)}"
    yield "version = 1"
    yield f"title = {toml_text(f'AWS {waiter.service}: {waiter.name}')}"
    source = f"botocore {waiter.version}, data/{waiter.service}/{waiter.api}: waiters-2 ({waiter.name}), service-2 ({waiter.operation.name})"
    yield f"source = {toml_text(source)}"
    yield f"verified = {toml_text(verified)}"
    yield ""


def _status(waiter: Waiter, given: Input) -> Iterator[str]:
    operation = waiter.operation.name
    body: dict[str, object] = dict(given.body)
    parameters: list[object] = ["region", *given.parameters]
    yield "[status]"
    yield 'via = "aws"'
    yield f"service = {toml_text(waiter.service)}"
    yield f"operation = {toml_text(operation)}"
    for review in given.review:
        yield comment(f"REVIEW: {review}.")
    yield f"body = {toml_value(body)}"
    if given.others:
        shown, more = given.others[:_MOST_OTHERS], len(given.others) - _MOST_OTHERS
        yield comment(
            f"REVIEW: it also takes {', '.join(shown)}{f' and {more} more' if more > 0 else ''}. A member that your job needs"
        )
        yield comment(
            f'(such as the cluster of a service) goes into both: body = {{ …, {shown[0]} = "{{{_parameter(shown[0])}}}" }} and parameters.'
        )
    yield f"parameters = {toml_value(parameters)}"
    yield 'credential = "aws"            # the usual NAME under [credentials] in sereno.toml, with scheme = "AWS4-HMAC-SHA256"'
    if operation.startswith(_READS):
        yield f"observational = {toml_text(f'{operation} only reads: botocore ships a waiter that repeats it')}"
    else:
        yield '# REVIEW: does this operation only read? observational = "…" says where AWS writes so.'


def _parameter(member: str) -> str:
    """The name of the parameter that would fill a member."""
    return Input().parameter(member).strip("{}")


def _rest(waiter: Waiter) -> Iterator[str]:
    pause = toml_text(format_duration(timedelta(seconds=waiter.delay)))
    deadline = timedelta(seconds=max(waiter.delay * waiter.attempts, _LEAST_DEADLINE))
    limits: list[tuple[str, Json]] = [("requests", waiter.attempts), ("transport_failures", 10), ("throttles", 10)]
    yield "[error]"
    yield 'code = "Error.Code"'
    yield 'text = "Error.Message"'
    yield ""
    yield comment(f"The waiter asks every {waiter.delay} s, {waiter.attempts} times.")
    yield "[delays]"
    yield 'first = "1s"'
    yield from (f"{key} = {pause}" for key in ("base", "max", "min_gap"))
    yield ""
    yield "[limits]"
    yield f"deadline = {toml_text(format_duration(deadline))}"
    yield from (f"{key} = {toml_value(value)}" for key, value in limits)
