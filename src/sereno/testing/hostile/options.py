"""What one hostile world is made of."""

from dataclasses import dataclass
from datetime import timedelta

HOST = "hostile.example"
BASE = f"https://{HOST}"
POOL = f"provider:{HOST}"
ANSWER_WITHIN = timedelta(hours=2)
"""How long a question waits for a person."""
MIN_GAP_S = 2.0
DEADLINE_S = 1800.0


@dataclass(frozen=True, slots=True)
class Hostile:
    """One world on virtual time."""

    operations: int = 1_000
    seed: int = 1
    over: timedelta = timedelta(hours=1)
    """Operations are registered over this time."""
    hours: float = 8.0
    """When everything must be over."""
