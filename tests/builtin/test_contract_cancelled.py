"""The ends of cancelled jobs whose provider has no word of its own for them, from the answer to the state of the operation."""

from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest

from sereno.core.operation import OperationState, decide_operation
from sereno.service.contracting.cases import NOW, look, waiting
from tests.builtin.test_contract_cases import CONTRACTS, cases

ENDS = {name: contract.cancel.ends_as for name, contract in CONTRACTS.items() if contract.cancel and contract.cancel.ends_as}


def test_these_contracts_say_how_a_cancelled_job_ends() -> None:
    """Whoever adds one adds a case of the word too."""
    assert set(ENDS) == {"airflow-dag-run", "aws-batch", "langgraph-run", "snowflake-statement", "speechmatics-batch"}


@pytest.mark.parametrize("name", sorted(ENDS))
def test_W24_the_word_means_cancelled_once_a_cancel_was_taken_on(name: str) -> None:
    """And what it always means before."""
    contract = CONTRACTS[name]
    found = [seen for case in cases(name) if (seen := look(contract, case)).state == ENDS[name]]
    assert found
    for cancelled_at, cancelled in ((None, False), (NOW - timedelta(minutes=1), True)):
        waits = waiting(contract, {}, started_at=NOW - timedelta(minutes=5), job_id="job-1")
        operation = replace(waits, cancelled_at=cancelled_at)
        decision = decide_operation(operation, contract, found[0], NOW, Random(1), escalation_id="esc_1")
        assert (decision.state is OperationState.CANCELLED) is cancelled, decision.reason
