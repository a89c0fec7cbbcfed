-- Submits, cancels and call-backs; fields that are pinned; counts that a contract allows.
-- An operation is claimable when its state is submitting or waiting and due <= now.

DROP INDEX operation_open;
DROP INDEX operation_claim;
DROP INDEX operation_close;
ALTER TABLE operation DROP COLUMN close_at;
ALTER TABLE operation ADD COLUMN tolerated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operation ADD COLUMN steady INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operation ADD COLUMN pins TEXT NOT NULL DEFAULT '{}';
-- The open call (queued or sending), if any: a claim then reserves no status request but makes this call.
ALTER TABLE operation ADD COLUMN call TEXT;
-- When the call-back in pushed_body came that no step has read yet.
ALTER TABLE operation ADD COLUMN pushed_at INTEGER;
-- When a call-back last asked for an earlier look while the row was held.
ALTER TABLE operation ADD COLUMN woken_at INTEGER;
ALTER TABLE operation ADD COLUMN previous TEXT;
ALTER TABLE operation ADD COLUMN submitted_at INTEGER;
ALTER TABLE operation ADD COLUMN cancelled_at INTEGER;
-- From when it may be claimed without a request, past its pool's limits: a deadline, a spent budget, silence, and what a
-- provider called back with where it is never asked (max_status_requests 0). An open call is bound by the deadline alone.
ALTER TABLE operation ADD COLUMN
    close_at INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN due IS NULL THEN NULL
            WHEN state = 'escalated' THEN due
            WHEN state NOT IN ('submitting', 'waiting') THEN NULL
            WHEN call IS NULL AND status_requests_used >= max_status_requests THEN due
            ELSE max(min(deadline_at, coalesce(business_deadline_at, deadline_at)), coalesce(lease_until, 0))
        END
    ) VIRTUAL;
-- A provider numbers jobs inside what its parameters name: one Jenkins job, one namespace, one host (`base`). Parameters are canonical JSON.
CREATE UNIQUE INDEX operation_open ON operation (workspace, contract, account, job_id, parameters)
    WHERE state IN ('submitting', 'waiting', 'escalated') AND job_id <> '';
CREATE INDEX operation_claim ON operation (workspace, pool, priority, due, id) WHERE state IN ('submitting', 'waiting') AND due IS NOT NULL;
CREATE INDEX operation_close ON operation (close_at, workspace, id) WHERE close_at IS NOT NULL;

-- Bodies of call-backs, apart from the row that every step writes.
CREATE TABLE pushed_body (
    workspace TEXT NOT NULL,
    operation TEXT NOT NULL,
    body BLOB NOT NULL,
    content_type TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, operation)
) STRICT;

-- Submits and cancels (W24, W31). sending is written by the claim, before the first byte: found so by a later claim, or without a
-- lease, it may have been sent. number counts the calls of one kind of an operation.
CREATE TABLE provider_call (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    operation TEXT NOT NULL,
    contract TEXT NOT NULL,
    account TEXT NOT NULL,
    parameters TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('submit', 'cancel')),
    number INTEGER NOT NULL,
    dedupe_key TEXT NOT NULL,
    key TEXT NOT NULL,
    input TEXT NOT NULL,
    statement TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'sending', 'done', 'refused', 'unknown', 'dropped')),
    attempts INTEGER NOT NULL DEFAULT 0,
    first_sent_at INTEGER,
    answer TEXT,
    answered_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT;
CREATE UNIQUE INDEX call_dedupe ON provider_call (workspace, dedupe_key);
CREATE UNIQUE INDEX call_open ON provider_call (workspace, operation) WHERE state IN ('queued', 'sending');
CREATE UNIQUE INDEX call_key ON provider_call (workspace, contract, account, key, parameters) WHERE kind = 'submit' AND number = 1;
CREATE INDEX call_listed ON provider_call (workspace, operation, id);
