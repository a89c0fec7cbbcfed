"""The SSRF corpus against every place that takes a URL: a listener on all addresses of this machine sees no connection."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from aiohttp.connector import AddrInfoType

from sereno.core.observation import HttpReply, NoReplyKind, Reply
from sereno.outside.credentials import check_credential
from sereno.outside.egress.exchange import plain_socket
from sereno.outside.egress.gate import Gate, Seams
from sereno.outside.url import BadUrl, parse_origin
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.outside.corpus import NAMES, RELATIVE, URL_PLACES, Place, assert_refused, follow, forms, resolve
from tests.outside.rawserver import RawServer, accepted, listener, make_gate, ok


@dataclass
class Trap:
    """Listeners on every address, v4 and v6, on one port."""

    sockets: list[socket.socket]
    port: int
    opened: list[tuple[str, int]] = field(default_factory=list)

    def open_socket(self, info: AddrInfoType) -> socket.socket:
        """Notes what a socket is opened for."""
        self.opened.append((str(info[4][0]), int(info[4][1])))
        return plain_socket(info)

    def gate(self, *allow: str) -> Gate:
        """A gate whose sockets are noted."""
        config = CredentialConfig(f"http://loop.example:{self.port}", SecretPlace(env="CANARY"))
        seams = Seams(resolve=resolve, open_socket=self.open_socket)
        return make_gate(*allow, credentials={"canary": config}, environment={"CANARY": "canary-value-1"}, seams=seams)


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    """Opens and closes the listeners."""
    first = listener("0.0.0.0")
    port = first.getsockname()[1]
    second = listener("::", port)
    yield Trap([first, second], port)
    first.close()
    second.close()


def test_the_corpus_is_large_and_the_places_are_counted() -> None:
    """At least 200 different forms; the list of places is complete as of this count."""
    assert len(forms()) >= 200
    assert len({place.name for place in URL_PLACES}) == len(URL_PLACES) == 5


@pytest.mark.parametrize("place", URL_PLACES, ids=lambda place: place.name)
async def test_W25_P13_no_form_reaches_a_special_address(trap: Trap, place: Place) -> None:
    """Every form in every place: refused as a value, no socket opened, no connection seen (incident 25)."""
    gate = trap.gate()
    for form in forms():
        await assert_refused(place, gate, form.replace("{port}", str(trap.port)))
    await gate.close()
    assert trap.opened == []
    assert accepted(*trap.sockets) == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_to_a_special_address(trap: Trap, status: int) -> None:
    """Every form as the Location of a redirect (a seventh of them for all but 302): the first request alone leaves
    (incident 25)."""
    location = ""

    async def redirect(_: bytes, writer: asyncio.StreamWriter) -> None:
        header = b"Location: " + location.encode("utf-8", "surrogatepass") + b"\r\n"
        writer.write(ok(b"", headers=header, status=f"{status} Moved".encode()))

    async with RawServer(redirect) as server:
        gate = trap.gate(f"127.0.0.1:{server.port}")

        async def fetch(gate: Gate, _: str) -> Reply:
            return await gate.fetch(Fetch(server.url, before_hop=follow))

        texts = [form.replace("{port}", str(trap.port)) for form in forms() if form not in RELATIVE]
        texts = [text for text in texts if not {"\r", "\n", "\x00"} & set(text) and len(text) < 8000]
        assert len(texts) > 200
        for location in texts if status == 302 else texts[::7]:
            await assert_refused(Place("redirect Location", fetch, before=1), gate, location)
        await gate.close()
    assert trap.port not in {port for _, port in trap.opened}
    assert accepted(*trap.sockets) == 0


async def test_refresh_headers_alt_svc_and_authenticate_urls_are_not_followed(trap: Trap) -> None:
    """Other headers that name a URL cause no request."""
    evil = f"http://127.0.0.1:{trap.port}/"
    headers = f'Refresh: 0; url={evil}\r\nAlt-Svc: h2="127.0.0.1:{trap.port}"\r\nLink: <{evil}>; rel=preload\r\n'
    headers += f'WWW-Authenticate: Bearer realm="{evil}"\r\nContent-Location: {evil}\r\n'
    async with RawServer(ok(b"<meta http-equiv=refresh>", headers=headers.encode(), status=b"401 No")) as server:
        gate = trap.gate(f"127.0.0.1:{server.port}")
        reply = await gate.fetch(Fetch(server.url, before_hop=follow))
        again = await gate.fetch(Fetch(server.url, before_hop=follow))
        await gate.close()
        assert isinstance(reply, HttpReply) and isinstance(again, HttpReply)
        assert len(server.requests) == 2
    assert accepted(*trap.sockets) == 0


async def test_a_credential_cannot_be_bound_to_a_form_that_hides_its_host(trap: Trap) -> None:
    """Every form as the origin of a credential: it is a fault, or the gate refuses the place it names."""
    gate = trap.gate()
    for form in forms():
        text = form.replace("{port}", str(trap.port)).removesuffix("x")
        config = CredentialConfig(text, SecretPlace(env="CANARY"))
        try:
            origin = parse_origin(text)
        except BadUrl:
            assert check_credential("canary", config, "credentials.canary"), text
            continue
        reply = await gate.fetch(Fetch(origin, credential="canary"))
        assert not isinstance(reply, HttpReply)
    await gate.close()
    assert trap.opened == [] and accepted(*trap.sockets) == 0


@pytest.mark.parametrize(
    ("host", "allow"),
    [
        ("127.0.0.1", "127.0.0.1:{port}"),
        ("127.0.0.1", "127.0.0.0/8"),
        ("[::1]", "[::1]:{port}"),
        ("[::1]", "::1"),
        ("[::ffff:127.0.0.1]", "127.0.0.1:{port}"),
        ("loop.example", "loop.example:{port}"),
        ("loop.example", "127.0.0.1"),
        ("loop6.example", "loop6.example"),
        ("localhost", "localhost:{port}"),
    ],
)
async def test_control_the_same_listener_is_reached_when_allowed(trap: Trap, host: str, allow: str) -> None:
    """The trap would have seen a connection: with the address or name opened, it does."""
    NAMES["localhost"] = ["127.0.0.1"]
    gate = trap.gate(allow.replace("{port}", str(trap.port)))
    request = Fetch(f"http://{host}:{trap.port}/", total_deadline=timedelta(milliseconds=300))
    for _ in range(50):
        reply = await gate.fetch(request)
        if isinstance(reply, HttpReply) or reply.sent or reply.kind is not NoReplyKind.TIMEOUT:
            break  # else the machine was too busy to get as far as the first byte in its time
    await gate.close()
    del NAMES["localhost"]
    assert not isinstance(reply, HttpReply) and reply.kind is NoReplyKind.TIMEOUT and reply.sent
    assert accepted(*trap.sockets) >= 1


async def test_an_allowed_port_opens_no_other_port(trap: Trap) -> None:
    """`127.0.0.1:PORT` opens that port alone."""
    gate = trap.gate(f"127.0.0.1:{trap.port + 1}", "10.0.0.0/8")
    reply = await gate.fetch(Fetch(f"http://127.0.0.1:{trap.port}/"))
    await gate.close()
    assert not isinstance(reply, HttpReply) and reply.kind is NoReplyKind.REFUSED_ADDRESS and not reply.sent
    assert accepted(*trap.sockets) == 0


async def test_the_environment_s_proxy_is_not_used(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxy variables of the process do not reroute a request."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{trap.port}")
    async with RawServer() as server:
        gate = trap.gate(f"127.0.0.1:{server.port}")
        assert isinstance(await gate.fetch(Fetch(server.url)), HttpReply)
        await gate.close()
    assert accepted(*trap.sockets) == 0
