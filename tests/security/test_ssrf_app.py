"""The SSRF corpus against every place of the assembled app that takes an address: no connection is opened (I28, G20, W25, P13)."""

import ast
import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sereno.app import Sereno, open_app
from sereno.core.call import CallKind
from sereno.core.change import FailedReading, ReadFailure
from sereno.core.contract import origin_of
from sereno.core.delivery import Outcome, OutcomeKind
from sereno.core.errors import NotAllowed, RequestError, SetupError, Unavailable
from sereno.core.observation import HttpReply, NoReply, NoReplyKind
from sereno.core.reading.calls import Via
from sereno.ports import Action, Source
from sereno.settings import parse_settings
from tests.outside.corpus import RELATIVE, forms
from tests.outside.rawserver import RawServer, ok
from tests.security.places import BASED, PLACES, Place, Stage, delivery
from tests.security.places_calls import AWS_KEY, SHIPPED, based
from tests.security.trap import Trap, set_trap

ROOT = Path(__file__).parents[2]
PROBE = "https://public.example/x"

TAKES_AN_ADDRESS = {
    "source http: url",
    "source feed: url",
    "action webhook: url",
    "action email: host",
}
"""Options that are asked, connected to or resolved. Each begins the name of at least one place."""

TAKES_ANY_TEXT = {
    "source http: select": "a CSS selector",
    "source file: select": "a CSS selector",
    "source command: select": "a CSS selector",
    "source file: path": "an absolute path",
    "action email: username": "sent to the mail server alone",
}
"""Options that take the text of a URL but ask nobody, with what they are."""

FETCHES = {
    "src/sereno/builtin/conditional.py",
    "src/sereno/builtin/actions/webhook.py",
    "src/sereno/builtin/actions/keep_result.py",
    "src/sereno/builtin/providers/aws.py",
    "src/sereno/builtin/providers/http.py",
    "src/sereno/builtin/providers/mcp.py",
    "src/sereno/outside/artifacts/s3.py",
    "src/sereno/service/guess.py",
}
"""Modules that build a request. The demo asks its own playground, through the same gate."""

CONNECTS = {
    "src/sereno/outside/egress/exchange.py": "the gate",
    "src/sereno/outside/egress/wire.py": "the gate",
    "src/sereno/outside/egress/resolve.py": "names to addresses, for gate and mail",
    "src/sereno/builtin/mail.py": "mail, to an address that was checked",
    "src/sereno/builtin/actions/notify_child.py": "Apprise, the named exception",
}
"""Modules that hold what opens connections."""

OPENERS = {
    "socket",
    "ssl",
    "aiohttp",
    "aiosmtplib",
    "smtplib",
    "urllib.request",
    "http.client",
    "ftplib",
    "apprise",
    "httpx",
    "requests",
    "urllib3",
    "boto3",
    "botocore.client",
    "botocore.endpoint",
    "botocore.httpsession",
    "botocore.session",
    "botocore.utils",
    "mcp",
    "a2a",
}
"""What connects. Of botocore the sessions, and what asks the network for credentials; its models and signatures connect to nothing."""


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    """The trap is set for the length of a test."""
    monkeypatch.setenv("SECURITY_CANARY", "canary-of-the-matrix")
    monkeypatch.setenv("AWS_CANARY", AWS_KEY)
    with set_trap(monkeypatch) as found:
        yield found


@asynccontextmanager
async def opened(folder: Path, trap: Trap, *allow: str, deadline: str = "50s") -> AsyncIterator[Stage]:
    """The real app over a database of its own, beside a server that redirects where the test says."""
    stage: Stage | None = None

    async def redirect(request: bytes, writer: asyncio.StreamWriter) -> None:
        assert stage is not None
        moves = stage.says is None or request.startswith(b"GET /moved")
        heads = {"Location": stage.location} if moves else {**stage.heads, "Content-Type": "application/json"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in heads.items()).encode("utf-8", "surrogatepass")
        body, status = (b"", stage.status.encode()) if moves else (json.dumps(stage.says).encode(), b"200 OK")
        writer.write(ok(body, headers=lines, status=status))

    async with RawServer(redirect) as server:
        trap.spared.add(server.port)
        entries = (*allow, f"127.0.0.1:{server.port}")
        text = f'[egress]\nallow = {[*entries]!r}\n[lease]\ntotal_deadline = "{deadline}"\n'
        text += f'[credentials.aws]\norigin = "http://127.0.0.1:{trap.port}"\nscheme = "AWS4-HMAC-SHA256"\n'
        text += 'value = {env = "AWS_CANARY"}\n'
        async with open_app(parse_settings(text, folder / "sereno.toml"), origin="cli") as app:
            stage = Stage(app, server.url + "/", folder, entries)
            yield stage


def was_refused(result: object, stage: Stage | None = None) -> bool:
    """True for a value that says: not asked; or that only the server of the test was, which sent the text itself."""
    match result:
        case HttpReply(url=url):
            return stage is not None and origin_of(url) == origin_of(stage.server)
        case NoReply(kind=kind):
            return kind in (NoReplyKind.REFUSED_ADDRESS, NoReplyKind.DNS, NoReplyKind.NO_CREDENTIAL, NoReplyKind.REDIRECT)
        case FailedReading(failure=failure):
            return failure in (ReadFailure.REFUSED, ReadFailure.UNREACHABLE)
        case Outcome(kind=kind, message=message):
            return kind is OutcomeKind.REFUSED or (kind is OutcomeKind.RETRY and "nothing was sent" in message)
    return False


def texts_for(place: Place, port: int) -> list[str]:
    """The forms that make sense in a place."""
    texts = [form.replace("{port}", str(port)) for form in forms() if not (place.before and form in RELATIVE)]
    if place.name == "action email: host":  # a public mail server on mail's own port is what mail is for
        texts = [text for text in texts if not text.startswith("http://public.example:25/")]
    if place.header:  # a header cannot carry these
        texts = [text for text in texts if not {"\r", "\n", "\x00"} & set(text) and len(text) < 8000]
    return texts


async def send_all(place: Place, texts: list[str], trap: Trap, folder: Path) -> None:
    """Sends each text through a place: an error or a value that says no, and nothing was connected to."""
    async with opened(folder, trap) as stage:
        for text in texts:
            try:
                result = await place.send(stage, text)
            except (SetupError, RequestError, NotAllowed, Unavailable):
                continue
            finally:
                assert trap.opened == [], (place.name, text)
            assert was_refused(result, stage if place.before else None), (place.name, text, result)
    assert trap.opened == [] and trap.connections == 0


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
async def test_W25_P13_no_form_leaves_through_any_place(place: Place, trap: Trap, tmp_path: Path) -> None:
    """Each form in each place (a third of them where each is a whole run, a ninth where each is tried with every contract): no socket
    connected, no connection at the listeners (incident 25)."""
    share = 9 if place.times > 1 else 3 if place.slow else 1
    await send_all(place, texts_for(place, trap.port)[::share], trap, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("place", [place for place in PLACES if place.slow], ids=lambda place: place.name)
async def test_W25_P13_no_form_leaves_through_the_engine(place: Place, trap: Trap, tmp_path: Path) -> None:
    """All forms in the places that run the real engine for each (incident 25)."""
    await send_all(place, texts_for(place, trap.port), trap, tmp_path)


@pytest.mark.parametrize("place", [place for place in PLACES if not place.never], ids=lambda place: place.name)
async def test_control_each_place_reaches_the_listener_once_it_is_opened(place: Place, trap: Trap, tmp_path: Path) -> None:
    """The same places, the same listener, `[egress] allow` names it: a connection arrives."""
    loop = asyncio.get_running_loop()
    async with opened(tmp_path, trap, f"127.0.0.1:{trap.port}") as stage:
        going = loop.create_task(place.send(stage, f"http://127.0.0.1:{trap.port}/x"))  # type: ignore[arg-type]
        async with asyncio.timeout(60):
            connection, _ = await loop.sock_accept(trap.sockets[0])
        connection.close()
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
    assert trap.opened


def test_the_matrix_is_as_large_as_it_claims(capsys: pytest.CaptureFixture[str]) -> None:
    """At least 200 forms in each place that takes an address; the figures are printed."""
    cells = [len(texts_for(place, 8080)) * place.times for place in PLACES]
    assert len({place.name for place in PLACES}) == len(PLACES) >= 60 and min(cells) >= 200
    with capsys.disabled():
        print(f"\nSSRF: {len(forms())} forms, {len(PLACES)} places, {sum(cells)} cells")


def _options(app: Sereno) -> Iterator[tuple[str, Callable[[object], str | None]]]:
    plugins: list[tuple[str, Source | Action]] = [("source", found) for found in app.kit.plugins.sources.values()]
    plugins += [("action", found) for found in app.kit.plugins.actions.values()]
    for kind, plugin in plugins:
        for option, rule in getattr(plugin, "_rules", {}).items():
            yield f"{kind} {plugin.type}: {option}", rule


def _takes(rule: Callable[[object], str | None]) -> bool:
    return any(rule(probe) is None for probe in (PROBE, "public.example", "/x/https://public.example/x"))


async def test_every_option_that_could_hold_an_address_is_listed(trap: Trap, tmp_path: Path) -> None:
    """A new option of any plug-in that takes a URL or a host fails here until it is named, and its place comes with it."""
    async with opened(tmp_path, trap) as stage:
        options = dict(_options(stage.app))
    by_rule = {name for name, rule in options.items() if getattr(rule, "__qualname__", "").startswith("http_url.")}
    assert len(options) >= 30 and by_rule == {name for name in TAKES_AN_ADDRESS if name.endswith(": url")}
    paths = {name for name, rule in options.items() if getattr(rule, "__name__", "") == "path_expression"}
    taking = {name for name, rule in options.items() if _takes(rule)} - paths
    references = {name for name, rule in options.items() if getattr(rule, "__name__", "") == "credential_name"}
    assert taking - references == TAKES_AN_ADDRESS | TAKES_ANY_TEXT.keys()
    for name in TAKES_AN_ADDRESS:
        assert any(place.name.startswith(name) for place in PLACES), name


async def test_every_contract_has_its_place(trap: Trap, tmp_path: Path) -> None:
    """Each shipped contract is in the matrix, and each of its calls gets as far as the gate there: a base that is fine but for where it
    leads is refused by the gate, not by a template that could not be filled."""
    async with opened(tmp_path, trap) as stage:
        assert sorted(contract.name for contract in stage.app.contracts.list()) == sorted(SHIPPED) and set(BASED) <= set(SHIPPED)
        for kind in (None, *CallKind):
            calls = list(based(stage, kind))
            assert len(calls) >= 50, kind
            for one in calls:
                found = await one.goes(stage, f"http://10.0.0.1:{trap.port}")
                aws = one.contract.via is Via.AWS and kind is CallKind.SUBMIT  # an empty input is refused before the address
                reached = isinstance(found, NoReply) and ("10.0.0.1 is special" in found.message or aws)
                assert reached, (one.contract.name, kind, found)
    assert trap.opened == []


def _sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "src/sereno").rglob("*.py")):
        shown = path.relative_to(ROOT).as_posix()
        if not shown.startswith(("src/sereno/testing/", "src/sereno/faces/cli/demo/")):
            gc.disable()  # CPython 3.11 miscounts the depth of a tree when a collection runs while it is made
            try:
                tree = ast.parse(path.read_text())
            finally:
                gc.enable()
            yield shown, tree


def _imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_requests_are_built_and_connections_opened_only_where_the_matrix_looks() -> None:
    """The modules that build a `Fetch`, and those that hold a means to connect, are the listed ones."""
    builds, connects = set(), set()
    for path, tree in _sources():
        calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        if "Fetch" in calls:
            builds.add(path)
        if any(name == opener or name.startswith(f"{opener}.") for name in _imports(tree) for opener in OPENERS):
            connects.add(path)
    assert builds == FETCHES
    behind_the_gate = {path for path in connects if path.startswith("src/sereno/outside/egress/")}
    assert connects - behind_the_gate == CONNECTS.keys() - behind_the_gate
    assert {path for path in CONNECTS if "/egress/" in path} <= behind_the_gate


async def test_W25_notify_is_the_one_exception_and_takes_a_name_from_the_settings_alone(trap: Trap, tmp_path: Path) -> None:
    """A URL as target is refused wherever it is written, an unknown name too, and nothing is sent."""
    async with opened(tmp_path, trap) as stage:
        notify = stage.app.kit.plugins.actions["notify"]
        for text in texts_for(PLACES[0], trap.port):
            assert any("target" in fault.where for fault in notify.check({"target": text}, origin="cli")) or _is_name(text), text
        done = await notify.perform(delivery("notify", {"target": "unknown"}), stage.guarded())
        assert was_refused(done)
        done = await notify.perform(delivery("notify", {"target": f"json://127.0.0.1:{trap.port}"}), stage.guarded())
        assert was_refused(done)
    assert trap.opened == [] and trap.connections == 0


def _is_name(text: str) -> bool:
    return text.isidentifier()


async def test_an_open_port_of_a_mail_host_opens_no_other_port(trap: Trap, tmp_path: Path) -> None:
    """A host that hides a path does not move the check to another port than the one that is connected to."""
    async with opened(tmp_path, trap, "127.0.0.1:443", "127.0.0.1:1") as stage:
        email = stage.app.kit.plugins.actions["email"]
        for host in (
            "127.0.0.1/",
            "127.0.0.1/x",
            "127.0.0.1?x",
            "127.0.0.1#x",
            "127.0.0.1:443/",
            "127.0.0.1:443",
            "127.0.0.1:1#",
        ):
            options = {"host": host, "port": trap.port, "tls": "none", "from": "a@s.example", "to": "b@s.example"}
            done = await email.perform(delivery("email", options), stage.guarded())  # type: ignore[arg-type]
            assert was_refused(done), (host, done)
    assert trap.opened == [] and trap.connections == 0


async def test_the_note_of_connections_sees_what_no_listener_could(trap: Trap) -> None:
    """Control: a connection to an address of nobody is noted."""
    with pytest.raises(OSError):
        async with asyncio.timeout(60):
            await asyncio.open_connection("127.0.0.1", 1)
    assert ("127.0.0.1", 1) in trap.opened
