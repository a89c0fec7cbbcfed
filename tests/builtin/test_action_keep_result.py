"""The `keep_result` action against a provider on loopback: what is copied, what is refused, what is tried again (W24, W30)."""

import errno
import hashlib
import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.builtin.keeping import file_name, last_piece
from sereno.builtin.providers.http import HttpProvider
from sereno.core.contract import Contract
from sereno.core.delivery import Outcome, OutcomeKind
from sereno.core.effect import Policy
from sereno.core.observation import NoReply, NoReplyKind
from sereno.core.reading.calls import Via
from sereno.outside.artifacts.files import FileArtifacts
from sereno.outside.egress.limits import GateLimits
from tests.builtin.feeds.scripted import Script, answer, guarded
from tests.builtin.kept import JSON, SECRET, Site, World, contract_of
from tests.outside.rawserver import ok
from tests.outside.test_artifacts_names import NAMES

ANSWER, PART = 'from = "answer"', 'from = "answer"\npath = "output"'
URL = 'from = "url"\npath = "output.url"'
CALL = 'from = "call"\npath = "file"\nurl = "{base}/files/{value}/content"'
PNG = b"Content-Type: image/png\r\n"
SIGNED = "?X-Amz-Signature=cnry-signed-99&token=cnry-signed-99"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """Two servers and an empty folder."""
    site, away = Site(), Site()
    async with site.server, away.server:
        yield World(site, away, FileArtifacts(tmp_path / "kept"))


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    """The receipt of a copy that was made."""
    assert outcome.kind is OutcomeKind.DONE, outcome
    found: list[dict[str, Any]] = json.loads(outcome.receipt or "")
    return found


async def test_W30_the_answer_itself_is_kept_as_it_came(world: World) -> None:
    """The status is read anew, once, and its body is the result."""
    world.site.job(text="caf\u00e9")
    (row,) = rows(await world.keep(ANSWER))
    body = world.site.pages["/jobs/j1"].split(b"\r\n\r\n", 1)[1]
    assert row == {
        "digest": hashlib.sha256(body).hexdigest(),
        "size": len(body),
        "content_type": "application/json",
        "name": "",
        "from": f"{world.url}/jobs/j1",
    }
    assert await world.content(row["digest"]) == body and world.site.asked == ["/jobs/j1"]


@pytest.mark.parametrize("part", [{"b": 1, "a": [None, "\u20ac"]}, "text", 0, False, []], ids=str)
async def test_W30_a_part_of_the_answer_is_kept_as_json(world: World, part: Any) -> None:
    """Its keys keep their order; what is falsy is a result too."""
    world.site.job(output=part)
    (row,) = rows(await world.keep(PART))
    assert await world.content(row["digest"]) == json.dumps(part, ensure_ascii=False).encode()
    assert row["content_type"] == "application/json"


async def test_W30_one_address_is_fetched_and_kept(world: World) -> None:
    """Hash, size, type and name are those of the file."""
    content = os.urandom(300_000)
    world.away.pages[f"/out/picture%201.png{SIGNED}"] = ok(content, headers=PNG)
    world.site.job(output={"url": f"{world.away.server.url}/out/picture%201.png{SIGNED}"})
    (row,) = rows(await world.keep(URL))
    assert (row["size"], row["content_type"], row["name"]) == (300_000, "image/png", "picture 1.png")
    assert row["digest"] == hashlib.sha256(content).hexdigest() and await world.content(row["digest"]) == content


async def test_W30_a_list_of_addresses_is_kept_in_its_order(world: World) -> None:
    """The same content at two addresses is kept once and named twice."""
    for name, content in (("a", b"one"), ("b", b"two"), ("c", b"one")):
        world.away.pages[f"/{name}"] = ok(content)
    world.site.job(output={"url": [f"{world.away.server.url}/{name}" for name in "abc"]})
    found = rows(await world.keep(URL))
    assert [await world.content(row["digest"]) for row in found] == [b"one", b"two", b"one"]
    assert [row["name"] for row in found] == ["a", "b", "c"] and len(world.files()) == 2


async def test_W30_what_a_second_call_gives_is_kept(world: World) -> None:
    """The value goes into its place encoded, with the contract's headers and the account's credential."""
    world.site.job(file="a/b?c")
    world.site.pages["/files/a%2Fb%3Fc/content"] = ok(b"video", headers=b"Content-Type: video/mp4\r\n")
    call = CALL + '\ncredential = true\nheaders = { accept = "video/*" }'
    (row,) = rows(await world.keep(call, account="account"))
    assert await world.content(row["digest"]) == b"video"
    request = world.site.server.requests[-1]
    assert b"accept: video/*" in request and f"Authorization: Bearer {SECRET}".encode() in request


async def test_W30_a_call_without_path_is_one_call(world: World) -> None:
    """It may need nothing but the job's id, and may be a POST."""
    world.site.job()
    world.site.pages["/result/j1"] = ok(b"x")
    keep = 'from = "call"\nmethod = "POST"\nurl = "{base}/result/{job_id}"\nbody = { job = "{job_id}" }'
    assert len(rows(await world.keep(keep))) == 1
    assert world.site.server.requests[-1].endswith(b'{"job":"j1"}')


@pytest.mark.parametrize("said", [404, 410])
async def test_a_job_that_is_gone_is_a_result_that_expired(world: World, said: int) -> None:
    """Nothing is tried again; the code says why."""
    world.site.pages["/jobs/j1"] = ok(b"{}", headers=JSON, status=f"{said} Gone".encode())
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and outcome.message.startswith("result_expired: ")


@pytest.mark.parametrize("word", ["purged", "expired"])
async def test_W16_a_status_that_says_the_result_is_gone_ends_it(world: World, word: str) -> None:
    """The provider's own word for it counts like a missing page."""
    world.site.job(word)
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and outcome.message.startswith("result_expired: ")


@pytest.mark.parametrize("said", [403, 404, 410])
async def test_an_address_that_is_gone_is_a_result_that_expired(world: World, said: int) -> None:
    """Stores answer 403 for a signed address whose time is over."""
    world.away.pages["/x"] = ok(b"<Error/>", status=f"{said} No".encode())
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and outcome.message.startswith(
        f"result_expired: the place of the result answers {said}"
    )
    assert world.files() == []


@pytest.mark.parametrize(("word", "more"), [("failed", {}), ("paused", {}), ("odd", {}), ("done", {"id": "j2"})], ids=str)
async def test_W05_a_job_that_is_not_the_one_that_succeeded_is_not_copied(world: World, word: str, more: dict[str, Any]) -> None:
    """Another state or another job is dead at once, and says so."""
    world.site.job(word, **{"output": {"url": f"{world.away.server.url}/x"}, **more})
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and "does not say success any more" in outcome.message
    assert world.away.asked == []


async def test_W05_a_pinned_field_that_changed_is_another_job(world: World) -> None:
    """A rerun under the same id is not the one that succeeded."""
    world.away.pages["/x"] = ok(b"x")
    world.site.job(output={"url": f"{world.away.server.url}/x"}, attempt=2)
    outcome = await world.keep(URL, pins={"attempt": "1"})
    assert outcome.kind is OutcomeKind.REFUSED and world.away.asked == []
    assert (await world.keep(URL, pins={"attempt": "2"})).kind is OutcomeKind.DONE


@pytest.mark.parametrize(
    "page",
    [
        ok(b"{}", headers=JSON, status=b"503 Oops"),
        ok(b"{}", headers=JSON + b"Retry-After: 90\r\n", status=b"429 Slow"),
        ok(b'{"id":"j1","status":"running"}', headers=JSON),
    ],
    ids=["503", "429", "pending"],
)
async def test_a_status_that_cannot_be_read_now_is_read_later(world: World, page: bytes) -> None:
    """Trouble that may pass is tried again, not before the provider wants (incident 16)."""
    world.site.pages["/jobs/j1"] = page
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.RETRY
    assert (outcome.not_before is not None) is (b"Retry-After" in page)


@pytest.mark.parametrize("said", [408, 429, 500, 502, 503])
async def test_a_download_that_fails_for_now_is_tried_again(world: World, said: int) -> None:
    """With the wait that the place asks for, and nothing half is left (incident 16)."""
    world.away.pages["/x"] = ok(b"busy", status=f"{said} No".encode(), headers=b"Retry-After: 120\r\n")
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.RETRY and outcome.not_before is not None and world.files() == []


async def test_a_download_that_is_cut_is_tried_again(world: World) -> None:
    """A part is never taken for the whole."""
    world.away.pages["/x"] = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\nhalf"
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    world.gate_options = {"limits": GateLimits(grace=0.1)}
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.RETRY and "did not come whole" in outcome.message and world.files() == []


@pytest.mark.parametrize("declared", [True, False])
async def test_W30_too_much_is_refused(world: World, declared: bool) -> None:
    """Whether the head says so or not."""
    plain = ok(bytes(1001))
    world.away.pages["/x"] = (
        plain if declared else b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + bytes(1001) + b"\r\n0\r\n\r\n"
    )
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    outcome = await world.keep(URL + "\nmax_bytes = 1000")
    assert outcome.kind is OutcomeKind.REFUSED and outcome.message.startswith("too_large: ") and world.files() == []


async def test_W30_another_media_type_is_refused(world: World) -> None:
    """A page of a login wall is no picture."""
    world.away.pages["/x"] = ok(b"<html>", headers=b"Content-Type: text/html\r\n")
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    outcome = await world.keep(URL + '\ntypes = ["image/*"]')
    assert (
        outcome.kind is OutcomeKind.REFUSED
        and outcome.message.startswith("wrong_type: the result is text/html")
        and world.files() == []
    )


@pytest.mark.parametrize("keep", ['types = ["image/*"]', "max_bytes = 10"])
async def test_W30_the_answer_is_judged_like_a_download(world: World, keep: str) -> None:
    """Type and size hold for it too."""
    world.site.job()
    outcome = await world.keep(f"{ANSWER}\n{keep}")
    assert outcome.kind is OutcomeKind.REFUSED and world.files() == []


ODD = [
    None,
    {},
    [],
    [None],
    [{"a": 1}],
    "",
    "no url",
    "ftp://x/y",
    "http://user:pw99@x/",
    "/relative",
    ["http://a b/"],
    "http://x/\u00e9",
]


@pytest.mark.parametrize("value", ODD, ids=str)
async def test_what_is_no_address_is_refused(world: World, value: Any) -> None:
    """A provider that names nothing usable is said, without repeating what it named."""
    world.site.job(output={"url": value})
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and "pw99" not in outcome.message


async def test_more_than_twenty_parts_are_refused_before_any_is_fetched(world: World) -> None:
    """One answer cannot send us round the net."""
    world.site.job(output={"url": [f"{world.away.server.url}/{number}" for number in range(21)]})
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and world.away.asked == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://169.254.169.254/latest", "http://[::1]/x", "http://10.0.0.1/"])
async def test_a_private_place_is_refused_by_the_gate(world: World, url: str) -> None:
    """An answer cannot make us ask our own network."""
    world.site.job(output={"url": url})
    outcome = await world.keep(URL)
    assert outcome.kind is OutcomeKind.REFUSED and "refused" in outcome.message


async def test_W25_the_credential_goes_to_the_provider_only(world: World) -> None:
    """Elsewhere nothing of it is sent, even where the contract asks for it; without the contract's word not even to the provider."""
    for site in (world.site, world.away):
        site.pages["/x"] = ok(b"x")
    for keep, place, goes in (
        (URL, world.site, False),
        (URL + "\ncredential = true", world.site, True),
        (URL + "\ncredential = true", world.away, False),
    ):
        world.site.job(output={"url": f"{place.server.url}/x"})
        assert (await world.keep(keep, account="account")).kind is OutcomeKind.DONE
        assert (SECRET.encode() in place.server.requests[-1]) is goes


async def test_W25_a_redirect_of_a_download_takes_no_credential_along(world: World) -> None:
    """The provider hands over to a store elsewhere: it is followed, counted, and told nothing."""
    world.site.pages["/x"] = ok(b"", status=b"302 Found", headers=f"Location: {world.away.server.url}/y{SIGNED}\r\n".encode())
    world.away.pages[f"/y{SIGNED}"] = ok(b"content")
    world.site.job(output={"url": f"{world.url}/x"})
    (row,) = rows(await world.keep(URL + "\ncredential = true", account="account"))
    assert await world.content(row["digest"]) == b"content" and world.hops == [world.away.server.url]
    assert SECRET.encode() in world.site.server.requests[-1] and SECRET.encode() not in world.away.server.requests[-1]


@pytest.mark.parametrize(("hops", "kind"), [(3, OutcomeKind.DONE), (4, OutcomeKind.REFUSED)])
async def test_a_download_moves_on_three_times_at_most(world: World, hops: int, kind: OutcomeKind) -> None:
    """A place that hands on for ever is refused."""
    for number in range(hops):
        world.away.pages[f"/{number}"] = ok(b"", status=b"307 Go", headers=f"Location: /{number + 1}\r\n".encode())
    world.away.pages[f"/{hops}"] = ok(b"end")
    world.site.job(output={"url": f"{world.away.server.url}/0"})
    assert (await world.keep(URL)).kind is kind


async def test_a_redirect_to_a_private_place_is_refused(world: World) -> None:
    """Each hop is judged anew."""
    world.away.pages["/0"] = ok(b"", status=b"302 Go", headers=b"Location: http://169.254.169.254/\r\n")
    world.site.job(output={"url": f"{world.away.server.url}/0"})
    assert (await world.keep(URL)).kind is OutcomeKind.REFUSED


async def test_W25_a_credential_that_is_refused_is_said(world: World) -> None:
    """403 to our credential is no expiry."""
    world.site.pages["/x"] = ok(b"", status=b"403 No")
    world.site.job(output={"url": f"{world.url}/x"})
    outcome = await world.keep(URL + "\ncredential = true", account="account")
    assert outcome.kind is OutcomeKind.REFUSED and "credential" in outcome.message and "result_expired" not in outcome.message


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf"


@pytest.mark.parametrize(
    "page",
    [ok(b"x"), ok(b"", status=b"403 No"), ok(b"", status=b"500 No"), ok(bytes(9_999)), b"nonsense\r\n\r\n", CUT],
    ids=["kept", "gone", "later", "large", "nonsense", "cut"],
)
async def test_W25_a_signed_address_is_neither_stored_nor_logged(
    world: World, page: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """The canary of its query is in no outcome, receipt, log or file name, however the download ends."""
    caplog.set_level(0)
    for site in (world.away, world.site):
        site.pages[f"/f{SIGNED}"] = page
    world.gate_options = {"limits": GateLimits(grace=0.1)}
    for start in (world.away.server.url, world.url):
        world.site.job(output={"url": f"{start}/f{SIGNED}"})
        outcome = await world.keep(URL + "\nmax_bytes = 5000")
        said = capfd.readouterr()
        written = "".join(str(path) + path.read_text("latin-1") for path in world.files())
        for sink in (repr(outcome), outcome.message, str(outcome.receipt), caplog.text, said.out, said.err, written):
            assert "cnry-signed" not in sink
        assert world.asked_signed()


@pytest.mark.parametrize("name", [name for name in NAMES if "\0" not in name and "\n" not in name], ids=repr)
async def test_the_name_of_a_file_is_data_and_never_a_place(world: World, tmp_path: Path, name: str) -> None:
    """Whatever the other side calls it, the file stands under its hash and nothing else is touched."""
    said = name.replace("\\", "\\\\").replace('"', '\\"').encode()
    world.away.pages["/x"] = ok(b"content", headers=b'Content-Disposition: attachment; filename="' + said + b'"\r\n')
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    (row,) = rows(await world.keep(URL))
    digest = hashlib.sha256(b"content").hexdigest()
    assert row["digest"] == digest and len(row["name"]) <= 200 and row["name"].isprintable()
    found = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if not path.is_dir()]
    assert found == [f"kept/{digest[:2]}/{digest[2:]}"]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="a b.png"', "a b.png"),
        ("attachment; filename=plain.txt; size=3", "plain.txt"),
        ("attachment; filename=\"x\"; filename*=UTF-8''caf%C3%A9.txt", "caf\u00e9.txt"),
        (r'inline; FILENAME="a\"b"', 'a"b'),
        ('attachment; filename="\x1b[31m\u202eabc"', "\ufffd[31m\ufffdabc"),
        ("attachment", ""),
        ("", ""),
        ('filename="' + "a" * 5000, ""),
    ],
)
def test_names_are_read_from_the_header(header: str, name: str) -> None:
    """As RFC 6266 writes them, cut and made safe to show."""
    assert file_name(header) == name


@pytest.mark.parametrize(
    ("url", "name"), [("https://x/a/b.png?sig=1", "b.png"), ("https://x/", ""), ("https://x/%1b%5b", "\ufffd[")]
)
def test_a_file_without_a_name_is_called_like_its_address(url: str, name: str) -> None:
    """Without the query."""
    assert last_piece(url) == name


async def test_W30_a_full_disk_is_tried_again_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delivery stays and says what is wrong; nothing half stands under a hash."""
    world.away.pages["/x"] = ok(bytes(100_000))
    for keep in (URL, ANSWER):
        world.site.job(output={"url": f"{world.away.server.url}/x"})
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", _full)
            outcome = await world.keep(keep)
        assert outcome.kind is OutcomeKind.RETRY and "No space left" in outcome.message
    assert world.files() == []


def _full(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_folder_that_cannot_be_written_is_tried_again_later(world: World) -> None:
    """It is the operator's trouble, and the result is still there."""
    world.store.root.write_text("a file in its place")
    world.site.job()
    outcome = await world.keep(ANSWER)
    assert outcome.kind is OutcomeKind.RETRY and "cannot be written" in outcome.message


async def test_a_repeat_keeps_the_same_result_once(world: World) -> None:
    """After a crash the copy starts over and ends the same."""
    world.away.pages["/x"] = ok(b"same")
    world.site.job(output={"url": f"{world.away.server.url}/x"})
    assert rows(await world.keep(URL)) == rows(await world.keep(URL)) and len(world.files()) == 1


@pytest.mark.parametrize("origin", ["config", "cli", "api"])
def test_W24_nobody_can_name_it_as_an_action(world: World, origin: str) -> None:
    """Only a wait that succeeded makes it; a well-formed table of a person is refused too."""
    action = KeepResultAction({}, None, world.store)  # type: ignore[arg-type]  # nothing is read here
    options = world.made().effect.action.options
    (fault,) = action.check(options, origin=origin)
    assert fault.where == "action.type" and "never by hand" in fault.message
    assert action.check(options, origin="core") == []
    assert action.check({**options, "path": "x"}, origin="core") and action.check({}, origin="core")
    assert action.default_policy is Policy.KEYED and action.place(options).pool.startswith("host:127.0.0.1:")


@pytest.mark.parametrize("changed", [{"operation": None}, {"parameters": {"a": 1}}, {"more": "x"}, {"pins": []}], ids=str)
async def test_a_delivery_that_the_core_did_not_build_does_nothing(world: World, changed: dict[str, Any]) -> None:
    """It is dead at once and nothing is asked."""
    outcome = await world.keep(URL, **changed)
    assert outcome.kind is OutcomeKind.REFUSED and world.site.asked == []


async def test_a_contract_that_is_gone_is_said(world: World) -> None:
    """The pinned document is what decides; without it nothing is asked."""
    outcome = await world.keep(URL, contract_digest="0" * 64)
    assert outcome.kind is OutcomeKind.REFUSED and "contract" in outcome.message and world.site.asked == []


async def test_a_download_has_its_own_deadline_and_the_look_has_that_of_every_call(world: World) -> None:
    """A large result may take longer than a call may; the lease is prolonged meanwhile."""

    async def contract(digest: str) -> Contract:
        return contract_of(URL)

    script = Script(
        [answer('{"id":"j1","status":"done","output":{"url":"https://x.example/a"}}', content_type="application/json")]
    )
    script.replies.append(NoReply(NoReplyKind.TIMEOUT, "no complete answer", sent=True))
    action = KeepResultAction({Via.HTTP: HttpProvider()}, contract, world.store, timedelta(minutes=30))
    checks: list[int] = []

    async def check() -> None:
        checks.append(1)

    outcome = await action.perform(world.made(), guarded(script, seconds=7, before_first_byte=check))
    assert outcome.kind is OutcomeKind.RETRY
    assert [asked.total_deadline for asked in script.asked] == [timedelta(seconds=7), timedelta(minutes=30)]
    assert len(checks) == 2, "the lease is looked at before each request"
    assert script.asked[1].max_bytes == 100_000_000 and script.asked[1].credential is None
