"""Verdicts: what a condition said about one change or one object."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sereno.core.change import Change
from sereno.core.telling.message import plain
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


def condition_error(judged: Sequence[Judged]) -> str | None:
    """Says on how many objects the condition failed, and why on the first, or None."""
    errors = [one.verdict.error or "unknown" for one in judged if one.verdict.kind is VerdictKind.ERROR]
    return f"condition error on {len(errors)} of {len(judged)}: {plain(errors[0], 300)}" if errors else None


_ERRORS_KEPT = 20


def condition_errors(judged: Sequence[Judged]) -> list[str]:
    """Lists why, object by object; after twenty only how many more."""
    errors = [one for one in judged if one.verdict.kind is VerdictKind.ERROR]
    texts = [f"{plain(one.external_id, 80)}: {plain(one.verdict.error or 'unknown', 300)}" for one in errors[:_ERRORS_KEPT]]
    return texts + ([f"and {len(errors) - _ERRORS_KEPT} more"] if len(errors) > _ERRORS_KEPT else [])
