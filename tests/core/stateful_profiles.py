"""How much the state machines try: the quick tier is the same in every run, the others try more and something new each time."""

from hypothesis import HealthCheck, Phase, settings

_SHARED = {
    "deadline": None,
    "database": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": False,
}
QUICK = settings(max_examples=45, stateful_step_count=35, derandomize=True, **_SHARED)
FULL = settings(max_examples=300, stateful_step_count=50, **_SHARED)
NIGHTLY = settings(max_examples=3_000, stateful_step_count=80, **_SHARED)
HUNT = settings(
    max_examples=400, stateful_step_count=30, derandomize=True, phases=(Phase.generate,), report_multiple_bugs=False, **_SHARED
)
"""For planted faults: stops at the first find and does not shrink it, since only whether it is found is asked."""

for name, profile in {"quick": QUICK, "full": FULL, "nightly": NIGHTLY, "hunt": HUNT}.items():
    settings.register_profile(f"stateful-{name}", profile)
