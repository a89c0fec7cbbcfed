"""Text from outside: decoded, made plain, escaped and cut, in linear time. Watched content is data, never instructions (P13)."""

import codecs
import re
from html import unescape

from sereno.core.values import digest

MAX_ID = 512
"""Longest external id in characters; a longer one is replaced by its digest."""

_ENCODINGS = frozenset(
    "utf-8 utf-16 utf-16-le utf-16-be ascii cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 cp866 koi8-r koi8-u"
    " mac-roman mac-cyrillic gbk gb2312 gb18030 big5 big5hkscs shift_jis cp932 euc_jp iso2022_jp euc_kr cp949 tis-620".split()
) | {f"iso8859-{n}" for n in range(1, 17) if n != 12}
"""What browsers decode too (WHATWG Encoding), without UTF-7 and Python's own escapes."""

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Control, bidi, zero-width, invisible and tag characters, and lone surrogates."""

_SPACES = re.compile(r"\s+")
_QUOTED = r"(?:[^<>\"']|\"[^\"<]*+\"|'[^'<]*+')*+"
_TAG = re.compile(rf"<[A-Za-z/!?](?:{_QUOTED}>|[^<>]*+>?)")
_BLOCK = re.compile(
    r"<(?:/?(?:p|div|li|ul|ol|dl|dt|dd|h[1-6]|tr|table|section|article|header|footer|nav|aside|main|pre|blockquote|figure"
    r"|figcaption|form|fieldset|address|option|title)|br|hr)\b" + _QUOTED + ">",
    re.IGNORECASE,
)
_CELL = re.compile(r"<(?:td|th)\b" + _QUOTED + ">", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")
_HIDDEN = re.compile(r"<(?:(script|style|noscript|template|iframe|object|svg|math)\b|!--)", re.IGNORECASE)


def safe_encoding(name: str | None) -> str | None:
    """Names the Python codec of a charset label, or None for an unknown or unwanted one. Latin-1 is read as Windows-1252, as on the web."""
    try:
        codec = codecs.lookup((name or "").strip().strip("\"'")).name
    except (LookupError, ValueError):
        return None
    codec = "cp1252" if codec in ("iso8859-1", "ascii") else codec
    return codec if codec in _ENCODINGS else None


def decode(body: bytes, content_type: str | None, declared: re.Pattern[bytes] | None = None) -> str:
    """Decodes foreign bytes: byte order mark, then the header's charset, then what the document declares, then UTF-8.

    Never fails: what does not decode becomes U+FFFD. `declared` finds a label in the first 1,024 bytes.
    """
    for mark, codec in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if body.startswith(mark):
            return body[len(mark) :].decode(codec, "replace")
    found = declared.search(body[:1024]) if declared else None
    inside = safe_encoding(found[1].decode("ascii", "replace")) if found else None
    if inside and inside.startswith("utf-16"):
        inside = "utf-8"  # the declaration was readable as ASCII, so it lies
    return body.decode(safe_encoding(charset(content_type)) or inside or "utf-8", "replace")


def charset(content_type: str | None) -> str | None:
    """The charset parameter of a Content-Type header, or None."""
    for part in (content_type or "")[:512].split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip()
    return None


def html_text(html: str) -> str:
    """Turns markup into plain text: blocks become lines, line ends of the source spaces; scripts, styles and comments vanish.

    Entities are read once. Works on tags alone and builds no tree, since both HTML tree builders at hand need quadratic time or memory for
    hostile nesting. The result is text and may contain `<`; it is never to be shown as HTML.
    """
    text = _BLOCK.sub("\n", _SPACES.sub(" ", _drop_hidden(html)))
    text = _TAG.sub("", _CELL.sub(" ", text))
    return squeeze(_ENTITY.sub(_entity, text))


def _drop_hidden(html: str) -> str:
    """Drops comments and elements whose content is not text, each up to its end tag, or to the end of the document."""
    kept, position, lower = [], 0, html.lower()
    while (match := _HIDDEN.search(html, position)) is not None:
        kept.append(html[position : match.start()])
        name = match[1]
        end = lower.find(f"</{name.lower()}" if name else "-->", match.start() + (0 if name else 2))
        if end < 0:
            return "".join(kept)
        position = end + (0 if name else 3)
    kept.append(html[position:])
    return "".join(kept)


def _entity(match: re.Match[str]) -> str:
    return unescape(match[0]).replace("\x00", "")


def squeeze(text: str) -> str:
    """Normalises whitespace: one space between words, no empty lines, no space at line ends, no NUL."""
    lines = (" ".join(line.split()) for line in text.replace("\x00", "").splitlines())
    return "\n".join(line for line in lines if line)


def escape_unsafe(text: str, *, keep: str = "") -> str:
    r"""Writes control, bidi, zero-width and other invisible characters as `\x1b` or `\u202e`, except those in `keep`."""
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int) -> str:
    """One safe line of at most `limit` characters: whitespace runs become one space, then unsafe characters are escaped, then cut."""
    return cut(escape_unsafe(_SPACES.sub(" ", text[: limit * 4]).strip()), limit)


def many_lines(text: str, limit: int) -> str:
    """Safe lines of at most `limit` characters in all; line ends are kept, everything unsafe else is escaped."""
    lines = text[: limit * 4].replace("\r\n", "\n").replace("\r", "\n")
    return cut(escape_unsafe(lines, keep="\n\t"), limit)


def cut(text: str, limit: int) -> str:
    """The text, or its first `limit` - 1 characters and an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def external_id(raw: str) -> str:
    """A stable id for one object: as it came, or `sha256:…` where it is empty-looking, too long or has control characters."""
    clean = raw.strip()
    if clean and len(clean) <= MAX_ID and not re.search("[\x00-\x1f\x7f]", clean):
        return clean
    return "sha256:" + digest(raw.encode("utf-8", "surrogatepass"))
