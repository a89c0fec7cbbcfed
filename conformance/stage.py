"""What a waiter's adapter gets and gives: the stage it plays on, and what it tells its caller at the end."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

KEY = "key-7f3a9c41d2"
"""The credential of every waiter. It belongs to the main host alone."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of one scenario."""

    base: str
    other: str
    job: str
    deadline: float
    requests: int
    work: Path
    copy: int = 0
    restarts: int = 0
    submit: bool = False
    status_host: bool = False
    key: str = KEY


@dataclass(frozen=True, slots=True)
class Told:
    """What the caller of the waiter learns: an outcome of conformance.scenario, or `never`."""

    outcome: str
    detail: str = ""


class Waiter(Protocol):
    """A module of conformance.waiters."""

    NAME: str
    DIALECT: str
    OFFERS: Sequence[str]
    """Capabilities beyond what the dialect can say: submit, status-url, persistence."""
    PACKAGES: Sequence[str]
    CONFIGURATION: str
    """How it is set up, and which page or text recommends that."""

    wait: Callable[[Stage], Told]


def word_of(error: BaseException) -> str:
    """An exception in a word, for the table; without what differs from run to run."""
    name = type(error).__name__
    text = re.sub(
        r" at 0x[0-9a-f]+", "", re.sub(r"127\.0\.0\.(\d):\d+|127\.0\.0\.(\d)', port=\d+", _place, " ".join(str(error).split()))
    )
    return f"{name}: {text[:80]}" if text else name


def _place(match: re.Match[str]) -> str:
    return "provider" if (match[1] or match[2]) == "1" else "other-host"
