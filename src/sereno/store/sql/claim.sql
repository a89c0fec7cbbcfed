-- Statements of the claim. Each answers at most one row of JSON text: a step into SQLite costs a turn of Python's lock.

-- name: ready_pools
SELECT json_group_array(json_array(workspace, name, rate, burst, tat, in_flight))
FROM (SELECT workspace, name, rate, burst, tat, in_flight FROM pool WHERE wake <= :now ORDER BY wake, workspace, name LIMIT :limit);

-- name: one_pool
SELECT json_group_array(json_array(workspace, name, rate, burst, tat, in_flight))
FROM pool WHERE workspace = :workspace AND name = :name;

-- name: held
-- How many rows of each pool are under a live lease, and when the first of these leases ends.
SELECT json_group_array(json_array(
    (SELECT count(*) FROM poll WHERE workspace = p.workspace AND pool = p.name AND lease_until > :now)
    + (SELECT count(*) FROM operation WHERE workspace = p.workspace AND pool = p.name AND lease_until > :now)
    + (SELECT count(*) FROM delivery WHERE workspace = p.workspace AND pool = p.name AND lease_until > :now),
    (SELECT lease_until FROM poll WHERE workspace = p.workspace AND pool = p.name AND lease_until > :now ORDER BY lease_until LIMIT 1),
    (SELECT lease_until FROM operation WHERE workspace = p.workspace AND pool = p.name AND lease_until > :now ORDER BY lease_until LIMIT 1),
    (SELECT lease_until FROM delivery WHERE workspace = p.workspace AND pool = p.name AND lease_until > :now ORDER BY lease_until LIMIT 1)
))
FROM (SELECT key, value ->> 0 AS workspace, value ->> 1 AS name FROM json_each(:pools) ORDER BY key) AS p;

-- name: due_rows
-- For each pool: the first due rows of each kind (poll, operation, delivery) and priority (0, 1, 2), then the next instants after now.
-- With :since, only what was due by then: a poll that has more of that to read goes on, and a delivery made since is tried once.
SELECT json_group_array(json_array(    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM poll
        WHERE workspace = p.workspace AND pool = p.name AND priority = 0 AND state = 'active' AND due <= :now
            AND (:since IS NULL OR due <= :horizon OR (scheduled_for <= :horizon AND lease_until IS NULL))
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM poll
        WHERE workspace = p.workspace AND pool = p.name AND priority = 1 AND state = 'active' AND due <= :now
            AND (:since IS NULL OR due <= :horizon OR (scheduled_for <= :horizon AND lease_until IS NULL))
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM poll
        WHERE workspace = p.workspace AND pool = p.name AND priority = 2 AND state = 'active' AND due <= :now
            AND (:since IS NULL OR due <= :horizon OR (scheduled_for <= :horizon AND lease_until IS NULL))
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM operation
        WHERE workspace = p.workspace AND pool = p.name AND priority = 0 AND state IN ('submitting', 'waiting') AND due <= :horizon
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM operation
        WHERE workspace = p.workspace AND pool = p.name AND priority = 1 AND state IN ('submitting', 'waiting') AND due <= :horizon
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM operation
        WHERE workspace = p.workspace AND pool = p.name AND priority = 2 AND state IN ('submitting', 'waiting') AND due <= :horizon
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM delivery
        WHERE workspace = p.workspace AND pool = p.name AND priority = 0 AND state IN ('queued', 'sending') AND due <= :now
            AND (:since IS NULL OR due <= :horizon OR (created_at >= :since AND attempt = 0))
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM delivery
        WHERE workspace = p.workspace AND pool = p.name AND priority = 1 AND state IN ('queued', 'sending') AND due <= :now
            AND (:since IS NULL OR due <= :horizon OR (created_at >= :since AND attempt = 0))
        ORDER BY due, id LIMIT :each))),
    json((SELECT json_group_array(json_array(id, due)) FROM (SELECT id, due FROM delivery
        WHERE workspace = p.workspace AND pool = p.name AND priority = 2 AND state IN ('queued', 'sending') AND due <= :now
            AND (:since IS NULL OR due <= :horizon OR (created_at >= :since AND attempt = 0))
        ORDER BY due, id LIMIT :each))),
    (SELECT due FROM poll
        WHERE workspace = p.workspace AND pool = p.name AND priority = 0 AND state = 'active' AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM poll
        WHERE workspace = p.workspace AND pool = p.name AND priority = 1 AND state = 'active' AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM poll
        WHERE workspace = p.workspace AND pool = p.name AND priority = 2 AND state = 'active' AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM operation
        WHERE workspace = p.workspace AND pool = p.name AND priority = 0 AND state IN ('submitting', 'waiting') AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM operation
        WHERE workspace = p.workspace AND pool = p.name AND priority = 1 AND state IN ('submitting', 'waiting') AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM operation
        WHERE workspace = p.workspace AND pool = p.name AND priority = 2 AND state IN ('submitting', 'waiting') AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM delivery
        WHERE workspace = p.workspace AND pool = p.name AND priority = 0 AND state IN ('queued', 'sending') AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM delivery
        WHERE workspace = p.workspace AND pool = p.name AND priority = 1 AND state IN ('queued', 'sending') AND due > :now
        ORDER BY due LIMIT 1),
    (SELECT due FROM delivery
        WHERE workspace = p.workspace AND pool = p.name AND priority = 2 AND state IN ('queued', 'sending') AND due > :now
        ORDER BY due LIMIT 1)
))
FROM (SELECT key, value ->> 0 AS workspace, value ->> 1 AS name FROM json_each(:pools) ORDER BY key) AS p;

-- name: closing
-- Operations to close without a request, whatever their pool allows.
SELECT json_group_array(json_array(workspace, id, pool))
FROM (SELECT workspace, id, pool FROM operation WHERE close_at <= :horizon ORDER BY close_at, workspace, id LIMIT :limit);

-- name: one_poll
WITH RECURSIVE spaces (name) AS (
    SELECT min(workspace) FROM pool
    UNION ALL SELECT (SELECT min(workspace) FROM pool WHERE workspace > spaces.name) FROM spaces WHERE spaces.name IS NOT NULL)
SELECT json_array(workspace, id, pool, due)
FROM poll WHERE workspace IN (SELECT name FROM spaces) AND id = :id AND state = 'active' AND due IS NOT NULL;

-- name: one_operation
WITH RECURSIVE spaces (name) AS (
    SELECT min(workspace) FROM pool
    UNION ALL SELECT (SELECT min(workspace) FROM pool WHERE workspace > spaces.name) FROM spaces WHERE spaces.name IS NOT NULL)
SELECT json_array(workspace, id, pool, min(due, coalesce(close_at, due)), close_at)
FROM operation WHERE workspace IN (SELECT name FROM spaces) AND id = :id AND state IN ('submitting', 'waiting', 'escalated') AND due IS NOT NULL;

-- name: one_delivery
WITH RECURSIVE spaces (name) AS (
    SELECT min(workspace) FROM pool
    UNION ALL SELECT (SELECT min(workspace) FROM pool WHERE workspace > spaces.name) FROM spaces WHERE spaces.name IS NOT NULL)
SELECT json_array(workspace, id, pool, due)
FROM delivery WHERE workspace IN (SELECT name FROM spaces) AND id = :id AND state IN ('queued', 'sending') AND due IS NOT NULL;

-- name: load_poll
SELECT json_group_array(json_array(
    t.workspace, t.id, t.state, t.revision, t.condition_version, t.pool, t.created_at, t.cursor, t.baselined, t.failures,
    t.auth_failures, t.runs, t.matches, t.last_run_at, t.last_error, t.due, t.scheduled_for, t.attempt, t.lease_until, t.run,
    t.abandoned
))
FROM json_each(:rows) AS j CROSS JOIN poll AS t ON t.workspace = j.value ->> 0 AND t.id = j.value ->> 1;

-- name: load_operation
SELECT json_group_array(json_array(
    t.workspace, t.id, t.contract, t.contract_digest, t.account, t.job_id, t.url, t.parameters, t.fingerprint, t.user,
    t.assistant_task_id, t.actions, t.state, t.due, t.scheduled_for, t.lease_until, t.run, t.attempt, t.pool, t.revision,
    t.deadline_at, t.business_deadline_at, t.max_status_requests, t.max_transport_failures, t.max_throttles,
    t.status_requests_used, t.transport_failures_used, t.throttles_used, t.answered, t.not_found, t.tolerated, t.steady,
    t.min_gap_us, t.next_poll_at, t.delay_source, t.last_state, t.last_http_status, t.last_checked_at, t.result_ref, t.category,
    t.error_code, t.error_text, t.expires_at, t.regressions, t.grants, t.pins, t.escalations, t.created_at, t.call, t.pushed_at,
    t.previous, t.submitted_at, t.cancelled_at
))
FROM json_each(:rows) AS j CROSS JOIN operation AS t ON t.workspace = j.value ->> 0 AND t.id = j.value ->> 1;

-- name: load_delivery
SELECT json_group_array(json_array(
    t.workspace, t.id, t.effect, t.state, t.due, t.scheduled_for, t.lease_until, t.run, t.attempt, t.max_attempts, t.pool,
    t.revision, t.created_at
))
FROM json_each(:rows) AS j CROSS JOIN delivery AS t ON t.workspace = j.value ->> 0 AND t.id = j.value ->> 1;

-- name: load_specs
SELECT json_group_array(json_array(t.poll, t.spec))
FROM json_each(:rows) AS j CROSS JOIN poll_spec AS t ON t.workspace = j.value ->> 0 AND t.poll = j.value ->> 1;

-- name: load_escalations
SELECT json_group_array(json_array(
    e.workspace, e.id, e.operation, e.category, e.statement, e.options, e.digest, e.state, e.answer, e.created_at,
    e.answer_by
))
FROM json_each(:rows) AS j CROSS JOIN escalation AS e ON e.workspace = j.value ->> 0 AND e.operation = j.value ->> 1 AND e.state = 'open';

-- name: load_calls
SELECT json_group_array(json_array(
    c.workspace, c.id, c.operation, c.kind, c.dedupe_key, c.key, c.input, c.statement, c.state, c.attempts, c.first_sent_at,
    c.created_at
))
FROM json_each(:rows) AS j CROSS JOIN provider_call AS c ON c.workspace = j.value ->> 0 AND c.id = j.value ->> 1;

-- name: load_pushed
SELECT body, content_type, received_at FROM pushed_body WHERE workspace = :workspace AND operation = :id;

-- name: take_calls
WITH n (workspace, id, now) AS (VALUES (?, ?, ?))
UPDATE provider_call SET state = 'sending', attempts = attempts + 1, first_sent_at = coalesce(first_sent_at, n.now), updated_at = n.now
FROM n WHERE provider_call.workspace = n.workspace AND provider_call.id = n.id AND provider_call.state IN ('queued', 'sending');

-- name: take_poll
WITH n (workspace, id, run, due, lease_until, scheduled_for, attempt, abandoned) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?))
UPDATE poll SET run = n.run, due = n.due, lease_until = n.lease_until, scheduled_for = n.scheduled_for, attempt = n.attempt,
    abandoned = n.abandoned
FROM n WHERE poll.workspace = n.workspace AND poll.id = n.id;

-- name: take_operation
WITH n (workspace, id, run, due, lease_until, scheduled_for, attempt, used, started_at) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?))
UPDATE operation SET run = n.run, due = n.due, lease_until = n.lease_until, scheduled_for = n.scheduled_for, attempt = n.attempt,
    status_requests_used = n.used, started_at = coalesce(operation.started_at, n.started_at)
FROM n WHERE operation.workspace = n.workspace AND operation.id = n.id;

-- name: take_delivery
WITH n (workspace, id, run, until, scheduled_for, attempt) AS (VALUES (?, ?, ?, ?, ?, ?))
UPDATE delivery SET run = n.run, due = n.until, lease_until = n.until, scheduled_for = n.scheduled_for, attempt = n.attempt, state = 'sending'
FROM n WHERE delivery.workspace = n.workspace AND delivery.id = n.id;

-- name: abandon_runs
WITH n (workspace, subject, number, now) AS (VALUES (?, ?, ?, ?))
UPDATE run SET status = 'abandoned', finished_at = n.now, error = 'the lease ran out before the run was committed'
FROM n WHERE run.workspace = n.workspace AND run.subject = n.subject AND run.number = n.number AND run.status = 'running';

-- name: start_runs
INSERT INTO run (workspace, subject, number, kind, scheduled_for, attempt, claim_expires_at, cursor_before, claimed_by, started_at)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL;

-- name: set_pools
WITH n (workspace, name, tat, wake, keep) AS (VALUES (?, ?, ?, ?, ?))
UPDATE pool SET tat = n.tat, wake = CASE n.keep WHEN 1 THEN min(coalesce(pool.wake, n.wake), n.wake) ELSE n.wake END
FROM n WHERE pool.workspace = n.workspace AND pool.name = n.name;
