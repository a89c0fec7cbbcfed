"""Contracts as people look at them, write them and try them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sereno.core.contract import Contract, Via, with_states
from sereno.core.errors import AlreadyExists, Fault, SetupError
from sereno.core.reading.schema import contract_schema
from sereno.core.values import Json
from sereno.core.writing.imported import Imported
from sereno.ports import Clock, ContractCatalogue
from sereno.service.contracting.answers import Answer, read_answer
from sereno.service.contracting.cases import Cases, Trial, read_cases, run_cases
from sereno.service.contracting.foreseen import Asking, Foreseen, foresee
from sereno.service.contracting.template import Started, start_contract

ImportWaiter = Callable[[str, str, str | None], Imported]
"""Makes a contract of a waiter of botocore: service, waiter, name (None = made of both). Raises NotFound, SetupError."""


class Contracts:
    """The use cases of contracts."""

    def __init__(self, catalogue: ContractCatalogue, *, clock: Clock, import_waiter: ImportWaiter):
        self._catalogue = catalogue
        self._clock = clock
        self._import_waiter = import_waiter

    def list(self) -> Sequence[Contract]:
        """All contracts that can be used, by name."""
        catalogue = self._catalogue
        return [catalogue.contract(catalogue.document(name)) for name in catalogue.names()]

    def faults(self) -> Sequence[Fault]:
        """What keeps files of the deployment's own folders from being used."""
        return self._catalogue.faults()

    def get(self, name: str) -> Contract:
        """One contract. Raises NotFound with the nearest name, SetupError where its file has faults."""
        catalogue = self._catalogue
        return catalogue.contract(catalogue.document(name))

    def document(self, name: str) -> Mapping[str, Json]:
        """Its document as data."""
        return self._catalogue.document(name)

    def check(self, path: Path) -> Contract:
        """Reads a contract file. Raises SetupError with every fault at its line and column."""
        return self._catalogue.check(path)

    def schema(self) -> Json:
        """The JSON schema of the format."""
        return contract_schema()

    def answer(self, content: bytes, name: str) -> Answer:
        """Reads a saved answer: JSON, or what `curl -i` printed. Raises SetupError."""
        return read_answer(content, name)

    def start(self, name: str, *, via: Via, url: str | None, answers: Sequence[Answer]) -> Started:
        """Writes the start of a contract and its cases. Raises AlreadyExists for a name that is in use, SetupError."""
        if name in self._catalogue.names():
            raise AlreadyExists("there is a contract of that name", subject=name, hint="choose another name")
        return start_contract(name, via, url, answers)

    def cases(self, text: str, file: str) -> Cases:
        """Reads a cases file. Raises SetupError with every fault."""
        return read_cases(text, file)

    def test(self, path: Path, cases: Cases) -> Trial:
        """Runs cases through a contract file. Raises SetupError where the file has faults."""
        return run_cases(self._filled(self.check(path), cases), cases)

    def foresee(self, path: Path, answer: Answer, asking: Asking) -> Foreseen:
        """Says what a wait would see in a saved answer and do next. Raises SetupError."""
        try:
            return foresee(self.check(path), answer, asking, now=self._clock.now())
        except ValueError as error:
            raise SetupError("the answer cannot be tried", [Fault(str(path), str(error))]) from None

    def import_waiter(self, service: str, waiter: str, name: str | None) -> Imported:
        """Makes a contract of a waiter of botocore. Raises NotFound with the nearest name, SetupError without the extra."""
        return self._import_waiter(service, waiter, name)

    def _filled(self, contract: Contract, cases: Cases) -> Contract:
        """A contract whose states the caller gives is tried with the states of the cases file."""
        if not contract.takes_states:
            return contract
        given = cases.caller
        states = {key: [str(word) for word in words] for key, words in given.items() if isinstance(words, list)}
        state = given.get("state")
        if not states:
            hint = '[caller]\nstate = "status"\nsuccess = ["done"]'.replace("\n", ", ")
            raise SetupError(
                "whoever waits gives the states of this contract", [Fault("[caller]", "is missing in the cases", hint)]
            )
        return self._catalogue.contract(with_states(contract.document, states, str(state) if state is not None else None))
