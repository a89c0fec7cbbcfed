"""Turns content into objects: JSON by JMESPath, HTML by CSS selector, text, lines. One set of options for `http`, `file` and `command`."""

import json
import re
from collections.abc import Mapping, Sequence

import jmespath
from jmespath.exceptions import JMESPathError

from sereno.builtin.markup import TooComplex, select_text, selector_rule
from sereno.builtin.options import Rule, one_of, path_expression
from sereno.builtin.text import cut, decode, external_id, html_text, squeeze
from sereno.core.change import SourceObject
from sereno.core.errors import Fault
from sereno.core.values import BadJson, Json, canonical, digest, parse_json

MAX_ITEMS = 5_000
MAX_OBJECT = 1_000_000
"""Most bytes of canonical JSON in one object."""
MAX_TEXT = 100_000
"""Characters of a text that are handed on; its hash covers all of it."""
FORMATS = ("auto", "json", "text", "html", "lines")

_META = re.compile(rb"<meta[^<>]{1,200}?charset\s*=\s*[\"']?([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)


class BadContent(ValueError):
    """The content cannot be read as the options say; the message is for a person and repeats nothing secret."""


def _fields(value: Json) -> str | None:
    expressions = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else None
    if expressions is None or not 1 <= len(expressions) <= 64:
        return "must be a list of JMESPath expressions, or a table of names with expressions, 1 to 64"
    problems = (path_expression(entry) for entry in expressions)  # type: ignore[arg-type]  # a list of Json holds Json
    return next((f"entry {index + 1} {problem}" for index, problem in enumerate(problems) if problem), None)


CONTENT_RULES: Mapping[str, Rule] = {
    "format": one_of(*FORMATS),
    "items": path_expression,
    "id": path_expression,
    "title": path_expression,
    "link": path_expression,
    "fields": _fields,
    "select": selector_rule,
}


def check_content(where: str, options: Mapping[str, Json]) -> list[Fault]:
    """Lists content options that do not go together."""
    faults = []
    kind = options.get("format", "auto")
    if "items" in options and "id" not in options:
        faults.append(Fault(f"{where}.id", "is missing", 'say which field tells items apart, for example id = "id"'))
    for name in ("id", "title", "link"):
        if name in options and "items" not in options:
            faults.append(Fault(f"{where}.{name}", "has a meaning only beside items"))
    for name in ("items", "fields"):
        if name in options and kind not in ("auto", "json"):
            faults.append(Fault(f"{where}.{name}", f"reads JSON, but format is {kind}"))
    if "select" in options and kind not in ("auto", "html"):
        faults.append(Fault(f"{where}.select", f"reads HTML, but format is {kind}"))
    if "select" in options and ("items" in options or "fields" in options):
        faults.append(Fault(f"{where}.select", "reads HTML, but items and fields read JSON"))
    return faults


def extract(options: Mapping[str, Json], body: bytes, content_type: str | None, name: str) -> Sequence[SourceObject]:
    """Reads the objects in a body; without `items` the whole is one object called `name`. Raises BadContent."""
    match _format(options, body, content_type):
        case "json":
            return _json_objects(options, _parse(body), name)
        case "html":
            return [_text_object(_html(options, body, content_type), name)]
        case "lines":
            return _lines(_plain(body, content_type))
        case _:
            return [_text_object(_plain(body, content_type), name)]


def _format(options: Mapping[str, Json], body: bytes, content_type: str | None) -> str:
    chosen = str(options.get("format", "auto"))
    if chosen != "auto":
        return chosen
    if "select" in options:
        return "html"
    if "items" in options or "fields" in options:
        return "json"
    return sniff(body, content_type)


def sniff(body: bytes, content_type: str | None) -> str:
    """Says whether a body is json, html or text, by its media type and then by its first bytes."""
    media = (content_type or "").split(";")[0].strip().lower()
    if media.endswith(("/json", "+json")):
        return "json"
    if media in ("text/html", "application/xhtml+xml"):
        return "html"
    start = body[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "html"
    if media in ("", "text/plain", "application/octet-stream") and start[:1] in (b"{", b"["):
        return "json" if _is_json(body) else "text"
    return "text"


def _is_json(body: bytes) -> bool:
    try:
        _parse(body)
    except BadContent:
        return False
    return True


def _parse(body: bytes) -> Json:
    try:
        return parse_json(body.removeprefix(b"\xef\xbb\xbf"))
    except BadJson as error:
        raise BadContent(str(error)) from error


def _html(options: Mapping[str, Json], body: bytes, content_type: str | None) -> str:
    html = decode(body, content_type, _META)
    selector = options.get("select")
    if not isinstance(selector, str):
        return html_text(html)
    try:
        text = select_text(html, selector)
    except TooComplex as error:
        raise BadContent(str(error)) from error
    if text is None:
        raise BadContent(f"nothing on the page matches the selector {cut(selector, 80)!r}")
    return text


def _plain(body: bytes, content_type: str | None) -> str:
    if b"\x00" in body[:1024] and not body.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadContent("the content is not text")
    return squeeze(decode(body, content_type))


def _text_object(text: str, name: str) -> SourceObject:
    payload: Json = {"text": text[:MAX_TEXT], "length": len(text)}
    return SourceObject(name, digest(text.encode("utf-8", "replace")), payload, title=cut(text.partition("\n")[0], 200))


def _lines(text: str) -> Sequence[SourceObject]:
    lines = list(dict.fromkeys(text.splitlines()))
    if len(lines) > MAX_ITEMS:
        raise BadContent(f"more than {MAX_ITEMS:,} different lines")
    hashes = [digest(line.encode("utf-8", "replace")) for line in lines]
    return [
        SourceObject(f"sha256:{found}", found, {"text": line[:MAX_TEXT]}, title=cut(line, 200))
        for line, found in zip(lines, hashes, strict=True)
    ]


def _json_objects(options: Mapping[str, Json], document: Json, name: str) -> Sequence[SourceObject]:
    if "items" not in options:
        return [_object(name, _pick(options, document), name)]
    items = _search(str(options["items"]), document, "items")
    if not isinstance(items, list):
        raise BadContent(f"items found {_kind(items)} where a list was expected")
    if len(items) > MAX_ITEMS:
        raise BadContent(f"more than {MAX_ITEMS:,} items; narrow them at the source or with items")
    return [_item(options, item, index) for index, item in enumerate(items)]  # type: ignore[arg-type]  # a list of Json holds Json


def _item(options: Mapping[str, Json], item: Json, index: int) -> SourceObject:
    found = _search(str(options["id"]), item, "id")
    if isinstance(found, bool) or not isinstance(found, (str, int, float)) or found == "":
        raise BadContent(f"item {index + 1} has {_kind(found)} as id")
    title = _search(str(options["title"]), item, "title") if "title" in options else None
    link = _search(str(options["link"]), item, "link") if "link" in options else None
    title = cut(" ".join(title.split()), 200) if isinstance(title, str) else str(found)[:200]
    return _object(external_id(str(found)), _pick(options, item), title, link if is_web(link) else None)


def is_web(link: Json) -> bool:
    """True for a web address that may be shown as a link."""
    return isinstance(link, str) and len(link) <= 2048 and link.lower().startswith(("http://", "https://"))


def _object(identity: str, payload: Json, title: str, url: Json = None) -> SourceObject:
    data = canonical(payload)
    if len(data) > MAX_OBJECT:
        raise BadContent(f"an object is larger than {MAX_OBJECT:,} bytes; choose fields")
    return SourceObject(identity, digest(data), payload, title, url if isinstance(url, str) else None)


def _pick(options: Mapping[str, Json], value: Json) -> Json:
    fields = options.get("fields")
    if isinstance(fields, list):
        return {str(path): _search(str(path), value, "fields") for path in fields}
    if isinstance(fields, dict):
        return {name: _search(str(path), value, "fields") for name, path in fields.items()}
    return value


def _search(expression: str, value: Json, option: str) -> Json:
    try:
        found: Json = jmespath.search(expression, value)
    except (JMESPathError, RecursionError, ArithmeticError, TypeError, ValueError) as error:
        raise BadContent(f"{option} could not be evaluated on this content") from error
    return found


def _kind(value: Json) -> str:
    if value is None:
        return "nothing"
    return {dict: "an object", list: "a list", bool: "a boolean"}.get(type(value), json.dumps(value)[:40])
