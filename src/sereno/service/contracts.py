"""Contracts as people look at them."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from sereno.core.contract import Contract
from sereno.core.errors import SetupError
from sereno.core.values import Json
from sereno.ports import ContractCatalogue


class Contracts:
    """The use cases of contracts."""

    def __init__(self, catalogue: ContractCatalogue):
        self._catalogue = catalogue

    def list(self) -> Sequence[Contract]:
        """All contracts, by name."""
        catalogue = self._catalogue
        return [catalogue.contract(catalogue.document(name)) for name in catalogue.names()]

    def get(self, name: str) -> Contract:
        """One contract. Raises NotFound with the nearest name."""
        catalogue = self._catalogue
        return catalogue.contract(catalogue.document(name))

    def document(self, name: str) -> Mapping[str, Json]:
        """Its document as data."""
        return self._catalogue.document(name)

    def check(self, path: Path) -> Contract:
        """Reads a contract file. Raises SetupError with every fault."""
        try:
            document = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(f"cannot read {path}: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise SetupError(f"{path} is not TOML: {error}") from error
        return self._catalogue.contract(document)
