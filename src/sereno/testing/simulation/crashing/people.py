"""People of a scenario: they do what its script says, through the real service, and everything is in their book."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from sereno.core.escalation import Escalation, Verb
from sereno.ports import DefinitionStore, PoolLimits
from sereno.service.operations import Wanted, WantedSubmit
from sereno.service.polls import read_model
from sereno.testing.simulation.crashing.scenario import ActOf, JobOf, PollOf
from sereno.testing.simulation.outside.contracts import THERE
from sereno.testing.simulation.outside.people import People
from sereno.testing.simulation.outside.sources import Feed


class ScriptedPeople(People):
    """See the module."""

    async def limit_to(self, pool: str, limits: PoolLimits, definitions: DefinitionStore) -> None:
        """Sets the limits of a pool."""
        began = self._clock.now()
        await definitions.set_pool(self._deps.who, pool, limits)
        self.book.pools.append((began, pool, limits))
        self._write("set_pool", pool, began)

    async def scripted_job(self, job: JobOf) -> None:
        """Registers or submits an operation. Raises RuntimeError where it is refused: the scenario is wrong then."""
        self._number += 1
        ref = f"{job.contract}-{self._number}"
        terms = {
            "deadline": timedelta(minutes=job.minutes),
            "max_status_requests": job.requests,
            "actions": tuple(job.actions),
            "business_deadline_at": await self._business_of(job),
        }
        if job.contract in THERE:
            there = self._provider.start(ref)
            wanted = Wanted(job.contract, there.id, **terms)  # type: ignore[arg-type]  # the terms by name
            found = await self._try("register", ref, lambda: self._operations.register(wanted))
            if found is not None:
                self.book.jobs[found.record.operation.id] = there.id
        else:
            submit = WantedSubmit(job.contract, {"ref": ref}, **terms)  # type: ignore[arg-type]  # the terms by name
            found = await self._try("submit", ref, lambda: self._operations.submit(submit))
        if found is None:
            raise RuntimeError(f"{ref} was refused: {self.book.acts[-1].why}")
        operation, book = found.record.operation.id, self.book
        book.refs[operation], book.actions[operation] = ref, job.actions
        book.registered[operation] = self._clock.now()
        book.allowed[operation] = (timedelta(minutes=job.minutes), job.requests)

    async def _business_of(self, job: JobOf) -> object:
        if job.business_minutes is None:
            return None
        return await self._deps.definitions.now() + timedelta(minutes=job.business_minutes)

    async def scripted_poll(self, feed: Feed, poll: PollOf) -> None:
        """Adds the poll of a feed."""
        model = read_model(
            {
                "name": feed.name,
                "source": {"type": feed.type, "feed": feed.name},
                "every": f"{poll.every}s",
                "jitter": "0s",
                "when": "change in ['new', 'updated', 'removed']",
                "actions": list(poll.actions),
                "keep": poll.keep,
                "baseline": poll.baseline,
            }
        )
        if await self._try("add_poll", feed.name, lambda: self._polls.add(model, look=False)) is None:
            raise RuntimeError(f"{feed.name} was refused: {self.book.acts[-1].why}")
        self.book.actions[feed.name] = poll.actions

    async def do(self, act: ActOf) -> None:
        """Does one thing; a refusal is in the book."""
        if act.do.endswith("_poll"):
            await self._with_poll(act.do, list(self._feeds)[act.to])
        elif act.do.endswith("_delivery"):
            await self._with_delivery(act.do)
        else:
            await self._with_operation(act, list(self.book.refs)[act.to])

    async def _with_poll(self, word: str, name: str) -> None:
        acts = {"pause_poll": self._polls.pause, "resume_poll": self._polls.resume, "run_poll": self._polls.run}
        if word == "edit_poll":
            await self._try(word, name, lambda: self._polls.edit(name, {"every": "90s"}))
        else:
            await self._try(word, name, lambda: acts[word](name))

    async def _with_delivery(self, word: str) -> None:
        acts = {"retry_delivery": self._deliveries.retry, "drop_delivery": self._deliveries.drop}
        for state in ("dead", "ambiguous"):
            for record in await self._deliveries.list(state=state, limit=50):
                delivery = record.delivery.id
                await self._try(word, delivery, partial(acts[word], delivery))

    async def _with_operation(self, act: ActOf, operation: str) -> None:
        match act.do:
            case "cancel":
                await self._try("cancel", operation, lambda: self._operations.cancel(operation))
            case "push":
                await self._try("push", operation, lambda: self._operations.push(operation, act.body.encode()))
            case "publish":
                self._publish((await self._operations.get(operation)).operation.contract)
            case "update_contract":
                await self._try("update_contract", operation, lambda: self._operations.update_contract(operation))
            case "resubmit":
                await self._submit_anew(operation)
            case _:
                raise ValueError(f"nobody can {act.do}")

    async def _submit_anew(self, operation: str) -> None:
        found = await self._try("resubmit", operation, lambda: self._operations.resubmit(operation))
        if found is not None and found.is_new:
            book, new = self.book, found.record.operation.id
            book.previous[new], book.refs[new], book.actions[new] = operation, book.refs[operation], book.actions[operation]
            book.registered[new], book.allowed[new] = self._clock.now(), book.allowed[operation]

    async def answer_all(self, answers: Mapping[str, Sequence[str]]) -> None:
        """Answers the open questions that the script has an answer to."""
        if not answers:
            return
        for question in await self._questions.list(limit=100):
            chosen = answers.get(question.category)
            if chosen:
                asked = sum(one.category == question.category for one in self._answered)
                await self._give(question, chosen[min(asked, len(chosen) - 1)])

    async def _give(self, question: Escalation, word: str) -> None:
        option = next(option for option in question.options if option.verb == word)
        if option.verb is Verb.UPDATE_CONTRACT:
            self._publish((await self._operations.get(question.operation)).operation.contract)
        began = self._clock.now()
        taken, why = await self._outcome(lambda: self._questions.answer(question.id, option.key, digest=question.digest))
        self._write(
            "answer", question.operation, began, accepted=taken is not None, why=why, verb=option.verb, escalation=question.id
        )  # fmt: skip
        if taken is not None:
            self._answered.append(question)
