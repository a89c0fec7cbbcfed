"""A poll as a person writes it, in TOML, JSON or by flags; checked here, turned into a core `PollSpec`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from sereno.core.change import Keep
from sereno.core.effect import ActionRef, Policy
from sereno.core.poll import FireOn, PollSpec, Stop
from sereno.core.schedule import SHORTEST, Cron, Interval, Schedule
from sereno.core.values import Json, format_duration, parse_duration


def _to_duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Duration = Annotated[
    timedelta,
    BeforeValidator(_to_duration, json_schema_input_type=str),
    PlainSerializer(format_duration, return_type=str),
]
"""A duration written as `90s`, `1h30m`, `2d` or ISO 8601."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
"""1–63 letters, digits, dot, underscore, hyphen; starts with a letter or digit."""

POLICY = "What to do when an outcome is unknown; default by the type."
PRIORITIES = ("low", "normal", "high")


class Strict(BaseModel):
    """Refuses names it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SourceModel(BaseModel):
    """`type` names the plug-in; the rest are its options, checked by the plug-in itself."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str = Field(description="The plug-in: http, feed, file, command.")

    def options(self) -> dict[str, Json]:
        """The options without the type."""
        return dict(self.model_extra or {})


class ActionModel(BaseModel):
    """`type` names the plug-in; `name` is its stable name inside the poll; the rest are its options."""

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str = Field(description="The plug-in: console, email, webhook, command, notify.")
    name: Name | None = Field(default=None, description="Stable name inside its poll; default the type.")
    policy: Literal["keyed", "at_most_once", "at_least_once"] | None = Field(default=None, description=POLICY)

    def options(self) -> dict[str, Json]:
        """The options without type, name and policy."""
        return dict(self.model_extra or {})


class StopModel(Strict):
    """When a poll ends by itself (P09)."""

    after_matches: int | None = Field(default=None, ge=1, description="Ends after so many matches.")
    after_runs: int | None = Field(default=None, ge=1, description="Ends after so many runs.")
    after_failures: int | None = Field(default=100, ge=1, description="Ends after so many failures in a row.")
    after: AwareDatetime | None = Field(default=None, description="Ends at this instant.")
    auth_failures: int = Field(
        default=3, ge=1, le=100, description="Ends after so many refused credentials in a row, and says so once."
    )


class PollModel(Strict):
    """One `[[poll]]`."""

    name: Name = Field(description="Unique; names the poll in commands.")
    source: SourceModel = Field(description="What to read.")
    every: Duration | None = Field(default=None, description="Interval, for example 15m. At least 1s.")
    cron: str | None = Field(default=None, description="Five-field cron expression. Stored today, run in a later version.")
    zone: str = Field(default="UTC", description="IANA zone of the cron expression.")
    jitter: Duration | None = Field(
        default=None, description="How far each instant may be moved later; default a tenth of the interval, at most 1m."
    )
    when: str = Field(default="change in ['new', 'updated']", max_length=2048, description="CEL condition.")
    on: Literal["change", "state"] = Field(
        default="change", description="Tell each change that matches, or once for each time the condition becomes true."
    )
    actions: tuple[str | ActionModel, ...] = Field(
        default=("console",), description="What to do: names from `[actions]`, types, or whole actions."
    )
    keep: Literal["digest", "fields", "payload"] = Field(default="payload", description="How much of each object is stored.")
    fields: tuple[str, ...] = Field(default=(), description='With `keep = "fields"`: which ones.')
    baseline: bool = Field(default=True, description="What the first run finds is not told.")
    stop: StopModel = Field(default=StopModel(), description="When the poll ends by itself.")
    priority: Literal["low", "normal", "high"] = Field(default="normal", description="Who goes first when a pool is busy.")
    paused: bool = Field(default=False, description="Defined, but not run.")

    @model_validator(mode="after")
    def _one_schedule(self) -> "PollModel":
        if (self.every is None) == (self.cron is None):
            raise ValueError('give exactly one of `every` and `cron`, for example every = "15m"')
        if self.every is not None and self.every < SHORTEST:
            raise ValueError(f"`every` must be at least {format_duration(SHORTEST)}")
        if self.keep == "fields" and not self.fields:
            raise ValueError('`keep = "fields"` needs `fields`, for example fields = ["price"]')
        return self

    def schedule(self) -> Schedule:
        """The core schedule."""
        jitter = self.jitter
        if self.every is None:
            return Cron(self.cron or "", self.zone, jitter or timedelta(0))
        if jitter is None:
            jitter = min(self.every / 10, timedelta(minutes=1))
        return Interval(self.every, _ANCHOR, min(jitter, self.every))

    def spec(self, *, user: str, origin: str, actions: tuple[ActionRef, ...]) -> PollSpec:
        """The core definition; `actions` are already resolved by the service."""
        return PollSpec(
            name=self.name,
            source_type=self.source.type,
            source=self.source.options(),
            schedule=self.schedule(),
            condition=self.when,
            fire_on=FireOn(self.on),
            actions=actions,
            keep=Keep(self.keep),
            fields=self.fields,
            baseline=self.baseline,
            stop=Stop(**self.stop.model_dump()),
            priority=PRIORITIES.index(self.priority),
            user=user,
            origin=origin,
        )


_ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
"""The grid of all intervals starts here; each poll's jitter gives it a place of its own."""


def poll_to_model(spec: PollSpec) -> dict[str, Any]:
    """Writes a definition back as the `[[poll]]` that would make it (for `poll export` and edits); defaults are left out."""
    schedule = spec.schedule
    body: dict[str, Any] = {"name": spec.name, "source": {"type": spec.source_type, **spec.source}}
    if isinstance(schedule, Interval):
        body["every"] = format_duration(schedule.every)
        body["jitter"] = format_duration(schedule.jitter)
    else:
        body |= {"cron": schedule.expression, "zone": schedule.zone, "jitter": format_duration(schedule.jitter)}
    body |= {
        "when": spec.condition,
        "on": spec.fire_on.value,
        "actions": [_action(action) for action in spec.actions],
        "keep": spec.keep.value,
        "fields": list(spec.fields),
        "baseline": spec.baseline,
        "stop": {name: getattr(spec.stop, name) for name in Stop.__dataclass_fields__ if getattr(spec.stop, name) is not None},
        "priority": PRIORITIES[spec.priority],
    }
    return _without_defaults(body)


def _action(action: ActionRef) -> dict[str, Any]:
    body: dict[str, Any] = {"type": action.type, "name": action.name, **action.options}
    if action.policy is not Policy.KEYED or action.type != "webhook":
        body["policy"] = action.policy.value
    return body


def _without_defaults(body: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {"on": "change", "keep": "payload", "fields": [], "baseline": True, "priority": "normal"}
    stop = {key: value for key, value in body["stop"].items() if StopModel.model_fields[key].default != value}
    kept = {key: value for key, value in body.items() if key not in defaults or defaults[key] != value}
    if stop:
        return kept | {"stop": stop}
    return {key: value for key, value in kept.items() if key != "stop"}
