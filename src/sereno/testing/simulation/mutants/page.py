"""The page about planted bugs: each with its rule, what it does, and how many worlds it took to find it."""

from collections.abc import Sequence

from sereno.testing.simulation.mutants.run import Hunted, figures

_HEAD = """# Planted bugs

Written by `python -m sereno.testing.simulation.mutants --page docs/reference/mutants.md` from a hunt through the worlds with
the seeds 1, 2, 3 … Each bug replaces a text inside a function (or a named statement) of the product, in memory. The table says
how many worlds were run until the first one in which a check found something, and which rule that check named: often the broken
one, sometimes one that it drags along. See [testing by simulation](../how-to/simulation.md) and the [invariants](invariants.md).

"""


def page(hunted: Sequence[Hunted], first: int = 1) -> str:
    """The whole page; no date is on it, and no time that a machine took, so that the same code gives the same page."""
    found = figures(hunted, 0.0)
    counts = f"{found['planted']} planted, {found['found']} found; half of them within {_number(found['median_seeds'])} worlds"
    most = f", all of those within {found['most_seeds']}." if found["most_seeds"] else "."
    seeds = "" if first == 1 else f" The first seed was {first}."
    lines = ["| Bug | Rule | What it does | Worlds | Found as |", "|---|---|---|---|---|", *map(_line, hunted)]
    return f"{_HEAD}{counts}{most}{seeds}\n\n" + "\n".join(lines) + "\n"


def _number(median: float | None) -> str:
    return "no" if median is None else f"{median:g}"


def _line(one: Hunted) -> str:
    worlds = str(one.seeds) if one.found is not None else f"**not in {one.seeds}**" if one.seeds else "not yet known"
    rule = one.says.partition(" ")[0].rstrip(":") if one.found is not None else ""
    seen = "a world that breaks" if rule == "the" else rule
    return f"| `{one.mutant.name}` | {one.mutant.breaks} | {one.mutant.says} | {worlds} | {seen} |"
