"""The catalogue: shipped contracts, the deployment's own, and faults with file and place."""

import os
from pathlib import Path as File

import pytest

from sereno.builtin.providers.catalogue import MAX_FILE, Catalogue, read_document
from sereno.core.errors import NotFound, SetupError

OWN = """
format = 0
contract = "acme"
version = 1
title = "Acme"
source = "own"
verified = "unverified: made for a test"

[status]
url = "https://api.acme.example/jobs/{job_id}"
origins = ["https://api.acme.example"]

[state]
path = "status"

[states]
pending = ["busy"]
success = ["done"]
failure = ["broken"]
"""


def write(folder: File, name: str, text: str) -> File:
    file = folder / name
    file.write_text(text)
    return file


def test_shipped_contracts_are_found() -> None:
    """Names are sorted, each file is named as its contract, and each compiles to the digest of its document."""
    catalogue = Catalogue()
    assert {"generic-202", "generic-status", "github-actions-run", "google-lro", "openai-responses", "replicate"} <= set(
        catalogue.names()
    )
    assert list(catalogue.names()) == sorted(catalogue.names())
    assert all(catalogue.contract(catalogue.document(name)).name == name for name in catalogue.names())
    assert catalogue.place("replicate") == "shipped" and catalogue.faults() == []


def test_an_unknown_name_suggests_the_nearest() -> None:
    """A typo is answered with what was probably meant."""
    with pytest.raises(NotFound) as caught:
        Catalogue().document("replcate")
    assert caught.value.hint == "did you mean 'replicate'?"


def test_own_contracts_join_the_shipped_ones(tmp_path: File) -> None:
    """A directory of the deployment is read; other files in it are left alone."""
    file = write(tmp_path, "acme.toml", OWN)
    write(tmp_path, "notes.txt", "not a contract")
    catalogue = Catalogue([tmp_path])
    assert "acme" in catalogue.names() and catalogue.place("acme") == str(file)
    assert catalogue.document("acme") == read_document(file)


def test_every_fault_of_every_file_is_listed_with_line_and_column(tmp_path: File) -> None:
    """File, line, column and dotted path, or where TOML stops; nothing is half loaded."""
    write(tmp_path, "a.toml", OWN.replace("busy", "done").replace("version = 1", 'version = "x"'))
    write(tmp_path, "b.toml", "format = 0\ncontract = \n")
    write(tmp_path, "c.toml", OWN.replace('"acme"', '"replicate"'))
    write(tmp_path, "d.toml", "#" * (MAX_FILE + 1))
    (tmp_path / "e.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "f.toml").symlink_to(tmp_path / "gone")
    write(tmp_path, "g.toml", OWN.replace("acme", "gone", 1) + "\n[[rules]]\nword = 'done'\ntests = [{ path = 'x', valu = 1 }]\n")
    write(tmp_path, "h.toml", 'title = "open')
    catalogue = Catalogue([tmp_path, tmp_path / "missing"])
    text = "\n".join(map(str, catalogue.faults()))
    for part in (
        "a.toml:4:1: version: must be a whole number",
        "a.toml:18:12: states.success[0]: 'done' already means pending",
        "b.toml:2:12: is not TOML: Invalid value",
        "c.toml: contract: 'replicate' is already defined (shipped)",
        "d.toml: is larger than 256 KiB",
        "e.toml: is not UTF-8",
        "f.toml: cannot be read",
        "g.toml:23:24: rules[0].tests[0].valu: is not known here — did you mean 'value'?",
        "g.toml:21:1: rules[0].meaning: is missing",
        "h.toml:1:14: is not TOML: ",
        "missing: cannot be listed",
    ):
        assert part in text, (part, text)


def test_a_broken_file_stops_only_who_asks_for_it(tmp_path: File) -> None:
    """The other contracts go on working; the broken one is not listed and says what is wrong with it."""
    write(tmp_path, "acme.toml", OWN)
    file = write(tmp_path, "other.toml", OWN.replace('"acme"', '"bad"').replace("version = 1", ""))
    write(tmp_path, "nothing.toml", "[")
    catalogue = Catalogue([tmp_path])
    assert "acme" in catalogue.names() and not {"bad", "nothing", "other"} & set(catalogue.names())
    assert catalogue.contract(catalogue.document("acme")).name == "acme"
    with pytest.raises(SetupError, match="version: is missing"):
        catalogue.document("bad")
    with pytest.raises(SetupError, match="is not TOML"):
        catalogue.document("nothing")
    with pytest.raises(SetupError, match=r"other\.toml:1:1: version: is missing"):
        catalogue.check(file)


def test_a_name_that_two_files_claim_is_nobodys(tmp_path: File) -> None:
    """A wait never silently uses the other one: neither of two files, nor the shipped contract behind an own one."""
    write(tmp_path, "a.toml", OWN)
    write(tmp_path, "b.toml", OWN)
    write(tmp_path, "c.toml", OWN.replace('"acme"', '"replicate"'))
    catalogue = Catalogue([tmp_path])
    assert not {"acme", "replicate"} & set(catalogue.names())
    for name, says in (("acme", r"already defined \(.*a\.toml\)"), ("replicate", r"already defined \(shipped\)")):
        with pytest.raises(SetupError, match=says):
            catalogue.document(name)


def test_an_unreadable_folder_is_told_with_the_missing_name(tmp_path: File) -> None:
    """Who misses a contract learns that a folder could not be read."""
    with pytest.raises(NotFound) as caught:
        Catalogue([tmp_path / "missing"]).document("acme")
    assert "missing: cannot be listed" in str(caught.value)


def test_one_file_is_checked_without_taking_it_up(tmp_path: File) -> None:
    """A good file gives its contract; line ends of another system do not move the places."""
    assert Catalogue().check(write(tmp_path, "x.toml", OWN)).name == "acme"
    (tmp_path / "y.toml").write_bytes(OWN.replace("version = 1", "version = 0").replace("\n", "\r\n").encode())
    with pytest.raises(SetupError, match=r"y\.toml:4:1: version"):
        Catalogue().check(tmp_path / "y.toml")


def test_a_stored_document_that_no_longer_compiles_is_a_setup_error() -> None:
    """Faults come with their places, for example after an older version wrote it."""
    with pytest.raises(SetupError) as caught:
        Catalogue().contract({"format": 0, "contract": "x"})
    assert {fault.where for fault in caught.value.faults} >= {"version", "title", "status.url", "state.path"}


def test_only_regular_files_are_read(tmp_path: File) -> None:
    """A pipe, or a device behind a link, keeps nobody waiting: it is a fault, in a folder and when it is named."""
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "zero.toml").symlink_to("/dev/zero")
    catalogue = Catalogue([tmp_path])
    assert [str(fault) for fault in catalogue.faults()] == [
        f"{tmp_path / name}: cannot be read: it is not a regular file" for name in ("pipe.toml", "zero.toml")
    ]
    with pytest.raises(SetupError):
        catalogue.check(tmp_path / "pipe.toml")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('title = "Acme"', 'title = "Ac\\u001bme"'), ":5:1: title: holds a control character"),
        (('title = "Acme"', 'title = "Ac\\u0000me"'), ":5:1: title: holds a control character"),
        (('source = "own"', "source = 2026-11-30"), ":6:1: source: is a date or a time; a contract holds none"),
        (("version = 1", "version = nan"), ":4:1: version: is nan, not a number; a contract holds none"),
    ],
)
def test_a_value_that_a_contract_cannot_hold_is_named(tmp_path: File, change: tuple[str, str], says: str) -> None:
    """A control character, a date, and what is not a number are faults at their key."""
    file = write(tmp_path, "acme.toml", OWN.replace(*change))
    assert any(str(fault).split(" (")[0].startswith(f"{file}{says}") for fault in Catalogue([tmp_path]).faults())
