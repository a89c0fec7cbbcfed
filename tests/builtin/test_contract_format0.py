"""Documents of format 0: the six contracts that shipped with it, as operations have pinned them, still compile and still read answers."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import pytest

from sereno.builtin.providers.catalogue import Catalogue
from sereno.core.contract import Contract, with_states
from sereno.core.values import Json
from sereno.service.contracting.cases import differences, look, read_cases

PINNED = Path(__file__).parent / "format0"
CASES = Path(__file__).parent / "cases"
DIGESTS = {
    "generic-202": "500f74b24c8a2a15",
    "generic-status": "a509ec6d085475f8",
    "github-actions-run": "47f3c80f4fa7a8a3",
    "google-lro": "d120122cdb4e5ff1",
    "openai-responses": "91a9dab8031041e2",
    "replicate": "bd09a2e417b971af",
}
"""The first part of each document's digest, under which operations pin it; generic-status with the words of its cases."""
CHANGED = {
    ("github-actions-run", "run again: another attempt"): "pending",
    ("replicate", "succeeded, and the data is removed"): "expired",
}
"""What today's contracts read otherwise, with what these read."""


def document(name: str) -> Mapping[str, Json]:
    """The document as its file was, with the caller's words where it takes them."""
    found = tomllib.loads((PINNED / f"{name}.toml").read_text())
    if not found.get("states_from_caller"):
        return found
    given = read_cases((CASES / f"{name}.toml").read_text(), name).caller
    states = cast(Mapping[str, Sequence[str]], {word: words for word, words in given.items() if word != "state"})
    return with_states(found, states, str(given["state"]))


def contract(name: str) -> Contract:
    """The contract as a step reads it from what is stored. Raises SetupError with its faults."""
    return Catalogue().contract(document(name))


def test_the_six_contracts_of_format_0_are_here() -> None:
    """And no other; each says its format itself."""
    assert sorted(file.stem for file in PINNED.glob("*.toml")) == sorted(DIGESTS)
    assert {document(name)["format"] for name in DIGESTS} == {0}


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_W03_a_pinned_document_compiles_under_the_digest_that_is_stored(name: str) -> None:
    """An operation finds its contract by digest: another one would be another contract."""
    assert contract(name).digest.startswith(DIGESTS[name])


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_W03_a_pinned_document_reads_answers_as_it_did(name: str) -> None:
    """The recorded answers of today's contract mean the same, but for two that a newer contract knows better."""
    pinned, others = contract(name), {}
    for case in read_cases((CASES / f"{name}.toml").read_text(), name).looks:
        seen = look(pinned, case)
        if list(differences(seen, case["expect"])):
            others[name, str(case["name"])] = seen.kind.value
    assert others == {place: kind for place, kind in CHANGED.items() if place[0] == name}
