"""The catalogue: shipped contracts, the deployment's own, and faults with file and place."""

from pathlib import Path as File

import pytest

from sereno.builtin.providers.catalogue import MAX_FILE, Catalogue, compile_path, read_document
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
    """Names are sorted, and each compiles to the digest of its document."""
    catalogue = Catalogue()
    assert list(catalogue.names()) == [
        "generic-202",
        "generic-status",
        "github-actions-run",
        "google-lro",
        "openai-responses",
        "replicate",
    ]
    assert all(catalogue.contract(catalogue.document(name)).name == name for name in catalogue.names())
    assert catalogue.place("replicate") == "shipped"


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


def test_every_fault_of_every_file_is_listed(tmp_path: File) -> None:
    """File and dotted path, or the line where TOML stops; nothing is half loaded."""
    write(tmp_path, "a.toml", OWN.replace("busy", "done").replace("version = 1", 'version = "x"'))
    write(tmp_path, "b.toml", "format = 0\ncontract = \n")
    write(tmp_path, "c.toml", OWN.replace('"acme"', '"replicate"'))
    write(tmp_path, "d.toml", "#" * (MAX_FILE + 1))
    (tmp_path / "e.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "f.toml").symlink_to(tmp_path / "gone")
    with pytest.raises(SetupError) as caught:
        Catalogue([tmp_path, tmp_path / "missing"])
    text = str(caught.value)
    for part in (
        "a.toml: version: must be a whole number",
        "a.toml: states.success[0]: 'done' already means pending",
        "b.toml: is not TOML: Invalid value (at line 2",
        "c.toml: contract: 'replicate' is already defined (shipped)",
        "d.toml: is larger than 256 KiB",
        "e.toml: is not TOML",
        "f.toml: cannot be read",
        "missing: cannot be listed",
    ):
        assert part in text, part


def test_a_stored_document_that_no_longer_compiles_is_a_setup_error() -> None:
    """Faults come with their places, for example after an older version wrote it."""
    with pytest.raises(SetupError) as caught:
        Catalogue().contract({"format": 0, "contract": "x"})
    assert {fault.where for fault in caught.value.faults} >= {"version", "title", "status.url", "state.path"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b", 1),
        ("c[0].d", 2),
        ("c[-1].d", 2),
        ("e || a.b", 1),
        ("a && c[0].d", 2),
        ("c[?d==`2`].d | [0]", 2),
        ('"x y"', 3),
        ("nope.b", None),
    ]
    + [("c.d", None), ("!e", True)],
)
def test_paths_pick_values(path: str, found: object) -> None:
    """Fields, places in lists, filters, either-or."""
    body = {"a": {"b": 1}, "c": [{"d": 2}], "x y": 3}
    assert compile_path(path).search(body) == found
    assert compile_path(path).expression == path


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("length(a)", "uses function expression"),
        ("a[]", "uses flatten"),
        ("a[?b > `1`].c", "uses ordering"),
        ("{x: a}", "only picks values"),
        ("a.", "is not a JMESPath expression"),
        ("(" * 90 + "a" + ")" * 90, "."),
        ("a" * 201, "more than 200 characters"),
        ("", "."),
    ],
)
def test_paths_that_do_more_are_refused(path: str, says: str) -> None:
    """No functions, no new objects, no size without bound; never anything but ValueError."""
    try:
        compile_path(path)
    except ValueError as error:
        assert says in str(error) or says == "."
    else:
        assert path.startswith("((((")


@pytest.mark.parametrize("path", ["a.b", "a[0]", "a[?b != `1`].c", "a[?b == 'x'] | [0].c", "!a", "a && b"])
@pytest.mark.parametrize(
    "value", [None, 1, "x", True, [], {}, [1, "x", None], {"a": 1}, {"a": "x"}, {"a": [{"b": "y"}, {"b": 2}, 3]}]
)
def test_a_search_never_raises(path: str, value: object) -> None:
    """Whatever shape the answer has."""
    compile_path(path).search(value)  # type: ignore[arg-type]
