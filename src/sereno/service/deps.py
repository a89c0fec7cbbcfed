"""What the services stand on, put together once by the app."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sereno.core.work import Principal
from sereno.ports import Clock, DefinitionStore, Ids, Plugins, ReadStore, Transport
from sereno.settings import Loaded


def _nothing() -> None:
    return None


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
