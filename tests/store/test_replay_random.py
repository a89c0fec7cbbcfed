"""Random lives on the real store: every decision is reached again from the journal, and the check finds nothing (W28, W44)."""

import os
from collections import Counter

import pytest

from sereno.core.reviewing.checking import check_journal
from sereno.core.reviewing.quality import read_timing
from tests.store.lives import journal, lived, pinned, replayed

SEED = int(os.environ.get("SERENO_SEED", "1"))
LIVES = int(os.environ.get("SERENO_LIVES", "60"))


@pytest.mark.parametrize("seed", range(SEED, SEED + LIVES))
async def test_W28_W44_a_random_life_is_replayed_the_same_and_has_no_fault(seed: int) -> None:
    """Crashes, releases, hops, call-backs, cancels, answers, re-pins and a clock that is set back, all drawn from the seed."""
    life = await lived(seed)
    found = await replayed(life)
    assert found.steps and found.same, (life.seen, [step for step in found.steps if step.verdict != "same"])
    entries, clock = await journal(life)
    faults = check_journal(entries, pinned(entries, life.contract), clock)
    assert not faults, (life.seen, faults)
    assert read_timing(entries).wasted <= life.seen.count("crashed")
    await life.stage.close()


async def test_the_lives_are_not_empty() -> None:
    """Every kind of row, ending and interruption occurs among them."""
    words: Counter[str] = Counter()
    for seed in range(SEED, SEED + 60):
        life = await lived(seed)
        words.update(life.seen)
        words.update(step.what for step in (await replayed(life)).steps)
        words[(await life.found()).state] += 1
        await life.stage.close()
    wanted = ("look", "call", "close", "answered", "cancel_requested", "pushed", "contract_changed", "crashed", "clock set back")
    assert all(words[word] for word in (*wanted, "succeeded", "failed", "stopped")), words
