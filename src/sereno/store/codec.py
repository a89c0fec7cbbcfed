"""Codec: core values to and from the JSON texts of our rows. Instants in them are integer microseconds, durations seconds."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from sereno.core.call import CallAnswer, CallOutcome
from sereno.core.change import Keep
from sereno.core.effect import ActionRef, Effect, Policy
from sereno.core.escalation import Option, Verb
from sereno.core.observation import DelaySource, Observation, ObservationKind, ReadHint
from sereno.core.operation import Grant
from sereno.core.poll import FireOn, PollSpec, Stop
from sereno.core.schedule import Cron, Interval, Schedule
from sereno.core.values import Json, canonical, from_micros, to_micros


def dumps(value: object) -> str:
    """Writes canonical JSON text: sorted keys, no spaces. Integers beyond 64 bits are kept."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return canonical(value).decode()  # type: ignore[arg-type]  # it checks by itself and raises TypeError


def loads(text: str | bytes) -> Any:
    """Reads JSON that we wrote ourselves and whose integers have at most 64 bits."""
    return orjson.loads(text)


def loads_foreign(text: str) -> Any:
    """Reads JSON with content from outside in it: integers of any length stay exact."""
    return json.loads(text)


def micros(instant: datetime | None) -> int | None:
    """`to_micros` that lets None through."""
    return None if instant is None else to_micros(instant)


def instant(value: int | None) -> datetime | None:
    """`from_micros` that lets None through."""
    return None if value is None else from_micros(value)


def span_us(span: timedelta) -> int:
    """A duration as whole microseconds."""
    return span // timedelta(microseconds=1)


def _seconds(span: timedelta) -> int | float:
    value = span.total_seconds()
    return int(value) if value.is_integer() else value


class UnknownWord(ValueError):
    """A row names a schedule type, a verb or a policy that this version does not know; the row is parked, nothing is guessed."""


def dump_schedule(schedule: Schedule) -> dict[str, Json]:
    """Writes a schedule as `{"type": "interval", …}` or `{"type": "cron", …}`."""
    if isinstance(schedule, Interval):
        anchor = to_micros(schedule.anchor)
        return {"type": "interval", "every_s": _seconds(schedule.every), "anchor": anchor, "jitter_s": _seconds(schedule.jitter)}
    return {"type": "cron", "expression": schedule.expression, "zone": schedule.zone, "jitter_s": _seconds(schedule.jitter)}


def load_schedule(value: Mapping[str, Any]) -> Schedule:
    """Reads a schedule; raises UnknownWord for a type that this version does not know."""
    jitter = timedelta(seconds=value.get("jitter_s", 0))
    match value.get("type"):
        case "interval":
            return Interval(every=timedelta(seconds=value["every_s"]), anchor=from_micros(value["anchor"]), jitter=jitter)
        case "cron":
            return Cron(expression=value["expression"], zone=value.get("zone", "UTC"), jitter=jitter)
        case other:
            raise UnknownWord(f"unknown schedule type {other!r}")


def dump_action(action: ActionRef) -> dict[str, Json]:
    """Writes one configured action."""
    return {
        "name": action.name,
        "type": action.type,
        "options": dict(action.options),
        "policy": str(action.policy),
        "origin": action.origin,
        "pool": action.pool,
    }


def load_action(value: Mapping[str, Any]) -> ActionRef:
    """Reads one configured action."""
    return ActionRef(
        name=value["name"],
        type=value["type"],
        options=value["options"],
        policy=Policy(value["policy"]),
        origin=value["origin"],
        pool=value.get("pool", "local"),
    )


def dump_actions(actions: Sequence[ActionRef]) -> str:
    """Writes the `actions` column."""
    return dumps([dump_action(action) for action in actions])


def load_actions(text: str) -> tuple[ActionRef, ...]:
    """Reads the `actions` column."""
    return tuple(load_action(value) for value in loads_foreign(text))


def _stop_json(stop: Stop) -> dict[str, Json]:
    return {
        "after_matches": stop.after_matches,
        "after_runs": stop.after_runs,
        "after_failures": stop.after_failures,
        "after": micros(stop.after),
        "auth_failures": stop.auth_failures,
    }


def _read_stop(value: Mapping[str, Any]) -> Stop:
    return Stop(
        after_matches=value["after_matches"],
        after_runs=value["after_runs"],
        after_failures=value["after_failures"],
        after=instant(value["after"]),
        auth_failures=value["auth_failures"],
    )


def dump_spec(spec: PollSpec) -> str:
    """Writes the `spec` column; equal specs give equal text."""
    return dumps(
        {
            "name": spec.name,
            "source_type": spec.source_type,
            "source": dict(spec.source),
            "schedule": dump_schedule(spec.schedule),
            "condition": spec.condition,
            "fire_on": str(spec.fire_on),
            "actions": [dump_action(action) for action in spec.actions],
            "keep": str(spec.keep),
            "fields": list(spec.fields),
            "baseline": spec.baseline,
            "stop": _stop_json(spec.stop),
            "priority": spec.priority,
            "user": spec.user,
            "origin": spec.origin,
        }
    )


def load_spec(text: str) -> PollSpec:
    """Reads the `spec` column. Raises UnknownWord for a schedule type of a newer version."""
    value = loads_foreign(text)
    return PollSpec(
        name=value["name"],
        source_type=value["source_type"],
        source=value["source"],
        schedule=load_schedule(value["schedule"]),
        condition=value["condition"],
        fire_on=FireOn(value["fire_on"]),
        actions=tuple(load_action(action) for action in value["actions"]),
        keep=Keep(value["keep"]),
        fields=tuple(value["fields"]),
        baseline=value["baseline"],
        stop=_read_stop(value["stop"]),
        priority=value["priority"],
        user=value["user"],
        origin=value["origin"],
    )


def dump_parameters(parameters: Mapping[str, str]) -> str:
    """Writes the `parameters` column of an operation."""
    return dumps(dict(parameters))


def load_parameters(text: str) -> dict[str, str]:
    """Reads the `parameters` column of an operation."""
    value: dict[str, str] = loads(text)
    return value


def dump_effect(effect: Effect, *, moved: int = 0) -> str:
    """Writes the `effect` column of a delivery. `moved`: see `effect_moved`."""
    return dumps(
        {
            **({"moved": moved} if moved else {}),
            "dedupe_key": effect.dedupe_key,
            "action": dump_action(effect.action),
            "pool": effect.pool,
            "title": effect.title,
            "body": effect.body,
            "payload": effect.payload,
            "subject": effect.subject,
            "source_object_id": effect.source_object_id,
            "condition_version": effect.condition_version,
            "not_before": micros(effect.not_before),
            "keep_trying_s": _seconds(effect.keep_trying),
        }
    )


def load_effect(text: str) -> Effect:
    """Reads the `effect` column of a delivery."""
    value = loads_foreign(text)
    return Effect(
        dedupe_key=value["dedupe_key"],
        action=load_action(value["action"]),
        pool=value["pool"],
        title=value["title"],
        body=value["body"],
        payload=value["payload"],
        subject=value["subject"],
        source_object_id=value["source_object_id"],
        condition_version=value["condition_version"],
        not_before=instant(value["not_before"]),
        keep_trying=timedelta(seconds=value["keep_trying_s"]),
    )


def effect_moved(text: str) -> int:
    """By how much the steps of the host's clock had moved the waits when the delivery was made, in microseconds (`clock_moved`)."""
    moved = loads_foreign(text).get("moved", 0)
    return moved if isinstance(moved, int) else 0


def dump_grants(grants: Sequence[Grant]) -> str:
    """Writes the `grants` column."""
    return dumps([{"word": grant.word, "checks_left": grant.checks_left} for grant in grants])


def load_grants(text: str) -> tuple[Grant, ...]:
    """Reads the `grants` column."""
    return tuple(Grant(word=value["word"], checks_left=value["checks_left"]) for value in loads(text))


def dump_pins(pins: Mapping[str, str]) -> str:
    """Writes the `pins` column."""
    return dumps(dict(pins))


def load_pins(text: str) -> dict[str, str]:
    """Reads the `pins` column."""
    value: dict[str, str] = loads(text)
    return value


def dump_options(options: Sequence[Option]) -> str:
    """Writes the `options` column of an escalation."""
    return dumps(
        [
            {"key": option.key, "verb": str(option.verb), "says": option.says, "minutes": option.minutes, "checks": option.checks}
            for option in options
        ]
    )


def load_options(text: str) -> tuple[Option, ...]:
    """Reads the `options` column of an escalation."""
    return tuple(
        Option(key=value["key"], verb=Verb(value["verb"]), says=value["says"], minutes=value["minutes"], checks=value["checks"])
        for value in loads(text)
    )


def _hint_json(hint: ReadHint) -> dict[str, Json]:
    return {"source": str(hint.source), "raw": hint.raw, "until": micros(hint.until), "rejected": hint.rejected}


def _load_hints(value: Mapping[str, Any]) -> tuple[ReadHint, ...]:
    return tuple(
        ReadHint(source=DelaySource(hint["source"]), raw=hint["raw"], until=instant(hint["until"]), rejected=hint.get("rejected"))
        for hint in value.get("hints", ())
    )


def _filled(facts: Mapping[str, object]) -> dict[str, object]:
    """Leaves out what is not there; 0, False and an empty text are facts: a provider may say a state without a letter."""
    return {name: value for name, value in facts.items() if value is not None and value not in ([], {})}


def observation_json(observation: Observation) -> dict[str, object]:
    """Writes the facts of a reply for the journal (W26, W43); empty fields are left out."""
    facts: dict[str, object] = {
        "kind": str(observation.kind),
        "state": observation.state,
        "http_status": observation.http_status,
        "reason": observation.reason or None,
        "hints": [_hint_json(hint) for hint in observation.hints],
        "result_ref": observation.result_ref,
        "error_code": observation.error_code,
        "error_text": observation.error_text,
        "progress": observation.progress,
        "provider_request_id": observation.provider_request_id,
        "expires_at": micros(observation.expires_at),
        "requests": observation.requests,
        "tolerated": observation.tolerated or None,
        "pins": dict(observation.pins),
        "next_url": observation.next_url,
    }
    return _filled(facts)


def load_observation(value: Mapping[str, Any]) -> Observation:
    """Reads the facts of a reply back from the journal: the observation that the decision was made on."""
    return Observation(
        kind=ObservationKind(value["kind"]),
        state=value.get("state"),
        http_status=value.get("http_status"),
        reason=value.get("reason", ""),
        hints=_load_hints(value),
        result_ref=value.get("result_ref"),
        error_code=value.get("error_code"),
        error_text=value.get("error_text"),
        progress=value.get("progress"),
        provider_request_id=value.get("provider_request_id"),
        expires_at=instant(value.get("expires_at")),
        requests=value["requests"],
        tolerated=value.get("tolerated", False),
        pins=value.get("pins", {}),
        next_url=value.get("next_url"),
    )


def call_answer_json(answer: CallAnswer) -> dict[str, object]:
    """Writes the facts of a submit's or cancel's answer, for its row and the journal; empty fields are left out."""
    facts: dict[str, object] = {
        "outcome": str(answer.outcome),
        "reason": answer.reason or None,
        "http_status": answer.http_status,
        "job_id": answer.job_id,
        "url": answer.url,
        "parameters": dict(answer.parameters),
        "hints": [_hint_json(hint) for hint in answer.hints],
        "error_code": answer.error_code,
        "error_text": answer.error_text,
        "provider_request_id": answer.provider_request_id,
        "requests": answer.requests,
    }
    return _filled(facts)


def load_call_answer(value: Mapping[str, Any]) -> CallAnswer:
    """Reads the facts of a submit's or cancel's answer back."""
    return CallAnswer(
        outcome=CallOutcome(value["outcome"]),
        reason=value.get("reason", ""),
        http_status=value.get("http_status"),
        job_id=value.get("job_id"),
        url=value.get("url"),
        parameters=value.get("parameters", {}),
        hints=_load_hints(value),
        error_code=value.get("error_code"),
        error_text=value.get("error_text"),
        provider_request_id=value.get("provider_request_id"),
        requests=value["requests"],
    )
