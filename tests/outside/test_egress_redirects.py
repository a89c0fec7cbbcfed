"""Redirects: off by default; followed by our own rules, counted, credentials decided anew; and TLS."""

import asyncio
import ssl

import pytest
import trustme

from sereno.core.observation import HttpReply, NoReply, NoReplyKind
from sereno.outside.egress.gate import Seams
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.outside.corpus import follow
from tests.outside.rawserver import Answer, RawServer, make_gate, ok


def moved(location: str, status: int = 302) -> bytes:
    """A redirect."""
    return ok(b"gone", headers=b"Location: " + location.encode() + b"\r\n", status=f"{status} Moved".encode())


def once(location: str, status: int) -> Answer:
    """Redirects `/` and answers everything else."""

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(moved(location, status) if request.split(b" ")[1] == b"/" else ok())

    return answer


async def test_a_redirect_is_an_answer_where_no_hop_is_allowed() -> None:
    """Without `before_hop` the 302 itself comes back, one request."""
    async with RawServer(moved("/next")) as server:
        gate = make_gate("127.0.0.1")
        reply = await gate.fetch(Fetch(server.url))
        await gate.close()
        assert isinstance(reply, HttpReply) and reply.status == 302 and reply.header("location") == "/next" and reply.hops == 1
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "method", "expected"),
    [
        (301, "GET", "GET"),
        (302, "HEAD", "HEAD"),
        (303, "GET", "GET"),
        (303, "POST", "GET"),
        (303, "HEAD", "HEAD"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (301, "POST", None),
        (302, "PUT", None),
        (302, "DELETE", None),
    ],
)
async def test_the_method_of_the_next_hop(status: int, method: str, expected: str | None) -> None:
    """303 asks by GET, 301 and 302 continue GET and HEAD only, 307 and 308 keep method and body."""
    asked: list[str] = []

    async def count(origin: str) -> bool:
        asked.append(origin)
        return True

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        body = b"" if request.startswith(b"HEAD") else b"hello"
        redirect = b"HTTP/1.1 %d Moved\r\nLocation: next?a=b\r\nContent-Length: 0\r\n\r\n" % status
        writer.write(redirect if b" /a/b " in request else ok(body))

    async with RawServer(answer) as server:
        gate = make_gate("127.0.0.1")
        body = b"data" if method in ("POST", "PUT") else None
        reply = await gate.fetch(Fetch(f"{server.url}/a/b", method=method, body=body, before_hop=count))
        await gate.close()
        if expected is None:
            assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.REDIRECT and (reply.hops, reply.status) == (1, status)
            assert asked == [] and len(server.requests) == 1
            return
        assert isinstance(reply, HttpReply) and reply.hops == 2 and reply.url == f"{server.url}/a/next"
        assert asked == [server.url]
        assert server.requests[1].startswith(f"{expected} /a/next?a=b HTTP/1.1\r\n".encode())
        kept = expected == method and body is not None
        assert server.requests[1].endswith(b"data") == kept and (b"Content-Length: 4" in server.requests[1]) == kept


async def test_a_hop_without_budget_is_not_followed() -> None:
    """`before_hop` says no: one request, a REDIRECT value with the status."""

    async def no(origin: str) -> bool:
        return False

    async with RawServer(moved("/next")) as server:
        gate = make_gate("127.0.0.1")
        reply = await gate.fetch(Fetch(server.url, before_hop=no))
        await gate.close()
        assert isinstance(reply, NoReply) and (reply.kind, reply.hops, reply.status) == (NoReplyKind.REDIRECT, 1, 302)
        assert len(server.requests) == 1


async def test_a_loop_ends_after_five_hops_each_counted() -> None:
    """A redirect to itself: first request + 5 hops leave, 5 were asked for."""
    counted = 0

    async def count(origin: str) -> bool:
        nonlocal counted
        counted += 1
        return True

    async with RawServer(moved("/")) as server:
        gate = make_gate("127.0.0.1")
        reply = await gate.fetch(Fetch(server.url, before_hop=count))
        await gate.close()
        assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.REDIRECT
        assert reply.hops == len(server.requests) == 6 and counted == 5


async def test_origins_that_are_not_allowed_are_not_asked() -> None:
    """`allowed_origins` holds for each hop, before the hop is counted."""
    async with RawServer() as other, RawServer(once(other.url + "/x", 302)) as server:
        gate = make_gate("127.0.0.1")
        refused = await gate.fetch(Fetch(server.url, before_hop=follow, allowed_origins=[server.url]))
        assert isinstance(refused, NoReply) and refused.kind is NoReplyKind.REDIRECT and other.requests == []
        reply = await gate.fetch(Fetch(server.url, before_hop=follow, allowed_origins=[server.url, other.url + "/"]))
        await gate.close()
        assert isinstance(reply, HttpReply) and len(other.requests) == 1


async def test_W25_a_credential_and_private_headers_do_not_travel_to_another_origin() -> None:
    """The hop elsewhere carries neither the credential nor headers that may be one; the hop back home carries it again
    (incident 26)."""
    async with RawServer() as last:
        async with RawServer(once("http://127.0.0.1:1/", 302)) as home:

            async def bounce(request: bytes, writer: asyncio.StreamWriter) -> None:
                writer.write(moved(home.url + "/back"))

            async with RawServer(bounce) as other:
                config = CredentialConfig(home.url, SecretPlace(env="K"), header="X-Api-Key", scheme="")
                gate = make_gate("127.0.0.1", credentials={"k": config}, environment={"K": "canary-key-value"})

                async def first(request: bytes, writer: asyncio.StreamWriter) -> None:
                    writer.write(moved(other.url) if b"GET / " in request else ok())

                home._answer = first
                headers = {"Accept": "application/json", "X-Custom": "private", "x-api-key": "own"}
                reply = await gate.fetch(Fetch(home.url, headers=headers, credential="k", before_hop=follow))
                await gate.close()
                assert isinstance(reply, HttpReply) and reply.hops == 3
                assert b"X-Api-Key: canary-key-value" in home.requests[0] and b"own" not in home.requests[0]
                assert (
                    b"canary" not in other.requests[0]
                    and b"X-Custom" not in other.requests[0]
                    and b"x-api-key" not in other.requests[0]
                )
                assert b"Accept: application/json" in other.requests[0]
                assert b"X-Api-Key: canary-key-value" in home.requests[1]
        assert last.requests == []


async def test_a_body_does_not_travel_to_another_origin() -> None:
    """A 307 elsewhere is not followed with the caller's body."""
    async with RawServer() as other, RawServer(moved(other.url, 307)) as server:
        gate = make_gate("127.0.0.1")
        reply = await gate.fetch(Fetch(server.url, method="POST", body=b"private", before_hop=follow))
        await gate.close()
        assert isinstance(reply, NoReply) and reply.kind is NoReplyKind.REDIRECT and other.requests == []


async def test_W25_a_credential_bound_elsewhere_stops_the_first_request() -> None:
    """GHSA-g36r replayed: a stored key is not sent to a base URL of somebody's choice (incident 26)."""
    config = CredentialConfig("https://api.example.com", SecretPlace(env="K"))
    async with RawServer() as server:
        gate = make_gate("127.0.0.1", credentials={"k": config}, environment={"K": "canary-key-value"})
        reply = await gate.fetch(Fetch(server.url, credential="k"))
        await gate.close()
        assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.NO_CREDENTIAL, False)
        assert server.connections == 0 and "canary" not in reply.message


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority of this test run."""
    return trustme.CA()


def server_tls(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    """What a server needs to speak for the names."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """A client's trust in the authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_tls_is_verified_against_the_name_and_not_downgraded(authority: trustme.CA) -> None:
    """Right name: answered, with SNI of the name. Wrong name or unknown authority: TLS, nothing sent. https to http: not followed."""

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with RawServer() as plain, RawServer(once(plain.url, 302), tls=server_tls(authority, "api.example")) as server:
        gate = make_gate("127.0.0.1", seams=Seams(resolve=resolve, tls=trusting(authority)))
        good = await gate.fetch(Fetch(f"https://api.example:{server.port}/x"))
        wrong = await gate.fetch(Fetch(f"https://other.example:{server.port}/x"))
        downgrade = await gate.fetch(Fetch(f"https://api.example:{server.port}/", before_hop=follow))
        await gate.close()
        distrusting = make_gate("127.0.0.1", seams=Seams(resolve=resolve))
        unknown = await distrusting.fetch(Fetch(f"https://api.example:{server.port}/x"))
        await distrusting.close()
        assert isinstance(good, HttpReply) and f"Host: api.example:{server.port}".encode() in server.requests[0]
        for reply in (wrong, unknown):
            assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.TLS, False), reply
        assert isinstance(downgrade, NoReply) and downgrade.kind is NoReplyKind.REDIRECT and "unencrypted" in downgrade.message
        assert plain.requests == [] and len(server.requests) == 2
