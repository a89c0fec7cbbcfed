"""What is watched and waited for in a campaign: polls, endless operations, and ones that run out of budget or succeed."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random

from sereno.builtin.options import host_pool
from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.budget import Allowance
from sereno.core.contract import with_states
from sereno.core.effect import ActionRef, Policy
from sereno.core.operation import fingerprint
from sereno.core.poll import PollSpec, Stop
from sereno.core.schedule import Interval
from sereno.core.values import Json
from sereno.core.work import Principal
from sereno.outside.clock import SystemClock
from sereno.outside.ids import SystemIds
from sereno.ports import NewOperation, NewSubmit, PoolLimits
from sereno.store.definitions import Definitions
from sereno.store.executor import InlineExecutor
from sereno.store.open import open_store
from sereno.testing.killing.options import ENDLESS_BUDGET, SUBMITS, Options

WHO = Principal(user="kill")
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_WIDE = PoolLimits(rate=5000.0, burst=5000)
"""The pools must not slow anything down here: what is shown is that the counters hold, not that the rate does."""


def contract() -> dict[str, Json]:
    """A look each second: the smallest gap, and no backoff beyond it."""
    words: Mapping[str, list[str]] = {"success": ["done"], "pending": ["running"]}
    document = with_states(Catalogue().document("generic-status"), words, "status")
    return {**document, "delays": {"first": "1s", "base": "1s", "max": "1s", "min_gap": "1s"}}


def submit_contract(*, keyed: bool) -> dict[str, Json]:
    """Jobs that are submitted first; `keyed`: the provider honours the key."""
    call: dict[str, object] = {
        "method": "POST",
        "url": "{base}/submit",
        "effects": "starts a job",
        "job_id": "id",
        "accepts": ["200"],
    }
    if keyed:
        call["idempotency"] = {"place": "header", "name": "Idempotency-Key", "window": "1h", "duplicate": "replay"}
    return {
        "format": 1,
        "contract": f"kill-{'keyed' if keyed else 'plain'}",
        "version": 1,
        "title": "A job that is submitted",
        "source": "the world outside of the campaign",
        "verified": "verified: it is written beside this contract",
        "status": {"url": "{base}/jobs/{job_id}", "observational": "a look changes nothing there"},
        "job": {"id": "id"},
        "state": {"path": "status"},
        "states": {"pending": ["running"], "success": ["done"], "failure": ["failed"]},
        "result": {"ref": "result", "fields": [{"path": "result", "type": "url"}]},
        "delays": {"first": "1s", "base": "1s", "max": "1s", "min_gap": "1s"},
        "limits": {"deadline": "2h", "requests": 1000, "transport_failures": 1000, "throttles": 1000},
        "submit": call,
    }


async def populate(options: Options, base: str) -> None:
    """Fills the database before the first worker lives."""
    clock, ids = SystemClock(), SystemIds()
    store = open_store(options.database, clock=clock, ids=ids, executor=InlineExecutor)
    definitions = Definitions(store.executor, clock=clock, ids=ids)
    action = _tell(base)
    for pool in (host_pool(base), _provider_pool(base)):
        await definitions.set_pool(WHO, pool, _WIDE)
    start = clock.now() + timedelta(seconds=1)
    for number in range(options.polls):
        await definitions.add_poll(WHO, _poll(number, base, action), pool=host_pool(base), due=start, managed_by="user")
    dice = Random(f"scenario:{options.seed}")
    for number in range(options.operations):
        await definitions.register(WHO, _operation(f"run-{number}", base, action, start))
    for number in range(options.small_budgets):
        at = start + timedelta(seconds=options.expected_s * number / options.small_budgets)
        await definitions.register(WHO, _operation(f"small-{number}", base, action, at, dice.randint(3, 6)))
    for number in range(options.endings):
        at = start + timedelta(seconds=options.expected_s * number / options.endings)
        await definitions.register(WHO, _operation(f"end{dice.randint(2, 6)}-{number}", base, action, at))
    await store.close()


async def submit_more(options: Options, base: str, first: int) -> None:
    """Registers some submits more, due within the next seconds: as long as workers are killed there are jobs to be started."""
    clock, ids = SystemClock(), SystemIds()
    store = open_store(options.database, clock=clock, ids=ids, executor=InlineExecutor)
    definitions = Definitions(store.executor, clock=clock, ids=ids)
    start = clock.now()
    for number in range(SUBMITS):
        at = start + timedelta(seconds=0.3 * number)
        await definitions.register(WHO, _submit(first + number, base, _tell(base), at))
    await store.close()


def _tell(base: str) -> ActionRef:
    return ActionRef("tell", "webhook", {"url": f"{base}/hook", "unsigned": True}, Policy.KEYED, pool=host_pool(base))


def _provider_pool(base: str) -> str:
    return host_pool(base).replace("host:", "provider:", 1)


def _poll(number: int, base: str, action: ActionRef) -> PollSpec:
    source: dict[str, Json] = {"url": f"{base}/docs/p{number}", "items": "items", "id": "id"}
    return PollSpec(
        name=f"p{number}",
        source_type="http",
        source=source,
        schedule=Interval(timedelta(seconds=1), _EPOCH, jitter=timedelta(seconds=1)),
        actions=[action],
        baseline=False,
        stop=Stop(after_failures=None),
    )


def _submit(number: int, base: str, action: ActionRef, first: datetime) -> NewOperation:
    """Every other one towards a provider that honours keys."""
    document = submit_contract(keyed=number % 2 == 0)
    name = f"s{number}"
    return NewOperation(
        contract=str(document["contract"]),
        document=document,
        account="",
        job_id="",
        url="",
        parameters={"base": base},
        fingerprint=f"submit-{name}",
        allowance=Allowance(first + timedelta(hours=2), None, 1000, ENDLESS_BUDGET, ENDLESS_BUDGET),
        pool=_provider_pool(base),
        first_look_at=first,
        actions=[action],
        submit=NewSubmit({"name": name}, f"key-{name}", {"effects": "starts a job"}),
    )


def _operation(job: str, base: str, action: ActionRef, first: datetime, requests: int = ENDLESS_BUDGET) -> NewOperation:
    url = f"{base}/jobs/{job}"
    return NewOperation(
        contract="generic-status",
        document=contract(),
        account="",
        job_id=job,
        url=url,
        parameters={},
        fingerprint=fingerprint("generic-status", "", job, url),
        allowance=Allowance(first + timedelta(hours=2), None, requests, ENDLESS_BUDGET, ENDLESS_BUDGET),
        pool=_provider_pool(base),
        first_look_at=first,
        actions=[action],
    )
