"""Sereno: the night watchman of AI assistants.

`async with sereno.open("sqlite:///sereno.db") as s:` gives `s.polls`, `s.operations`, `s.escalations`, `s.deliveries`, `s.runs`,
`s.contracts` and `s.doctor`. Nothing heavy is imported before it is used.
"""

from typing import TYPE_CHECKING, Any

from sereno.core.errors import (
    AlreadyExists,
    InvariantBroken,
    NotAllowed,
    NotFound,
    NotNow,
    RequestError,
    SerenoError,
    SetupError,
    TooMuch,
    Unavailable,
)

if TYPE_CHECKING:
    from sereno.app import Sereno
    from sereno.app import open_sereno as open
    from sereno.service.operations import Wanted, WantedSubmit
    from sereno.settings import PollModel as Poll

__all__ = [
    "AlreadyExists",
    "InvariantBroken",
    "NotAllowed",
    "NotFound",
    "NotNow",
    "Poll",
    "RequestError",
    "Sereno",
    "SerenoError",
    "SetupError",
    "TooMuch",
    "Unavailable",
    "Wanted",
    "WantedSubmit",
    "open",
]

_LAZY = {
    "Sereno": ("sereno.app", "Sereno"),
    "open": ("sereno.app", "open_sereno"),
    "Wanted": ("sereno.service.operations", "Wanted"),
    "WantedSubmit": ("sereno.service.operations", "WantedSubmit"),
    "Poll": ("sereno.settings", "PollModel"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'sereno' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only a program that asks pays for it

    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
