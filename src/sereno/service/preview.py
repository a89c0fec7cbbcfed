"""What a definition would do, seen on a live sample; and which samples keep a poll from being stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sereno.core.change import FailedReading, ReadFailure
from sereno.core.errors import NotAllowed, RequestError
from sereno.core.poll import PollSpec, Verdict, VerdictKind
from sereno.service.address import refusal_hint
from sereno.service.deps import Deps


@dataclass(frozen=True, slots=True)
class Sampled:
    """One object of the live sample with what the condition says when it is new, and when it was just updated."""

    external_id: str
    title: str
    url: str | None
    payload: Any
    as_new: Verdict
    as_updated: Verdict


@dataclass(frozen=True, slots=True)
class Preview:
    """What a definition would do: a live sample, the schedule restated, and what to think about."""

    spec: PollSpec
    count: int
    sample: Sequence[Sampled]
    next_instants: Sequence[datetime]
    failure: FailedReading | None = None
    warnings: Sequence[str] = ()


def warnings_of(spec: PollSpec, count: int, sample: Sequence[Sampled]) -> list[str]:
    """What to think about: a condition that fails, a source that shows nothing."""
    if not count:
        what = "the list is empty" if spec.source.get("items") else "the source shows nothing to watch"
        return [f"{what} now; if it should not be, look at the options of the source (sereno poll preview)"]
    broken = [item for item in sample if VerdictKind.ERROR in (item.as_new.kind, item.as_updated.kind)]
    if not broken:
        return []
    error = broken[0].as_new.error or broken[0].as_updated.error
    return [f"the condition is an error on {len(broken)} of {len(sample)} sampled objects: {error}"]


def refuse_hopeless(deps: Deps, preview: Preview) -> None:
    """Raises where the sample shows that the definition is wrong, not that the source is down for now."""
    failure, name = preview.failure, preview.spec.name
    if failure is not None and failure.failure is ReadFailure.REFUSED:
        hint = refusal_hint(deps, str(preview.spec.source.get("url") or ""), failure.message)
        raise NotAllowed(f"the source of {name} is refused: {failure.message}", subject=name, hint=hint, code="egress_refused")
    if failure is not None and _is_mistake(preview.spec, failure.failure):
        raise RequestError(
            f"the source of {name} cannot be read so: {failure.message}",
            subject=name,
            hint="put the options right (`sereno poll preview` shows what they find), or store it all the same with --force",
            code="sample_failed",
        )
    if preview.sample and all(VerdictKind.ERROR is item.as_new.kind is item.as_updated.kind for item in preview.sample):
        raise RequestError(
            f"the condition of {name} is an error on every sampled object: {preview.sample[0].as_new.error}",
            subject=name,
            hint="look at `poll preview`, or store it all the same with --force",
            code="condition_error",
        )


def _is_mistake(spec: PollSpec, failure: ReadFailure) -> bool:
    """True where the options look wrong. An address that is down, busy or not there yet may come back; a missing file is a typing slip."""
    if failure is ReadFailure.MISSING:
        return "url" not in spec.source
    return failure in (ReadFailure.BAD_CONTENT, ReadFailure.BROKEN)
