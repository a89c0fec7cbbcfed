"""The outside of a simulated world: each fault can strike and is counted, each book tells what happened, one seed is one outside."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest

from sereno.builtin.providers.http import HttpProvider
from sereno.core.change import FailedReading, Reading
from sereno.core.contract import Via
from sereno.core.delay import read_retry_after
from sereno.core.delivery import Delivery, DeliveryState, OutcomeKind
from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.observation import HttpReply, NoReply, Reply
from sereno.core.operation import KEEP_RESULT, OperationState
from sereno.core.work import LeaseTimes
from sereno.drivers.loop import Driver
from sereno.engine.kit import Kit
from sereno.outside.cel import CelConditions
from sereno.outside.logs import quiet_logs
from sereno.outside.redaction import Redaction
from sereno.ports import Fetch, Guarded, Page, Plugins
from sereno.store.definitions import Definitions
from sereno.store.executor import InlineExecutor
from sereno.store.open import Store, open_store
from sereno.store.reads import Reads
from sereno.testing.hooks import Hooks, SimulatedCrash
from sereno.testing.hostile.book import Ordered
from sereno.testing.hostile.fates import WAIT_KINDS
from sereno.testing.hostile.faults import FAULTS
from sereno.testing.hostile.more import MORE
from sereno.testing.hostile.options import BASE
from sereno.testing.hostile.waits import DATES, WAITS
from sereno.testing.simulation.outside import KINDS, POINTS, Outside, receivers, sources
from sereno.testing.simulation.outside.fates import PlannedFates
from sereno.testing.simulation.outside.sources import LIST, LOG, Feed
from sereno.testing.simulation.plan import Plan
from sereno.testing.simulation.terms import Group, Options
from sereno.testing.virtual import START, HandClock, SeededIds, VirtualClock, run_virtual
from sereno.testing.yard import WHO

T = TypeVar("T")
TIMES = LeaseTimes(
    lease=timedelta(seconds=20),
    total_deadline=timedelta(seconds=10),
    guard=timedelta(seconds=1),
    commit_time=timedelta(seconds=2),
    tick=timedelta(minutes=2),
)


def options(seed: int = 1, share: float = 0.15, **changes: Any) -> Options:
    """One small world."""
    drawn = Options(seed, 2, 8, 6, 6, 3, 4.0, TIMES, {group: share for group in Group})
    return replace(drawn, **changes)


@dataclass
class Small:
    """A world of two processes that nobody disturbs, and what it left behind."""

    outside: Outside
    points: Counter[str] = field(default_factory=Counter)
    operations: Sequence[Any] = ()
    journal: Sequence[tuple[Any, ...]] = ()
    deliveries: Sequence[Delivery] = ()
    calm_at: datetime | None = None

    def books(self) -> str:
        """All books as text."""
        outside = self.outside
        feeds = [feed.readings for feed in outside.feeds.values()]
        return repr([outside.provider.requests, outside.received.arrivals, outside.acted.acts, feeds])


async def read_back(small: Small, store: Store, reads: Reads) -> Small:
    """What the world left in its database."""
    small.operations = [record.operation for record in await reads.operations(WHO, Page(limit=1000))]
    small.deliveries = [record.delivery for record in await reads.deliveries(WHO, Page(limit=1000))]
    small.journal = await store.executor.read(
        lambda c: [tuple(row) for row in c.execute("SELECT subject, kind, facts FROM journal ORDER BY seq")]
    )
    await store.close()
    return small


def live(given: Options, *, ahead: timedelta = timedelta(0)) -> Small:
    """Runs it on virtual time; the host's wall clock is `ahead` of true time."""

    async def main() -> Small:
        clock, host = VirtualClock(), VirtualClock()
        host.offset = ahead
        small = Small(Outside(given, clock, Plan(given)))
        outside, ids, loop = small.outside, SeededIds(given.seed, host.now), asyncio.get_running_loop()
        store = open_store(":memory:", clock=host, ids=ids, executor=InlineExecutor)
        definitions, reads = Definitions(store.executor, clock=host, ids=ids), Reads(store.executor, clock=host)

        def life(name: str) -> tuple[Hooks, Plugins]:
            hooks = Hooks(name, host, lambda point: small.points.update([point]))
            made = outside.sources(hooks), outside.actions(hooks)
            return hooks, Plugins(*made, {Via.HTTP: HttpProvider()}, outside.contracts, CelConditions())

        await outside.populate(definitions, reads, life("people")[1], ids, host)

        def made(number: int) -> Driver:
            hooks, plugins = life(f"w{number}")
            kit = Kit(
                store=store.work, plugins=plugins, transport=outside.transport(hooks), clock=host, ids=ids, times=TIMES,
                pinned_contract=reads.contract,
            )  # fmt: skip
            return Driver(kit, worker=hooks.process, slots=8)

        drivers = [made(number) for number in range(given.workers)]
        running = [loop.create_task(driver.run()) for driver in drivers]
        people = loop.create_task(outside.people(definitions, reads, life("people")[1], ids, host))
        await clock.sleep(given.awake_hours * 3600)
        assert not people.done(), people.result()
        people.cancel()
        outside.plan.calm, small.calm_at = True, clock.now()
        await clock.sleep(9 * 3600)
        for driver, task in zip(drivers, running, strict=True):
            driver.stop()
            await task
        return await read_back(small, store, reads)

    quiet_logs(Redaction())
    return run_virtual(main, given.seed)


@pytest.fixture(scope="module")
def lived() -> Small:
    """One world that all tests below look at."""
    return live(options(2))


def test_W18_the_number_of_a_request_is_in_the_journal_where_its_answer_was_committed(lived: Small) -> None:
    """Each provider_request_id is the number of a request in the book, about the job or order of that operation."""
    requests, refs = lived.outside.provider.requests, lived.outside.acted.refs
    assert [request.number for request in requests] == list(range(len(requests)))
    seen = []
    for subject, kind, facts in lived.journal:
        observation = json.loads(facts).get("observation") or {}
        if kind == "decision" and isinstance(number := observation.get("provider_request_id"), str):
            seen.append(int(number))
            request = requests[int(number)]
            assert refs[subject] in (request.ref, *lived.outside.provider.jobs[request.job].named_for)
    committed = Counter(seen)
    whole = [request for request in requests if request.kind == "look" and request.status is not None]
    assert len(whole) > 20 and all(committed[request.number] == 1 for request in whole)


def test_a_world_is_populated_over_its_whole_time_with_all_policies(lived: Small) -> None:
    """Operations come early and late, with short and long limits; every policy acts for operations and for polls."""
    acted, given = lived.outside.acted, lived.outside.options
    registered = [act for act in acted.acts if act.word in ("register", "submit") and act.accepted]
    assert len(registered) == given.jobs + given.orders
    assert sum(act.at > START + timedelta(hours=given.awake_hours / 2) for act in registered) >= 2
    assert {timedelta(minutes=5) <= deadline <= timedelta(hours=8) for deadline, _ in acted.allowed.values()} == {True}
    assert {3 <= budget <= 40 for _, budget in acted.allowed.values()} == {True}
    subjects = {arrival.subject.partition("_")[0] for arrival in lived.outside.received.arrivals}
    assert subjects >= {"op", "poll"}
    assert {arrival.action for arrival in lived.outside.received.arrivals} >= {*receivers.POLICIES} - {KEEP_RESULT}


def test_every_request_of_a_calm_world_is_honest(lived: Small) -> None:
    """Once the faults are over nothing odd is answered, and what still waits comes to its end."""
    late = [request for request in lived.outside.provider.requests if lived.calm_at is not None and request.at > lived.calm_at]
    assert all(request.fault is None and request.wait is None for request in late)
    assert not lived.outside.provider.strangers
    live = (OperationState.WAITING, OperationState.SUBMITTING)
    assert not [operation.id for operation in lived.operations if operation.state in live]
    assert not [one.id for one in lived.deliveries if one.state in (DeliveryState.QUEUED, DeliveryState.SENDING)]


def test_people_answer_wrongly_late_and_twice_and_none_of_it_is_taken(lived: Small) -> None:
    """An answer under another digest, or to a question that is closed, is refused and in the book."""
    acts = [act for small in (lived, live(options(3))) for act in small.outside.acted.acts]
    wrong = [act for act in acts if act.wrong_digest]
    assert wrong and not any(act.accepted for act in wrong)
    assert any(act.word == "answer" and act.why == "answered" for act in acts)
    assert {act.word for act in acts if act.accepted} >= {"answer", "cancel", "push", "publish", "set_pool", "update_contract"}


def test_I34_the_same_seed_gives_the_same_books(lived: Small) -> None:
    """A second run of one seed writes the same books and the same journal, word for word."""
    again = live(options(2))
    assert again.books() == lived.books() and again.journal == lived.journal
    assert live(options(4)).books() != lived.books()


def test_I23_a_host_whose_clock_is_years_ahead_gets_dates_beside_the_provider_s_own(lived: Small) -> None:
    """Then a date in Retry-After cannot be believed: the book forbids nothing by it, and work goes on as ever."""
    small = live(options(2, shares={**options().shares, Group.WAIT: 0.9}), ahead=timedelta(days=1200))
    dated = [request for request in small.outside.provider.requests if request.wait in DATES]
    assert dated and all(request.waits_until is None for request in dated)
    assert all(request.host_at - request.at == timedelta(days=1200) for request in small.outside.provider.requests)
    assert any(request.waits_until for request in small.outside.provider.requests if request.wait not in DATES)


def made(given: Options, clock: HandClock | None = None) -> Outside:
    """An outside without processes."""
    return Outside(given, clock or HandClock(), Plan(given))


def hooks_of(outside: Outside, point: Callable[[str], None] = lambda name: None, process: str = "w1") -> Hooks:
    return Hooks(process, outside.clock, point)


async def ask(outside: Outside, job: str, hooks: Hooks | None = None) -> Reply:
    """One look."""
    request = Fetch(f"{BASE}/jobs/{job}", total_deadline=timedelta(seconds=10))
    return await outside.transport(hooks or hooks_of(outside)).fetch(request)


async def submit(outside: Outside, ref: str, key: str = "") -> Reply:
    """One submit."""
    headers = {"Idempotency-Key": key} if key else {}
    body = json.dumps({"ref": ref}).encode()
    return await outside.transport(hooks_of(outside)).fetch(Fetch(f"{BASE}/submit", "POST", headers, body))


@pytest.mark.parametrize("word", ["wire", "submit", "cancel"])
@pytest.mark.parametrize("point", ["before", "sent", "replied"])
async def test_a_crash_on_the_wire_leaves_in_the_book_what_the_provider_saw(word: str, point: str) -> None:
    """Before = the provider never heard of it; sent = it did and its answer was lost; replied = answered, and not read."""
    outside = made(options(share=0.0))
    job = outside.provider.start("sim-there-1").id

    def crash(name: str) -> None:
        if name == f"{word}.{point}":
            raise SimulatedCrash(name)

    url = {"wire": f"jobs/{job}", "submit": "submit", "cancel": f"cancel/{job}"}[word]
    with pytest.raises(SimulatedCrash):
        await outside.transport(hooks_of(outside, crash)).fetch(Fetch(f"{BASE}/{url}", "POST", body=b'{"ref": "sim-plain-9"}'))
    found = outside.provider.requests
    assert f"{word}.{point}" in POINTS
    assert [request.process for request in found] == ([] if point == "before" else ["w1"])
    assert [request.answered is not None for request in found] == ([] if point == "before" else [point == "replied"])


def test_every_kind_of_every_group_is_named_once_and_strikes() -> None:
    """What the fates draw is listed, and everything that is listed is drawn."""
    given = options(share=1.0)
    plan, clock = Plan(given), HandClock()
    fates = PlannedFates(plan, plan.dice(Group.CRASH), [(START, START + timedelta(hours=1))] * 30)
    outside = made(given, clock)
    jobs = [outside.provider.start("sim-there-1") for _ in range(40)]
    order = Ordered("sim-plain-1")
    for number in range(6000):
        job = jobs[number % 40]
        fates.look(job, ended=number % 2 == 0)
        fates.hint()
        fates.submit(order, known=number % 3 == 0)
        fates.cancel(job)
        fates.wait(START, timedelta(0), likely=number % 2 == 0)
        fates.connection()
        fates.away(START)
    for group in (Group.LOOK, Group.SUBMIT, Group.CANCEL, Group.WAIT):
        assert len(set(KINDS[group])) == len(KINDS[group])
        assert {kind for kind in KINDS[group] if not plan.struck[f"{group}.{kind}"]} == set()
    assert set(plan.struck) <= {f"{group}.{kind}" for group, kinds in KINDS.items() for kind in kinds}


def one_kind(group: Group, kind: str, share: float = 1.0) -> Options:
    """Only this fault, always."""
    return options(share=share, kinds=frozenset({f"{group}.{kind}"}))


@pytest.mark.parametrize("kind", [*FAULTS, *MORE])
async def test_each_fault_of_a_look_is_answered_and_written_down(kind: str) -> None:
    """The book names the fault; one that never left is not in it."""
    clock = HandClock()
    outside = made(one_kind(Group.LOOK, kind), clock)
    job = outside.provider.start("sim-there-1")
    job.ends_at, job.word = START, "done"
    reply: Reply | None = None
    for _ in range(2000):
        reply = await ask(outside, job.id)
        if outside.plan.struck[f"look.{kind}"]:
            break
    assert outside.plan.struck[f"look.{kind}"] == 1
    if isinstance(reply, NoReply) and not reply.sent:
        assert not any(request.fault == kind for request in outside.provider.requests)
        return
    last = job.looks[-1]
    assert last.fault == kind and last.answered == clock.now()
    if isinstance(reply, HttpReply):
        assert (reply.header("x-request-id"), reply.status) == (str(last.number), last.status)


async def test_a_late_answer_comes_after_the_total_deadline_and_a_slow_one_just_before() -> None:
    """By the clock of the provider."""
    for kind, says in (("after the deadline", 1), ("near the deadline", -1)):
        outside = made(one_kind(Group.LOOK, kind))
        job = outside.provider.start("sim-there-1")
        while not outside.plan.struck[f"look.{kind}"]:
            await ask(outside, job.id)
        look = job.looks[-1]
        assert look.answered is not None
        late = (look.answered - look.at).total_seconds() - 9.9  # connecting counts
        assert 0 < late * says < 2


async def test_two_submits_under_one_key_are_one_job_until_the_provider_breaks_its_word() -> None:
    """Known keys start nothing, another key does; with the fault a second job is started and the book says whose fault it is."""
    outside = made(options(share=0.0))
    first, again = await submit(outside, "sim-replay-1", "k1"), await submit(outside, "sim-replay-1", "k1")
    assert isinstance(first, HttpReply) and isinstance(again, HttpReply) and first.body == again.body
    await submit(outside, "sim-replay-1", "k2")
    book = outside.provider.orders["sim-replay-1"]
    assert [request.took for request in book.requests] == [True, False, True] and not book.broke
    rejecting = [await submit(outside, "sim-reject-1", "k1") for _ in range(2)]
    assert [reply.status for reply in rejecting if isinstance(reply, HttpReply)] == [202, 409]
    broken = made(one_kind(Group.SUBMIT, "two jobs"))
    for _ in range(40):
        await submit(broken, "sim-replay-1", "k1")
    book = broken.provider.orders["sim-replay-1"]
    assert len(book.under["k1"]) > 1 and book.broke


async def test_W13_dates_are_read_as_the_book_says_whatever_the_host_s_clock_shows() -> None:
    """Where the book forbids requests until an instant, the core reads a wait that is at least as long."""
    given = options(share=1.0)
    plan, believed = Plan(given), 0
    fates = PlannedFates(plan, plan.dice(Group.CRASH), [])
    for number in range(3000):
        skew = timedelta(hours=(0, 0, 3, -5, 19, -19, 30, -30, 9000, -23)[number % 10])
        now = START + timedelta(seconds=number * 0.37)
        kind, wait = fates.wait(now, skew, likely=True)
        headers = dict(wait.headers)
        if kind is None or wait.until is None:
            continue
        assert kind not in DATES or "date" in headers or skew == timedelta(0)
        read = read_retry_after(headers["retry-after"], received_at=now + skew, date_header=headers.get("date"))
        assert isinstance(read, datetime) and read - skew >= wait.until - timedelta(microseconds=1), (kind, headers, skew)
        believed += kind in DATES and skew != timedelta(0)
    assert believed > 50 and set(WAITS) < set(WAIT_KINDS)


async def test_an_outage_is_the_whole_host_for_hours_and_ends_with_the_faults() -> None:
    """Looks, submits and cancels are all told 503 inside the window, and nothing of it remains once it is calm."""
    clock = HandClock()
    outside = made(one_kind(Group.LOOK, "outage"), clock)
    outside.fates.outages = [(START, START + timedelta(hours=3))] * 50
    job = outside.provider.start("sim-there-1")
    for _ in range(3):
        await ask(outside, job.id)
        await submit(outside, "sim-plain-1")
        clock.advance(1800)
    assert {(request.fault, request.status) for request in outside.provider.requests} == {("outage", 503)}
    outside.plan.calm = True
    await ask(outside, job.id)
    assert outside.provider.requests[-1].fault is None


GUARDED = Guarded(transport=None, now=START, total_deadline=timedelta(seconds=10))  # type: ignore[arg-type]  # nothing is fetched


def feed_of(outside: Outside, kind: str) -> Feed:
    """A feed of five changes, one an hour, two of them of one object; in a list that object vanishes at last."""
    drawn = [("a", "h1"), ("b", "h2"), ("a", "h3"), ("c", "h4"), ("b", "" if kind == LIST else "h5")]
    at = [START + timedelta(hours=number) for number in range(1, 6)]
    until = [at[2], at[4], None, None, None]
    versions = [sources.Version("f", seq, *drawn[seq - 1], at[seq - 1], until[seq - 1]) for seq in range(1, 6)]
    outside.feeds["f"] = Feed("f", kind, versions)
    return outside.feeds["f"]


async def read(outside: Outside, kind: str, cursor: str | None) -> Reading | FailedReading:
    return await outside.sources(hooks_of(outside))[kind].read({"feed": "f"}, cursor, GUARDED)


async def test_P05_a_log_gives_what_changed_since_its_cursor_and_a_list_what_is_there() -> None:
    """The book says which versions could be read when; a reading that changes nothing says so."""
    clock = HandClock()
    outside = made(options(share=0.0), clock)
    feed = feed_of(outside, LOG)
    clock.advance(2.5 * 3600)
    first = await read(outside, LOG, None)
    assert isinstance(first, Reading) and (first.cursor, first.complete) == ("2", False)
    assert [one.content_hash for one in first.objects] == ["h1", "h2"]
    clock.advance(3600 * 2)
    second, same = await read(outside, LOG, "2"), await read(outside, LOG, "4")
    assert isinstance(second, Reading) and [one.content_hash for one in second.objects] == ["h3", "h4"]
    assert isinstance(same, Reading) and same.unchanged and not same.objects
    assert [taken.cursor for taken in feed.readings] == [None, "2", "4"]
    assert feed.readings[1].given == (("a", "h3"), ("c", "h4")) and all(taken.answered for taken in feed.readings)
    feed = feed_of(outside, LIST)
    clock.advance(3600)
    whole = await read(outside, LIST, None)
    assert isinstance(whole, Reading) and whole.complete and [one.external_id for one in whole.objects] == ["a", "c"]


@pytest.mark.parametrize("kind", sources.READ_KINDS)
async def test_each_fault_of_a_reading_is_written_down(kind: str) -> None:
    """Failures give nothing; odd readings never hide a change behind a cursor that passed it."""
    clock = HandClock()
    outside = made(one_kind(Group.READ, kind), clock)
    feed = feed_of(outside, LOG)
    clock.advance(6 * 3600)
    found: Reading | FailedReading | None = None
    for _ in range(2000):
        try:
            found = await read(outside, LOG, "1")
        except RuntimeError:
            assert kind == "raises"
        if outside.plan.struck[f"read.{kind}"]:
            break
    taken = feed.readings[-1]
    assert taken.fault == kind and taken.answered is not None
    assert taken.failed is (kind in sources.FAILURES or kind == "raises") is isinstance(found, FailedReading) or kind == "raises"
    if not taken.failed:
        given = {content for _, content in taken.given}
        passed = [one for one in feed.shown(taken.at) if 1 < one.seq <= int(taken.next_cursor or 0)]
        assert {one.content_hash for one in passed} <= given


def delivery(type: str, key: str = "k", attempt: int = 1) -> Delivery:
    """One attempt."""
    action = ActionRef(type, type, {}, receivers.POLICIES[type], pool=receivers.POOL)
    effect = Effect(key, action, receivers.POOL, "title", "body", {}, "op_1")
    return Delivery("del_1", "main", effect, DeliveryState.SENDING, attempt, 10, START)


async def perform(outside: Outside, type: str, key: str = "k") -> OutcomeKind:
    return (await outside.actions(hooks_of(outside))[type].perform(delivery(type, key), GUARDED)).kind


async def test_I17_a_receiver_keeps_keys_for_a_day_and_others_know_none() -> None:
    """Under a known key nothing happens again; a day later the key is forgotten."""
    clock = HandClock()
    outside = made(options(share=0.0), clock)
    for type, policy in receivers.POLICIES.items():
        for hours in (0, 23, 2):
            clock.advance(hours * 3600)
            assert await perform(outside, type, type) is OutcomeKind.DONE
        effects = [arrival.effect for arrival in outside.received.arrivals if arrival.action == type]
        assert effects == ([True, False, True] if policy is Policy.KEYED else [True, True, True])
    assert len({arrival.content for arrival in outside.received.arrivals}) == 1


TOLD: Mapping[str, tuple[OutcomeKind, bool]] = {
    "lost answer": (OutcomeKind.UNKNOWN, True),
    "lost request": (OutcomeKind.UNKNOWN, False),
    "timeout before": (OutcomeKind.UNKNOWN, False),
    "timeout after": (OutcomeKind.UNKNOWN, True),
    "doubled answer": (OutcomeKind.DONE, True),
    "refused": (OutcomeKind.REFUSED, False),
    "wait": (OutcomeKind.RETRY, False),
    "slow": (OutcomeKind.DONE, True),
    "raises after": (OutcomeKind.UNKNOWN, True),
    "raises before": (OutcomeKind.UNKNOWN, False),
}


@pytest.mark.parametrize("kind", receivers.ACT_KINDS)
async def test_I19_the_book_of_a_receiver_says_what_it_did_and_what_was_told(kind: str) -> None:
    """Both may differ: that is what makes an outcome unknown."""
    outside = made(one_kind(Group.ACT, kind))
    for number in range(2000):
        try:
            await perform(outside, receivers.KEYED, f"k{number}")
        except RuntimeError:
            assert kind.startswith("raises")
        if outside.plan.struck[f"act.{kind}"]:
            break
    assert outside.plan.struck[f"act.{kind}"] == 1
    if kind == "unreachable":
        assert not any(arrival.key == f"k{number}" for arrival in outside.received.arrivals)
        return
    last = outside.received.arrivals[-1]
    assert (last.fault, last.told, last.effect) == (kind, *TOLD[kind])


def test_the_contracts_of_a_world_can_be_replaced_while_it_runs() -> None:
    """A later version knows one word more; the one before stays what it was."""
    versions = Outside(options(), HandClock(), Plan(options())).contracts
    before = versions.contract(versions.document("sim-plain"))
    assert versions.publish("sim-plain") == 2  # type: ignore[attr-defined]  # the catalogue of a world
    after = versions.contract(versions.document("sim-plain"))
    assert "awaiting_review" in after.states and "awaiting_review" not in before.states
