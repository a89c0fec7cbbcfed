"""Polls as definitions: adding, editing, pausing, asking for a run. Each function is one part of a write transaction."""

from dataclasses import dataclass
from datetime import datetime
from sqlite3 import Row

from sereno.core.errors import AlreadyExists, NotAllowed, NotNow
from sereno.core.poll import PollSpec, PollState
from sereno.core.values import from_micros, to_micros
from sereno.store.codec import dump_spec, dumps, load_spec
from sereno.store.definitions.request import Request
from sereno.store.missing import not_found
from sereno.store.pools import ensure_pool, wake_pool


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a definition comes from and when it runs: pool, first due instant, and `user` or `file:PATH[:LINE]`."""

    pool: str
    due: datetime
    managed_by: str


def owner(managed_by: str) -> str:
    """The owner without the line: `user`, or `file:PATH`. A definition that moved inside its file keeps its owner."""
    path, colon, line = managed_by.rpartition(":")
    return path if colon and line.isdigit() and path.startswith("file:") else managed_by


def _says(managed_by: str) -> str:
    """The owner in words: the place in the file, or that a user made it."""
    return f"managed by {managed_by.removeprefix('file:')}" if managed_by.startswith("file:") else "managed by users (CLI or API)"


def named(request: Request, name: str) -> Row:
    """Reads the row of a poll that is not removed by its name, else by its id; raises NotFound with the nearest name."""
    row: Row | None = request.connection.execute(
        "SELECT poll.*, spec FROM poll JOIN poll_spec ON poll_spec.workspace = poll.workspace AND poll_spec.poll = poll.id"
        " WHERE poll.workspace = ? AND (name = ? OR id = ?) AND state <> 'removed' ORDER BY name <> ? LIMIT 1",
        (request.workspace, name, name, name),
    ).fetchone()
    if row is None:
        names = request.connection.execute(
            "SELECT name FROM poll WHERE workspace = ? AND state <> 'removed' ORDER BY name LIMIT 10000", (request.workspace,)
        )
        raise not_found("poll", name, (known["name"] for known in names))
    return row


def add(request: Request, spec: PollSpec, plan: Plan) -> str:
    """Inserts a poll and wakes its pool; returns its id."""
    taken = request.connection.execute(
        "SELECT managed_by FROM poll WHERE workspace = ? AND name = ? AND state <> 'removed'", (request.workspace, spec.name)
    ).fetchone()
    if taken is not None:
        raise AlreadyExists(
            f"a poll named {spec.name!r} exists already, {_says(taken['managed_by'])}; nothing was added",
            subject=spec.name,
            hint="edit that one, or choose another name",
        )
    poll = request.ids.new("poll_")
    due = to_micros(plan.due)
    request.connection.execute(
        "INSERT INTO poll (workspace, id, name, user, managed_by, state, due, scheduled_for, priority, pool, created_at, updated_at)"
        " VALUES (?, ?, ?, ?, ?, 'active', ?, ?, ?, ?, ?, ?)",
        (
            *(request.workspace, poll, spec.name, spec.user, plan.managed_by),
            *(due, due, spec.priority, plan.pool, request.micros, request.micros),
        ),
    )
    request.connection.execute(
        "INSERT INTO poll_spec (workspace, poll, spec) VALUES (?, ?, ?)", (request.workspace, poll, dump_spec(spec))
    )
    _wake(request, plan.pool, due)
    request.decided(poll, 0, "created", {"name": spec.name, "managed_by": plan.managed_by, "revision": 1, "due": due})
    return poll


def edit(request: Request, name: str, spec: PollSpec, plan: Plan, *, reconsider: bool) -> str:
    """Replaces a definition; an equal one changes nothing. Returns the poll's id.

    Where the source changed, cursor and snapshot go, and the next run takes a new baseline: other objects are news to nobody.
    With `reconsider` the next run reads in full and everything present counts as new once. The due instant stays unless the
    schedule or the source changed, `reconsider` is asked for, or none was planned (a parked poll). A run under way keeps its lease,
    unless what it reads no longer counts.
    """
    row = named(request, name)
    _refuse_other_owner(row, plan.managed_by)
    before = load_spec(row["spec"])
    if dump_spec(spec) == row["spec"] and plan.pool == row["pool"] and not reconsider:
        _move(request, row, plan.managed_by)
        return str(row["id"])
    _refuse_taken(request, row, spec.name)
    moved = _place(spec) != _place(before)
    judged = moved or (spec.condition, spec.fire_on) != (before.condition, before.fire_on)
    version = int(row["condition_version"]) + (1 if judged or reconsider else 0)
    run = int(row["run"])
    if moved or reconsider:
        run = request.revoke("poll", row, f"the poll was edited by {request.who.user} while this run was under way")
        _forget(request, row["id"], moved=moved, reconsider=reconsider)
    _replace(request, row, spec, plan, version)
    if moved or reconsider or spec.schedule != before.schedule or row["due"] is None:
        _plan_again(request, row["id"], plan)
    request.decided(
        row["id"],
        run,
        "edited",
        {
            "name": spec.name,
            "revision": int(row["revision"]) + 1,
            "condition_version": version,
            "source_changed": moved,
            "reconsider": reconsider,
            "managed_by": plan.managed_by,
        },
    )
    return str(row["id"])


def set_state(request: Request, name: str, state: PollState, due: datetime | None) -> str:
    """Pauses, resumes, ends, disables or removes; the state it has already changes nothing (a parked poll is planned again). Returns the poll's id.

    Leaving `active` takes the lease away: what the run saw was not stored, so that it is found again after a resume. Resuming
    starts the count of failures anew; without `due` it is due now. A removed poll loses its snapshot and its name becomes free.
    """
    row = named(request, name)
    poll = str(row["id"])
    if row["state"] == state.value and (row["due"] is not None or state is not PollState.ACTIVE):
        return poll
    run = int(row["run"])
    if state is PollState.ACTIVE:
        when = to_micros(due or request.now)
        request.connection.execute(
            "UPDATE poll SET state = 'active', due = ?, scheduled_for = ?, attempt = 0, failures = 0, auth_failures = 0,"
            " last_error = NULL, revision = revision + 1, updated_at = ? WHERE workspace = ? AND id = ?",
            (when, when, request.micros, request.workspace, poll),
        )
        _wake(request, row["pool"], when)
    else:
        run = request.revoke("poll", row, f"the poll was set to {state.value} by {request.who.user} while this run was under way")
        request.connection.execute(
            "UPDATE poll SET state = ?, due = NULL, scheduled_for = NULL, attempt = 0, revision = revision + 1, updated_at = ?"
            " WHERE workspace = ? AND id = ?",
            (state.value, request.micros, request.workspace, poll),
        )
    if state is PollState.REMOVED:
        request.connection.execute("DELETE FROM poll_object WHERE workspace = ? AND poll = ?", (request.workspace, poll))
    request.decided(poll, run, state.value, {"name": row["name"], "before": row["state"]})
    return poll


def due_now(request: Request, name: str) -> str:
    """Makes an active poll that nobody runs due at once, inside its pool's limit. Returns its id."""
    row = named(request, name)
    if row["state"] != PollState.ACTIVE.value:
        raise NotNow(
            f"the poll {name!r} is {row['state']}; no run was asked for", subject=name, hint=f"sereno poll resume {name}"
        )
    if row["lease_until"] is not None and row["lease_until"] > request.micros:
        until = from_micros(row["lease_until"]).isoformat(timespec="seconds")
        raise NotNow(
            f"a run of the poll {name!r} is under way (lease until {until})",
            subject=name,
            hint=f"see it with: sereno run list {name}",
        )
    request.connection.execute(
        "UPDATE poll SET due = ?, scheduled_for = ?, attempt = 0, updated_at = ?"
        " WHERE workspace = ? AND id = ? AND (due IS NULL OR due > ?)",
        (request.micros, request.micros, request.micros, request.workspace, row["id"], request.micros),
    )
    _wake(request, row["pool"], request.micros)
    request.decided(row["id"], int(row["run"]), "run asked for", {"name": name})
    return str(row["id"])


def _place(spec: PollSpec) -> tuple[str, str]:
    """What is read, comparable."""
    return spec.source_type, dumps(dict(spec.source))


def _wake(request: Request, pool: str, due: int) -> None:
    ensure_pool(request.connection, request.workspace, pool)
    wake_pool(request.connection, request.workspace, pool, due)


def _refuse_other_owner(row: Row, managed_by: str) -> None:
    if owner(row["managed_by"]) == owner(managed_by):
        return
    place = row["managed_by"].removeprefix("file:")
    hint = f"change it in {place} and run: sereno apply" if row["managed_by"].startswith("file:") else "remove one of the two"
    raise NotAllowed(
        f"the poll {row['name']!r} is {_says(row['managed_by'])}; it was not changed",
        subject=row["name"],
        hint=hint,
        code="managed_elsewhere",
    )


def _refuse_taken(request: Request, row: Row, name: str) -> None:
    """A rename must not take a name that is in use."""
    other = request.connection.execute(
        "SELECT managed_by FROM poll WHERE workspace = ? AND name = ? AND state <> 'removed' AND id <> ?",
        (request.workspace, name, row["id"]),
    ).fetchone()
    if other is not None:
        raise AlreadyExists(
            f"a poll named {name!r} exists already, {_says(other['managed_by'])}; nothing was changed", subject=name
        )


def _move(request: Request, row: Row, managed_by: str) -> None:
    """Notes the new line of an unchanged definition; no new revision."""
    if row["managed_by"] != managed_by:
        request.connection.execute(
            "UPDATE poll SET managed_by = ? WHERE workspace = ? AND id = ?", (managed_by, request.workspace, row["id"])
        )


def _replace(request: Request, row: Row, spec: PollSpec, plan: Plan, version: int) -> None:
    request.connection.execute(
        "UPDATE poll SET name = ?, user = ?, managed_by = ?, condition_version = ?, priority = ?, pool = ?,"
        " revision = revision + 1, updated_at = ? WHERE workspace = ? AND id = ?",
        (
            *(spec.name, spec.user, plan.managed_by, version, spec.priority, plan.pool, request.micros),
            *(request.workspace, row["id"]),
        ),
    )
    request.connection.execute(
        "UPDATE poll_spec SET spec = ? WHERE workspace = ? AND poll = ?", (dump_spec(spec), request.workspace, row["id"])
    )
    if plan.pool != row["pool"] and row["due"] is not None:
        _wake(request, plan.pool, row["due"])


def _plan_again(request: Request, poll: str, plan: Plan) -> None:
    """Moves the due instant of an active poll that nobody runs; one under way decides its next instant itself."""
    due = to_micros(plan.due)
    moved = request.connection.execute(
        "UPDATE poll SET due = ?, scheduled_for = ?, attempt = 0"
        " WHERE workspace = ? AND id = ? AND state = 'active' AND lease_until IS NULL",
        (due, due, request.workspace, poll),
    )
    if moved.rowcount:
        _wake(request, plan.pool, due)


def _forget(request: Request, poll: str, *, moved: bool, reconsider: bool) -> None:
    """Another source: cursor and snapshot go. `reconsider`: the objects stay with versions and episodes, but count as absent.

    Versions and episodes go on counting, so that no dedupe key of the past is met again.
    """
    request.connection.execute(
        "UPDATE poll SET cursor = NULL, baselined = ?, failures = 0, auth_failures = 0, last_error = NULL"
        " WHERE workspace = ? AND id = ?",
        (1 if reconsider else 0, request.workspace, poll),
    )
    if moved:
        request.connection.execute("DELETE FROM poll_object WHERE workspace = ? AND poll = ?", (request.workspace, poll))
    else:
        request.connection.execute(
            "UPDATE poll_object SET content_hash = '', present = 0, matching = NULL WHERE workspace = ? AND poll = ?",
            (request.workspace, poll),
        )
