"""The store contract under a state machine: any order of workers, people, clocks and a database that goes away (I1, I8, I11, I12, I17, I18)."""

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.core.stateful_profiles import FULL, NIGHTLY, QUICK
from tests.store.stateful_ground import Opened, in_memory, on_a_file
from tests.store.stateful_whole import StoreMachine


class InMemory(StoreMachine):
    opened: ClassVar[Opened] = staticmethod(in_memory)


class OnAFile(StoreMachine):
    opened: ClassVar[Opened] = staticmethod(on_a_file)


DIALECTS = [InMemory, OnAFile]
"""A second dialect is one more class here: with `opened` on a ground of its own."""

WANTED = {
    "claimed poll", "claimed operation", "claimed delivery", "poll", "escalated", "answered", "pushed", "clock set",
    "released operation", "parked", "submitted anew", "step told",
    "LeaseLost", "NotNow", "NotAllowed", "AlreadyExists", "database gone inside", "database gone after",
}  # fmt: skip
RARE = {"database gone after"}


@pytest.mark.parametrize("machine", DIALECTS)
def test_I1_I8_I11_I12_I17_I18_the_store_is_what_its_model_is(machine: type[StoreMachine]) -> None:
    """A few dozen histories, the same in every run; they get somewhere. What is rare is asked of the longer ones."""
    machine.met = Counter()
    run_state_machine_as_test(machine, settings=QUICK)
    met = set(+machine.met)
    assert met >= WANTED - RARE, WANTED - RARE - met


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", DIALECTS)
def test_I1_I8_I11_I12_I17_I18_longer_and_new_histories(machine: type[StoreMachine]) -> None:
    """Some hundred histories, others in every run; what is found is printed as a program."""
    machine.met = Counter()
    run_state_machine_as_test(machine, settings=FULL)
    assert WANTED <= set(+machine.met), machine.met


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("machine", DIALECTS)
def test_I1_I8_I11_I12_I17_I18_thousands_of_histories(machine: type[StoreMachine]) -> None:
    """The same for a night."""
    run_state_machine_as_test(machine, settings=NIGHTLY)
