"""The provider on a loopback wire: what a real server sends becomes the right observation, and the books agree."""

from dataclasses import replace
from datetime import timedelta

import pytest

from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider
from sereno.core.contract import Contract, status_url
from sereno.core.observation import Observation, ObservationKind, read_observation
from tests.builtin.carrying import NOW, asked, guarded, operation
from tests.outside.rawserver import RawServer, listener, make_gate, ok

K = ObservationKind
CATALOGUE = Catalogue()
REPLICATE = CATALOGUE.contract(CATALOGUE.document("replicate"))
JSON = b"Content-Type: application/json\r\n"


async def no_hop(origin: str) -> bool:
    raise AssertionError(f"a hop to {origin} was asked for")


async def look(server_url: str, port: int, contract: Contract = REPLICATE) -> Observation:
    """One status request for job `a/../b` at a stand-in, read through the contract."""
    gate = make_gate(f"127.0.0.1:{port}")
    url = status_url(contract, job_id="a/../b", parameters={}, base=server_url)
    of = operation(url, job_id="a/../b")
    try:
        reply = await HttpProvider().look(of, contract, guarded(gate, no_hop, seconds=60))
    finally:
        await gate.close()
    return read_observation(contract, replace(asked(of), started_at=NOW - timedelta(hours=1)), reply, received_at=NOW)


ANSWERS: list[tuple[bytes, ObservationKind]] = [
    (ok(b'{"id":"a/../b","status":"starting"}', headers=JSON), K.PENDING),
    (ok(b'{"id":"a/../b","status":"succeeded","output":"x"}', headers=JSON), K.SUCCESS),
    (ok(b'{"id":"a/../b","status":"paused"}', headers=JSON), K.UNKNOWN_STATE),
    (ok(b'{"id":"a/../b","status":"succeeded"}', headers=JSON), K.CONTRADICTION),
    (ok(b'{"id":"other","status":"starting"}', headers=JSON), K.CONTRADICTION),
    (ok(b"", headers=JSON), K.INTEGRATION_FAILURE),
    (ok(b"<html>", headers=b"Content-Type: text/html\r\n"), K.INTEGRATION_FAILURE),
    (ok(b"<html>", headers=b"Content-Type: text/html\r\n", status=b"502 Bad Gateway"), K.TRANSPORT),
    (ok(b"", headers=b"Location: http://127.0.0.1:1/\r\n", status=b"307 Temporary Redirect"), K.INTEGRATION_FAILURE),
    (ok(b"{}", headers=JSON + b"Retry-After: 30\r\n", status=b"429 Too Many Requests"), K.THROTTLED),
    (ok(b"{}", headers=JSON, status=b"403 Forbidden"), K.AUTHORIZATION_DENIED),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", K.TRANSPORT),
    (b"nonsense\r\n\r\n", K.TRANSPORT),
]


@pytest.mark.parametrize(("answer", "kind"), ANSWERS, ids=[f"{n}-{kind}" for n, (_, kind) in enumerate(ANSWERS)])
async def test_W01_answers_on_the_wire(answer: bytes, kind: ObservationKind) -> None:
    """One request leaves, for the encoded job id, and no redirect is followed."""
    closing = answer.startswith((b"nonsense", b"HTTP/1.1 200 OK\r\nContent-Length: 100"))

    async def say(request: bytes, writer: object) -> None:
        writer.write(answer)  # type: ignore[attr-defined]
        if closing:
            writer.close()  # type: ignore[attr-defined]

    async with RawServer(say) as server:
        seen = await look(server.url, server.port)
    assert (seen.kind, seen.requests) == (kind, 1), seen
    assert [request.split(b" ")[1] for request in server.requests] == [b"/v1/predictions/a%2F..%2Fb"]


async def test_W33_a_refused_connection_gives_the_reservation_back() -> None:
    """Nothing left: requests is 0, and it is no state of the job (W18)."""
    sock = listener("127.0.0.1")
    port = sock.getsockname()[1]
    sock.close()
    seen = await look(f"http://127.0.0.1:{port}", port)
    assert (seen.kind, seen.requests, seen.state) == (K.NOT_SENT, 0, None)


async def test_a_place_that_is_not_allowed_is_a_setup_problem() -> None:
    """The gate refuses a private address that nobody opened; waiting would not mend it."""
    async with RawServer(ok()) as server:
        seen = await look(server.url, port=1)
    assert (seen.kind, seen.requests) == (K.INTEGRATION_FAILURE, 0)
    assert server.connections == 0


async def test_a_contract_that_follows_redirects_still_keeps_to_its_origins() -> None:
    """A redirect to another origin is not followed even where redirects are on."""
    other = ok(b"", headers=b"Location: http://127.0.0.2:9/\r\n", status=b"302 Found")
    async with RawServer(other) as server:
        seen = await look(server.url, server.port, replace(REPLICATE, redirects=True))
    assert (seen.kind, seen.requests) == (K.TRANSPORT, 1)
    assert len(server.requests) == 1
