"""What the tests of kept results share: a provider on loopback whose jobs have results, its contract, and one delivery."""

import asyncio
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sereno.builtin.actions.keep_result import KeepResultAction
from sereno.builtin.providers.catalogue import compile_path
from sereno.core.contract import Contract, parse_contract
from sereno.core.delivery import Delivery, Outcome
from sereno.core.errors import NotFound
from sereno.core.observation import Reply
from sereno.core.operation import Operation
from sereno.core.reading.calls import Via
from sereno.core.values import Json
from sereno.outside.artifacts.files import FileArtifacts
from sereno.ports import CredentialConfig, Fetch, Guarded, SecretPlace
from tests.builtin.feeds.scripted import delivery, guarded
from tests.outside.rawserver import RawServer, make_gate, ok

SECRET = "cnry-account-0123456789"
JSON = b"Content-Type: application/json\r\n"

DOCUMENT = """
format = 1
contract = "own"
version = 1
title = "Own"
source = "a test"
verified = "verified"
[status]
url = "{base}/jobs/{job_id}"
observational = "a test"
[state]
path = "status"
[states]
pending = ["running"]
success = ["done"]
failure = ["failed"]
needs_input = ["paused"]
result_expired = ["purged"]
expired = ["expired"]
[job]
id = "id"
pins = ["attempt"]
[result.keep]
KEEP
[limits]
deadline = "5m"
requests = 5
transport_failures = 3
throttles = 3
"""


def contract_of(keep: str) -> Contract:
    """The contract with one `[result.keep]`."""
    found = parse_contract(tomllib.loads(DOCUMENT.replace("KEEP", keep)), compile_path)
    assert isinstance(found, Contract), found
    return found


class Look:
    """Carries the status call as the stored address says."""

    async def look(self, operation: Operation, contract: Contract, means: Guarded) -> Reply:
        """One GET."""
        credential = operation.account or None
        return await means.transport.fetch(
            Fetch(operation.url, credential=credential, before_first_byte=means.before_first_byte, before_hop=None)
        )

    async def send(self, *_: object) -> Reply:
        """Nothing is ever sent here."""
        raise AssertionError("a copy sends no submit and no cancel")


@dataclass
class Site:
    """Answers by path; `asked` are the requests, whole."""

    pages: dict[str, bytes] = field(default_factory=dict)
    server: RawServer = field(default_factory=RawServer)

    def __post_init__(self) -> None:
        self.server._answer = self.answer

    async def answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        path = request.split(b" ", 2)[1].decode()
        writer.write(self.pages.get(path) or ok(b"no such page", status=b"404 Not Found"))

    def job(self, status: str = "done", **more: Json) -> None:
        """Lets the job say this."""
        body: dict[str, Json] = {"id": "j1", "status": status, **more}
        self.pages["/jobs/j1"] = ok(json.dumps(body).encode(), headers=JSON)

    @property
    def asked(self) -> list[str]:
        """The paths that were asked for, in order."""
        return [request.split(b" ", 2)[1].decode() for request in self.server.requests]


@dataclass
class World:
    """A site, another one elsewhere, and the folder of kept results."""

    site: Site
    away: Site
    store: FileArtifacts
    options: dict[str, Json] = field(default_factory=dict)
    gate_options: Mapping[str, Any] = field(default_factory=dict)
    hops: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.site.server.url

    def made(self, **changed: Json) -> Delivery:
        """The delivery that the core would make."""
        options: dict[str, Json] = {
            "operation": "op_1",
            "contract_digest": "d" * 64,
            "account": "",
            "job_id": "j1",
            "url": f"{self.url}/jobs/j1",
            "parameters": {"base": self.url},
            "pins": {},
            **self.options,
            **changed,
        }
        made = delivery(options, type="keep_result", origin="core")
        return replace(made, effect=replace(made.effect, subject="op_1"))

    async def keep(self, keep: str, **changed: Json) -> Outcome:
        """Performs one try under this `[result.keep]`."""

        async def contract(digest: str) -> Contract:
            if digest != "d" * 64:
                raise NotFound("there is no such contract", subject=digest)
            return contract_of(keep)

        async def hop(origin: str) -> bool:
            self.hops.append(origin)
            return True

        credentials = {"account": CredentialConfig(self.url, SecretPlace(env="S"))}
        ports = [f"127.0.0.1:{site.server.port}" for site in (self.site, self.away)]
        gate = make_gate(*ports, credentials=credentials, environment={"S": SECRET}, **self.gate_options)
        action = KeepResultAction({Via.HTTP: Look()}, contract, self.store)
        try:
            return await action.perform(self.made(**changed), guarded(gate, before_hop=hop))
        finally:
            await gate.close()

    async def content(self, digest: str) -> bytes:
        """A kept result, whole."""
        return b"".join([piece async for piece in self.store.read(digest)])

    def asked_signed(self) -> bool:
        """True where a signed address was really asked for."""
        return any("Signature" in path for site in (self.site, self.away) for path in site.asked)

    def files(self) -> list[Path]:
        """What stands in the folder."""
        return [path for path in self.store.root.rglob("*") if not path.is_dir()]
