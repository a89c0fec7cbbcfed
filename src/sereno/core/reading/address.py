"""Addresses: fills the URL template of a contract's status call so that no job id can change where it points."""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from sereno.core.reading.document import nearest
from sereno.core.reading.terms import Contract

PLACEHOLDER = re.compile(r"\{(\w+)(\*?)\}", re.ASCII)
"""`{name}` is one path segment or query value; `{name*}` is a path of several segments (Google's operation names)."""

CALLER_URL = "{job_id}"
"""A template that is only this: the job id itself is the status URL, as the provider returned it."""

MAX_VALUE = 1024
MAX_URL = 4096
_PORTS = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[^\x21-\x7e]|[\\<>\"`{}|^]")


def origin_of(url: str) -> str:
    """Reads the origin `https://host[:port]` in lower case, without a default port. Raises ValueError saying what is wrong."""
    if len(url) > MAX_URL:
        raise ValueError(f"a URL of more than {MAX_URL} characters")
    if _UNSAFE.search(url):
        raise ValueError("a URL holds only visible ASCII characters; percent-encode the others")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("a URL starts with https://host or http://host")
    if "@" in parts.netloc:
        raise ValueError("a URL carries no user name or password; name a credential instead")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    return f"{parts.scheme}://{host}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


def template_problem(url: str, parameters: list[str]) -> str | None:
    """Says what is wrong with a URL template, or None."""
    names = [match[1] for match in PLACEHOLDER.finditer(url)]
    allowed = {"job_id", *parameters} | ({"base"} if url.startswith("{base}/") else set())
    if url == CALLER_URL:
        return "takes no parameters: the job id is the whole URL" if parameters else None
    if strange := [name for name in names if name not in allowed]:
        return f"{{{strange[0]}}} is not a parameter" + (f"; {hint}" if (hint := nearest(strange[0], allowed)) else "")
    if unused := [name for name in ("job_id", *parameters) if name not in names]:
        return f"{{{unused[0]}}} does not occur in it"
    literal = PLACEHOLDER.sub("x", url.removeprefix("{base}"))
    if not url.startswith("{base}/") and not re.match(r"https://[^/?#{}]+/", url):
        return 'starts with "https://host/" or "{base}/", or is "{job_id}" alone'
    if _UNSAFE.search(literal) or "#" in literal:
        return "holds characters that a URL cannot hold"
    return None


def status_url(contract: Contract, *, job_id: str, parameters: Mapping[str, str], base: str | None = None) -> str:
    """Fills the template of the status call (W15: an address is given or templated, never guessed).

    Each value is percent-encoded as one piece; `.` and `..` are refused, so a job id cannot leave its place in the path. `base`
    replaces scheme, host and port (a self-hosted provider, a test server) and may add a path in front. Raises ValueError saying
    what is missing or wrong. For a template that is the job id alone, the job id is the status URL, or is appended to `base`.
    """
    _check_names(contract, parameters)
    if contract.url == CALLER_URL:
        return _caller_url(contract, job_id, base)
    values = {**parameters, "job_id": job_id}
    template = contract.url
    if base is not None:
        template = _checked_base(base) + _path_of(template)
    elif template.startswith("{base}"):
        raise ValueError(f"{contract.name} has no fixed address: give the base URL of the service")
    filled = PLACEHOLDER.sub(lambda match: _encoded(match[1], values[match[1]], whole_path=bool(match[2])), template)
    return _checked(filled)


def _check_names(contract: Contract, parameters: Mapping[str, str]) -> None:
    if missing := [name for name in contract.parameters if not parameters.get(name)]:
        raise ValueError(f"{contract.name} needs the parameters: {', '.join(missing)}")
    if strange := [name for name in parameters if name not in contract.parameters]:
        hint = nearest(strange[0], contract.parameters)
        raise ValueError(f"{contract.name} takes no parameter {strange[0]!r}" + (f"; {hint}" if hint else ""))


def _caller_url(contract: Contract, job_id: str, base: str | None) -> str:
    if job_id.lower().startswith(("http://", "https://")):
        if base is not None and origin_of(base) != origin_of(job_id):
            raise ValueError("the job id is a URL of another origin than the base URL")
        return _checked(job_id)
    if base is None:
        raise ValueError(f"{contract.name} needs the full status URL as job id, as the provider returned it, or a base URL")
    return _checked(f"{_checked_base(base)}/{_encoded('job_id', job_id, whole_path=False)}")


def _checked_base(base: str) -> str:
    origin_of(base)
    if "?" in base or "#" in base:
        raise ValueError("a base URL has no query and no fragment")
    return base.rstrip("/")


def _path_of(template: str) -> str:
    return template.removeprefix("{base}") if template.startswith("{base}") else "/" + template.split("/", 3)[3]


def _encoded(name: str, value: str, *, whole_path: bool) -> str:
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
