"""The `keep_result` action: copies the result that matters to own storage, once the wait has succeeded (W24, W30)."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sereno.builtin.keeping import (
    GONE,
    OPTIONS,
    Job,
    Part,
    Stop,
    Watched,
    judge,
    last_piece,
    places,
    receipt,
    refuse,
    retry_after,
)
from sereno.builtin.options import host_pool, url_reference
from sereno.core.artifact import Artifact
from sereno.core.budget import Allowance, Spend
from sereno.core.contract import Contract
from sereno.core.delivery import Delivery, Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.errors import Fault, LeaseLost, SerenoError, Unavailable
from sereno.core.observation import Asked, DelaySource, HttpReply, ObservationKind, read_observation
from sereno.core.operation import Operation, OperationState
from sereno.core.reading.calls import Keep, KeepFrom, Via
from sereno.core.values import BadJson, Json, parse_json
from sereno.ports import ArtifactStore, BeforeHop, Fetch, Guarded, Incoming, Place, Provider

ContractOf = Callable[[str], Awaitable[Contract]]
"""Reads the pinned contract of an operation by its digest. Raises SerenoError."""
HOPS = 3
_BY_PEOPLE = ("config", "cli", "api")
_K = ObservationKind
_LATER = (_K.TRANSPORT, _K.NOT_SENT, _K.THROTTLED, _K.NOT_FOUND_YET, _K.PENDING)
"""Pending: another server of the provider may be behind; the attempts of the delivery bound how often that is believed."""
_GONE = (_K.RESULT_EXPIRED, _K.EXPIRED, _K.UNKNOWN_OPERATION)


class KeepResultAction:
    """Reads the status anew, so that addresses are fresh and none is ever stored, and copies what the contract says.

    Only a wait that succeeded makes such a delivery; nobody can name it as an action. Each try starts over: what was copied before
    is found under its hash again, so a repeat does no harm.
    """

    type = "keep_result"
    default_policy = Policy.KEYED

    def __init__(
        self,
        providers: Mapping[Via, Provider],
        contract_of: ContractOf,
        artifacts: ArtifactStore,
        longest: timedelta = timedelta(minutes=10),
    ) -> None:
        """`longest` bounds one download in all. It may outlast a lease, which the driver prolongs meanwhile; should that be lost, the
        other worker's copy ends the same."""
        self._providers = providers
        self._contract_of = contract_of
        self._artifacts = artifacts
        self._longest = longest

    def check(self, options: Mapping[str, Json], *, origin: str) -> Sequence[Fault]:
        """Refuses whatever a person wrote; for what the core built, lists what is missing."""
        if origin in _BY_PEOPLE:
            says = "is made by a wait that succeeded, never by hand"
            return [Fault("action.type", says, "write [result.keep] in the contract")]
        try:
            Job.read(options)
        except Stop as stop:
            return [Fault("action", stop.outcome.message, f"options are {', '.join(OPTIONS)}")]
        return []

    def place(self, options: Mapping[str, Json]) -> Place:
        """Pool and reference of the status address."""
        url = str(options.get("url") or "")
        return Place(host_pool(url) if url else "local", url_reference(url))

    async def perform(self, delivery: Delivery, guarded: Guarded) -> Outcome:
        """Copies once."""
        try:
            job = Job.read(delivery.effect.action.options)
            contract = await self._pinned(job)
            keep = contract.keep
            if keep is None:
                raise refuse("the contract says of no result that it is to be kept")
            reply = await self._status(delivery, job, contract, guarded)
        except Stop as stop:
            return stop.outcome
        try:
            kept = await self._keep(job, contract, keep, reply, guarded)
        except Stop as stop:
            return _later(stop.outcome, retry_after(reply, guarded.now))
        total = sum(artifact.size for artifact, _ in kept)
        return Outcome(OutcomeKind.DONE, f"{len(kept)} kept, {total:,} bytes", receipt=receipt(kept))

    async def _pinned(self, job: Job) -> Contract:
        try:
            return await self._contract_of(job.contract_digest)
        except (LeaseLost, Unavailable):
            raise
        except SerenoError as error:
            raise refuse(f"the contract of the wait cannot be read: {error.message}") from None

    async def _status(self, delivery: Delivery, job: Job, contract: Contract, guarded: Guarded) -> HttpReply:
        """The status answer, which must still say success of the same job. Raises Stop."""
        provider = self._providers.get(contract.via)
        if provider is None:
            raise refuse(f"the status of a {contract.via} contract cannot be read anew")
        reply = await provider.look(_operation(delivery, job, contract), contract, guarded)
        asked = Asked(job.job_id, delivery.created_at, url=job.url, parameters=job.parameters, pins=job.pins)
        seen = read_observation(contract, asked, reply, received_at=guarded.now + reply.elapsed)
        if seen.kind is _K.SUCCESS and isinstance(reply, HttpReply):
            return reply
        if seen.kind in _LATER:
            raise Stop(OutcomeKind.RETRY, f"the status could not be read anew: {seen.reason}", retry_after(reply, guarded.now))
        if seen.kind in _GONE:
            raise refuse(f"{GONE}: the provider has the result no longer: {seen.reason}")
        raise refuse(f"the job does not say success any more ({seen.kind}): {seen.reason}")

    async def _keep(
        self, job: Job, contract: Contract, keep: Keep, reply: HttpReply, guarded: Guarded
    ) -> list[tuple[Artifact, str]]:
        if keep.source is KeepFrom.ANSWER:
            return [(await self._keep_answer(keep, reply), job.url)]
        found = places(contract, keep, job, _json(reply) if keep.path is not None else None)
        return [(await self._download(part, keep, guarded), part.url) for part in found]

    async def _keep_answer(self, keep: Keep, reply: HttpReply) -> Artifact:
        """Keeps the body as it came, or the part at `path` as JSON."""
        content, kind = reply.body, reply.header("content-type") or "application/json"
        if keep.path is not None:
            part = keep.path.search(_json(reply))
            if part is None:
                raise refuse(f"the status answer holds nothing at {keep.path.expression}")
            content, kind = json.dumps(part, ensure_ascii=False).encode(), "application/json"
        incoming = await self._incoming(keep)
        try:
            if not incoming.begin(200, [("content-type", kind)]):
                raise refuse(f"wrong_type: the result is {kind}; the contract takes {', '.join(keep.types)}")
            if len(content) > keep.max_bytes:
                raise refuse(f"too_large: the result has {len(content):,} bytes; the contract allows {keep.max_bytes:,}")
            await incoming.write(content)
            return await incoming.finish()
        except (OSError, Unavailable) as error:
            raise _not_kept(error) from None
        finally:
            await incoming.abandon()

    async def _download(self, part: Part, keep: Keep, guarded: Guarded) -> Artifact:
        incoming = await self._incoming(keep)
        sink = Watched(incoming)
        try:
            reply = await guarded.transport.fetch(_fetch(part, keep, sink, replace(guarded, total_deadline=self._longest)))
            if part.credential is not None and reply.status in (401, 403):
                raise refuse(f"the credential is not accepted where the result is ({reply.status})")
            if (stop := judge(reply, sink, keep, guarded.now)) is not None:
                raise stop
            return replace(await incoming.finish(), name=sink.file_name or last_piece(part.url))
        except Unavailable as error:
            raise _not_kept(error) from None
        finally:
            await incoming.abandon()

    async def _incoming(self, keep: Keep) -> Incoming:
        try:
            return await self._artifacts.incoming(types=keep.types, max_bytes=keep.max_bytes)
        except Unavailable as error:
            raise _not_kept(error) from None


def _operation(delivery: Delivery, job: Job, contract: Contract) -> Operation:
    """The least that a provider needs to look at a job."""
    return Operation(
        id=job.operation,
        workspace=delivery.workspace,
        contract=contract.name,
        contract_digest=job.contract_digest,
        account=job.account,
        job_id=job.job_id,
        url=job.url,
        parameters=job.parameters,
        fingerprint="",
        state=OperationState.SUCCEEDED,
        revision=0,
        allowance=Allowance(delivery.created_at + timedelta(days=1), None, 1, 0, 0),
        spend=Spend(),
        pool=delivery.effect.pool,
        created_at=delivery.created_at,
        next_poll_at=None,
        delay_source=DelaySource.LOCAL_BACKOFF,
        pins=job.pins,
    )


def _fetch(part: Part, keep: Keep, sink: Watched, guarded: Guarded) -> Fetch:
    return Fetch(
        url=part.url,
        method=part.method,
        headers=part.headers,
        body=part.body,
        credential=part.credential,
        total_deadline=guarded.total_deadline,
        max_bytes=keep.max_bytes,
        before_hop=_few(guarded.before_hop),
        before_first_byte=guarded.before_first_byte,
        sink=sink,
    )


def _later(outcome: Outcome, wait: datetime | None) -> Outcome:
    """Each try reads the status anew, so one that failed behind it keeps the wait that its answer asked for (I4)."""
    if outcome.kind is not OutcomeKind.RETRY or wait is None:
        return outcome
    return replace(outcome, not_before=max(wait, outcome.not_before or wait))


def _few(before_hop: BeforeHop | None) -> BeforeHop | None:
    """Lets a download move on, but not often. The gate judges each place anew and sends the credential to none but its own."""
    if before_hop is None:
        return None
    asked: list[str] = []

    async def limited(origin: str) -> bool:
        asked.append(origin)
        return len(asked) <= HOPS and await before_hop(origin)

    return limited


def _json(reply: HttpReply) -> Json:
    try:
        return parse_json(reply.body)
    except BadJson:
        raise refuse("the status answer is not JSON, so it names no place of the result") from None


def _not_kept(error: OSError | Unavailable) -> Stop:
    says = error.message if isinstance(error, Unavailable) else error.strerror
    return Stop(OutcomeKind.RETRY, f"the result could not be kept: {says}")
