"""The gate as a transport: once on the wire, within its bounds, values for what the world does."""

import asyncio
import gzip
import threading
import zlib
from datetime import timedelta

import pytest

from sereno.core.errors import LeaseLost
from sereno.core.observation import HttpReply, NoReply, NoReplyKind, Reply
from sereno.outside.egress.gate import Gate, Seams
from sereno.outside.egress.limits import GateLimits
from sereno.outside.egress.resolve import SystemResolver
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.outside.corpus import follow
from tests.outside.rawserver import RawServer, make_gate, ok

PUBLIC = "93.184.215.14"


def failed(reply: Reply) -> NoReply:
    """Asserts that there is no complete answer."""
    assert isinstance(reply, NoReply), reply
    return reply


def answered(reply: Reply) -> HttpReply:
    """Asserts that there is an answer."""
    assert isinstance(reply, HttpReply), reply
    return reply


def within(milliseconds: int) -> timedelta:
    """A total deadline."""
    return timedelta(milliseconds=milliseconds)


def local(server: RawServer, *, limits: GateLimits | None = None) -> Gate:
    """A gate that may ask this server alone."""
    return make_gate(f"127.0.0.1:{server.port}", limits=limits)


async def test_a_reply_holds_status_headers_body_and_the_place_without_query() -> None:
    """The whole answer arrives as sent; the shown address has no query."""
    async with RawServer(ok(b'{"a":1}', headers=b"Content-Type: application/json; charset=x\r\nX-A: 1\r\nX-A: 2\r\n")) as server:
        gate = local(server)
        reply = answered(await gate.fetch(Fetch(server.url + "/p%20q?token=abc#f", headers={"If-None-Match": '"e"'})))
        await gate.close()
        assert (reply.status, reply.body, reply.content_type, reply.hops) == (200, b'{"a":1}', "application/json", 1)
        assert [value for name, value in reply.headers if name.lower() == "x-a"] == ["1", "2"]
        assert reply.url == server.url + "/p%20q" and reply.elapsed > timedelta(0)
        request = server.requests[0].decode()
        assert request.startswith("GET /p%20q?token=abc HTTP/1.1\r\n")
        assert f"Host: 127.0.0.1:{server.port}\r\n" in request and 'If-None-Match: "e"' in request
        assert "Accept-Encoding: gzip\r\n" in request and "Cookie" not in request


async def test_cookies_are_neither_kept_nor_sent() -> None:
    """A Set-Cookie of one answer does not come back with the next request."""
    async with RawServer(ok(headers=b"Set-Cookie: a=b\r\n")) as server:
        gate = local(server)
        for _ in range(2):
            answered(await gate.fetch(Fetch(server.url)))
        await gate.close()
        assert b"cookie" not in server.requests[1].lower() and server.connections == 1


@pytest.mark.parametrize("warm", [False, True], ids=["fresh connection", "kept connection"])
async def test_I1_a_request_is_written_once_even_if_the_server_closes_on_it(warm: bool) -> None:
    """A server that takes the request and closes sees one request; the client library's retry of GET is off."""

    async def close_on_second(request: bytes, writer: asyncio.StreamWriter) -> None:
        if b"GET /warm" in request:
            writer.write(ok())
        else:
            writer.transport.abort()

    async with RawServer(close_on_second) as server:
        gate = local(server)
        if warm:
            answered(await gate.fetch(Fetch(server.url + "/warm")))
        before = len(server.requests)
        reply = failed(await gate.fetch(Fetch(server.url + "/once")))
        await gate.close()
        assert reply.kind is NoReplyKind.RESET and reply.sent and reply.hops == 1
        assert len(server.requests) - before == 1


async def test_W33_sent_is_false_where_nothing_left() -> None:
    """Refused connection, unknown header, missing credential, no such scheme: certain that nothing left."""
    async with RawServer() as server:
        port = server.port
    gate = make_gate(f"127.0.0.1:{port}")
    url = f"http://127.0.0.1:{port}/"
    assert failed(await gate.fetch(Fetch(url))).kind is NoReplyKind.CONNECT
    for request, kind in (
        (Fetch(url), NoReplyKind.CONNECT),
        (Fetch(url, headers={"Host": "x"}), NoReplyKind.REFUSED_ADDRESS),
        (Fetch(url, headers={"X": "a\r\nb: c"}), NoReplyKind.REFUSED_ADDRESS),
        (Fetch(url, method="CONNECT"), NoReplyKind.REFUSED_ADDRESS),
        (Fetch(url, credential="none"), NoReplyKind.NO_CREDENTIAL),
        (Fetch(url, allowed_origins=["https://other.example"]), NoReplyKind.REFUSED_ADDRESS),
        (Fetch(url, total_deadline=timedelta(0)), NoReplyKind.TIMEOUT),
    ):
        reply = failed(await gate.fetch(request))
        assert (reply.kind, reply.sent, reply.hops) == (kind, False, 0), reply
    await gate.close()


async def test_W32_the_last_check_stops_a_request_after_the_connection_stands() -> None:
    """`before_first_byte` raises: the server has a connection and no byte; the reply says that nothing left."""

    async def lost() -> None:
        raise LeaseLost("taken over")

    async with RawServer() as server:
        gate = local(server)
        reply = failed(await gate.fetch(Fetch(server.url, method="POST", body=b"x", before_first_byte=lost)))
        again = answered(await gate.fetch(Fetch(server.url)))
        await gate.close()
        assert (reply.kind, reply.sent, reply.hops) == (NoReplyKind.CANCELLED, False, 0)
        assert again.status == 200 and len(server.requests) == 1


async def test_the_last_check_is_asked_once_for_each_hop() -> None:
    """Two hops, two checks; the second one stops the second request alone."""
    checks = 0

    async def only_first() -> None:
        nonlocal checks
        checks += 1
        if checks == 2:
            raise LeaseLost("taken over")

    async with RawServer(ok(b"", headers=b"Location: /next\r\n", status=b"302 Found")) as server:
        gate = local(server)
        reply = failed(await gate.fetch(Fetch(server.url, before_hop=follow, before_first_byte=only_first)))
        await gate.close()
        assert (reply.kind, reply.sent, reply.hops, checks) == (NoReplyKind.CANCELLED, True, 1, 2)
        assert len(server.requests) == 1


async def test_a_bug_in_the_last_check_is_raised_and_nothing_left() -> None:
    """What is not the world's doing is not turned into a value."""

    async def bug() -> None:
        raise ZeroDivisionError

    async with RawServer() as server:
        gate = local(server)
        with pytest.raises(ZeroDivisionError):
            await gate.fetch(Fetch(server.url, before_first_byte=bug))
        await gate.close()
        assert server.requests == []


async def cut(gate: Gate, server: RawServer, milliseconds: int, *, answers: bool = False) -> NoReply:
    """Fetches what hangs, under a short deadline; again where the machine was so slow that it passed before the server was reached."""
    for _ in range(50):
        reply = failed(await gate.fetch(Fetch(server.url, total_deadline=within(milliseconds))))
        if reply.kind is not NoReplyKind.TIMEOUT or (reply.sent and (reply.status is not None or not answers)):
            return reply
    raise AssertionError(f"the server was never reached within {milliseconds} ms")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("no answer at all", b" "),
        ("a header that never ends", b"HTTP/1.1 200 OK\r\nA: "),
        ("a body that stops", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
    ],
)
async def test_the_total_deadline_ends_everything(name: str, answer: bytes) -> None:
    """Whatever hangs is cut at the total deadline, not before."""
    async with RawServer(answer) as server:
        gate = local(server)
        reply = await cut(gate, server, 200)
        await gate.close()
        assert reply.kind in (NoReplyKind.TIMEOUT, NoReplyKind.PROTOCOL) and reply.sent
        assert reply.kind is NoReplyKind.PROTOCOL or reply.elapsed >= within(200)


async def test_a_drip_is_cut_by_the_total_deadline_not_per_read() -> None:
    """One byte each 10 ms resets no timer."""

    async def drip(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _i in range(10_000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with RawServer(drip) as server:
        gate = local(server)
        reply = await cut(gate, server, 250, answers=True)
        slow = local(server, limits=GateLimits(grace=0.1, floor=1e6))
        too_slow = failed(await slow.fetch(Fetch(server.url, total_deadline=timedelta(seconds=1000))))
        await gate.close()
        await slow.close()
        assert reply.kind is NoReplyKind.TIMEOUT and reply.status == 200
        assert too_slow.kind is NoReplyKind.TOO_SLOW


def packed(data: bytes) -> bytes:
    """Gzip without a time stamp, so that the names of the tests are the same in every process."""
    return gzip.compress(data, mtime=0)


BODY = b"some text, " * 5000


def raw_deflate(data: bytes) -> bytes:
    """Bare deflate without the zlib frame, as some servers send it."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        (b"gzip", packed(BODY)),
        (b"x-gzip", packed(BODY)),
        (b"GZIP", packed(BODY[:100]) + packed(BODY[100:])),
        (b"deflate", zlib.compress(BODY)),
        (b"deflate", raw_deflate(BODY)),
        (b"identity", BODY),
        (b"gzip, identity", packed(BODY)),
    ],
)
async def test_one_encoding_is_decoded(encoding: bytes, sent: bytes) -> None:
    """gzip, deflate in both readings and several members arrive as the text."""
    async with RawServer(ok(sent, headers=b"Content-Encoding: " + encoding + b"\r\n")) as server:
        gate = local(server)
        assert answered(await gate.fetch(Fetch(server.url))).body == BODY
        await gate.close()


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        (b"gzip", packed(BODY)[:-9]),
        (b"gzip", packed(BODY) + b"trailing"),
        (b"gzip", BODY),
        (b"deflate", zlib.compress(BODY)[:-1]),
        (b"deflate", zlib.compress(BODY) + zlib.compress(BODY)),
        (b"gzip, gzip", packed(packed(BODY))),
        (b"br", b"x"),
        (b"zstd", b"x"),
        (b"gzip\r\nContent-Encoding: gzip", packed(BODY)),
    ],
)
async def test_other_encodings_and_broken_ones_are_error_values(encoding: bytes, sent: bytes) -> None:
    """Truncated, doubled, unknown or trailing: BAD_ENCODING, with the status that had come."""
    async with RawServer(ok(sent, headers=b"Content-Encoding: " + encoding + b"\r\n")) as server:
        gate = local(server)
        reply = failed(await gate.fetch(Fetch(server.url)))
        await gate.close()
        assert reply.kind is NoReplyKind.BAD_ENCODING and reply.status == 200 and reply.sent


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", NoReplyKind.RESET),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", NoReplyKind.RESET),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab", NoReplyKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", NoReplyKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", NoReplyKind.PROTOCOL),
        (b"SSH-2.0-OpenSSH\r\n", NoReplyKind.PROTOCOL),
        (b"\x16\x03\x01\x00\x00", NoReplyKind.PROTOCOL),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n", NoReplyKind.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 40_000 + b"\r\n\r\n", NoReplyKind.TOO_LARGE),
        (b"HTTP/1.1 200 OK\r\n" + (b"A: " + b"b" * 20_000 + b"\r\n") * 4 + b"\r\n", NoReplyKind.TOO_LARGE),
    ],
)
async def test_broken_answers_are_error_values(answer: bytes, kind: NoReplyKind) -> None:
    """Short bodies, broken chunks, other protocols and large headers."""

    async def say_and_close(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with RawServer(say_and_close) as server:
        gate = local(server)
        reply = failed(await gate.fetch(Fetch(server.url, total_deadline=within(60_000))))
        await gate.close()
        assert reply.kind is kind and reply.sent, reply


async def test_sizes_at_the_cap_pass_and_one_more_byte_does_not() -> None:
    """The cap counts decoded bytes, declared or not, plain or packed."""
    body = b"x" * 1000
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + body + b"\r\n0\r\n\r\n"
    for answer in (ok(body), chunked, ok(packed(body), headers=b"Content-Encoding: gzip\r\n")):
        async with RawServer(answer) as server:
            gate = local(server)
            assert answered(await gate.fetch(Fetch(server.url, max_bytes=1000))).body == body
            assert failed(await gate.fetch(Fetch(server.url, max_bytes=999))).kind is NoReplyKind.TOO_LARGE
            await gate.close()


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_answers_without_a_body_end_at_their_headers(status: bytes) -> None:
    """204 and 304 have no body, whatever their headers promise; the connection stays usable."""
    answer = b"HTTP/1.1 " + status + b"\r\nContent-Encoding: gzip\r\nETag: x\r\n\r\n"
    async with RawServer(answer) as server:
        gate = local(server)
        for _ in range(2):
            reply = answered(await gate.fetch(Fetch(server.url)))
            assert reply.body == b"" and reply.header("etag") == "x"
        await gate.close()
        assert server.connections == 1


async def test_head_and_bodies_travel() -> None:
    """HEAD has no body; POST carries its bytes and a length."""
    async with RawServer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Encoding: br\r\n\r\n") as server:
        gate = local(server)
        assert answered(await gate.fetch(Fetch(server.url, method="HEAD", total_deadline=within(60_000)))).body == b""
        await gate.close()
    async with RawServer() as server:
        gate = local(server)
        answered(await gate.fetch(Fetch(server.url, method="post", headers={"Content-Type": "a/b"}, body=b"payload")))
        await gate.close()
        assert server.requests[0].startswith(b"POST / ") and server.requests[0].endswith(b"\r\n\r\npayload")
        assert b"Content-Type: a/b\r\n" in server.requests[0]


async def test_header_bytes_that_are_not_utf8_become_text_that_can_be_stored() -> None:
    """No lone surrogates leave the gate."""
    async with RawServer(ok(headers=b"X-Name: caf\xe9 \xc3\xa9\r\n")) as server:
        gate = local(server)
        value = answered(await gate.fetch(Fetch(server.url))).header("x-name") or ""
        await gate.close()
        assert value.encode() and value.startswith("caf") and value.endswith("é")


async def test_cancelling_a_fetch_ends_it_and_closes_its_connection() -> None:
    """A cancelled task raises CancelledError as asyncio expects."""
    async with RawServer(b" ") as server:
        gate = local(server)
        task = asyncio.ensure_future(gate.fetch(Fetch(server.url)))
        while not server.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gate.close()


async def test_messages_hold_no_query_and_no_secret() -> None:
    """A failing request with a query and a credential says neither."""
    config = CredentialConfig("http://127.0.0.1:9", SecretPlace(env="K"))
    gate = make_gate("127.0.0.1", credentials={"k": config}, environment={"K": "s3cret-value"})
    reply = failed(await gate.fetch(Fetch("http://127.0.0.1:8/?q=topsecret", credential="k")))
    await gate.close()
    assert "topsecret" not in repr(reply) and "s3cret" not in repr(reply) and reply.kind is NoReplyKind.NO_CREDENTIAL


async def test_a_hundred_at_once_share_the_pool() -> None:
    """100 in flight, each answered with its own body."""

    async def echo(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(request.split(b" ")[1]))

    async with RawServer(echo) as server:
        gate = local(server)
        replies = await asyncio.gather(*(gate.fetch(Fetch(f"{server.url}/{n}")) for n in range(300)))
        await gate.close()
        assert [answered(reply).body for reply in replies] == [f"/{n}".encode() for n in range(300)]


async def test_a_dead_first_address_gives_way_to_the_next_checked_one() -> None:
    """A name with a dead IPv6 and a live IPv4 address is reached; both were checked."""

    async def resolve(host: str, port: int) -> list[str]:
        return ["::1", "127.0.0.1", "127.0.0.1"]

    async with RawServer() as server:
        gate = make_gate("::1", "127.0.0.1", seams=Seams(resolve=resolve))
        assert answered(await gate.fetch(Fetch(f"http://two.example:{server.port}/"))).status == 200
        await gate.close()
        assert server.connections == 1 and f"Host: two.example:{server.port}".encode() in server.requests[0]


async def test_a_closed_gate_opens_anew() -> None:
    """`close` ends connections; the next fetch makes a new one."""
    async with RawServer() as server:
        gate = local(server)
        for _ in range(2):
            assert answered(await gate.fetch(Fetch(server.url))).status == 200
            await gate.close()
        await gate.close()
        assert server.connections == 2


async def test_the_system_resolver_finds_names_and_says_when_there_is_none() -> None:
    """`localhost` through the operating system; a reserved name (RFC 6761) is not found, and nothing is sent."""
    async with RawServer() as server:
        gate = make_gate("localhost")
        assert answered(await gate.fetch(Fetch(f"http://localhost:{server.port}/"))).status == 200
        missing = failed(await gate.fetch(Fetch("http://nobody.invalid/")))
        await gate.close()
        assert (missing.kind, missing.sent) == (NoReplyKind.DNS, False)


async def test_the_system_is_asked_once_for_a_name_at_a_time_and_a_hanging_name_holds_up_no_other() -> None:
    """20 callers of one name make one look-up; a name that hangs leaves the other slot free; a cancelled caller harms nobody."""
    asked: list[str] = []
    release = threading.Event()

    def look_up(host: str) -> list[str]:
        asked.append(host)
        if host == "hangs.example":
            release.wait(100)
        return [PUBLIC]

    resolver = SystemResolver(threads=2, look_up=look_up)
    hanging = asyncio.ensure_future(resolver("hangs.example", 80))
    assert await asyncio.gather(*(resolver("a.example", 80) for _ in range(20))) == [[PUBLIC]] * 20
    assert sorted(asked) == ["a.example", "hangs.example"]
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    again = asyncio.ensure_future(resolver("hangs.example", 80))
    release.set()
    assert await again == [PUBLIC] and len(asked) == 2
    resolver.close()
