"""Reads a feed document (RSS, Atom, RDF, JSON Feed) into objects with stable ids and hashes that ignore what is volatile.

The bytes are decoded here, by one rule, and handed to the parser as plain UTF-8 without declaration, so that no encoding trick reaches
it. A document type or entity declaration is refused before parsing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from sereno.builtin.page import BadContent, is_web
from sereno.builtin.text import cut, decode, external_id, html_text, squeeze
from sereno.core.change import SourceObject
from sereno.core.values import BadJson, Json, canonical, digest, parse_json

MAX_ENTRIES = 5_000
MAX_SHARED = 100
"""Most ids remembered as shared by several entries."""
_MAX_MARKUP = 50_000
"""Characters of an entry's markup that are read."""
_MAX_SUMMARY = 10_000
"""Characters of an entry's text that are handed on; the hash covers all that was read."""

_DECLARED = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{1,40})")
_DECLARATION = re.compile(r"<\?xml[^>]{0,400}\?>")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONG_TAG = re.compile(r"<[A-Za-z_:](?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+'){1000,}+")
_EQUALS = re.compile(r"=\s*[\"']?")
_PREFIX = re.compile(r"\bxmlns:[^\s=<>\"']{1,100}")
_MAX_ATTRIBUTES = 100
"""In a tag of 1,000 and more characters."""
_MAX_PREFIXES, _MAX_DECLARED = 200, 20_000
"""Different namespace prefixes, and declarations of them."""
_MAX_TAGS = 400_000
_ROOT = re.compile(r"(?:[A-Za-z_][\w.-]{0,40}:)?(rss|feed|rdf|channel)\b", re.IGNORECASE)
_PARSER_FAULTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, SyntaxError)
"""What the parser raises for documents it did not expect; lxml's syntax error is a SyntaxError."""


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """A feed as read: its title, its entries in the order of the document, and the ids that several entries share."""

    title: str
    entries: Sequence[SourceObject]
    shared: Sequence[str]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry before its id is settled; `body` is plain text, `markup` what it was made of."""

    id: str
    title: str
    link: str
    text: str
    times: Mapping[str, str]
    author: str


_GUID = re.compile(r"(<guid\b[^>]*(?<!/)>)(?!\s*https?://)")
_NO_DATE = "http://id.invalid/"
"""Put before an id while the parser reads it: it would take an id such as `3` for a date where an entry has none."""


def looks_like_feed(body: bytes, content_type: str | None) -> bool:
    """Says whether a document is a feed by its root element or its JSON Feed version; the media type alone is not enough."""
    text = decode(body[:8192], content_type, _DECLARED).lstrip("\ufeff \t\r\n\x00")
    if text.startswith("{"):
        return bool(re.search(r'"version"\s*:\s*"https?:(?:\\?/){2}(?:www\.)?jsonfeed\.org\\?/version', text))
    try:
        return _ROOT.match(_root(text)) is not None
    except BadContent:
        return False


def read_feed(body: bytes, content_type: str | None, url: str, shared: Sequence[str] = ()) -> FeedDocument:
    """Reads the entries of a feed. Raises BadContent with one line for a person.

    An id is the entry's own (guid, id), else its link, else a digest of title and link. An id that several entries with different links
    share (now, or by `shared` before) tells nothing by itself: there the link is added.
    """
    text = decode(body, content_type, _DECLARED).lstrip("\ufeff \t\r\n\x00")
    if not text:
        raise BadContent("the feed is empty")
    title, entries, left_out = _json_feed(text, url) if text.startswith("{") else _xml_feed(text, url)
    known = _shared_ids(entries, shared)
    return FeedDocument(title, [_object(entry, title, known) for entry in entries], known, left_out)


def _xml_feed(text: str, url: str) -> tuple[str, list[_Entry], int]:
    text = _NOT_XML.sub("", text)
    root = _ROOT.match(_root(text))
    if root is None:
        raise BadContent("this is not a feed: no rss, feed or rdf element begins it")
    if f"</{root[0]}" not in text:
        raise BadContent("the feed is cut off: its root element never ends")
    _refuse_costly(text)
    plain = _DECLARATION.sub("", text[:1000], count=1) + text[1000:]
    try:
        import fastfeedparser  # noqa: PLC0415 - heavy, and only polls of feeds need it

        plain = _GUID.sub(rf"\1{_NO_DATE}", plain)
        parsed = fastfeedparser.parse(plain.lstrip().encode("utf-8", "replace"), include_tags=False, include_media=False)
        entries = [item for item in parsed.get("entries") or () if isinstance(item, dict)]
        title = _clean((parsed.get("feed") or {}).get("title"))
        return title, [_xml_entry(item, url) for item in entries[:MAX_ENTRIES]], max(0, len(entries) - MAX_ENTRIES)
    except _PARSER_FAULTS as error:
        raise BadContent("the feed cannot be parsed as RSS or Atom") from error


def _refuse_costly(text: str) -> None:
    """Refuses what costs the XML parser more than linear time: measured, 20,000 attributes in one tag take 1 s and four times as
    many 16 times as long; nested namespace prefixes behave alike. Raises BadContent."""
    if text.count("<") > _MAX_TAGS:
        raise BadContent(f"the feed has more than {_MAX_TAGS:,} tags")
    declared = _PREFIX.findall(text)
    if len(declared) > _MAX_DECLARED or len(set(declared)) > _MAX_PREFIXES:
        raise BadContent("the feed declares too many namespace prefixes")
    if any(len(_EQUALS.findall(tag[0])) > _MAX_ATTRIBUTES for tag in _LONG_TAG.finditer(text)):
        raise BadContent(f"a tag of the feed has more than {_MAX_ATTRIBUTES} attributes")


def _root(text: str) -> str:
    """What follows `<` of the root element, after instructions and comments. Raises BadContent for any declaration before it."""
    position = 0
    while (position := text.find("<", position)) >= 0:
        if text.startswith("<?", position):
            position = _past(text, "?>", position)
        elif text.startswith("<!--", position):
            position = _past(text, "-->", position)
        elif text.startswith("<!", position):
            if text[position + 2 : position + 20].lower().startswith("doctype html"):
                raise BadContent("this is a web page, not a feed")
            raise BadContent("the document declares a document type or entities; such documents are refused unread")
        else:
            return text[position + 1 : position + 100]
    raise BadContent("this is not a feed: it has no element")


def _past(text: str, mark: str, position: int) -> int:
    found = text.find(mark, position + 2)
    return len(text) if found < 0 else found + len(mark)


def _xml_entry(item: Mapping[str, object], url: str) -> _Entry:
    markup = _content(item) or _text(item.get("description")) or _text(item.get("summary"))
    identity = _text(item.get("id")).strip().removeprefix(_NO_DATE)
    link = _link(item).removeprefix(_NO_DATE) or (identity if is_web(identity) else "")
    times = {name: value for name in ("published", "updated") if (value := _text(item.get(name))[:64])}
    return _Entry(identity, _clean(item.get("title")), _absolute(link, url), _long(markup), times, _clean(item.get("author")))


def _content(item: Mapping[str, object]) -> str:
    content = item.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        return _text(content[0].get("value"))
    return ""


def _link(item: Mapping[str, object]) -> str:
    """The alternate link, wherever it stands among the others; else what the parser took."""
    links = item.get("links")
    for found in links if isinstance(links, list) else ():
        if isinstance(found, dict) and found.get("rel") in (None, "", "alternate") and _text(found.get("href")):
            return _text(found["href"])
    return _text(item.get("link"))


def _json_feed(text: str, url: str) -> tuple[str, list[_Entry], int]:
    try:
        document = parse_json(text)
    except BadJson as error:
        raise BadContent(f"the JSON feed cannot be read: {error}") from error
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(items, list):
        raise BadContent("this is not a JSON feed: it has no list named items")
    good = [item for item in items if isinstance(item, dict)]
    return _clean(document.get("title")), [_json_entry(item, url) for item in good[:MAX_ENTRIES]], max(0, len(good) - MAX_ENTRIES)


def _json_entry(item: Mapping[str, object], url: str) -> _Entry:
    raw = item.get("id")
    identity = str(raw) if isinstance(raw, (int, float)) and not isinstance(raw, bool) else _text(raw).strip()
    link = _text(item.get("url")) or _text(item.get("external_url")) or (identity if is_web(identity) else "")
    markup = _text(item.get("content_html"))
    plain = _text(item.get("content_text")) or _text(item.get("summary"))
    text = _long(markup) if markup else squeeze(plain[:_MAX_MARKUP])
    dates = (("published", "date_published"), ("updated", "date_modified"))
    times = {name: value for name, key in dates if (value := _text(item.get(key))[:64])}
    authors = item.get("authors")
    first = authors[0] if isinstance(authors, list) and authors else item.get("author")
    author = first.get("name") if isinstance(first, dict) else ""
    return _Entry(identity, _clean(item.get("title")), _absolute(link, url), text, times, _clean(author))


def _shared_ids(entries: Sequence[_Entry], before: Sequence[str]) -> list[str]:
    links: dict[str, str] = {}
    shared = dict.fromkeys(before)
    for entry in entries:
        if entry.id and links.setdefault(entry.id, entry.link) != entry.link:
            shared[_mark(entry.id)] = None
    return list(shared)[-MAX_SHARED:]


def _mark(identity: str) -> str:
    return digest(identity.encode("utf-8", "replace"))[:16]


def _object(entry: _Entry, feed: str, shared: Sequence[str]) -> SourceObject:
    identity = entry.id
    if identity and shared and _mark(identity) in shared:
        identity = f"{identity} {entry.link}"
    if not identity:
        named = canonical([entry.title, entry.link] if entry.title or entry.link else [entry.text])
        identity = entry.link or "sha256:" + digest(named)
    title = entry.title or cut(entry.text.partition("\n")[0], 80) or entry.link
    payload: Json = {
        "title": title,
        "link": entry.link,
        "summary": entry.text[:_MAX_SUMMARY],
        "author": entry.author,
        "feed": feed,
        **entry.times,
    }
    content = digest(canonical([entry.title, entry.link, entry.text]))
    return SourceObject(external_id(identity), content, payload, cut(title, 200), entry.link or None)


def _text(value: object) -> str:
    """A text without lone surrogates and NUL; anything else is empty."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "") if isinstance(value, str) else ""


def _clean(value: object) -> str:
    return cut(" ".join(html_text(_text(value)[:5_000]).split()), 1_000)


def _long(markup: str) -> str:
    return html_text(markup[:_MAX_MARKUP])


def _absolute(link: str, url: str) -> str:
    try:
        whole = urljoin(url, link.strip()) if link.strip() else ""
    except ValueError:
        return ""
    return whole if is_web(whole) else ""
