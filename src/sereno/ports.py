"""One Protocol for each thing outside, and the six seams: clock, ids + random, transport, store executor, effects, supervisor."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Protocol, TypeVar

from sereno.core.artifact import Artifact
from sereno.core.budget import Allowance
from sereno.core.call import ProviderCall
from sereno.core.change import FailedReading, KnownObject, Reading
from sereno.core.contract import Contract, Via
from sereno.core.delivery import Delivery, DeliveryDecision, Outcome
from sereno.core.effect import ActionRef, Policy
from sereno.core.errors import Fault
from sereno.core.escalation import Escalation, Option
from sereno.core.observation import Observation, Reply
from sereno.core.operation import AnswerDecision, Operation, OperationDecision
from sereno.core.poll import PollDecision, PollSpec, PollState, Verdict
from sereno.core.quick import quick
from sereno.core.record import (
    CallRecord,
    ChangeRecord,
    Counts,
    DeliveryRecord,
    JournalEntry,
    OperationRecord,
    PollRecord,
    RunRecord,
    StepRecord,
)
from sereno.core.values import Json
from sereno.core.work import DeliveryWork, Kind, Lease, LeaseTimes, OperationWork, PollWork, Principal, Work


@dataclass(frozen=True, slots=True)
class Boot:
    """How long the host runs. `id` names its start, the same for all its processes; "" where the platform names none."""

    id: str
    seconds: float


class Clock(Protocol):
    """Seam 1. Wall time for the database of this host, monotonic seconds for durations, and sleeping."""

    def now(self) -> datetime:
        """The host's wall clock, aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def boot(self) -> Boot:
        """Seconds since the host started, which go on while the machine sleeps; setting the wall clock does not touch them."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleeps; clamps NaN, negative and more than a day."""
        ...


class Ids(Protocol):
    """Seam 2. New ids and seeded dice."""

    def new(self, prefix: str) -> str:
        """A new id with one of `values.PREFIXES`."""
        ...

    def random(self, label: str) -> Random:
        """A generator for one decision; the label makes it reproducible in the simulation."""
        ...


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Where a secret is kept: the name of an environment variable, or the path of a file; exactly one of them."""

    env: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialConfig:
    """One `[credentials.NAME]` table. The value is sent as `header: scheme value`, and only to `origin` (`https://host[:port]`).

    `scheme` may be empty (the value alone) or `Basic` (then the value is `user:password`). With `AWS4-HMAC-SHA256` the value signs
    requests (`ACCESS_KEY_ID:SECRET[:SESSION_TOKEN]`) and is never sent itself. Rows and logs hold the NAME only.
    """

    origin: str
    value: SecretPlace
    header: str = "Authorization"
    scheme: str = "Bearer"


BeforeHop = Callable[[str], Awaitable[bool]]
"""Asked before each redirect hop is followed, with the hop's origin; it commits the count; False = do not follow."""

BeforeFirstByte = Callable[[], Awaitable[None]]
"""The last check of lease, fence and deadline; normally returns without waiting (I24)."""


@quick
@dataclass(frozen=True, slots=True)
class Fetch:
    """One HTTP request to be.

    `total_deadline` bounds everything from DNS to the last byte. `credential` is a NAME, resolved per hop inside the gate after the origin
    check. `before_hop` None = redirects are off. `max_bytes` caps the decoded body.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    credential: str | None = None
    total_deadline: timedelta = timedelta(seconds=30)
    max_bytes: int = 10_000_000
    before_hop: BeforeHop | None = None
    before_first_byte: BeforeFirstByte | None = None
    """Awaited right before each request (each hop) is written, after the connection stands; raises `core.errors.LeaseLost` to stop it
    (lease or deadline gone): then nothing left."""
    allowed_origins: Sequence[str] = ()
    """Where not empty: the only origins that may be asked, hops included."""
    sink: "Sink | None" = None
    """Where set: may take the body as it comes, decoded, instead of it being collected; `max_bytes` holds for it too."""
    signer: "Signer | None" = None
    """Signs the request with a secret of the credential instead of the credential being sent as a header."""


class Sink(Protocol):
    """Takes the body of one answer as it comes (W30)."""

    def begin(self, status: int, headers: Sequence[tuple[str, str]]) -> bool:
        """True = it takes this body, and the reply's `body` is empty; False = the body is collected as usual (an error page)."""
        ...

    async def write(self, chunk: bytes) -> None:
        """Takes the next piece. Raises OSError where it cannot be kept: the fetch ends as NoReply."""
        ...


class Signer(Protocol):
    """Signs one request (AWS SigV4). It is given the credential's value only inside the gate, for the origin it is bound to."""

    def __call__(self, request: "Fetch", secret: str) -> Mapping[str, str]:
        """The headers to send, signature among them."""
        ...


class Transport(Protocol):
    """Seam 3. The one way out for HTTP."""

    async def fetch(self, request: Fetch) -> Reply:
        """Sends at most once (plus allowed hops). Never raises for what the world does."""
        ...

    async def close(self) -> None:
        """Closes idle connections."""
        ...


_T = TypeVar("_T")


class Redact(Protocol):
    """Takes known secrets out of a value that is about to be kept or shown."""

    def __call__(self, value: _T, /) -> _T:
        """The same object where it holds none."""
        ...


def unchanged(value: _T) -> _T:
    """Redacts nothing: for parts that are put together without secrets."""
    return value


class Condition(Protocol):
    """A compiled CEL condition."""

    def judge(self, *, change: str, object: Json, before: Json, poll: Mapping[str, Json], now: datetime) -> Verdict:
        """Evaluates once, within the engine's iteration budget. Never raises: an error is a verdict."""
        ...


class Conditions(Protocol):
    """Compiles conditions."""

    def compile(self, text: str) -> Condition:
        """Raises ValueError with a message for a person for what does not compile or is not boolean."""
        ...


@quick
@dataclass(frozen=True, slots=True)
class Guarded:
    """What a plug-in may use during one call: the gate, the instants, and the checks before a byte leaves."""

    transport: Transport
    now: datetime
    total_deadline: timedelta
    before_hop: BeforeHop | None = None
    before_first_byte: BeforeFirstByte | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a source or an action goes: its pool (`host:example.com`, `local:command`…), its reference for people, default rates."""

    pool: str
    reference: str


class Source(Protocol):
    """A kind of place a poll can read. Stateless; everything it needs to remember is the cursor."""

    type: str

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options (unknown names with the nearest valid one, a secret in a URL …)."""
        ...

    def place(self, options: Mapping[str, Json]) -> Place:
        """Names pool and reference of checked options."""
        ...

    async def read(self, options: Mapping[str, Json], cursor: str | None, guarded: Guarded) -> Reading | FailedReading:
        """Reads once. What the world does is a value; only bugs raise."""
        ...


class Action(Protocol):
    """A way of acting."""

    type: str
    default_policy: Policy

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Lists what is wrong with the options."""
        ...

    def place(self, options: Mapping[str, Json]) -> Place:
        """Names pool and reference of checked options."""
        ...

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Acts once. What the world does is a value."""
        ...


class Provider(Protocol):
    """Carries the calls of a contract: one for each `Via` but `push`."""

    def problem(self, contract: Contract, parameters: Mapping[str, str]) -> str | None:
        """Says why calls of this contract cannot be carried here (a missing extra, an unknown name), or None. Sends nothing: it is
        asked before an operation is registered."""
        ...

    async def look(self, operation: Operation, contract: Contract, guarded: Guarded) -> Reply:
        """Sends the one status request. More requests that it needs (a handshake) are asked for with `guarded.before_hop` first."""
        ...

    async def send(self, operation: Operation, contract: Contract, call: ProviderCall, guarded: Guarded) -> Reply:
        """Sends a submit or a cancel, once."""
        ...


class Incoming(Sink, Protocol):
    """One artifact that is being written."""

    async def finish(self) -> Artifact:
        """Makes it durable under its hash and names it. The same content is kept once."""
        ...

    async def abandon(self) -> None:
        """Removes what was written."""
        ...


class ArtifactStore(Protocol):
    """Own storage of results (W30), content-addressed by SHA-256."""

    async def incoming(self, *, types: Sequence[str] = (), max_bytes: int) -> Incoming:
        """A place for one artifact; takes 2xx answers of these media types only (empty = any)."""
        ...

    def read(self, digest: str) -> AsyncIterator[bytes]:
        """The content in pieces. Raises NotFound."""
        ...

    def trouble(self) -> str | None:
        """Why nothing can be kept now, as far as a look tells that changes and asks nothing; None where it sees no reason."""
        ...


class ContractCatalogue(Protocol):
    """The contracts that ship with Sereno and those of the deployment."""

    def names(self) -> Sequence[str]:
        """All names that can be used, sorted."""
        ...

    def faults(self) -> Sequence[Fault]:
        """What is wrong with the deployment's own files and folders; a faulty file is not among the names."""
        ...

    def document(self, name: str) -> Mapping[str, Json]:
        """The parsed document; raises NotFound with the nearest name, SetupError where its file has faults."""
        ...

    def check(self, file: Path) -> Contract:
        """Reads one file without taking it up; raises SetupError with every fault as `FILE:LINE:COLUMN`."""
        ...

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """Compiles a stored or shipped document; raises SetupError with all faults."""
        ...


@dataclass(frozen=True, slots=True)
class Plugins:
    """Everything `app` plugs in, by type name."""

    sources: Mapping[str, Source]
    actions: Mapping[str, Action]
    providers: Mapping[Via, Provider]
    contracts: ContractCatalogue
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one claim handed out, at the database's instant `now`; works are in claim order."""

    now: datetime
    works: Sequence[Work] = ()


@dataclass(frozen=True, slots=True)
class Only:
    """Restricts a claim: to one subject (`wait`), or to what was due at an instant and the effects of that (`once`)."""

    subject: str | None = None
    due_by: datetime | None = None
    kinds: Sequence[Kind] = tuple(Kind)


class WorkStore(Protocol):
    """The store as engine and drivers see it: claim and commit. Each commit is one transaction and stands or falls by its fence."""

    async def claim(self, *, worker: str, limit: int, times: LeaseTimes, only: Only | None = None) -> Claimed:
        """Hands out due work, pools first. Closes runs whose lease ran out as `abandoned`. Reserves a status request for
        each operation that will ask (counter committed here), the attempt of each delivery, and moves `due` past the lease."""
        ...

    async def snapshot(self, work: PollWork) -> Mapping[str, KnownObject]:
        """The objects of a claimed poll by external id, asked for only where a reading has something to compare: only the holder
        of the lease writes them. Raises LeaseLost."""
        ...

    async def commit_poll(self, work: PollWork, decision: PollDecision) -> None:
        """Writes cursor, objects, run, next due and effects. Raises LeaseLost under an old fence; under an edited definition takes
        the run's facts, creates no effects and makes the poll due at once; the cursor is taken only where nothing was found, so
        that no change is passed that fired nothing."""
        ...

    async def commit_delivery(self, work: DeliveryWork, decision: DeliveryDecision) -> None:
        """Writes an attempt's outcome. Raises LeaseLost."""
        ...

    async def commit_operation(self, work: OperationWork, decision: OperationDecision) -> None:
        """Writes state, spend, journal, call, escalation and effects. Raises LeaseLost; AlreadyExists where the job that a submit
        named is that of another open operation: nothing is written then, and another decision may be committed."""
        ...

    async def park(self, work: Work, *, reason: str, observation: Observation | None = None) -> None:
        """Our bug: keeps what was learned (W43), takes the work out of the claim and says why. Raises LeaseLost."""
        ...

    async def release(self, work: Work) -> None:
        """Gives back work that was not performed (nothing sent): due at once again; a reserved request is given back."""
        ...

    async def reserve_hop(self, work: Work, origin: str) -> bool:
        """Counts one more request before a redirect hop is followed; False = no budget left or the fence is old."""
        ...

    async def check(self, work: Work, times: LeaseTimes) -> datetime:
        """Re-reads the fence and the database's instant before a send. Raises LeaseLost."""
        ...

    async def extend(self, work: Work, times: LeaseTimes) -> Lease:
        """Prolongs a lease that is still ours. Raises LeaseLost."""
        ...

    async def next_due(self, only: Only | None = None) -> datetime | None:
        """The earliest instant at which a claim may find something, or None. One index read, and it sees what other processes wrote."""
        ...

    async def note_clock_step(self, seconds: float) -> None:
        """Records that the host clock stepped against the time since its start (journal, and shown by doctor)."""
        ...


@dataclass(frozen=True, slots=True)
class NewOperation:
    """What `register` needs."""

    contract: str
    document: Mapping[str, Json]
    account: str
    job_id: str
    url: str
    parameters: Mapping[str, str]
    fingerprint: str
    allowance: Allowance
    pool: str
    first_look_at: datetime
    user: str = "local"
    assistant_task_id: str | None = None
    actions: Sequence[ActionRef] = ()
    min_gap: timedelta = timedelta(seconds=1)
    """The contract's smallest gap between two looks, which the claim never undercuts (W35)."""
    submit: "NewSubmit | None" = None
    """Where the job is to be started first: `job_id` is empty then, and `url` too."""
    previous: str | None = None
    """The operation this one is submitted anew for."""
    pushed_only: bool = False
    """The provider calls back: no status request is ever sent, and the limits name none."""


@dataclass(frozen=True, slots=True)
class NewSubmit:
    """A submit to be. The same `key` in the same contract, account and parameters gives the first operation back, whatever its state."""

    input: Json
    key: str
    statement: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """A shared limit: token bucket `rate` per second (None = no limit) with `burst`, and `in_flight` at once (None = no limit)."""

    rate: float | None = 1.0
    burst: int = 5
    in_flight: int | None = None


AnswerRule = Callable[[Operation, Escalation, Option, datetime], AnswerDecision]
ChangeRule = Callable[[Operation, datetime], AnswerDecision]


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as given: `document` is the catalogue's present contract of that name, used where the answer re-pins it."""

    digest: str
    option: str
    statement: Mapping[str, Json]
    document: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one operation: `word` names it in the journal (`cancel_requested`, `pushed`, `contract_changed`)."""

    word: str
    decide: ChangeRule
    statement: Mapping[str, Json] = field(default_factory=dict)
    document: Mapping[str, Json] | None = None


class DefinitionStore(Protocol):
    """The store as `service` writes definitions and people's decisions. Every method names the workspace by its principal."""

    async def now(self) -> datetime:
        """The database's instant."""
        ...

    async def add_poll(self, who: Principal, spec: PollSpec, *, pool: str, due: datetime, managed_by: str) -> PollRecord:
        """Stores a poll. Raises AlreadyExists for a taken name (by a file or by a user, the message says which)."""
        ...

    async def edit_poll(  # noqa: PLR0913 - pool, due and managed_by are one plan, named for the reader
        self, who: Principal, name: str, spec: PollSpec, *, pool: str, due: datetime, managed_by: str, reconsider: bool = False
    ) -> PollRecord:
        """Replaces a definition (revision + 1). `condition_version` rises only when condition, fire_on, source type or source change; an
        edit keeps cursor and snapshot unless the source changed or `reconsider`. Raises NotFound, NotAllowed (managed by another)."""
        ...

    async def set_poll_state(self, who: Principal, name: str, state: PollState, *, due: datetime | None) -> PollRecord:
        """Pauses, resumes, removes (name becomes free), disables."""
        ...

    async def poll_due_now(self, who: Principal, name: str) -> PollRecord:
        """Makes an active poll due at once (`poll run`), inside its pool's limit. Raises NotNow when it is not active."""
        ...

    async def register(self, who: Principal, new: NewOperation) -> tuple[OperationRecord, bool]:
        """Stores an operation, or returns the open one for (contract, account, parameters, job) with its used counters; True = it is new (W39).
        Raises NotNow when the open one has another fingerprint."""
        ...

    async def answer(self, who: Principal, escalation: str, given: "Given", decide: AnswerRule) -> OperationRecord:
        """Records an answer once: open, unexpired, same digest; `decide(operation, escalation, option, now)` runs inside the
        transaction on fresh rows. Raises NotFound, NotNow (answered, expired), NotAllowed (digest differs)."""
        ...

    async def change_operation(self, who: Principal, operation: str, change: "Change") -> OperationRecord:
        """Records a change that no question asked for: a cancel, a call-back, another contract. `change.decide` runs inside the
        transaction on fresh rows; an open question is closed where the operation leaves `escalated`. Raises what it raises."""
        ...

    async def retry_delivery(self, who: Principal, delivery: str) -> DeliveryRecord:
        """Queues a dead or ambiguous delivery again under the same key; recorded as a person's decision. Raises NotFound, NotNow."""
        ...

    async def drop_delivery(self, who: Principal, delivery: str) -> DeliveryRecord:
        """Closes a queued, dead or ambiguous delivery without sending. Raises NotFound, NotNow."""
        ...

    async def set_pool(self, who: Principal, name: str, limits: PoolLimits) -> None:
        """Sets a pool's limits (from settings); an unchanged limit changes nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """Which slice of a list: newest first, `limit` ≤ 1000, ids before `before`; `state` filters."""

    limit: int = 100
    before: str | None = None
    state: str | None = None
    subject: str | None = None


class ReadStore(Protocol):
    """The store as faces read it, through `service`."""

    async def poll(self, who: Principal, name_or_id: str) -> PollRecord:
        """Raises NotFound with the nearest name."""
        ...

    async def polls(self, who: Principal, page: Page) -> Sequence[PollRecord]: ...

    async def operation(self, who: Principal, operation: str) -> OperationRecord:
        """Raises NotFound."""
        ...

    async def operations(self, who: Principal, page: Page) -> Sequence[OperationRecord]: ...

    async def escalation(self, who: Principal, escalation: str) -> Escalation:
        """Raises NotFound."""
        ...

    async def escalations(self, who: Principal, page: Page) -> Sequence[Escalation]: ...

    async def deliveries(self, who: Principal, page: Page) -> Sequence[DeliveryRecord]: ...

    async def runs(self, who: Principal, page: Page) -> Sequence[RunRecord]:
        """`page.subject` filters by poll, operation or delivery id; `page.before` is a run id of that subject."""
        ...

    async def journal(self, who: Principal, subject: str, after: int = 0, limit: int = 1000) -> Sequence[JournalEntry]:
        """Oldest first."""
        ...

    async def calls(self, who: Principal, operation: str) -> Sequence[CallRecord]:
        """The submit and the cancels of one operation, oldest first."""
        ...

    async def steps(self, who: Principal, operation: str) -> Sequence[StepRecord]:
        """The committed steps of one operation, oldest first, as the journal holds them: what a replay decides again (W28)."""
        ...

    async def changes(self, who: Principal, operation: str) -> Sequence[ChangeRecord]:
        """What was decided beside the steps of one operation, oldest first: answers, cancels, call-backs, other contracts (W20, W28)."""
        ...

    async def contract(self, digest: str) -> Mapping[str, Json]:
        """The pinned contract document of an operation."""
        ...

    async def counts(self, who: Principal) -> Counts: ...
