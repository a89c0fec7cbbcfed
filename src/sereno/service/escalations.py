"""Questions to people: list, show, answer once (W19, W20, W40)."""

from collections.abc import Sequence
from datetime import datetime

from sereno.core.errors import NotAllowed, RequestError, nearest
from sereno.core.escalation import Escalation, Option, Verb
from sereno.core.operation import AnswerDecision, Operation, decide_answer
from sereno.core.record import OperationRecord
from sereno.ports import AnswerRule, Given, Page
from sereno.service.deps import Deps
from sereno.service.waiting.changes import brings_of, present_document

SHORTEST_DIGEST = 8


class Escalations:
    """The use cases of questions, for one principal."""

    def __init__(self, deps: Deps):
        self._deps = deps

    async def list(self, *, state: str | None = "open", limit: int = 100) -> Sequence[Escalation]:
        """Questions, newest first; the open ones unless told otherwise."""
        return await self._deps.reads.escalations(self._deps.who, Page(limit=limit, state=state))

    async def get(self, escalation: str) -> Escalation:
        """One question with exactly the statement that was shown. Raises NotFound."""
        return await self._deps.reads.escalation(self._deps.who, escalation)

    def option(self, question: Escalation, key: str) -> Option:
        """The option of that key. Raises RequestError with the nearest one."""
        return _option(question, key)

    async def answer(self, escalation: str, option: str, *, digest: str) -> OperationRecord:
        """Records one answer, bound to the digest of what was shown (at least its first 8 digits).

        Raises RequestError (no such option), NotAllowed (another digest, not a person), NotNow (answered or expired).
        """
        question = await self.get(escalation)
        chosen = _option(question, option)
        if len(digest) < SHORTEST_DIGEST or not question.digest.startswith(digest):
            raise NotAllowed(
                f"the digest does not match what {escalation} asks now",
                subject=escalation,
                hint="look at `sereno escalation show` again and use its digest",
                code="digest_mismatch",
            )
        given, decide = await self._given(question, chosen)
        record = await self._deps.definitions.answer(self._deps.who, escalation, given, decide)
        self._deps.ring()
        return record

    async def _given(self, question: Escalation, chosen: Option) -> tuple[Given, AnswerRule]:
        """The answer with what it needs: the operation's pinned contract, and the present one where the answer moves to it."""
        deps = self._deps
        operation = (await deps.reads.operation(deps.who, question.operation)).operation
        pinned = await deps.reads.contract(operation.contract_digest)
        contract = deps.plugins.contracts.contract(pinned)
        moves = chosen.verb is Verb.UPDATE_CONTRACT
        document = present_document(deps, operation.contract, pinned) if moves else None
        brings = None if document is None else brings_of(deps, operation, contract, document)

        def decide(operation: Operation, escalation: Escalation, option: Option, now: datetime) -> AnswerDecision:
            return decide_answer(operation, escalation, option, now, contract=contract, to=brings)

        return Given(question.digest, chosen.key, question.statement, document), decide


def _option(question: Escalation, key: str) -> Option:
    found = next((option for option in question.options if option.key == key), None)
    if found is not None:
        return found
    known = [option.key for option in question.options]
    near = nearest(key, known)
    raise RequestError(
        f"{question.id} has no option `{key}`",
        subject=question.id,
        hint=f"did you mean `{near}`?" if near else f"options: {', '.join(known)}",
    )
