"""Verdicts: what a condition said about one change or one object."""

from dataclasses import dataclass
from enum import StrEnum

from sereno.core.change import Change
from sereno.core.values import Json


class VerdictKind(StrEnum):
    MATCH = "match"
    NO_MATCH = "no_match"
    ERROR = "error"
    """A condition error: recorded, shown, never a match, never re-arms."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the condition said about one change or one object."""

    kind: VerdictKind
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """One thing the condition was asked about. For `FireOn.STATE` with an unchanged object `change` is None."""

    external_id: str
    verdict: Verdict
    change: Change | None
    title: str
    url: str | None
    payload: Json
    before: Json
