"""Artifacts: results that were copied to own storage (W30)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Artifact:
    """One kept result. The content is found by its hash; `name` is what the provider called it, data only, never a path."""

    digest: str
    """SHA-256 of the content, lower-case hex."""
    size: int
    content_type: str
    name: str = ""
