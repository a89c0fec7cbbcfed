"""Checks of option tables: every fault at once, unknown names with the nearest valid one."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from difflib import get_close_matches
from urllib.parse import SplitResult, urlsplit

import jmespath
from jmespath.exceptions import JMESPathError

from sereno.core.errors import Fault
from sereno.core.values import Json, parse_duration

Rule = Callable[[Json], str | None]
"""Says what is wrong with one value, or None."""

SecretCheck = Callable[[str], str | None]
"""Says which secret a URL carries (without repeating it), or None."""

LOCAL_ORIGINS = ("config", "cli")
"""Where options must be written for what touches this machine: files and commands."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_BAD_URL = re.compile(r"[\x00-\x20\x7f\\]")


def check_options(
    where: str, options: Mapping[str, Json], rules: Mapping[str, Rule], required: Collection[str] = ()
) -> list[Fault]:
    """Lists unknown names, missing names and wrong values; `where` prefixes each place (`source.url`)."""
    faults = [Fault(f"{where}.{name}", "is missing", f"give {name}") for name in required if options.get(name) in (None, "", [])]
    for name, value in options.items():
        rule = rules.get(name)
        if rule is None:
            near = get_close_matches(name, rules, n=1)
            faults.append(Fault(f"{where}.{name}", "is not an option", f"did you mean {near[0]}?" if near else _list(rules)))
        elif (problem := rule(value)) is not None and not (name in required and value in (None, "", [])):
            faults.append(Fault(f"{where}.{name}", problem))
    return faults


def _list(rules: Mapping[str, Rule]) -> str:
    return "options are " + ", ".join(sorted(rules)) if rules else "there are no options"


def text(limit: int = 2048) -> Rule:
    """A non-empty text of at most `limit` characters without control characters."""

    def rule(value: Json) -> str | None:
        if not isinstance(value, str) or not value:
            return "must be a text"
        if len(value) > limit:
            return f"is longer than {limit} characters"
        return "has control characters" if re.search("[\x00-\x1f\x7f]", value) else None

    return rule


def flag(value: Json) -> str | None:
    """True or false."""
    return None if isinstance(value, bool) else "must be true or false"


def number(low: int, high: int) -> Rule:
    """A whole number within bounds."""

    def rule(value: Json) -> str | None:
        right = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if right else f"must be a whole number from {low} to {high}"

    return rule


def one_of(*words: str) -> Rule:
    """One of some words; the nearest is suggested."""

    def rule(value: Json) -> str | None:
        if value in words:
            return None
        near = get_close_matches(str(value), words, n=1)
        return f"must be one of {', '.join(words)}" + (f"; did you mean {near[0]}?" if near else "")

    return rule


def texts(limit: int, *, item: Rule | None = None) -> Rule:
    """A list of 1 to `limit` texts."""
    each = item or text()

    def rule(value: Json) -> str | None:
        if not isinstance(value, list) or not 1 <= len(value) <= limit:
            return f"must be a list of 1 to {limit} texts"
        problems = (each(entry) for entry in value)  # type: ignore[arg-type]  # a list of Json holds Json
        return next((f"entry {index + 1} {problem}" for index, problem in enumerate(problems) if problem), None)

    return rule


def credential_name(value: Json) -> str | None:
    """The NAME of a credential, never its value."""
    right = isinstance(value, str) and _NAME.fullmatch(value)
    return None if right else "must be the NAME of a [credentials.NAME] section, not the secret itself"


def duration(low: timedelta, high: timedelta) -> Rule:
    """A duration text within bounds."""

    def rule(value: Json) -> str | None:
        if not isinstance(value, str):
            return "must be a duration such as 30s or 5m"
        try:
            span = parse_duration(value)
        except ValueError as error:
            return str(error)
        return None if low <= span <= high else f"must be between {low.total_seconds():g}s and {high.total_seconds():g}s"

    return rule


def path_expression(value: Json) -> str | None:
    """A JMESPath expression that compiles."""
    if not isinstance(value, str) or not value or len(value) > 1000:
        return "must be a JMESPath expression of at most 1,000 characters"
    try:
        jmespath.compile(value)
    except JMESPathError as error:
        return f"is not a JMESPath expression: {str(error).splitlines()[0][:200]}"
    return None


def userinfo_in_url(url: str) -> str | None:
    """The default secret check: refuses a user name or password in a URL."""
    try:
        carries = "@" in urlsplit(url).netloc
    except ValueError:
        return None
    return "carries a user name or password; name a credential instead" if carries else None


def http_url(secret_check: SecretCheck) -> Rule:
    """An absolute http or https URL without a secret."""

    def rule(value: Json) -> str | None:
        if not isinstance(value, str) or not value or len(value) > 2048:
            return "must be an http or https URL of at most 2,048 characters"
        if _BAD_URL.search(value):
            return "has a space, backslash or control character"
        parts = split_url(value)
        if parts is None or parts.scheme not in ("http", "https"):
            return "must be a whole http or https URL, for example https://example.com/feed"
        return secret_check(value)

    return rule


def split_url(url: str) -> SplitResult | None:
    """The parts of a URL that has a host and a valid port, or None."""
    try:
        parts = urlsplit(url)
        return parts if parts.hostname and (parts.port is None or parts.port > 0) else None
    except ValueError:
        return None


def host_pool(url: str) -> str:
    """Names the pool of a checked URL: `host:NAME`, with the port where it is not the scheme's own."""
    parts = split_url(url)
    if parts is None:
        return "host:"
    name = (parts.hostname or "").rstrip(".")
    name = f"[{name}]" if ":" in name else name
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"host:{name}" + (f":{parts.port}" if parts.port not in (None, usual) else "")


def url_reference(url: str) -> str:
    """A URL for people: without user, query and fragment; a query that is there shows as `?…`."""
    parts = split_url(url)
    if parts is None:
        return url[:200]
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"[:300] + ("?…" if parts.query else "")


def texts_of(options: Mapping[str, Json], name: str) -> list[str]:
    """A checked list option as texts; a single text counts as a list of one."""
    value = options.get(name)
    if isinstance(value, str):
        return [value]
    return [str(entry) for entry in value] if isinstance(value, list) else []


def seconds_of(options: Mapping[str, Json], name: str, default: timedelta, longest: timedelta) -> float:
    """A checked duration option in seconds, at most `longest`."""
    value = options.get(name)
    return min(parse_duration(value) if isinstance(value, str) else default, longest).total_seconds()


def only_local(where: str, what: str, origin: str) -> list[Fault]:
    """Refuses what touches this machine unless it was written in the configuration or at the local command line."""
    if origin in LOCAL_ORIGINS:
        return []
    return [
        Fault(where, f"a {what} may not be set from {origin}", "write it in sereno.toml or add it with the local command line")
    ]
