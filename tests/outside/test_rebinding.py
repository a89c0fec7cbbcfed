"""DNS that changes its mind between two questions never brings a connection to a special address."""

import socket
from collections.abc import Sequence
from ipaddress import ip_address

import pytest
from aiohttp.connector import AddrInfoType

from sereno.core.observation import HttpReply, NoReply, NoReplyKind
from sereno.outside.egress.allow import Allow
from sereno.outside.egress.exchange import Exchange, enter, leave, socket_factory
from sereno.outside.egress.gate import Seams
from sereno.outside.url import parse_url
from sereno.ports import Fetch
from tests.outside.corpus import follow
from tests.outside.rawserver import RawServer, accepted, listener, make_gate, ok

PUBLIC = "93.184.215.14"
TRIALS = 10_000


class Flipping:
    """A resolver that answers public, loopback, both and back again, one step a question."""

    def __init__(self, *answers: Sequence[str]):
        self.answers = answers
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        answer = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        return answer


class NoSockets:
    """Opens nothing and keeps a list of what it was asked for, so that 10,000 trials need no network."""

    def __init__(self) -> None:
        self.wanted: list[str] = []

    def __call__(self, info: AddrInfoType) -> socket.socket:
        self.wanted.append(str(info[4][0]))
        raise OSError(101, "Network is unreachable")


async def test_10000_rebinding_trials_reach_nothing_special() -> None:
    """Each trial asks DNS at most once and connects to exactly what was checked: 0 loopback connections in 10,000
    (incident 25)."""
    sock = listener("127.0.0.1")
    port = sock.getsockname()[1]
    flipping = Flipping(
        [PUBLIC], ["127.0.0.1"], [PUBLIC, "127.0.0.1"], ["::1"], [PUBLIC], ["::ffff:127.0.0.1"], ["169.254.169.254"]
    )
    sockets = NoSockets()
    gate = make_gate(seams=Seams(resolve=flipping, open_socket=sockets))
    kinds: dict[NoReplyKind, int] = {}
    for _ in range(TRIALS):
        reply = await gate.fetch(Fetch(f"http://rebind.example:{port}/"))
        assert isinstance(reply, NoReply) and not reply.sent and reply.hops == 0
        kinds[reply.kind] = kinds.get(reply.kind, 0) + 1
    await gate.close()
    assert flipping.asked == TRIALS  # one question a trial: there is no second answer to be fooled by
    assert set(sockets.wanted) == {PUBLIC}
    assert kinds.keys() == {NoReplyKind.CONNECT, NoReplyKind.REFUSED_ADDRESS} and kinds[NoReplyKind.CONNECT] > TRIALS / 4
    assert accepted(sock) == 0
    sock.close()


def test_a_socket_is_opened_for_checked_addresses_alone() -> None:
    """If the client library wanted another address than the checked one, no socket would be made for it."""
    sockets = NoSockets()
    exchange = Exchange(Allow(), None, parse_url("http://rebind.example:8080/"))
    exchange.approved = {(ip_address(PUBLIC), 8080)}
    token = enter(exchange)
    open_checked = socket_factory(sockets)
    for address, port in (("127.0.0.1", 8080), ("8.8.8.8", 8080), (PUBLIC, 8081), ("::1", 8080), ("::ffff:127.0.0.1", 8080)):
        exchange.refused = None
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with pytest.raises(OSError, match="refused by the egress gate"):
            open_checked((family, socket.SOCK_STREAM, 6, "", (address, port)))
        assert exchange.refused and sockets.wanted == []
    with pytest.raises(OSError, match="unreachable"):
        open_checked((socket.AF_INET, socket.SOCK_STREAM, 6, "", (PUBLIC, 8080)))
    assert sockets.wanted == [PUBLIC]
    leave(token)


async def test_the_address_that_is_really_connected_is_judged_before_a_byte_leaves() -> None:
    """A socket that a layer below diverts to loopback is seen by its peer name; the listener gets no byte."""
    sock = listener("127.0.0.1")
    diverted = sock.getsockname()

    class Diverted(socket.socket):
        def connect(self, address: object) -> None:
            super().connect(diverted)

    def open_diverted(info: AddrInfoType) -> socket.socket:
        return Diverted(info[0], info[1], info[2])

    gate = make_gate(seams=Seams(resolve=Flipping([PUBLIC]), open_socket=open_diverted))
    reply = await gate.fetch(Fetch("http://rebind.example/"))
    await gate.close()
    assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.REFUSED_ADDRESS and not reply.sent
    connection, _ = sock.accept()
    assert connection.recv(100) == b""
    connection.close()
    sock.close()


async def test_a_redirect_to_the_same_name_is_resolved_and_checked_again() -> None:
    """A name that was opened by address for the first hop is refused when it flips to another special one."""
    sock = listener("127.0.0.2")
    target = f"http://rebind.example:{sock.getsockname()[1]}/"
    answer = ok(b"", headers=b"Location: " + target.encode() + b"\r\n", status=b"302 Found")
    async with RawServer(answer) as server:
        gate = make_gate("127.0.0.1", seams=Seams(resolve=Flipping(["127.0.0.1"], ["127.0.0.2"])))
        reply = await gate.fetch(Fetch(f"http://rebind.example:{server.port}/", before_hop=follow))
        await gate.close()
        assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.REFUSED_ADDRESS
        assert reply.sent and reply.hops == 1 and len(server.requests) == 1
    assert accepted(sock) == 0
    sock.close()


async def test_control_a_name_that_stays_allowed_is_reached_and_its_connection_reused() -> None:
    """The same road with an allowed address answers; a pooled connection asks no DNS again."""
    flipping = Flipping(["127.0.0.1"], ["169.254.169.254"])
    async with RawServer() as server:
        gate = make_gate("127.0.0.1", seams=Seams(resolve=flipping))
        for _ in range(3):
            assert isinstance(await gate.fetch(Fetch(f"http://rebind.example:{server.port}/")), HttpReply)
        await gate.close()
        assert server.connections == 1 and flipping.asked == 1
