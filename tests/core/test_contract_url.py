"""Status URLs: a job id or parameter can fill its place and nothing else."""

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sereno.core.contract import Contract, origin_of, parse_contract, status_url
from sereno.core.reading.address import plain_base
from sereno.core.values import Json


def contract(url: str, parameters: list[Json] | None = None) -> Contract:
    literal = url.startswith("https://")
    document: dict[str, Json] = {
        "format": 0,
        "contract": "acme",
        "version": 1,
        "title": "t",
        "source": "s",
        "verified": "v",
        "status": {"url": url, "origins": ["https://api.acme.example"] if literal else [], "parameters": parameters or []},
        "state": {"from": "http"},
        "states": {"pending": ["202"], "success": ["200"], "failure": ["422"]},
    }
    found = parse_contract(document, lambda text: pytest.fail(text))
    assert isinstance(found, Contract), found
    return found


FIXED = contract("https://api.acme.example/v1/jobs/{job_id}?view=full")
TWO = contract("https://api.acme.example/{owner}/{repo}/{job_id}", ["owner", "repo"])
PATHS = contract("{base}/v1/{job_id*}")
CALLER = contract("{job_id}")


def test_a_template_is_filled() -> None:
    """Each value lands in its place."""
    assert status_url(FIXED, job_id="j1", parameters={}) == "https://api.acme.example/v1/jobs/j1?view=full"
    assert status_url(TWO, job_id="7", parameters={"owner": "o", "repo": "r"}) == "https://api.acme.example/o/r/7"
    assert (
        status_url(PATHS, job_id="operations/7", parameters={}, base="https://x.example/") == "https://x.example/v1/operations/7"
    )


def test_a_base_replaces_the_origin_and_may_add_a_path() -> None:
    """Tests and self-hosted providers use the same contract."""
    assert (
        status_url(FIXED, job_id="j", parameters={}, base="http://127.0.0.1:8080") == "http://127.0.0.1:8080/v1/jobs/j?view=full"
    )
    assert (
        status_url(FIXED, job_id="j", parameters={}, base="https://ghe.example/api/")
        == "https://ghe.example/api/v1/jobs/j?view=full"
    )


def test_W15_a_callers_url_is_used_as_it_is() -> None:
    """The job id of a generic contract is the status URL, or is appended to a base; it is never guessed."""
    url = "https://h.example/ops/1?api-version=2"
    assert status_url(CALLER, job_id=url, parameters={}) == url
    assert status_url(CALLER, job_id="a/b", parameters={}, base="http://127.0.0.1:1/jobs") == "http://127.0.0.1:1/jobs/a%2Fb"
    with pytest.raises(ValueError, match="needs the full status URL"):
        status_url(CALLER, job_id="42", parameters={})
    with pytest.raises(ValueError, match="another origin"):
        status_url(CALLER, job_id=url, parameters={}, base="https://other.example")


@pytest.mark.parametrize("job_id", ["../admin", "a?x=1", "a#b", "a b", "é", "%2e%2e", "a/../../b", "a\\b", "a@b", "a:b"])
def test_a_job_id_is_one_percent_encoded_piece(job_id: str) -> None:
    """Whatever it holds, path and query around it stay as they are."""
    parts = urlsplit(status_url(FIXED, job_id=job_id, parameters={}))
    assert (parts.netloc, parts.query, parts.fragment) == ("api.acme.example", "view=full", "")
    head, piece = parts.path.rsplit("/", 1)
    assert (head, unquote(piece)) == ("/v1/jobs", job_id)


@pytest.mark.parametrize("job_id", ["", ".", "..", "a\x00b", "a\nb", "x" * 1025])
def test_a_job_id_that_would_vanish_or_move_is_refused(job_id: str) -> None:
    """Dot segments cannot be escaped, so they are refused."""
    with pytest.raises(ValueError, match="job_id must"):
        status_url(FIXED, job_id=job_id, parameters={})


@pytest.mark.parametrize("job_id", ["a//b", "/a", "a/", "a/./b", "../a", "a/.."])
def test_a_path_of_segments_refuses_empty_and_dot_segments(job_id: str) -> None:
    """`{job_id*}` keeps its slashes and cannot climb."""
    with pytest.raises(ValueError, match="segment"):
        status_url(PATHS, job_id=job_id, parameters={}, base="https://x.example")


def test_dots_of_two_parameters_do_not_join_to_a_dot_segment() -> None:
    """`{a}{b}` filled with `.x` and `.` is checked as a whole."""
    joined = contract("https://api.acme.example/{a}{job_id}/x", ["a"])
    assert status_url(joined, job_id="b", parameters={"a": ".a"}).endswith("/.ab/x")
    with pytest.raises(ValueError, match="segment"):
        status_url(joined, job_id=".", parameters={"a": "."})


def test_missing_and_strange_parameters_are_named() -> None:
    """The message lists what is missing and suggests the nearest name."""
    with pytest.raises(ValueError, match="needs the parameters: owner, repo"):
        status_url(TWO, job_id="1", parameters={})
    with pytest.raises(ValueError, match="did you mean 'repo'"):
        status_url(TWO, job_id="1", parameters={"owner": "o", "repo": "r", "repos": "x"})
    with pytest.raises(ValueError, match="no fixed address"):
        status_url(PATHS, job_id="1", parameters={})


@pytest.mark.parametrize(
    "url",
    [
        "https://user:pw@h.example/x",
        "https://h.example/x#y",
        "https://h.example/a/../b",
        "https://h.example/a/%2e%2E/b",
        "https://h.example/a b",
        "https://h.example/\n",
        "https://h\\@evil.example/",
        "https:///x",
        "https://h.example:99999/x",
        "https://é.example/",
    ],
)
def test_a_callers_url_is_checked(url: str) -> None:
    """No user name, fragment, dot segment, blank or foreign character."""
    with pytest.raises(ValueError, match=r"."):
        status_url(CALLER, job_id=url, parameters={})


@pytest.mark.parametrize(
    "base", ["ftp://x", "x.example", "https://x.example?y", "https://x.example#y", "https://u@x.example", ""]
)
def test_a_bad_base_is_refused(base: str) -> None:
    """A base is scheme, host, port and perhaps a path."""
    with pytest.raises(ValueError, match=r"."):
        status_url(FIXED, job_id="1", parameters={}, base=base)


def test_origins_are_normalised() -> None:
    """Scheme and host in lower case, no default port, brackets for IPv6."""
    assert origin_of("HTTPS://H.Example:443/x") == "https://h.example"
    assert origin_of("http://[::1]:8080/x") == "http://[::1]:8080"
    assert origin_of("http://h.example:443/") == "http://h.example:443"


@settings(max_examples=300, deadline=None)
@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_no_value_changes_where_the_url_points(job_id: str, owner: str) -> None:
    """For any text: refused, or an address of the same origin with the same number of segments."""
    try:
        url = status_url(TWO, job_id=job_id, parameters={"owner": owner, "repo": "r"})
    except ValueError:
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("https", "api.acme.example", "", "")
    assert [unquote(piece) for piece in parts.path.split("/")] == ["", owner, "r", job_id]


@pytest.mark.parametrize(
    ("base", "written"),
    [
        ("HTTPS://API.Example.com:443/v1/", "https://api.example.com/v1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://public.example:/", "http://public.example:/"),
        ("https://a.example:0443/", "https://a.example:0443/"),
        ("https://user@a.example/", "https://user@a.example/"),
        ("no base", "no base"),
    ],
)
def test_W39_a_base_is_written_in_one_way_and_an_odd_one_stays_odd(base: str, written: str) -> None:
    """Else two spellings of one service would be two jobs; what the gate refuses is not made right on the way there."""
    assert plain_base(base) == written
