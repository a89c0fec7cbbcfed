"""Contracts as people look at them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from sereno.core.contract import Contract
from sereno.core.errors import Fault
from sereno.core.values import Json
from sereno.ports import ContractCatalogue


class Contracts:
    """The use cases of contracts."""

    def __init__(self, catalogue: ContractCatalogue):
        self._catalogue = catalogue

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
