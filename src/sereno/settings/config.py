"""The settings model of `sereno.toml`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sereno.core.work import LeaseTimes
from sereno.settings.definition import POLICY, Duration, Name, PollModel, Strict


class Reference(Strict):
    """Where a secret is read from when it is needed: exactly one of `env` and `file`. The secret itself never stands in a file of ours."""

    env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = Field(
        default=None, description="Environment variable."
    )
    file: str | None = Field(default=None, description="File that holds it and nothing else.")

    @model_validator(mode="before")
    @classmethod
    def _no_literal(cls, given: Any) -> Any:
        if isinstance(given, str):
            raise ValueError(
                'holds the secret itself; put it into a variable or a file and write {env = "NAME"} or {file = "/path"}'
            )
        return given

    @model_validator(mode="after")
    def _one(self) -> "Reference":
        if (self.env is None) == (self.file is None):
            raise ValueError('give exactly one of `env` and `file`, for example {env = "API_TOKEN"}')
        return self


class CredentialModel(Strict):
    """`[credentials.NAME]`: bound to one origin; sent only there.

    Also signing keys of outgoing webhooks (`origin` of the receiver) and mail passwords (`origin = "smtp://host:port"`).
    """

    origin: str = Field(description="https://host[:port], or smtp://host:port, that may receive it.")
    header: str = Field(default="Authorization", description="Header that carries it.")
    scheme: str | None = Field(default="Bearer", description="Word before the value; empty for none.")
    value: Reference = Field(description="Where the secret is read.")


class NotifyModel(Strict):
    """`[notify.NAME]`: an Apprise target; the URL holds secrets, so it is a reference."""

    url: Reference = Field(description="Where the target's URL is read.")


class NamedAction(BaseModel):
    """`[actions.NAME]`: an action that polls may name."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str = Field(description="The plug-in: console, email, webhook, command, notify.")
    policy: Literal["keyed", "at_most_once", "at_least_once"] | None = Field(default=None, description=POLICY)


class EgressModel(Strict):
    """`[egress]`: what may be reached beside the public internet."""

    allow: tuple[str, ...] = Field(
        default=(), description="IP, CIDR or host, each with optional port, e.g. 127.0.0.1:8080, 10.0.0.0/8."
    )
    max_bytes: int = Field(
        default=10_000_000,
        ge=1000,
        le=1_000_000_000,
        description="Largest decoded response; what a contract keeps has its own cap.",
    )


class PoolModel(Strict):
    """`[pools."host:NAME"]`: a shared limit."""

    rate: float | Literal["unlimited"] = Field(default=1.0, description="Sends per second.")
    burst: int = Field(default=5, ge=1, le=100_000, description="How many may leave at once.")
    in_flight: int | None = Field(default=None, ge=1, description="How many may be open at the same time; default no limit.")


class LeaseModel(Strict):
    """`[lease]`: lease ≥ total_deadline + guard + commit_time."""

    lease: Duration = Field(default=timedelta(seconds=60), description="How long claimed work is ours.")
    total_deadline: Duration = Field(default=timedelta(seconds=30), description="The longest that one call may take in all.")
    guard: Duration = Field(default=timedelta(seconds=1), description="From the last check of the lease to the first byte.")
    commit_time: Duration = Field(default=timedelta(seconds=5), description="Set aside for writing the decision.")
    tick: Duration = Field(default=timedelta(seconds=1), description="The longest nap between two looks for due work.")

    @model_validator(mode="after")
    def _arithmetic(self) -> "LeaseModel":
        if problem := self.times().problem():
            raise ValueError(problem)
        if min(self.tick, self.total_deadline, self.guard) <= timedelta(0):
            raise ValueError("tick, total_deadline and guard must be longer than 0s")
        return self

    def times(self) -> LeaseTimes:
        """The core value."""
        return LeaseTimes(**dict(self))


class DatabaseModel(Strict):
    """`[database]`."""

    path: str | None = Field(default=None, description="Default: .sereno/sereno.db beside this file.")


class WaitingModel(Strict):
    """`[waiting]`: what holds for all waits."""

    answer_within: Duration = Field(default=timedelta(days=1), description="How long a question waits; silence means stop.")
    actions: tuple[str, ...] = Field(default=("console",), description="Actions that carry ends and questions.")


class S3Model(Strict):
    """`[artifacts.s3]`: a bucket for kept results, S3 itself or what speaks like it. Needs the extra `aws`."""

    endpoint: str = Field(description="https://host[:port] of the service; the bucket stands in the path.")
    bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")] = Field(description="Name of the bucket.")
    prefix: Annotated[str, Field(pattern=r"^([A-Za-z0-9_-]+/)*$")] = Field(
        default="", description="Put before each name, with / at its end."
    )
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")] = Field(
        default="us-east-1", description="Region that is signed for."
    )
    credential: Name = Field(description='NAME of a [credentials.NAME] with scheme = "AWS4-HMAC-SHA256".')


class ArtifactsModel(Strict):
    """`[artifacts]`: where results are kept."""

    folder: str | None = Field(default=None, description="Default: artifacts beside the database.")
    longest: Duration = Field(
        default=timedelta(minutes=10),
        description="The longest that one download may take in all; the lease is prolonged meanwhile.",
    )
    s3: S3Model | None = Field(default=None, description="Keep them in a bucket; the folder then holds what is on its way.")

    @model_validator(mode="after")
    def _some_time(self) -> "ArtifactsModel":
        if not timedelta(0) < self.longest <= timedelta(days=1):
            raise ValueError("longest must be more than 0s and at most 1d")
        return self


class Settings(Strict):
    """The whole of `sereno.toml`."""

    database: DatabaseModel = DatabaseModel()
    lease: LeaseModel = LeaseModel()
    slots: int = Field(default=100, ge=1, le=10_000, description="How much work one process does at once.")
    egress: EgressModel = EgressModel()
    pools: Mapping[str, PoolModel] = {}
    credentials: Mapping[Name, CredentialModel] = {}
    notify: Mapping[Name, NotifyModel] = {}
    actions: Mapping[Name, NamedAction] = {}
    waiting: WaitingModel = WaitingModel()
    artifacts: ArtifactsModel = ArtifactsModel()
    contracts: tuple[str, ...] = Field(default=(), description="Folders with contracts of your own.")
    keep_runs: Duration = Field(default=timedelta(days=30), description="How long records of runs are kept.")
    zone: str | None = Field(default=None, description="IANA zone for shown times; default the system's.")
    poll: tuple[PollModel, ...] = ()


def config_schema() -> dict[str, Any]:
    """The JSON schema of `sereno.toml`, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sereno.toml", **Settings.model_json_schema()}
