"""Sereno: opened as a program opens it, with a contract file, a settings file, a real database file and its own egress gate.

What is put in place of the real thing are the ids and dice (from a seed, so that the run is the same every time); its clock is the
system's, which is virtual here as for all. A restart opens the same file anew and says the same wish again.
"""

import os
from datetime import timedelta
from pathlib import Path
from random import Random

from conformance.loop import run
from conformance.stage import Stage, Told
from sereno.app.opening import Seams, open_app
from sereno.core.operation import OperationState
from sereno.outside.clock import SystemClock
from sereno.service.operations import Wanted, WantedSubmit
from sereno.settings import parse_settings
from sereno.store import executor
from sereno.testing.virtual import START, SeededIds

NAME = "Sereno"
DIALECT = "plain"
OFFERS = ("deadline", "submit", "status-url", "persistence")
PACKAGES = ("sereno",)
CONFIGURATION = "contract conformance/contracts/acme-job.toml, defaults otherwise; 10 transport failures, 10 throttles"
SETTINGS = """
contracts = [{contracts!r}]
database = {{ path = {database!r} }}
waiting = {{ actions = [] }}
egress = {{ allow = ["127.0.0.1", "127.0.0.2"] }}

[credentials.acme]
origin = {base!r}
header = "X-Api-Key"
scheme = ""
value = {{ env = "ACME_KEY" }}
"""
LANES: list[executor._Lane] = []
"""The threads of the store; virtual time stands while one has work."""
FAILED = {OperationState.FAILED, OperationState.CANCELLED, OperationState.EXPIRED}
LIMITS = {"deadline_exceeded", "business_deadline_exceeded", "request_budget_exhausted"}


class _Lane(executor._Lane):
    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        LANES.append(self)


executor._Lane = _Lane  # type: ignore[misc]


class _Ids(SeededIds):
    """The n-th id and the n-th draw of a life are always the same, whatever port the provider got and however fast the store was."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.copy, lambda: START + timedelta(hours=stage.restarts))
        self._life, self._draws = f"{stage.copy}:{stage.restarts}", 0

    def random(self, label: str) -> Random:
        """The next draw."""
        self._draws += 1
        return Random(f"{self._life}:{self._draws}")


def _wanted(stage: Stage) -> Wanted | WantedSubmit:
    terms = {
        "deadline": timedelta(seconds=stage.deadline), "max_status_requests": stage.requests, "max_transport_failures": 10,
        "max_throttles": 10, "base": stage.base, "account": "acme",
    }  # fmt: skip
    if not stage.submit:
        return Wanted("acme-job", stage.job, **terms)  # type: ignore[arg-type]
    return WantedSubmit("acme-located" if stage.status_host else "acme-job", key="the-one", **terms)  # type: ignore[arg-type]


async def _wait(stage: Stage) -> Told:
    contracts = str(Path(__file__).parent.parent / "contracts")
    text = SETTINGS.format(contracts=contracts, database=str(stage.work / "sereno.db"), base=stage.base)
    loaded = parse_settings(text.replace("'", '"'), stage.work / "sereno.toml")
    seams = Seams(clock=SystemClock(), ids=_Ids(stage))
    async with open_app(loaded, seams=seams) as s:
        wanted = _wanted(stage)
        found = await (s.operations.submit(wanted) if isinstance(wanted, WantedSubmit) else s.operations.register(wanted))
        operation = (await s.operations.wait(found.record.operation.id)).operation
        asked = await s.escalations.list(limit=1)
    category = asked[0].category.value if asked else ""
    if operation.state in FAILED:
        return Told("failed", operation.state.value)
    if operation.state is OperationState.SUCCEEDED:
        return Told("succeeded")
    return Told("timed_out" if category in LIMITS else "stopped", category or operation.state.value)


def wait(stage: Stage) -> Told:
    """Registers the job, or sends it, and waits for it."""
    os.environ["ACME_KEY"] = stage.key
    return run(_wait(stage), others=lambda: any(lane._busy for lane in LANES))
