"""Guesses what a URL is from one sample, for `poll add URL` alone."""

import json
import re
from collections.abc import Mapping

from sereno.builtin.entries import looks_like_feed
from sereno.builtin.page import sniff
from sereno.core.observation import HttpReply
from sereno.core.values import BadJson, Json, parse_json

_IDS = ("id", "guid", "uuid", "key", "number", "sha", "node_id", "url", "html_url", "link", "slug", "name")
_TITLES = ("title", "name", "full_name", "summary", "subject", "headline")
_LINKS = ("html_url", "url", "link", "href", "permalink")
_LISTS = ("items", "results", "data", "entries", "records", "values", "releases", "events", "articles", "posts")


def guess(url: str, sample: HttpReply) -> tuple[str, dict[str, Json]]:
    """Names source type and options for a URL whose answer was `sample`: a feed, a JSON list with ids, JSON, a page, or text.

    A wrong guess is corrected by writing the option out; nothing is fetched here.
    """
    content_type = sample.header("content-type")
    if looks_like_feed(sample.body, content_type):
        return "feed", {"url": url}
    kind = sniff(sample.body, content_type)
    return "http", {"url": url, "format": kind, **(_items(sample.body) if kind == "json" else {})}


def _items(body: bytes) -> dict[str, Json]:
    """Finds the list of things with ids in a JSON document, or nothing."""
    try:
        document = parse_json(body.removeprefix(b"\xef\xbb\xbf"))
    except BadJson:
        return {}
    for path, rows in _lists(document):
        identity = _first(_IDS, rows, unique=True)
        if identity is None:
            continue
        found: dict[str, Json] = {"items": path, "id": _quoted(identity)}
        for option, names in (("title", _TITLES), ("link", _LINKS)):
            name = _first(names, rows)
            if name is not None:
                found[option] = _quoted(name)
        return found
    return {}


def _lists(document: Json) -> list[tuple[str, list[Mapping[str, object]]]]:
    """The lists of objects in a document, likeliest first: the document itself, well-known names, then others by length."""
    if isinstance(document, list):
        candidates: list[tuple[str, object]] = [("@", document)]
    elif isinstance(document, dict):
        known = {name: index for index, name in enumerate(_LISTS)}
        names = sorted(document, key=lambda name: (known.get(name, len(known)), -len(json.dumps(document[name])), name))
        candidates = [(_quoted(name), document[name]) for name in names]
    else:
        candidates = []
    return [
        (path, [row for row in value if isinstance(row, dict)])
        for path, value in candidates
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    ]


def _first(names: tuple[str, ...], rows: list[Mapping[str, object]], *, unique: bool = False) -> str | None:
    """The first name that every row has as a text or number (without repetition where `unique`)."""
    for name in names:
        values = [row.get(name) for row in rows]
        if all(isinstance(value, (str, int)) and not isinstance(value, bool) and value != "" for value in values) and (
            not unique or len(set(values)) == len(values)
        ):
            return name
    return None


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else json.dumps(name)
