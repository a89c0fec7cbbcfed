"""Every place of the assembled app that takes an address, as code: what a person, a program or a server can point somewhere.

Each place takes one text of the corpus as far as it goes: through the service, and past it, as if a row had been edited behind its back.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sereno.app import Sereno
from sereno.app.parts import Outside
from sereno.core.call import CallKind, CallState, ProviderCall
from sereno.core.contract import Contract
from sereno.core.delivery import Delivery, DeliveryState
from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.operation import Operation
from sereno.core.values import Json
from sereno.ports import Fetch, Guarded, PoolLimits
from sereno.service.operations import Wanted, WantedSubmit
from sereno.service.polls import read_model
from sereno.settings import PollModel, parse_settings
from tests.core.waiting import make_operation
from tests.outside.corpus import follow

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHORT = timedelta(seconds=60)


@dataclass
class Stage:
    """The app, a server that redirects to `location`, and a count that keeps names apart."""

    app: Sereno
    server: str
    folder: Path
    allow: tuple[str, ...]
    location: str = ""
    says: dict[str, Json] | None = None
    """What the server answers with as JSON; None = it redirects. A path that starts with `/moved` always does."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """Headers of that answer."""
    status: str = "302 Found"
    """How it redirects."""
    count: int = 0

    def name(self) -> str:
        """A new name."""
        self.count += 1
        return f"p{self.count}"

    def guarded(self) -> Guarded:
        """What the engine hands to a plug-in, with every redirect granted."""
        return Guarded(self.app.kit.transport, NOW, SHORT, before_hop=follow)


Send = Callable[[Stage, str], Awaitable[object]]


@dataclass(frozen=True)
class Place:
    """One place; `before` = the server of the test is asked first, `header` = the form comes in a header of its answer, `slow` = each
    form costs transactions or a whole run, `never` = it leads nowhere, whatever is opened; `times` = how often each form is tried."""

    name: str
    send: Send
    before: bool = False
    header: bool = False
    slow: bool = False
    never: bool = False
    times: int = 1


PLACES: list[Place] = []


def place(
    name: str, *, before: bool = False, header: bool = False, slow: bool = False, never: bool = False, times: int = 1
) -> Callable[[Send], Send]:
    """Registers a place."""

    def register(send: Send) -> Send:
        PLACES.append(Place(name, send, before or header, header, slow, never, times))
        return send

    return register


def _poll(stage: Stage, kind: str, url: str, **options: Json) -> PollModel:
    return read_model({"name": stage.name(), "every": "1h", "source": {"type": kind, "url": url, **options}})


def _source(kind: str, **options: Json) -> Send:
    async def send(stage: Stage, url: str) -> object:
        return await stage.app.kit.plugins.sources[kind].read({"url": url, **options}, None, stage.guarded())

    return send


def _redirected(kind: str) -> Send:
    async def send(stage: Stage, url: str) -> object:
        stage.location = url
        options: dict[str, Json] = {"url": stage.server, "redirects": True}
        return await stage.app.kit.plugins.sources[kind].read(options, None, stage.guarded())

    return send


place("source http: url")(_source("http"))
place("source feed: url")(_source("feed"))
place("source http: Location of a redirect", header=True)(_redirected("http"))
place("source feed: Location of a redirect", header=True)(_redirected("feed"))


@place("poll add URL: the look before the guess")
async def guessed(stage: Stage, url: str) -> object:
    """An address alone."""
    return await stage.app.polls.guess(url)


@place("poll preview: http")
async def previewed_http(stage: Stage, url: str) -> object:
    """A definition that is only looked at."""
    return (await stage.app.polls.preview(_poll(stage, "http", url))).failure


@place("poll preview: feed")
async def previewed_feed(stage: Stage, url: str) -> object:
    """The same as a feed."""
    return (await stage.app.polls.preview(_poll(stage, "feed", url, redirects=True))).failure


@place("poll add: the live sample")
async def added(stage: Stage, url: str) -> object:
    """A definition that is looked at and stored in spite of all."""
    _, preview = await stage.app.polls.add(_poll(stage, "http", url), force=True)
    assert preview is not None
    return preview.failure


@place("poll run by the driver, then poll diff", slow=True)
async def driven(stage: Stage, url: str) -> object:
    """Stored unseen, run by the real engine, compared afterwards."""
    model = _poll(stage, "http", url, redirects=True)
    checked = stage.app.polls.check(model, where="poll", origin="cli")
    await stage.app._deps.definitions.set_pool(stage.app.who, checked.pool, PoolLimits(None, 1000, None))
    await stage.app.polls.add(model, look=False)
    await stage.app.once()
    record = await stage.app.polls.get(model.name)
    assert record.poll.last_error, (url, record)
    return (await stage.app.polls.diff(model.name)).failure


@place("poll edit: a new url, then poll diff", slow=True)
async def edited(stage: Stage, url: str) -> object:
    """A harmless definition that is pointed elsewhere later."""
    name = stage.name()
    await stage.app.polls.add(
        read_model({"name": name, "every": "1h", "paused": True, "source": {"type": "file", "path": "/none"}}), look=False
    )
    await stage.app.polls.edit(name, {"source": {"type": "feed", "url": url}})
    return (await stage.app.polls.diff(name)).failure


@place("sereno.toml: [[poll]] source url, by apply")
async def applied(stage: Stage, url: str) -> object:
    """A definition of the settings file."""
    checked = stage.app.polls.check(_poll(stage, "http", url), where="sereno.toml:1", origin="config")
    return await stage.app.kit.plugins.sources["http"].read(checked.spec.source, None, stage.guarded())


def delivery(kind: str, options: dict[str, Json]) -> Delivery:
    """One attempt of an action with options that nobody checked."""
    ref = ActionRef("tell", kind, options, Policy.AT_LEAST_ONCE, origin="config")
    effect = Effect("main:u:p:o@1:a:1", ref, "local", "title", "body", {}, "poll_1")
    return Delivery("dlv_1", "main", effect, DeliveryState.SENDING, 1, 3, NOW)


@place("action webhook: url")
async def webhook(stage: Stage, url: str) -> object:
    """A delivery whose options were never checked."""
    options: dict[str, Json] = {"url": url, "unsigned": True}
    return await stage.app.kit.plugins.actions["webhook"].perform(delivery("webhook", options), stage.guarded())


@place("action webhook: url of an inline action of a poll, checked")
async def webhook_checked(stage: Stage, url: str) -> object:
    """The road that a person takes."""
    action = {"type": "webhook", "url": url, "unsigned": True}
    model = read_model({"name": stage.name(), "every": "1h", "source": {"type": "file", "path": "/none"}, "actions": [action]})
    checked = stage.app.polls.check(model, where="poll", origin="cli")
    sent = delivery("webhook", dict(checked.spec.actions[0].options))
    return await stage.app.kit.plugins.actions["webhook"].perform(sent, stage.guarded())


def host_of(text: str) -> tuple[str, int]:
    """The part of a form that would be written as the host of a mail server, and the port."""
    rest = text.partition("://")[2] or text
    host, colon, port = rest.partition("/")[0].rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        return rest, 25
    return host.removeprefix("[").removesuffix("]"), int(port)


@place("action email: host")
async def mail(stage: Stage, url: str) -> object:
    """Not HTTP, but an address all the same."""
    host, port = host_of(url)
    options: dict[str, Json] = {"host": host, "port": port, "tls": "none", "from": "a@sereno.example", "to": "b@sereno.example"}
    return await stage.app.kit.plugins.actions["email"].perform(delivery("email", options), stage.guarded())


async def _asked(stage: Stage, contract: Contract, operation: Operation) -> object:
    return await stage.app.kit.plugins.providers[contract.via].look(operation, contract, stage.guarded())


async def _registered(stage: Stage, wanted: Wanted) -> object:
    limits = {"deadline": SHORT * 100, "max_status_requests": 5, "max_transport_failures": 5, "max_throttles": 5}
    record = (await stage.app.operations.register(replace(wanted, **limits))).record  # type: ignore[arg-type]
    return await _asked(stage, stage.app.contracts.get(wanted.contract), record.operation)


@place("wait generic-202: the job id is the status URL")
async def job_url(stage: Stage, url: str) -> object:
    """What a provider answered to a submit, and a person pasted."""
    return await _registered(stage, Wanted("generic-202", url))


@place("wait generic-status: the job id is the status URL")
async def job_url_status(stage: Stage, url: str) -> object:
    """The same with states of the caller."""
    states = {"success": ["done"]}
    wanted = Wanted("generic-status", url, states=states, state_path="status")
    record = await _registered(stage, wanted)
    return record


@place("wait generic-status: --base")
async def generic_base(stage: Stage, url: str) -> object:
    """The base of a contract without an address of its own."""
    return await _registered(stage, Wanted("generic-status", stage.name(), base=url, states={"success": ["x"]}, state_path="s"))


def _based(name: str) -> Send:
    async def send(stage: Stage, url: str) -> object:
        parameters = {key: "1" for key in stage.app.contracts.get(name).parameters}
        return await _registered(stage, Wanted(name, stage.name(), base=url, parameters=parameters))

    return send


BASED = ("github-actions-run", "google-lro", "openai-responses", "replicate", "mcp-task", "a2a-task-jsonrpc")
"""Shipped contracts that go through the service with a base; all of them go past it in `places_calls`."""
for _name in BASED:
    place(f"wait {_name}: --base", slow=True)(_based(_name))


async def _sent(stage: Stage, contract: Contract, operation: Operation) -> object:
    assert operation.call is not None
    provider = stage.app.kit.plugins.providers[contract.via]
    return await provider.send(operation, contract, operation.call, stage.guarded())


def _submitted(name: str, given: Json) -> Send:
    async def send(stage: Stage, url: str) -> object:
        limits = {"deadline": SHORT * 100, "max_status_requests": 5, "max_transport_failures": 5, "max_throttles": 5}
        wanted = WantedSubmit(name, given, base=url, **limits)  # type: ignore[arg-type]
        operation = (await stage.app.operations.submit(wanted)).record.operation
        return await _sent(stage, stage.app.contracts.get(name), operation)

    return send


place("submit replicate: --base", slow=True)(_submitted("replicate", {"version": "1"}))
place("submit mcp-task: --base", slow=True)(_submitted("mcp-task", {"name": "work"}))
place("submit a2a-task-jsonrpc: --base", slow=True)(_submitted("a2a-task-jsonrpc", {"message": {}}))


@place("stored submit: base edited behind the service")
async def stored_base(stage: Stage, url: str) -> object:
    """A row that was never checked."""
    call = ProviderCall("call_1", CallKind.SUBMIT, "op_1:submit", "sub_1", {"version": "1"}, CallState.SENDING, NOW, attempts=1)
    operation = replace(make_operation(url="", account="", job_id=""), parameters={"base": url}, call=call)
    return await _sent(stage, stage.app.contracts.get("replicate"), operation)


@place("stored operation: url edited behind the service")
async def stored_url(stage: Stage, url: str) -> object:
    """A row that was never checked."""
    return await _asked(stage, stage.app.contracts.get("generic-202"), make_operation(url=url, account=""))


def own_contract(stage: Stage, origin: str = "https://h.example", **tables: Json) -> Contract:
    """A contract as a deployment would write it, around an origin; `tables` add to its own or replace them. Raises SetupError."""
    document: dict[str, Json] = {
        "format": 1,
        "contract": "own",
        "version": 1,
        "title": "Own",
        "source": "a test",
        "verified": "verified",
        "status": {"url": origin + "/{job_id}", "origins": [origin], "observational": "a test"},
        "state": {"path": "status"},
        "states": {"pending": ["running"], "success": ["done"], "failure": ["failed"]},
        "submit": {"url": origin + "/jobs", "effects": "starts a job", "job_id": "id"},
        "cancel": {"url": origin + "/{job_id}/cancel", "effects": "ends it"},
    }
    for name, given in tables.items():
        own = document.get(name)
        document[name] = {**own, **given} if isinstance(own, dict) and isinstance(given, dict) else given
    return stage.app.kit.plugins.contracts.contract(document)


def origin_in(url: str) -> str:
    """Scheme and authority of a form, as they stand there."""
    return "/".join(url.split("/")[:3])


@place("contract of the deployment: status.url and its origin")
async def contract_url(stage: Stage, url: str) -> object:
    """What a contract file names; a template is always https."""
    secure = url.replace("http://", "https://", 1)
    contract = own_contract(stage, origin_in(secure))
    return await _asked(stage, contract, make_operation(url=secure, account=""))


@place("contract of the deployment: origins, by a redirect", header=True)
async def contract_origin(stage: Stage, url: str) -> object:
    """A contract that follows redirects and lists the evil origin as its own."""
    stage.location = url
    contract = replace(own_contract(stage), redirects=True, origins=(origin_in(url),))
    return await _asked(stage, contract, make_operation(url=stage.server, account=""))


@place("[credentials.NAME]: origin")
async def credential_origin(stage: Stage, url: str) -> object:
    """A credential never opens an address, and its origin is judged as a URL."""
    text = url.removesuffix("/x")
    quoted = "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\u{ord(c):04x}" for c in text)
    settings = (
        f'[credentials.c]\norigin = "{quoted}"\nvalue = {{env = "SECURITY_CANARY"}}\n[egress]\nallow = {[*stage.allow]!r}\n'
    )
    loaded = parse_settings(settings, stage.folder / "other.toml")
    outside = Outside.build(loaded.settings, loaded)
    try:
        return await outside.gate.fetch(Fetch(url, credential="c", total_deadline=SHORT))
    finally:
        await outside.close()
