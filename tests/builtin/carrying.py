"""What the tests of carriers share: an operation, a call, the guarded means, and a transport that keeps its books."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sereno.builtin.providers.catalogue import compile_path
from sereno.core.budget import Allowance, Spend
from sereno.core.call import CallKind, CallState, ProviderCall
from sereno.core.contract import Contract, parse_contract
from sereno.core.observation import Asked, DelaySource, HttpReply, Reply
from sereno.core.operation import Operation, OperationState
from sereno.core.values import Json
from sereno.ports import Fetch, Guarded, Transport

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ANSWER = HttpReply(200, [("content-type", "application/json")], b'{"id":"j1","status":"starting"}', "https://x", timedelta(0))


def contract(status: Mapping[str, Json], **sections: Json) -> Contract:
    """A contract with these sections; what it leaves out is filled with words that no test looks at."""
    document: dict[str, Json] = {
        "format": 1,
        "contract": "acme",
        "version": 1,
        "title": "Acme job",
        "source": "made for a test",
        "verified": "verified: all of it",
        "status": {"observational": "it only reads", **status},
        "state": {"path": "status"},
        "states": {"pending": ["running"], "success": ["done"], "failure": ["failed"], "cancelled": ["canceled"]},
        **sections,
    }
    found = parse_contract(document, compile_path)
    assert isinstance(found, Contract), found
    return found


def operation(
    url: str = "https://api.acme.example/jobs/j1", *, account: str = "", job_id: str = "j1", **parameters: str
) -> Operation:
    """A waiting operation of the contract `acme`."""
    return Operation(
        id="op_1",
        workspace="main",
        contract="acme",
        contract_digest="d",
        account=account,
        job_id=job_id,
        url=url,
        parameters=parameters,
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


def asked(of: Operation) -> Asked:
    """What the reading of a look depends on."""
    return Asked(of.job_id, of.started_at, url=of.url, parameters=of.parameters)


def call(kind: CallKind = CallKind.SUBMIT, given: Json = None, key: str = "key-1") -> ProviderCall:
    """A submit or cancel that is being sent for the first time."""
    return ProviderCall("call_1", kind, f"op_1:{kind}", key, given, CallState.SENDING, NOW, attempts=1, first_sent_at=NOW)


@dataclass
class Recording:
    """A transport that keeps what it was asked and answers the same each time."""

    reply: Reply = ANSWER
    asked: list[Fetch] = field(default_factory=list)

    async def fetch(self, request: Fetch) -> Reply:
        self.asked.append(request)
        return self.reply

    async def close(self) -> None:
        pass


@dataclass
class Hops:
    """Counts the requests that a look asks for beyond its own; allows the first `most`."""

    most: int = 100
    asked: list[str] = field(default_factory=list)

    async def __call__(self, origin: str) -> bool:
        self.asked.append(origin)
        return len(self.asked) <= self.most


async def check() -> None:
    """A send guard that lets everything through."""
    return None


def guarded(transport: Transport, hops: Any = None, *, seconds: float = 7) -> Guarded:
    """The means of one call."""
    return Guarded(transport, NOW, timedelta(seconds=seconds), before_hop=hops or Hops(), before_first_byte=check)
