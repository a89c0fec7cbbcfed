"""The HTTP provider: the one request of a status step, and nothing the contract did not ask for."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from sereno.builtin.providers.catalogue import Catalogue
from sereno.builtin.providers.http import HttpProvider, build_fetch
from sereno.core.budget import Allowance, Spend
from sereno.core.contract import Contract
from sereno.core.observation import DelaySource, HttpReply, NoReply, NoReplyKind, ObservationKind, Reply, read_observation
from sereno.core.operation import Operation, OperationState
from sereno.ports import Fetch, Guarded

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REPLICATE = Catalogue().contract(Catalogue().document("replicate"))


def operation(url: str = "https://api.replicate.com/v1/predictions/j1", account: str = "replicate_key") -> Operation:
    return Operation(
        id="op_1",
        workspace="main",
        contract="replicate",
        contract_digest=REPLICATE.digest,
        account=account,
        job_id="j1",
        url=url,
        parameters={},
        fingerprint="f",
        state=OperationState.WAITING,
        revision=1,
        allowance=Allowance(NOW + timedelta(hours=1), None, 10, 3, 3),
        spend=Spend(status_requests=1),
        pool="p",
        created_at=NOW,
        next_poll_at=NOW,
        delay_source=DelaySource.LOCAL_BACKOFF,
    )


@dataclass
class Recording:
    """A transport that keeps what it was asked and answers the same each time."""

    reply: Reply
    asked: list[Fetch] = field(default_factory=list)

    async def fetch(self, request: Fetch) -> Reply:
        self.asked.append(request)
        return self.reply

    async def close(self) -> None:
        pass


async def allow(origin: str) -> bool:
    return True


async def check() -> None:
    return None


def guarded(transport: Recording) -> Guarded:
    return Guarded(transport, NOW, timedelta(seconds=7), before_hop=allow, before_first_byte=check)


ANSWER = HttpReply(200, [("content-type", "application/json")], b'{"id":"j1","status":"starting"}', "https://x", timedelta(0))


async def test_the_request_is_what_the_contract_says() -> None:
    """Address as stored, headers of the contract, the credential by name, the guards handed on."""
    transport = Recording(ANSWER)
    assert await HttpProvider().call(operation(), REPLICATE, guarded(transport)) is ANSWER
    (sent,) = transport.asked
    assert (sent.url, sent.method, sent.body) == ("https://api.replicate.com/v1/predictions/j1", "GET", None)
    assert sent.headers == {"accept": "application/json"}
    assert sent.credential == "replicate_key"
    assert sent.total_deadline == timedelta(seconds=7)
    assert sent.before_first_byte is check
    assert list(sent.allowed_origins) == ["https://api.replicate.com"]


def test_redirects_stay_off_unless_the_contract_follows_them() -> None:
    """A hop callback that the caller offers is not enough."""
    means = guarded(Recording(ANSWER))
    assert build_fetch(operation(), REPLICATE, means).before_hop is None
    following: Contract = replace(REPLICATE, redirects=True, origins=["https://api.replicate.com", "https://b.example"])
    fetch = build_fetch(operation("https://other.example/x"), following, means)
    assert fetch.before_hop is allow
    assert list(fetch.allowed_origins) == ["https://other.example", "https://api.replicate.com", "https://b.example"]


def test_without_an_account_no_credential_goes() -> None:
    """An empty account means none."""
    assert build_fetch(operation(account=""), REPLICATE, guarded(Recording(ANSWER))).credential is None


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://u:p@api.replicate.com/x", "", "https://a b/"])
async def test_a_stored_address_that_is_no_url_sends_nothing(url: str) -> None:
    """It is a set-up problem: it stops, and the reservation is given back (W33)."""
    transport = Recording(ANSWER)
    reply = await HttpProvider().call(operation(url), REPLICATE, guarded(transport))
    assert isinstance(reply, NoReply) and (reply.kind, reply.sent) == (NoReplyKind.REFUSED_ADDRESS, False)
    assert transport.asked == []
    seen = read_observation(REPLICATE, "j1", reply, received_at=NOW, started_at=NOW, not_found=0)
    assert (seen.kind, seen.requests) == (ObservationKind.INTEGRATION_FAILURE, 0)


async def test_what_the_transport_learned_comes_back_as_it_is() -> None:
    """A missing reply is a value, handed on."""
    lost = NoReply(NoReplyKind.TIMEOUT, "slow", sent=True, hops=1)
    assert await HttpProvider().call(operation(), REPLICATE, guarded(Recording(lost))) is lost
