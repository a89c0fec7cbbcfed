-- Statements of the commits. A fence holds while the row carries the run number of the claim and a lease.

-- name: poll_fences
SELECT json_group_array(json_array(j.key, t.run, t.lease_until IS NOT NULL, t.revision, t.condition_version, t.state, t.pool))
FROM json_each(:rows) AS j CROSS JOIN poll AS t ON t.workspace = j.value ->> 0 AND t.id = j.value ->> 1;

-- name: polls
-- The state is not among these: it is part of more indexes, and seldom changes.
WITH n (workspace, id, due, takes, cursor, baselined, failures, auth_failures, matched, error, scheduled_for, attempt, now) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
UPDATE poll SET due = n.due, scheduled_for = n.scheduled_for, lease_until = NULL, attempt = n.attempt,
    cursor = CASE n.takes WHEN 1 THEN n.cursor ELSE poll.cursor END,
    baselined = CASE n.takes WHEN 1 THEN n.baselined ELSE poll.baselined END,
    failures = n.failures, auth_failures = n.auth_failures, runs = poll.runs + 1, matches = poll.matches + n.matched,
    last_run_at = n.now, last_error = n.error
FROM n WHERE poll.workspace = n.workspace AND poll.id = n.id;

-- name: poll_states
WITH n (workspace, id, state, now) AS (VALUES (?, ?, ?, ?))
UPDATE poll SET state = n.state, updated_at = n.now
FROM n WHERE poll.workspace = n.workspace AND poll.id = n.id AND poll.state <> n.state;

-- name: poll_runs
WITH n (workspace, subject, number, status, checked, changed, matched, requests, missed, cursor_after, summary, error, now) AS (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?))
UPDATE run SET finished_at = n.now, status = n.status, checked = n.checked, changed = n.changed, matched = n.matched,
    requests = n.requests, missed = n.missed, cursor_after = n.cursor_after, summary = n.summary, error = n.error
FROM n WHERE run.workspace = n.workspace AND run.subject = n.subject AND run.number = n.number;

-- name: snapshot
SELECT json_group_array(json_array(
    external_id, content_hash, version, first_seen_at, last_seen_at, kept, present, matching, episodes
))
FROM poll_object WHERE workspace = :workspace AND poll = :id;

-- name: snapshot_by_row
SELECT external_id, content_hash, version, first_seen_at, last_seen_at, kept, present, matching, episodes
FROM poll_object WHERE workspace = :workspace AND poll = :id;

-- name: objects
INSERT OR REPLACE INTO poll_object
    (workspace, poll, external_id, content_hash, version, first_seen_at, last_seen_at, kept, present, matching, episodes)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)) WHERE column1 IS NOT NULL;

-- name: forget_objects
DELETE FROM poll_object WHERE (workspace, poll, external_id) IN (VALUES (?, ?, ?));

-- name: delivery
INSERT INTO delivery (workspace, id, dedupe_key, effect, subject, poll, user, source_object_id, condition_version, action_type, title,
    body, state, due, max_attempts, pool, created_at, updated_at)
VALUES (:workspace, :id, :dedupe_key, :effect, :subject, :poll, :user, :source_object_id, :condition_version, :action_type, :title,
    :body, 'queued', :due, :max_attempts, :pool, :now, :now)
ON CONFLICT (workspace, dedupe_key) DO NOTHING;

-- name: suppressed
INSERT INTO meta (key, value) VALUES (:key, :count)
ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + CAST(excluded.value AS INTEGER) AS TEXT);

-- name: poll_fence
SELECT run, lease_until, revision, state, pool, scheduled_for, due FROM poll WHERE workspace = :workspace AND id = :id;

-- name: delivery_fence
SELECT run, lease_until, revision, state, pool, scheduled_for, due FROM delivery WHERE workspace = :workspace AND id = :id;

-- name: operation_fence
SELECT run, lease_until, revision, state, pool, scheduled_for, due, status_requests_used, max_status_requests, min_gap_us, parked,
    call, pins, pushed_at, woken_at
FROM operation WHERE workspace = :workspace AND id = :id;

-- name: settle_delivery
UPDATE delivery SET state = :state, due = :due, scheduled_for = NULL, lease_until = NULL, last_outcome = :outcome,
    receipt = coalesce(:receipt, receipt), delivered_at = coalesce(:delivered_at, delivered_at), updated_at = :now
WHERE workspace = :workspace AND id = :id;

-- name: close_run
UPDATE run SET finished_at = :now, status = :status, summary = :summary, error = :error, requests = :requests
WHERE workspace = :workspace AND subject = :id AND number = :run;

-- name: settle_operation
UPDATE operation SET state = :state, due = :due, scheduled_for = NULL, lease_until = NULL, attempt = 0, next_poll_at = :next_poll_at,
    delay_source = :delay_source, status_requests_used = :used, transport_failures_used = :transport_failures,
    throttles_used = :throttles, answered = :answered, not_found = :not_found, tolerated = :tolerated, steady = :steady,
    category = :category, grants = :grants, pins = :pins, url = coalesce(:url, url), call = :call, pushed_at = :pushed_at, woken_at = NULL,
    escalations = escalations + :escalated, regressions = regressions + :regressed, parked = NULL,
    last_state = coalesce(:last_state, last_state), last_http_status = coalesce(:http_status, last_http_status),
    last_checked_at = coalesce(:checked_at, last_checked_at), result_ref = coalesce(:result_ref, result_ref),
    error_code = coalesce(:error_code, error_code), error_text = coalesce(:error_text, error_text),
    expires_at = coalesce(:expires_at, expires_at), updated_at = :now
WHERE workspace = :workspace AND id = :id;

-- name: cancel_taken
UPDATE operation SET cancelled_at = :cancelled_at WHERE workspace = :workspace AND id = :id;

-- name: name_job
UPDATE operation SET job_id = :job_id, url = :url, parameters = :parameters, submitted_at = :submitted_at
WHERE workspace = :workspace AND id = :id;

-- name: other_with_job
SELECT o.id FROM operation AS mine CROSS JOIN operation AS o
    ON o.workspace = mine.workspace AND o.contract = mine.contract AND o.account = mine.account
WHERE mine.workspace = :workspace AND mine.id = :id AND o.id <> mine.id AND o.job_id = :job_id
    AND o.parameters = :parameters AND o.state IN ('submitting', 'waiting', 'escalated') AND o.job_id <> '';

-- name: settle_call
UPDATE provider_call SET state = :state, answer = coalesce(:answer, answer), answered_at = coalesce(:answered_at, answered_at),
    first_sent_at = CASE :unsent WHEN 1 THEN NULL ELSE first_sent_at END, updated_at = :now
WHERE workspace = :workspace AND id = :call AND state IN ('queued', 'sending');

-- name: give_up_call
-- What was never tried is dropped; whether the rest was done is not known.
UPDATE provider_call SET state = CASE state WHEN 'queued' THEN 'dropped' ELSE 'unknown' END, answer = coalesce(:answer, answer),
    answered_at = coalesce(:answered_at, answered_at), updated_at = :now
WHERE workspace = :workspace AND operation = :id AND state IN ('queued', 'sending');

-- name: release_call
UPDATE provider_call SET state = CASE :interrupted WHEN 1 THEN 'sending' ELSE 'queued' END, attempts = attempts - 1,
    first_sent_at = CASE WHEN :interrupted = 0 AND first_sent_at = :claimed_at THEN NULL ELSE first_sent_at END, updated_at = :now
WHERE workspace = :workspace AND id = :call AND state = 'sending';

-- name: forget_pushed
DELETE FROM pushed_body WHERE workspace = :workspace AND operation = :id;

-- name: operation_facts
UPDATE operation SET last_state = coalesce(:last_state, last_state), last_http_status = coalesce(:http_status, last_http_status),
    last_checked_at = coalesce(:checked_at, last_checked_at), result_ref = coalesce(:result_ref, result_ref),
    error_code = coalesce(:error_code, error_code), error_text = coalesce(:error_text, error_text),
    expires_at = coalesce(:expires_at, expires_at), updated_at = :now
WHERE workspace = :workspace AND id = :id;

-- name: expire_question
UPDATE escalation SET state = 'expired' WHERE workspace = :workspace AND operation = :id AND state = 'open';

-- name: ask_question
INSERT INTO escalation (workspace, id, operation, category, statement, options, digest, state, created_at, answer_by)
VALUES (:workspace, :id, :operation, :category, :statement, :options, :digest, 'open', :created_at, :answer_by);

-- name: extend_poll
UPDATE poll SET lease_until = :until, due = max(due, :until)
WHERE workspace = :workspace AND id = :id AND run = :run AND lease_until IS NOT NULL;

-- name: extend_delivery
UPDATE delivery SET lease_until = :until, due = :until
WHERE workspace = :workspace AND id = :id AND run = :run AND lease_until IS NOT NULL;

-- name: extend_operation
UPDATE operation SET lease_until = :until, due = max(due, :until)
WHERE workspace = :workspace AND id = :id AND run = :run AND lease_until IS NOT NULL;

-- name: extend_run
UPDATE run SET claim_expires_at = :until WHERE workspace = :workspace AND subject = :id AND number = :run;

-- name: release_poll
UPDATE poll SET due = scheduled_for, lease_until = NULL, attempt = attempt - 1 WHERE workspace = :workspace AND id = :id;

-- name: release_delivery
-- An attempt before this one that was never settled stays in sight: the state says so to the next claim.
UPDATE delivery SET due = scheduled_for, scheduled_for = NULL, lease_until = NULL, attempt = attempt - 1,
    state = CASE :interrupted WHEN 1 THEN 'sending' ELSE 'queued' END
WHERE workspace = :workspace AND id = :id;

-- name: release_operation
UPDATE operation SET due = :due, scheduled_for = NULL, lease_until = NULL, attempt = attempt - 1,
    status_requests_used = status_requests_used - :given_back
WHERE workspace = :workspace AND id = :id;

-- name: reserve_hop
UPDATE operation SET status_requests_used = status_requests_used + 1
WHERE workspace = :workspace AND id = :id AND run = :run AND lease_until > :now AND status_requests_used < max_status_requests;

-- name: delete_runs
DELETE FROM run WHERE (workspace, subject, number) IN (
    SELECT workspace, subject, number FROM run
    WHERE workspace = :workspace AND started_at < :before AND finished_at IS NOT NULL
    ORDER BY started_at, subject, number LIMIT :limit);

-- name: workspaces
WITH RECURSIVE spaces (name) AS (
    SELECT min(workspace) FROM pool
    UNION ALL SELECT (SELECT min(workspace) FROM pool WHERE workspace > spaces.name) FROM spaces WHERE spaces.name IS NOT NULL)
SELECT name FROM spaces WHERE name IS NOT NULL ORDER BY name;
