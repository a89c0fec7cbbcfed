"""Three DAGs for an Airflow server: one ends well, one fails, one goes on until it is cancelled."""

import time
from collections.abc import Callable
from datetime import datetime

from airflow.sdk import DAG, dag, task


def good() -> str:
    """Ends well."""
    return "here it is"


def bad() -> None:
    """Fails."""
    raise RuntimeError("out of paper")


def long() -> None:
    """Goes on."""
    time.sleep(600)


def of(work: Callable[[], object]) -> DAG:
    """A DAG of one task."""

    @dag(dag_id=work.__name__, schedule=None, start_date=datetime(2026, 1, 1), catchup=False)
    def one() -> None:
        task(work, retries=0)()

    return one()


good_dag, bad_dag, long_dag = of(good), of(bad), of(long)
