"""Brings the `[pools]` of the settings into the database, where the store looks for them (W29)."""

from collections.abc import Iterable

from sereno.ports import PoolLimits
from sereno.service.deps import Deps


async def hold_pools(deps: Deps, names: Iterable[str] | None = None) -> None:
    """Stores the limits that the settings give these pools (None = every pool they name). What holds already changes nothing.

    Raises RequestError for limits that allow nothing.
    """
    given = deps.loaded.settings.pools
    for name in given if names is None else names:
        if (model := given.get(name)) is not None:
            rate = None if model.rate == "unlimited" else float(model.rate)
            await deps.definitions.set_pool(deps.who, name, PoolLimits(rate, model.burst, model.in_flight))
