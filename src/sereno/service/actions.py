"""Turns the actions that a person writes into checked `ActionRef`s; and checks credential names."""

from collections.abc import Sequence

from sereno.core.effect import ActionRef, Policy
from sereno.core.errors import Fault, nearest
from sereno.service.deps import Deps
from sereno.settings.definition import ActionModel


def resolve_actions(
    deps: Deps, wanted: Sequence[str | ActionModel], *, where: str, origin: str
) -> tuple[list[ActionRef], list[Fault]]:
    """Resolves names of `[actions.NAME]`, bare types such as `console`, and inline tables. Every fault is listed."""
    resolved: list[ActionRef] = []
    faults: list[Fault] = []
    for index, item in enumerate(wanted):
        place = _place_of(deps, item) or f"{where}: actions[{index}]"
        model = _model(deps, item)
        if isinstance(model, Fault):
            faults.append(Fault(place, model.message, model.hint))
            continue
        found = _resolve(deps, model, place=place, origin=origin)
        if isinstance(found, ActionRef):
            resolved.append(_unique(found, resolved))
        else:
            faults += found
    return resolved, faults


def _place_of(deps: Deps, item: str | ActionModel) -> str | None:
    """Where a named action is written; its faults are there, not where a poll names it."""
    if not isinstance(item, str) or item not in deps.loaded.settings.actions:
        return None
    return f"{deps.loaded.where('actions', item)}: actions.{item}"


def _model(deps: Deps, item: str | ActionModel) -> ActionModel | Fault:
    if isinstance(item, ActionModel):
        return item
    named = deps.loaded.settings.actions
    if item in named:
        model = named[item]
        return ActionModel.model_validate({"type": model.type, "name": item, "policy": model.policy, **(model.model_extra or {})})
    if item in deps.plugins.actions:
        return ActionModel(type=item)
    known = [*named, *deps.plugins.actions]
    near = nearest(item, known)
    hint = f"did you mean `{near}`?" if near else f"known: {', '.join(sorted(known))}; or write [actions.{item}]"
    return Fault("", f"no action named `{item}`", hint)


def _resolve(deps: Deps, model: ActionModel, *, place: str, origin: str) -> ActionRef | list[Fault]:
    plugin = deps.plugins.actions.get(model.type)
    if plugin is None:
        near = nearest(model.type, list(deps.plugins.actions))
        return [Fault(place, f"no action type `{model.type}`", f"did you mean `{near}`?" if near else None)]
    options = model.options()
    faults = [
        Fault(f"{place}.{fault.where}" if fault.where else place, fault.message, fault.hint)
        for fault in plugin.check(options, origin=origin)
    ]
    if faults:
        return faults
    policy = Policy(model.policy) if model.policy else plugin.default_policy
    return ActionRef(model.name or model.type, model.type, options, policy, origin=origin, pool=plugin.place(options).pool)


def _unique(found: ActionRef, earlier: Sequence[ActionRef]) -> ActionRef:
    """Two actions of one poll never share a name: the name is part of the dedupe key."""
    names = {action.name for action in earlier}
    name, number = found.name, 2
    while name in names:
        name, number = f"{found.name}-{number}", number + 1
    return ActionRef(name, found.type, found.options, found.policy, found.origin, found.pool)
