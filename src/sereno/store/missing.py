"""The error for a thing that is not there."""

from collections.abc import Iterable
from difflib import get_close_matches

from sereno.core.errors import NotFound


def not_found(noun: str, name: str, known: Iterable[str]) -> NotFound:
    """Builds the error for a missing thing, with the nearest known name as hint."""
    asked = name[:200]
    near = get_close_matches(asked, list(known), n=1, cutoff=0.5)
    return NotFound(f"there is no {noun} {asked!r}", subject=asked, hint=f"did you mean {near[0]!r}?" if near else None)
