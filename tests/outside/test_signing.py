"""Signing inside the gate: the secret goes to the signer alone, for its origin, and never on the wire (W25)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from sereno.core.observation import HttpReply, NoReply, NoReplyKind
from sereno.outside.credentials import Credentials, Unusable
from sereno.outside.redaction import Redaction
from sereno.ports import CredentialConfig, Fetch, SecretPlace
from tests.outside.rawserver import RawServer, make_gate, ok

VALUE = "AKIDCANARY:canary-secret-0123456789:canary-token-0123456789"
SIGNED = "AWS4-HMAC-SHA256"


@dataclass
class Signer:
    """Keeps what it was given."""

    raises: str | None = None
    given: list[tuple[Fetch, str]] = field(default_factory=list)

    def __call__(self, request: Fetch, secret: str) -> Mapping[str, str]:
        self.given.append((request, secret))
        if self.raises is not None:
            raise ValueError(self.raises)
        return {**request.headers, "Authorization": "signed"}


def config(origin: str, scheme: str = SIGNED) -> dict[str, CredentialConfig]:
    """One credential named `k`."""
    return {"k": CredentialConfig(origin, SecretPlace(env="K"), scheme=scheme)}


async def test_W25_the_signer_is_given_what_goes_on_the_wire() -> None:
    """Address, method, headers and body as they are written; what it gives back is sent, and the value is not."""
    signer = Signer()
    async with RawServer(ok()) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", credentials=config(server.url), environment={"K": VALUE})
        reply = await gate.fetch(
            Fetch(f"{server.url}/a%20b?q=ä#f", "post", {"x-one": "1"}, b"body", credential="k", signer=signer)
        )
        await gate.close()
    assert isinstance(reply, HttpReply)
    ((seen, secret),) = signer.given
    assert (seen.url, seen.method, seen.body, secret) == (f"{server.url}/a%20b?q=%C3%A4", "POST", b"body", VALUE)
    assert dict(seen.headers) == {"x-one": "1"}
    (request,) = server.requests
    assert request.startswith(b"POST /a%20b?q=%C3%A4 HTTP/1.1\r\n")
    assert b"Authorization: signed" in request and b"x-one: 1" in request
    assert not any(part.encode() in request for part in VALUE.split(":"))


async def test_W25_a_value_that_signs_is_never_sent_as_a_header() -> None:
    """Without a signer the request fails before anything leaves."""
    async with RawServer(ok()) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", credentials=config(server.url), environment={"K": VALUE})
        reply = await gate.fetch(Fetch(server.url, credential="k"))
        await gate.close()
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.NO_CREDENTIAL, False)
    assert "never sent itself" in reply.message and server.requests == []


@pytest.mark.parametrize("scheme", ["Bearer", "Basic", ""])
async def test_W25_a_value_that_is_made_to_be_sent_goes_to_no_signer(scheme: str) -> None:
    """The two kinds are not taken for each other."""
    signer = Signer()
    async with RawServer(ok()) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", credentials=config(server.url, scheme), environment={"K": VALUE})
        reply = await gate.fetch(Fetch(server.url, credential="k", signer=signer))
        await gate.close()
    assert isinstance(reply, NoReply) and (reply.kind, signer.given, server.requests) == (NoReplyKind.NO_CREDENTIAL, [], [])


async def test_W25_a_signer_gets_no_secret_for_another_origin() -> None:
    """The origin is checked before the value is read."""
    signer = Signer()
    async with RawServer(ok()) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", credentials=config("https://api.example.com"), environment={"K": VALUE})
        reply = await gate.fetch(Fetch(server.url, credential="k", signer=signer))
        await gate.close()
    assert isinstance(reply, NoReply) and (reply.kind, signer.given, server.requests) == (NoReplyKind.NO_CREDENTIAL, [], [])


async def test_W25_what_a_signer_says_in_an_error_is_redacted() -> None:
    """Even one that repeats the secret."""
    signer = Signer(raises=f"I do not like {VALUE}")
    async with RawServer(ok()) as server:
        gate = make_gate(f"127.0.0.1:{server.port}", credentials=config(server.url), environment={"K": VALUE})
        reply = await gate.fetch(Fetch(server.url, credential="k", signer=signer))
        await gate.close()
    assert isinstance(reply, NoReply) and not reply.sent
    assert "cannot sign" in reply.message and "canary" not in repr(reply)


def test_W25_the_parts_of_the_value_are_learned() -> None:
    """Secret and session token each; the public name of the key is no secret."""
    redaction = Redaction()
    credentials = Credentials(config("https://api.example.com"), redaction, {"K": VALUE})
    assert credentials.signing("k", "https://api.example.com").reveal() == VALUE
    said = redaction.redact("AKIDCANARY canary-secret-0123456789 canary-token-0123456789")
    assert said == "AKIDCANARY [secret] [secret]"
    with pytest.raises(Unusable, match="bound to"):
        credentials.signing("k", "https://other.example")
