"""The SSRF corpus (reliability-security 4.4): URL texts that must not be asked, and the places that take a URL.

`{port}` stands for the port of the listener that must see no connection. Every place that takes a URL registers itself with
`url_place`; a test counts the list, so that a new place cannot be left out quietly.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address

from sereno.core.observation import NoReply, NoReplyKind, Reply
from sereno.outside.egress.gate import Gate
from sereno.ports import Fetch

TARGETS = ("127.0.0.1", "169.254.169.254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.100.100.200", "0.0.0.0")


def v4_spellings(text: str) -> list[str]:
    """Ways to write an IPv4 address that some parser or resolver takes for it."""
    number = int(IPv4Address(text))
    a, b, c, d = (int(part) for part in text.split("."))
    wide = text.translate({ord(str(digit)): chr(0xFF10 + digit) for digit in range(10)})
    circled = text.translate({ord(str(digit)): "⓪①②③④⑤⑥⑦⑧⑨"[digit] for digit in range(10)})
    return [
        text,
        text + ".",
        str(number),
        hex(number),
        f"0{number:o}",
        f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0x{a:x}.{number & 0xFFFFFF}",
        wide,
        circled,
        text.replace(".", "。"),
        text.replace(".", "．"),
        text.replace(".", "%2e"),
        f"[::ffff:{text}]",
        f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[::ffff:0:{text}]",
        f"[::{text}]",
        f"[64:ff9b::{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[64:ff9b:1::{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]",
        f"[2001:0:{number >> 16:x}:{number & 0xFFFF:x}::]",
        f"[{IPv6Address((0x20010000 << 96) | (~number & 0xFFFFFFFF))}]",
        f"[2a00:1450:4001:80b:0:5efe:{number >> 16:x}:{number & 0xFFFF:x}]",
        f"[2a00:1450:4001:80b:200:5efe:{number >> 16:x}:{number & 0xFFFF:x}]",
    ]


HOSTS = (
    *(
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[0000::0001]",
        "[::1%25lo]",
        "[::1%lo]",
        "[fe80::1]",
        "[fe80::1%25lo]",
        "[fe80::1%lo]",
    ),
    *("[fc00::1]", "[fd00:ec2::254]", "[fd12:3456:789a::1]", "[fec0::1]", "[ff02::1]", "[ff0e::1]", "[2001:db8::1]", "[3fff::1]"),
    *(
        "[5f00::1]",
        "[100::1]",
        "[2001:2::1]",
        "[2001:10::1]",
        "[2001:20::1]",
        "[4000::1]",
        "[::2]",
        "[1::1]",
        "[64:ff9b:1::8.8.8.8]",
    ),
    *("192.0.0.192", "192.0.0.1", "192.0.0.170", "192.88.99.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1"),
    *("198.19.255.255", "240.0.0.1", "255.255.255.255", "224.0.0.1", "239.255.255.250", "100.64.0.1", "169.254.170.2", "0.1.2.3"),
    *(
        "127.1",
        "127.0.1",
        "127.255.255.254",
        "127.127.127.127",
        "0",
        "00",
        "0x0",
        "0x7f.1",
        "0x7f000001",
        "2852039166",
        "0xa9fea9fe",
    ),
    *(
        "168.63.129.16",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "LOCALHOST.",
        "foo.localhost",
        "localhost.localdomain",
        "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    ),
    *(
        "ｌｏｃａｌｈｏｓｔ",
        "metadata.google.internal",
        "metadata.google.internal.",
        "METADATA.google.INTERNAL",
        "metadata",
        "metadata.goog",
    ),
    *("instance-data", "loop.example", "loop6.example", "both.example", "cname.example", "private.example", "mapped.example"),
    *(
        "nat64.example",
        "zone.example",
        "meta.example",
        "localtest.me",
        "127.0.0.1.nip.example",
        "many.example",
        "nowhere.example",
    ),
    *("127.0.0.1%00.example", "loop.example%00", "127.0.0.1%0a", "loop%2eexample", "", ".", "..", "a..b", "-", "[", "[]", "[::1"),
)
"""Hosts with the port appended."""

RAW = (
    *("http://public.example@127.0.0.1:{port}/", "http://127.0.0.1:{port}@public.example/", "http://user:pw@127.0.0.1:{port}/"),
    *("http://@127.0.0.1:{port}/", "http://127.0.0.1:{port}\\@public.example/", "http://public.example\\@127.0.0.1:{port}/"),
    *("http:\\\\127.0.0.1:{port}\\", "http:/\\127.0.0.1:{port}/", "http:///127.0.0.1:{port}/", "http:127.0.0.1:{port}", "http:/127.0.0.1:{port}"),
    *("//127.0.0.1:{port}/x", "http://127.0.0.1:{port}#@public.example/", "http://127.0.0.1:{port}?@public.example/", "http://"),
    *("http:///", "https://127.0.0.1:{port}/", "HTTP://127.0.0.1:{port}/", "hTTp://LOCALHOST:{port}/", "http://127.0.0.1\t:{port}/"),
    *("http://127.0.0.1\n:{port}/", "http://127.0.\t0.1:{port}/", " http://127.0.0.1:{port}/", "http://127.0.0.1:{port}/\r\nHost: x"),
    *("ht\ntp://127.0.0.1:{port}/", "http://127.0.0.1:{port}/a b", "http://127.0.0.1:{port}/\x00", "http://127.0.0.1\u200b:{port}/"),
    *("http://127.0.0.1\u00ad:{port}/", "http://loop.exam\u00adple:{port}/", "file:///etc/passwd", "file://127.0.0.1:{port}/", "ftp://127.0.0.1:{port}/"),
    *("gopher://127.0.0.1:{port}/_x", "dict://127.0.0.1:{port}/x", "data:text/plain,x", "jar:http://127.0.0.1:{port}!/x", "unix:///run/x.sock"),
    *("http+unix://%2frun%2fx.sock/", "ws://127.0.0.1:{port}/", "ldap://127.0.0.1:{port}/", "tftp://127.0.0.1:{port}/", "view-source:http://127.0.0.1:{port}/"),
    *("javascript:fetch('http://127.0.0.1:{port}')", "url:http://127.0.0.1:{port}/", "netdoc://127.0.0.1:{port}/", "http2://127.0.0.1:{port}/"),
    *("http://127.0.0.1:0{port}x/", "http://127.0.0.1:{port}:80/", "http://public.example:0/", "http://public.example:22/", "http://public.example:25/"),
    *("http://public.example:6379/", "http://public.example:65536/", "http://public.example:-1/", "http://public.example:/", "http://public.example:８０/"),
    *("http://public.example:0x50/", "http://public.example:11211/", "http://public.example:2375/", "http://[::1]]:{port}/", "http://[::ffff:127.0.0.1:{port}/"),
    *("http://[::1]@public.example:{port}/", "http://public.example:80@127.0.0.1:{port}/", "http://[v1.x]:{port}/", "http://a,127.0.0.1:{port}/", "http://127.0.0.1;x:{port}/"),
    *("http://loop.example:{port}/" + "a" * 9000, "http://" + "a" * 64 + ".example:{port}/", "http://" + "a." * 200 + "example:{port}/"),
    *("/x", "x", "?x", "#x", "", "http", "http:", "http:/", "http:x", "http:?x"),
)  # fmt: skip

RELATIVE = frozenset(("/x", "x", "?x", "#x", "http"))
"""As a redirect's Location these lead back to the server that sent them; everywhere else they are refused."""

NAMES: dict[str, list[str]] = {
    "loop.example": ["127.0.0.1"],
    "loop6.example": ["::1"],
    "both.example": ["93.184.215.14", "127.0.0.1"],
    "cname.example": ["10.1.2.3"],
    "private.example": ["192.168.1.1", "93.184.215.14"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "zone.example": ["fe80::1%lo"],
    "meta.example": ["169.254.169.254"],
    "localtest.me": ["127.0.0.1", "::1"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "many.example": ["93.184.215.14"] * 40 + ["127.0.0.1"],
    "public.example": ["93.184.215.14"],
}


async def resolve(host: str, port: int) -> Sequence[str]:
    """The corpus' own DNS."""
    if host not in NAMES:
        raise OSError(-2, "Name or service not known")
    return NAMES[host]


def forms() -> list[str]:
    """All URL texts, each once, `{port}` unfilled."""
    hosts = [spelling for target in TARGETS for spelling in v4_spellings(target)] + list(HOSTS)
    texts = [f"http://{host}:{{port}}/x" for host in hosts] + list(RAW)
    return list(dict.fromkeys(texts))


FetchUrl = Callable[[Gate, str], Awaitable[Reply]]


@dataclass(frozen=True)
class Place:
    """A place that takes a URL: how it is asked, and how many requests leave before the corpus' URL is met."""

    name: str
    fetch: FetchUrl
    before: int = 0


URL_PLACES: list[Place] = []


def url_place(name: str, *, before: int = 0) -> Callable[[FetchUrl], FetchUrl]:
    """Registers a place that takes a URL."""

    def register(fetch: FetchUrl) -> FetchUrl:
        URL_PLACES.append(Place(name, fetch, before))
        return fetch

    return register


async def follow(origin: str) -> bool:
    """A `before_hop` that lets every hop be followed."""
    return True


SHORT = timedelta(seconds=60)


@url_place("source url")
async def source_url(gate: Gate, url: str) -> Reply:
    """What `http` and `feed` sources send."""
    return await gate.fetch(Fetch(url, headers={"If-None-Match": '"x"'}, total_deadline=SHORT))


@url_place("source url, redirects on")
async def redirecting_source_url(gate: Gate, url: str) -> Reply:
    """The same with a hop budget."""
    return await gate.fetch(Fetch(url, before_hop=follow, total_deadline=SHORT))


@url_place("webhook action url")
async def webhook_url(gate: Gate, url: str) -> Reply:
    """What a `webhook` action sends."""
    headers = {"Content-Type": "application/json"}
    return await gate.fetch(Fetch(url, method="POST", headers=headers, body=b"{}", total_deadline=SHORT))


@url_place("contract status url")
async def status_url(gate: Gate, url: str) -> Reply:
    """What the provider sends for a caller's own URL: no origin list, redirects as the contract says."""
    return await gate.fetch(Fetch(url, headers={"Accept": "application/json"}, before_hop=follow, total_deadline=SHORT))


@url_place("url with a credential")
async def credential_url(gate: Gate, url: str) -> Reply:
    """A credential never opens an address."""
    return await gate.fetch(Fetch(url, credential="canary", total_deadline=SHORT))


async def assert_refused(place: Place, gate: Gate, url: str) -> None:
    """Asks one URL in one place: a value comes back, and nothing left for that URL."""
    reply = await place.fetch(gate, url)
    assert isinstance(reply, NoReply), (place.name, url, reply)
    assert reply.hops == place.before, (place.name, url, reply)
    expected = {NoReplyKind.REFUSED_ADDRESS, NoReplyKind.DNS, NoReplyKind.NO_CREDENTIAL, NoReplyKind.REDIRECT}
    assert reply.kind in expected, (place.name, url, reply)
