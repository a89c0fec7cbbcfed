"""Imported: a contract that was made from another program's description of the same thing."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Imported:
    """A contract as text, what a person should review in it, and where it differs from what it was made of."""

    name: str
    text: str
    review: Sequence[str] = ()
    differs: Sequence[str] = ()
