"""What one campaign is made of, and the figures of the deployment under test."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sereno.core.work import LeaseTimes

TIMES = LeaseTimes(
    lease=timedelta(seconds=2),
    total_deadline=timedelta(seconds=1),
    guard=timedelta(seconds=0.3),
    commit_time=timedelta(seconds=0.5),
    tick=timedelta(seconds=0.25),
)
MIN_GAP_S = 1.0
"""The contract's smallest gap between two looks at one job."""
COMMITS = ("claim", "commit_poll", "commit_operation", "commit_delivery")
POINTS = (
    "claim.done",
    "poll.read",
    "operation.before_send",
    "operation.replied",
    "call.before_send",
    "call.replied",
    "delivery.before_act",
    "delivery.acted",
    *(f"{name}.{side}" for name in COMMITS for side in ("before", "after")),
)
"""The named crash points: those of engine and drivers, and both sides of each transaction of the store."""
STOP_POINTS = ("commit_operation.before", "operation.before_send", "delivery.before_act")
"""Where a worker is stopped for longer than its lease, in turn: it wakes with an answer that is no longer its own to write, or with
a request or a message that it must not send any more."""
SUBMITS, SUBMIT_EVERY = 20, 8
"""So many jobs are submitted in each eighth cycle, every other one towards a provider that honours no key."""
ENDLESS_BUDGET = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """One campaign. `mutant` names a planted bug of `sereno.testing.mutants`, or is `none`."""

    folder: Path
    cycles: int = 200
    seed: int = 1
    mutant: str = "none"
    polls: int = 50
    operations: int = 50
    slots: int = 32
    slowest_s: float = 0.7
    """The slowest answer of provider and receiver."""
    pause_every: int = 12
    """Every n-th cycle the other worker is stopped past its lease."""
    lost_answers: float = 0.04
    """Share of first arrivals at the receiver whose answer is lost."""

    @property
    def database(self) -> Path:
        """The one file that all workers share."""
        return self.folder / "kill.db"

    @property
    def log(self) -> Path:
        """What the workers print."""
        return self.folder / "workers.log"

    @property
    def expected_s(self) -> float:
        """About how long the killing takes; later operations are spread over it."""
        return self.cycles * 0.4

    @property
    def small_budgets(self) -> int:
        """Operations with a budget of 3 to 6 requests, spread over the whole time."""
        return max(6, self.cycles // 4)

    @property
    def endings(self) -> int:
        """Operations that succeed, spread over the whole time."""
        return max(4, self.cycles // 10)


def address_of(life: int) -> str:
    """The loopback address that one worker's life sends from, so that the books of the others can tell lives apart."""
    return f"127.77.{life // 250}.{life % 250 + 1}"


def life_of(address: str) -> int:
    """The life behind an address of `address_of`; -1 for any other."""
    parts = [int(part) for part in address.split(".")]
    return parts[2] * 250 + parts[3] - 1 if parts[:2] == [127, 77] else -1


def worker_name(life: int) -> str:
    """How a life signs its claims."""
    return f"life-{life}"
