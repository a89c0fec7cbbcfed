"""Limits of pools, as settings give them. A part of a write transaction."""

from sereno.core.errors import RequestError
from sereno.ports import PoolLimits
from sereno.store.definitions.request import Request


def set_pool(request: Request, name: str, limits: PoolLimits) -> None:
    """Stores the limits of a pool, which need not exist yet; the same limits change nothing. What was spent stays spent."""
    if (limits.rate is not None and not 0 < limits.rate < 1e6) or limits.burst < 1 or (limits.in_flight or 1) < 1:
        raise RequestError(
            f"the limits of pool {name!r} must allow something: rate > 0, burst ≥ 1, in_flight ≥ 1",
            subject=name,
            code="bad_limits",
        )
    wanted = (limits.rate, limits.burst, limits.in_flight)
    row = request.connection.execute(
        "SELECT rate, burst, in_flight FROM pool WHERE workspace = ? AND name = ?", (request.workspace, name)
    ).fetchone()
    if row is not None and tuple(row) == wanted:
        return
    request.connection.execute(
        "INSERT INTO pool (workspace, name, rate, burst, in_flight) VALUES (?, ?, ?, ?, ?) ON CONFLICT (workspace, name)"
        " DO UPDATE SET rate = excluded.rate, burst = excluded.burst, in_flight = excluded.in_flight, wake = min(wake, ?)",
        (request.workspace, name, *wanted, request.micros),
    )
    facts: dict[str, object] = {"rate": limits.rate, "burst": limits.burst, "in_flight": limits.in_flight}
    request.decided(f"pool:{name}", 0, "limits set", {"limits": facts, "before": list(row) if row is not None else None})
