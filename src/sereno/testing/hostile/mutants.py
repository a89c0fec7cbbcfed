"""Planted bugs that a hostile world must find, each with how its violation begins."""

from collections.abc import Mapping
from dataclasses import replace

from sereno.core.contract import Contract, Meaning
from sereno.core.values import Json
from sereno.testing.hostile.contracts import DOCUMENTS
from sereno.testing.planted import GivenBack, WaitIgnored, Wrap
from sereno.testing.yard import Contracts

STORES: Mapping[str, tuple[Wrap, str]] = {"wait-ignored": (WaitIgnored, "I4 "), "counter-given-back": (GivenBack, "I1 ")}


class _Gullible(dict[str, Meaning]):
    """A table of states that takes any word it does not know as pending."""

    def get(self, key: str, default: object = None) -> Meaning:
        return super().get(key, Meaning.PENDING)

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> Meaning:
        return Meaning.PENDING


class UnknownIsPending(Contracts):
    """Breaks I13: an unknown word counts as pending."""

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """The contract with a table that knows every word."""
        found = super().contract(document)
        return replace(found, states=_Gullible(found.states))


class KeysBelieved(Contracts):
    """Breaks W21: a provider without keys is taken for one that honours them."""

    def contract(self, document: Mapping[str, Json]) -> Contract:
        """The contract, with the idempotency of another."""
        found, other = super().contract(document), super().contract(DOCUMENTS["hostile-replay"])
        if found.submit is None or other.submit is None or found.submit.idempotency is not None:
            return found
        return replace(found, submit=replace(found.submit, idempotency=other.submit.idempotency))


CONTRACTS: Mapping[str, tuple[type[Contracts], str]] = {
    "unknown-is-pending": (UnknownIsPending, "W38 "),
    "keys-believed": (KeysBelieved, "W21 "),
}
