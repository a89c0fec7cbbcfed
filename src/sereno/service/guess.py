"""Looks at an address once, to propose a poll for it: which source, and which name."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from sereno.core.errors import Fault, NotAllowed, RequestError, SetupError
from sereno.core.observation import NoReply, NoReplyKind
from sereno.core.values import Json
from sereno.ports import Fetch
from sereno.service.address import refusal_hint
from sereno.service.deps import Deps

SAMPLE_DEADLINE = timedelta(seconds=20)
_WEAK = {"www", "index", "html", "htm", "xml", "rss", "json", "php", "api", "v1", "v2"}


async def guess_source(deps: Deps, url: str, credential: str | None = None) -> dict[str, Json]:
    """Asks the address once and names the source it is best read with, as the `source` table of a poll.

    Raises SetupError for a URL that carries a secret or is none, RequestError where there is no answer to guess from.
    """
    url = url if "://" in url else f"https://{url}"
    problem = deps.secret_check(url) or _no_url(url)
    if problem is not None:
        raise SetupError("the address cannot be used; nothing was sent", [Fault("url", problem, secret_hint(problem))])
    reply = await deps.transport.fetch(Fetch(url, credential=credential, total_deadline=SAMPLE_DEADLINE))
    if isinstance(reply, NoReply):
        raise _no_answer(deps, url, reply)
    if reply.status >= 300:
        raise RequestError(
            f"the address answers {reply.status}, so there is nothing to guess from",
            subject=_shown(url),
            hint="give the address that answers 200, or say what it is: --source http, or --source feed",
            code="no_sample",
        )
    return _with_credential(*deps.redact(deps.guess(url, reply)), credential)


def _with_credential(kind: str, options: Mapping[str, Json], credential: str | None) -> dict[str, Json]:
    return {"type": kind, **options, **({"credential": credential} if credential else {})}


def _no_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fine = False
    return None if fine else "must be a whole http or https URL, for example https://example.com/feed"


def secret_hint(problem: str) -> str | None:
    """The fix for a literal secret; None where the problem is another one."""
    if "must be" in problem:
        return None
    return (
        "keep it out of commands and files: write [credentials.NAME] with origin and value = {env = …} or {file = …},"
        " and name it: --credential NAME"
    )


def _no_answer(deps: Deps, url: str, reply: NoReply) -> RequestError:
    message = f"there is no answer to guess from: {reply.message}"
    if reply.kind is NoReplyKind.REFUSED_ADDRESS:
        hint = refusal_hint(deps, url, reply.message)
        return NotAllowed(message, subject=_shown(url), hint=hint, code="egress_refused")
    hint = "check the address, or say what it is with --source"
    return RequestError(message, subject=_shown(url), hint=hint, code="no_sample")


def _shown(url: str) -> str:
    """The address without user, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]


def derive_name(text: str) -> str:
    """Makes a poll's name out of an address, a path or a command: `peps.python.org/peps.rss` gives `peps-python-org-peps`."""
    shown = re.sub(r"^[a-z]+://(www\.)?|[?#].*$", "", text.lower())
    words = [word for word in re.split(r"[^a-z0-9]+", shown) if word and word not in _WEAK]
    name = "-".join(words)[:40].strip("-")
    return name or "poll"


def own_secrets_of(deps: Deps, value: object, place: str) -> list[Fault]:
    """The same as `secrets_of`, and each text that holds the value of a configured credential which can be read here (I27)."""
    for name in deps.loaded.settings.credentials:
        deps.learn(name)

    def check(text: str) -> str | None:
        return deps.secret_check(text) or ("it holds the value of a configured credential" if deps.redact(text) != text else None)

    return secrets_of(replace(deps, secret_check=check), value, place)


def secrets_of(deps: Deps, value: object, place: str) -> list[Fault]:
    """Lists each text inside a value that looks like a secret, with the fix; the text itself is not repeated."""
    if isinstance(value, str):
        problem = deps.secret_check(value)
        return [] if problem is None else [Fault(place, problem, secret_hint(problem))]
    if isinstance(value, Mapping):
        named = [fault for key in value for fault in secrets_of(deps, key, place)]
        return named or [fault for key, item in value.items() for fault in secrets_of(deps, item, f"{place}.{key}")]
    if isinstance(value, list | tuple):
        return [fault for index, item in enumerate(value) for fault in secrets_of(deps, item, f"{place}[{index}]")]
    return []
