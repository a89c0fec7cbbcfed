"""Planted bugs that a fleet must find, each with how its violation begins."""

from collections.abc import Mapping

from sereno.testing.planted import GapIgnored, GivenBack, LimitIgnored, WaitIgnored, Wrap

MUTANTS: Mapping[str, tuple[Wrap, str]] = {
    "wait-ignored": (WaitIgnored, "I4 "),
    "gap-ignored": (GapIgnored, "I6 "),
    "counter-given-back": (GivenBack, "I1 "),
    "limit-ignored": (LimitIgnored, "I7"),
}
