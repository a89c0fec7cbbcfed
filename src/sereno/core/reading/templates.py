"""Templates: texts of a contract with `{name}` in them: which names they use, what is wrong with them, and filling them."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import cast

from sereno.core.reading.document import nearest
from sereno.core.values import Json

PLACEHOLDER = re.compile(r"\{(\w+)(\*?)\}", re.ASCII)
"""`{name}` is one path segment or query value; `{name*}` is a path of several segments (Google's operation names)."""

CALLER_URL = "{job_id}"
"""A template that is only this: the job id itself is the status URL, as the provider returned it."""

BASE = "{base}"
INPUT = "{input}"
"""A text of a submit's body that is only this becomes the input itself, as JSON; a table with this key takes in its fields."""
NULL = "{null}"
"""A text of a body that is only this becomes null, which TOML does not have."""

UNSAFE = re.compile(r"[^\x21-\x7e]|[\\<>\"`{}|^]")
"""What a URL cannot hold as it is."""


def names_in(text: str) -> list[str]:
    """The names that a template uses, in order."""
    return [match[1] for match in PLACEHOLDER.finditer(text)]


def texts_in(value: Json, where: str) -> Iterator[tuple[str, str]]:
    """Every text inside a JSON value with its dotted place."""
    waiting: list[tuple[str, object]] = [(where, value)]
    while waiting:
        here, found = waiting.pop()
        if isinstance(found, str):
            yield here, found
        elif isinstance(found, dict):
            waiting += [(f"{here}.{key}", inner) for key, inner in found.items()]
        elif isinstance(found, list):
            waiting += [(f"{here}[{index}]", inner) for index, inner in enumerate(found)]


def text_problem(text: str, allowed: Collection[str]) -> str | None:
    """Says which name of a text is not known, or None."""
    for name in names_in(text):
        if name not in allowed:
            hint = nearest(name, allowed)
            return (
                f"{{{name}}} is not a parameter"
                + (f"; {hint}" if hint else "")
                + "; write { name } where braces are meant as text"
            )
    return None


def url_problem(url: str, allowed: Collection[str]) -> str | None:
    """Says what is wrong with a URL template whose names may be the allowed ones, or None. `{base}` may only begin it."""
    if url == CALLER_URL:
        return None
    based = url == BASE or url.startswith(BASE + "/")
    rest = url.removeprefix(BASE) if based else url
    for name in names_in(rest):
        if name not in allowed:
            known = {*allowed, *(["base"] if based else [])}
            return f"{{{name}}} is not a parameter" + (f"; {hint}" if (hint := nearest(name, known)) else "")
    literal = PLACEHOLDER.sub("x", rest)
    if not based and not re.match(r"https://[^/?#{}]+/", url):
        return 'starts with "https://host/" or "{base}/", or is "{job_id}" alone'
    if UNSAFE.search(literal) or "#" in literal:
        return "holds characters that a URL cannot hold"
    return None


def fill_text(template: str, values: Mapping[str, str]) -> str:
    """Puts values into a text as they are. Raises ValueError for a name that has no value."""
    return PLACEHOLDER.sub(lambda match: value_of(match[1], values), template)


def fill_json(template: Json, values: Mapping[str, str], submitted: Json) -> Json:
    """Fills every text of a JSON template. A text that is only `{null}` becomes null, one that is only `{input}` what is submitted; a
    table with that key holds the fields of what is submitted beside its own, and its own win, but for a null. Raises ValueError for
    a name without value, and for fields of a thing that has none.
    """
    if isinstance(template, str):
        return submitted if template == INPUT else None if template == NULL else fill_text(template, values)
    if isinstance(template, dict):
        given = _fields_of(submitted) if INPUT in template else {}
        return {**given, **dict(_own_fields(template, values, submitted, given))}
    if isinstance(template, list):
        return [fill_json(cast(Json, inner), values, submitted) for inner in template]
    return template


def _own_fields(
    template: Mapping[str, object], values: Mapping[str, str], submitted: Json, given: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    for key, inner in template.items():
        if key != INPUT and not (inner == NULL and key in given):
            yield key, fill_json(cast(Json, inner), values, submitted)


def _fields_of(submitted: Json) -> dict[str, object]:
    if submitted is not None and not isinstance(submitted, dict):
        raise ValueError("the input must be an object: the contract adds fields to it")
    return submitted or {}


def merges_in(value: Json, where: str) -> Iterator[tuple[str, object]]:
    """Every `{input}` key inside a JSON value with its place and what stands there."""
    waiting: list[tuple[str, object]] = [(where, value)]
    while waiting:
        here, found = waiting.pop()
        if isinstance(found, dict):
            if INPUT in found:
                yield here, found[INPUT]
            waiting += [(f"{here}.{key}", inner) for key, inner in found.items()]
        elif isinstance(found, list):
            waiting += [(f"{here}[{index}]", inner) for index, inner in enumerate(found)]


def value_of(name: str, values: Mapping[str, str]) -> str:
    """The value of a name. Raises ValueError where there is none."""
    if name not in values:
        raise ValueError(f"{{{name}}} has no value here")
    return values[name]
