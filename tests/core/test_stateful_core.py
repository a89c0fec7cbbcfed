"""The decisions of the core under state machines, against models written from the requirements (W33–W38, W20, I1, I10, I11, I12, I17)."""

import pytest
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.core.stateful_machine import OperationMachine
from tests.core.stateful_others import DeliveryMachine, PollMachine
from tests.core.stateful_profiles import FULL, NIGHTLY, QUICK

MACHINES = [OperationMachine, PollMachine, DeliveryMachine]


@pytest.mark.parametrize("machine", MACHINES)
def test_W33_W34_W35_W38_I11_I12_decisions_are_those_of_the_model(machine: type[RuleBasedStateMachine]) -> None:
    """A few dozen histories, the same in every run."""
    run_state_machine_as_test(machine, settings=QUICK)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("machine", MACHINES)
def test_W33_W34_W35_W38_I11_I12_longer_and_new_histories(machine: type[RuleBasedStateMachine]) -> None:
    """Some hundred histories, others in every run; what is found is printed as a program."""
    run_state_machine_as_test(machine, settings=FULL)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("machine", MACHINES)
def test_W33_W34_W35_W38_I11_I12_thousands_of_histories(machine: type[RuleBasedStateMachine]) -> None:
    """The same for a night."""
    run_state_machine_as_test(machine, settings=NIGHTLY)
