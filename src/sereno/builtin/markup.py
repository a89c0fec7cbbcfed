"""CSS selection on hostile HTML: the markup is tamed in linear time before a tree is built.

Both tree builders at hand (lexbor in selectolax, html5ever in nh3) follow the HTML standard to the letter, and so need quadratic
time for deep nesting (100,000 open `<div>`: 24 s) and explode on misnested formatting (`<p><b a=1>x<p><b a=2>x…`, 290 KB: more than
4 s and gigabytes). Taming re-writes each tag in one canonical form, so that the tree builder sees exactly what was counted here.
"""

import re
from collections import Counter
from html import escape, unescape

from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from sereno.builtin.text import html_text
from sereno.core.values import Json

MAX_HTML = 2_000_000
"""Longest document in characters for a selector."""
MAX_TAGS = 100_000
"""Start tags, end tags and comments."""
MAX_DEPTH = 200
MAX_ATTRIBUTES = 64
MAX_NODES = 5_000
"""Most elements a selector may match."""

_FORMATTING = frozenset("a b big code em font i nobr s small strike strong tt u".split())
_MAX_FORMATTING = 16
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())
_RAW = frozenset("script style noscript template iframe noembed noframes xmp plaintext svg math object".split())
_TEXT_ONLY = frozenset("textarea title".split())
_DROPPED = frozenset({"frameset", "frame", "select"})
_TOKEN = re.compile(
    r"<(?P<name>[A-Za-z][A-Za-z0-9:_-]{0,63})(?P<attributes>(?:[^<>\"']|\"[^\"]{0,4096}\"|'[^']{0,4096}')*+)>"
    r"|</(?P<end>[A-Za-z][A-Za-z0-9:_-]{0,63})[^<>]*+>"
    r"|(?P<comment><!--)"
    r"|<[!?/][^<>]*+>"
)
_ATTRIBUTE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:.-]{0,63})(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")


class TooComplex(ValueError):
    """The page is larger or more deeply nested than a selector may be run on."""


def selector_rule(value: Json) -> str | None:
    """A CSS selector that compiles."""
    if not isinstance(value, str) or not value or len(value) > 500:
        return "must be a CSS selector of at most 500 characters"
    try:
        LexborHTMLParser("<p>").css(value)
    except (SelectolaxError, ValueError):
        return "is not a CSS selector"
    return None


def select_text(html: str, selector: str) -> str | None:
    """The text of all elements that match, in document order, one after another; None where nothing matches. Raises TooComplex."""
    nodes = LexborHTMLParser(tame(html)).css(selector)
    if not nodes:
        return None
    if len(nodes) > MAX_NODES:
        raise TooComplex(f"the selector matches more than {MAX_NODES:,} elements")
    pieces: list[str] = []
    length = 0
    for node in nodes:
        pieces.append(node.html or "")
        length += len(pieces[-1])
        if length > 2 * MAX_HTML:
            raise TooComplex("the selector matches nested elements many times over")
    return "\n".join(filter(None, map(html_text, pieces)))


def tame(html: str) -> str:
    """Writes the document again with bounded nesting, balanced tags and quoted attributes, without scripts and foreign content."""
    if len(html) > MAX_HTML:
        raise TooComplex(f"the page is longer than {MAX_HTML:,} characters")
    return _Tamer(html).run()


class _Tamer:
    """One pass over the tags of a document."""

    def __init__(self, html: str) -> None:
        self._html = html
        self._lower = html.lower()
        self._out: list[str] = []
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()
        self._formatting = 0
        self._tags = 0

    def run(self) -> str:
        position = 0
        while (token := _TOKEN.search(self._html, position)) is not None:
            self._text(self._html[position : token.start()])
            position = token.end()
            self._tags += 1
            if self._tags > MAX_TAGS:
                raise TooComplex(f"the page has more than {MAX_TAGS:,} tags")
            if token["comment"]:
                position = self._after("-->", token.start() + 2)
            elif token["name"]:
                position = self._start(token["name"].lower(), token["attributes"], position)
            elif token["end"]:
                self._end(token["end"].lower())
        self._text(self._html[position:])
        self._out.extend(f"</{name}>" for name in reversed(self._open))
        return "".join(self._out)

    def _text(self, text: str) -> None:
        self._out.append(text.replace("<", "&lt;"))

    def _after(self, mark: str, position: int) -> int:
        found = self._lower.find(mark, position)
        return len(self._html) if found < 0 else found + len(mark)

    def _start(self, name: str, attributes: str, position: int) -> int:
        if name in _RAW:
            return self._find_end(name, position)
        formatting = name in _FORMATTING
        if len(self._open) >= MAX_DEPTH or (formatting and self._formatting >= _MAX_FORMATTING) or name in _DROPPED:
            return position
        self._out.append(f"<{name}{_canonical(attributes)}>")
        if name in _TEXT_ONLY:
            end = self._find_end(name, position)
            self._text(self._html[position:end])
            self._out.append(f"</{name}>")
            return end
        if name not in _VOID:
            self._open.append(name)
            self._counts[name] += 1
            self._formatting += formatting
        return position

    def _find_end(self, name: str, position: int) -> int:
        found = self._lower.find(f"</{name}", position)
        return len(self._html) if found < 0 else found

    def _end(self, name: str) -> None:
        if not self._counts[name]:
            return
        while True:
            top = self._open.pop()
            self._counts[top] -= 1
            self._formatting -= top in _FORMATTING
            self._out.append(f"</{top}>")
            if top == name:
                return


def _canonical(attributes: str) -> str:
    out: dict[str, str] = {}
    for name, double, single, bare in _ATTRIBUTE.findall(attributes):
        if len(out) >= MAX_ATTRIBUTES:
            break
        out.setdefault(name.lower(), unescape(double or single or bare))
    return "".join(f' {name}="{escape(value)}"' for name, value in out.items())
