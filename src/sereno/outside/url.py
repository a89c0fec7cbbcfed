"""One strict URL parser. What it returns is what is checked, connected to and written on the wire: no second reading exists.

Narrower than RFC 3986 and WHATWG on purpose: parser differences are how address checks are passed by (`http://a\\@b/`).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote, urljoin

import idna
from yarl import URL

LONGEST = 8000
"""Characters of a whole URL."""

DEFAULT_PORTS = {"http": 80, "https": 443}

# The browsers' bad ports (WHATWG fetch, "port blocking") and the databases and consoles an attacker would like to reach.
BAD_PORTS = frozenset(
    (0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111)
    + (113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548)
    + (554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566)
    + (6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080)
    + (445, 873, 1433, 1521, 2181, 2375, 2376, 2379, 2380, 3306, 3389, 4222, 5432, 5672, 5900, 6379, 7000, 9042, 10250, 11211)
    + (27017,)
)

_SHAPE = re.compile(r"(https?)://(\[[^\[\]/?#]*\]|[^\[\]/?#:]*)(?::([0-9]*))?([/?#].*)?", re.IGNORECASE | re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_USERINFO = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)
_FORBIDDEN = re.compile("[\x00-\x20\x7f-\xa0\\\\\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ud800-\udfff]")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_V6 = re.compile(r"[0-9a-f:.]+")


class BadUrl(ValueError):
    """The text is not a URL we ask; the message says why, never what the query holds."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL. `host` is ASCII lower case without brackets; `address` is set where the host is an IP literal."""

    scheme: str
    host: str
    port: int
    address: IPv4Address | IPv6Address | None
    url: URL
    origin: str
    """`scheme://host[:port]`, the port only where it is not the scheme's own."""

    @property
    def shown(self) -> str:
        """The address without query: what may stand in a record or message."""
        return self.origin + self.url.raw_path


@lru_cache(maxsize=16_384)
def parse_url(text: str) -> Target:
    """Reads an absolute http or https URL; a fragment is dropped. Raises BadUrl."""
    if len(text) > LONGEST:
        raise BadUrl(f"the URL is longer than {LONGEST} characters")
    if _FORBIDDEN.search(text):
        raise BadUrl("the URL holds white space, a control character or a backslash")
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise BadUrl(_why_not(text))
    scheme, authority, digits, rest = match[1].lower(), match[2], match[3], match[4] or "/"
    if "@" in authority:
        raise BadUrl("the URL holds a user name or password; name a credential instead")
    host, address = _read_host(authority)
    port = _read_port(digits, scheme)
    bracketed = f"[{host}]" if isinstance(address, IPv6Address) else host
    origin = f"{scheme}://{bracketed}" + ("" if port == DEFAULT_PORTS[scheme] else f":{port}")
    url = URL(origin + _read_rest(rest), encoded=True)
    if url.raw_host != host or url.port != port:  # the client library must read what we read
        raise BadUrl("the host cannot be read in one way only")
    return Target(scheme, host, port, address, url, origin)


def parse_origin(text: str) -> str:
    """Reads `https://host[:port]` (a trailing slash is accepted) and writes it the one way we compare. Raises BadUrl."""
    target = parse_url(text)
    if target.url.raw_path_qs != "/" or "#" in text or "?" in text:
        raise BadUrl("an origin is scheme://host[:port] and no more")
    return target.origin


def resolve_location(current: Target, location: str) -> Target:
    """Reads a `Location` header relative to the URL that answered. Raises BadUrl."""
    if not location or _FORBIDDEN.search(location):
        raise BadUrl("the redirect's Location is empty or holds white space, a control character or a backslash")
    if _SCHEME.match(location):  # absolute: read strictly, also `http:x`, which older rules call relative
        return parse_url(location)
    if location.startswith("//"):
        return parse_url(f"{current.scheme}:{location}")
    return parse_url(urljoin(str(current.url), location))


def _why_not(text: str) -> str:
    scheme = text.split(":", 1)[0].lower()
    if _USERINFO.match(text):
        return "the URL holds a user name or password; name a credential instead"
    if scheme not in DEFAULT_PORTS:
        return "only http:// and https:// URLs are asked"
    return "the URL is not scheme://host[:port]/path"


def _read_port(digits: str | None, scheme: str) -> int:
    if digits is None:
        return DEFAULT_PORTS[scheme]
    if not digits or len(digits) > 5 or not 1 <= int(digits) <= 65535:
        raise BadUrl("the port is not a number from 1 to 65535")
    return int(digits)


def _read_host(authority: str) -> tuple[str, IPv4Address | IPv6Address | None]:
    if authority.startswith("["):
        return _read_v6(authority[1:-1].lower())
    if not authority.isascii():
        authority = _to_ascii(authority)
    host = authority.lower().removesuffix(".")
    labels = host.split(".")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise BadUrl("the URL has no host, or the host is not a name or an address")
    if _NUMERIC.fullmatch(labels[-1]):
        return _read_v4(host)
    return host, None


def _to_ascii(host: str) -> str:
    """Maps full-width and international spellings the way browsers do (UTS 46, non-transitional), or refuses."""
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii")
    except idna.IDNAError as error:
        if (mapped := _mapped_number(host)) is not None:
            return mapped
        raise BadUrl("the host is not a valid international name") from error


def _mapped_number(host: str) -> str | None:
    """`①②⑦.⓪.⓪.①` is an IPv4 address to many resolvers; it is read as one so that it is judged as one."""
    try:
        mapped = idna.uts46_remap(host, std3_rules=True)
    except idna.IDNAError:
        return None
    return mapped if re.fullmatch(r"[0-9.]+", mapped) else None


def _read_v4(host: str) -> tuple[str, IPv4Address]:
    try:
        return host, IPv4Address(host)
    except ValueError as error:
        raise BadUrl("the host is a number; an IPv4 address is written as four decimal numbers") from error


def _read_v6(text: str) -> tuple[str, IPv6Address]:
    try:
        if not _V6.fullmatch(text):  # no zone ids, no percent signs
            raise ValueError
        address = IPv6Address(text)
    except ValueError as error:
        raise BadUrl("the host in brackets is not an IPv6 address (zone ids are not accepted)") from error
    return address.compressed, address


def _read_rest(rest: str) -> str:
    """Path and query as they go on the wire: no fragment, other characters percent-encoded, existing escapes kept."""
    rest = rest.split("#", 1)[0]
    if not rest.startswith("/"):
        rest = "/" + rest
    return quote(rest, safe="/?:@!$&'()*+,;=-._~%[]|")
