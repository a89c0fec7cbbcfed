"""Addresses: fills the templates of a contract's calls so that no value can change where a request points."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, urlsplit

from sereno.core.reading.calls import Call
from sereno.core.reading.document import nearest
from sereno.core.reading.templates import (
    BASE,
    CALLER_URL,
    PLACEHOLDER,
    UNSAFE,
    fill_json,
    fill_text,
    names_in,
    texts_in,
    value_of,
)
from sereno.core.reading.terms import Contract
from sereno.core.values import Json, canonical

MAX_VALUE = 1024
MAX_URL = 4096
MAX_HEADER = 4096
_PORTS = {"http": 80, "https": 443}
_HEADER_VALUE = re.compile(rf"[\x20-\x7e]{{0,{MAX_HEADER}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Filled:
    """One request, ready to send: canonical JSON as body, or None where none is sent. It carries no credential yet."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


def origin_of(url: str) -> str:
    """Reads the origin `https://host[:port]` in lower case, without a default port. Raises ValueError saying what is wrong."""
    if len(url) > MAX_URL:
        raise ValueError(f"a URL of more than {MAX_URL} characters")
    if UNSAFE.search(url):
        raise ValueError("a URL holds only visible ASCII characters; percent-encode the others")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("a URL starts with https://host or http://host")
    if "@" in parts.netloc:
        raise ValueError("a URL carries no user name or password; name a credential instead")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    return f"{parts.scheme}://{host}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


def origin_or_none(url: str) -> str | None:
    """The origin of a URL, or None where it is no URL."""
    try:
        return origin_of(url)
    except ValueError:
        return None


def templates_of(call: Call) -> Iterator[str]:
    """Every text of a call that may hold names."""
    yield call.url
    yield from call.headers.values()
    yield from (text for _, text in texts_in(call.body, ""))


def status_url(contract: Contract, *, job_id: str, parameters: Mapping[str, str], base: str | None = None) -> str:
    """Fills the template of the status call (W15: an address is given or templated, never guessed).

    Each value is percent-encoded as one piece; `.` and `..` are refused, so a job id cannot leave its place in the path. `base`
    replaces scheme, host and port (a self-hosted provider, a test server) and may add a path in front. Raises ValueError saying
    what is missing or wrong. For a template that is the job id alone, the job id is the status URL, or is appended to `base`.
    A contract without an address (AWS, push) gives an empty text.
    """
    check_parameters(contract, parameters)
    if not contract.status.url:
        return ""
    return _filled_url(contract, contract.status.url, {**parameters, "job_id": job_id}, base)


def fill_call(
    contract: Contract,
    call: Call,
    values: Mapping[str, str],
    *,
    base: str | None = None,
    input: Json = None,
    extra: Mapping[str, str] | None = None,
) -> Filled:
    """Fills one call of a contract: `values` are `job_id`, the parameters, and where they are known `key` and `value`.

    `extra` headers are added and win over the contract's own of the same name (the idempotency key). Raises ValueError saying which
    value is missing or does not fit. No value can change where the request points, nor add a header.
    """
    headers = {name: fill_text(text, values) for name, text in call.headers.items()}
    for name, text in (extra or {}).items():
        headers = {key: kept for key, kept in headers.items() if key.lower() != name.lower()} | {name: text}
    if bad := [name for name, text in headers.items() if not _HEADER_VALUE.fullmatch(text)]:
        raise ValueError(f"the header {bad[0]} must be plain ASCII text of at most {MAX_HEADER} characters")
    body = fill_body(call, values, input)
    sent = None if body is None else canonical(body)
    if sent is not None and all(name.lower() != "content-type" for name in headers):
        headers["content-type"] = "application/json"
    return Filled(call.method, _filled_url(contract, call.url, values, base), headers, sent)


def fill_body(call: Call, values: Mapping[str, str], input: Json) -> Json:
    """Fills the body of a call, or the input of an AWS operation; a text that is only `{input}` becomes the input itself."""
    return fill_json(call.body, values, input)


def check_parameters(contract: Contract, parameters: Mapping[str, str]) -> None:
    """Raises ValueError where a parameter has no value, or a value has no parameter. What only the submit uses may be left out."""
    if missing := [name for name in contract.parameters if not parameters.get(name) and not only_submits(contract, name)]:
        raise ValueError(f"{contract.name} needs the parameters: {', '.join(missing)}")
    if strange := [name for name in parameters if name not in contract.parameters]:
        hint = nearest(strange[0], contract.parameters)
        raise ValueError(f"{contract.name} takes no parameter {strange[0]!r}" + (f"; {hint}" if hint else ""))


def only_submits(contract: Contract, name: str) -> bool:
    """True for a parameter that the submit uses and nothing afterwards does."""
    cancel, keep = contract.cancel, contract.keep
    later = [contract.status, *([cancel.call] if cancel else []), *([keep.call] if keep and keep.call else [])]
    texts = [contract.job_id_is, *(one.url or "" for one in contract.handovers)]
    texts += [text for call in later for text in templates_of(call)]
    submitted = contract.submit is not None and any(name in names_in(text) for text in templates_of(contract.submit.call))
    return submitted and not any(name in names_in(text) for text in texts)


def _filled_url(contract: Contract, template: str, values: Mapping[str, str], base: str | None) -> str:
    if template == CALLER_URL:
        return _caller_url(contract, value_of("job_id", values), base)
    if base is not None:
        template = _checked_base(base) + _path_of(template)
    elif template.startswith(BASE):
        raise ValueError(f"{contract.name} has no fixed address: give the base URL of the service")
    return _checked(PLACEHOLDER.sub(lambda match: _encoded(match[1], values, whole_path=bool(match[2])), template))


def _caller_url(contract: Contract, job_id: str, base: str | None) -> str:
    if job_id.lower().startswith(("http://", "https://")):
        if base is not None and origin_of(base) != origin_of(job_id):
            raise ValueError("the job id is a URL of another origin than the base URL")
        return _checked(job_id)
    if base is None:
        raise ValueError(f"{contract.name} needs the full status URL as job id, as the provider returned it, or a base URL")
    return _checked(f"{_checked_base(base)}/{_encoded('job_id', {'job_id': job_id}, whole_path=False)}")


def _checked_base(base: str) -> str:
    origin_of(base)
    if "?" in base or "#" in base:
        raise ValueError("a base URL has no query and no fragment")
    return base.rstrip("/")


def plain_base(base: str) -> str:
    """Writes a base URL in one way: scheme and host in lower case, no default port, no slash at the end. What is no base URL, or an
    odd one (a colon without a port), stays as it is: nothing that a check would refuse is made right on the way to it."""
    try:
        checked = _checked_base(base)
        origin = origin_of(checked)
    except ValueError:
        return base
    parts, place = urlsplit(checked), origin.partition("://")[2]
    plain = parts.netloc.lower() in (place, f"{place}:{_PORTS[parts.scheme]}")
    return origin + parts.path if plain else base


def _path_of(template: str) -> str:
    return template.removeprefix(BASE) if template.startswith(BASE) else "/" + template.split("/", 3)[3]


def _encoded(name: str, values: Mapping[str, str], *, whole_path: bool) -> str:
    value = value_of(name, values)
    if not value or len(value) > MAX_VALUE or any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise ValueError(f"{name} must have 1 to {MAX_VALUE} characters and no control characters")
    segments = value.split("/") if whole_path else [value]
    if any(segment in ("", ".", "..") for segment in segments):
        raise ValueError(f"{name} must not be, or contain, an empty, '.' or '..' path segment")
    return "/".join(quote(segment, safe="") for segment in segments)


def _checked(url: str) -> str:
    origin_of(url)
    parts = urlsplit(url)
    if "#" in url:
        raise ValueError("a status URL has no fragment")
    if any(segment in (".", "..") for segment in parts.path.replace("%2e", ".").replace("%2E", ".").split("/")):
        raise ValueError("a status URL has no '.' or '..' path segment")
    return url
