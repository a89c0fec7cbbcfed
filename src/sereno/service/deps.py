"""What the services stand on, put together once by the app."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sereno.core.observation import HttpReply
from sereno.core.values import Json
from sereno.core.work import Principal
from sereno.ports import Clock, DefinitionStore, Ids, Plugins, ReadStore, Redact, Transport, unchanged
from sereno.settings import Loaded

Guess = Callable[[str, HttpReply], tuple[str, Mapping[str, Json]]]
"""Names source type and options for a URL from one answer; sends nothing."""
SecretCheck = Callable[[str], str | None]
"""Says in words, without repeating it, why a text that a person wrote looks like a secret; None = it does not."""


def _nothing() -> None:
    return None


def _nothing_of(name: str) -> None:
    return None


def _no_secret(text: str) -> str | None:
    return None


def _plain_http(url: str, sample: HttpReply) -> tuple[str, Mapping[str, Json]]:
    return "http", {"url": url}


@dataclass(frozen=True, slots=True)
class Deps:
    """Ports and settings; `ring` wakes the driver of this process, `drive_one` drives one operation until it stops waiting."""

    definitions: DefinitionStore
    reads: ReadStore
    plugins: Plugins
    transport: Transport
    clock: Clock
    ids: Ids
    loaded: Loaded
    who: Principal
    drive_one: Callable[[str], Awaitable[None]]
    ring: Callable[[], None] = _nothing
    origin: str = "cli"
    """Where new definitions come from: `cli`, `api` or `config`."""
    guess: Guess = _plain_http
    secret_check: SecretCheck = _no_secret
    redact: Redact = unchanged
    learn: Callable[[str], None] = _nothing_of
    """Teaches `redact` the credential of that name, which this process may not have used."""
    address_check: SecretCheck = _no_secret
    """Says why the egress gate would refuse a URL by what it shows alone, without DNS; None = it would not."""
