-- Made by scripts/dump_schema.py; schema version 2.

CREATE TABLE contract (
    digest TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    document TEXT NOT NULL,
    stored_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    dedupe_key TEXT NOT NULL,
    effect TEXT NOT NULL,
    subject TEXT NOT NULL,
    poll TEXT,
    user TEXT NOT NULL,
    source_object_id TEXT,
    condition_version INTEGER,
    action_type TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    due INTEGER,
    scheduled_for INTEGER,
    lease_until INTEGER,
    run INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    priority INTEGER NOT NULL DEFAULT 1,
    pool TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    last_outcome TEXT,
    receipt TEXT,
    delivered_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT;

CREATE INDEX delivery_claim ON delivery (workspace, pool, priority, due, id) WHERE state IN ('queued', 'sending') AND due IS NOT NULL;

CREATE UNIQUE INDEX delivery_dedupe ON delivery (workspace, dedupe_key);

CREATE INDEX delivery_leased ON delivery (workspace, pool, lease_until) WHERE lease_until IS NOT NULL;

CREATE INDEX delivery_listed ON delivery (workspace, state, id);

CREATE INDEX delivery_subject ON delivery (workspace, subject, id);

CREATE TABLE escalation (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    operation TEXT NOT NULL,
    category TEXT NOT NULL,
    statement TEXT NOT NULL,
    options TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT,
    answered_at INTEGER,
    created_at INTEGER NOT NULL,
    answer_by INTEGER NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT;

CREATE INDEX escalation_listed ON escalation (workspace, state, id);

CREATE UNIQUE INDEX escalation_open ON escalation (workspace, operation) WHERE state = 'open';

CREATE TRIGGER journal_no_delete BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append only'); END;

CREATE TRIGGER journal_no_update BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append only'); END;

CREATE TABLE journal (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    subject TEXT NOT NULL,
    run INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at INTEGER NOT NULL,
    facts TEXT NOT NULL
) STRICT;

CREATE INDEX journal_subject ON journal (workspace, subject, seq);

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIEW notifications AS
SELECT id, workspace, poll AS poll_id, user AS user_id, dedupe_key, title, body, delivered_at
FROM delivery WHERE poll IS NOT NULL;

CREATE TABLE operation (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    contract TEXT NOT NULL,
    contract_digest TEXT NOT NULL REFERENCES contract (digest),
    account TEXT NOT NULL,
    job_id TEXT NOT NULL,
    url TEXT NOT NULL,
    parameters TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    user TEXT NOT NULL,
    assistant_task_id TEXT,
    actions TEXT NOT NULL,
    state TEXT NOT NULL,
    due INTEGER,
    scheduled_for INTEGER,
    lease_until INTEGER,
    run INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 1,
    pool TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    deadline_at INTEGER NOT NULL,
    business_deadline_at INTEGER,
    max_status_requests INTEGER NOT NULL,
    max_transport_failures INTEGER NOT NULL,
    max_throttles INTEGER NOT NULL,
    status_requests_used INTEGER NOT NULL DEFAULT 0 CHECK (status_requests_used <= max_status_requests),
    transport_failures_used INTEGER NOT NULL DEFAULT 0,
    throttles_used INTEGER NOT NULL DEFAULT 0,
    answered INTEGER NOT NULL DEFAULT 0,
    not_found INTEGER NOT NULL DEFAULT 0,
    min_gap_us INTEGER NOT NULL DEFAULT 1000000,
    next_poll_at INTEGER,
    delay_source TEXT NOT NULL,
    last_state TEXT,
    last_http_status INTEGER,
    last_checked_at INTEGER,
    result_ref TEXT,
    category TEXT,
    error_code TEXT,
    error_text TEXT,
    expires_at INTEGER,
    regressions INTEGER NOT NULL DEFAULT 0,
    grants TEXT NOT NULL DEFAULT '[]',
    escalations INTEGER NOT NULL DEFAULT 0,
    parked TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    updated_at INTEGER NOT NULL, tolerated INTEGER NOT NULL DEFAULT 0, steady INTEGER NOT NULL DEFAULT 0, pins TEXT NOT NULL DEFAULT '{}', call TEXT, pushed_at INTEGER, woken_at INTEGER, previous TEXT, submitted_at INTEGER, cancelled_at INTEGER, close_at INTEGER GENERATED ALWAYS AS (
        CASE
            WHEN due IS NULL THEN NULL
            WHEN state = 'escalated' THEN due
            WHEN state NOT IN ('submitting', 'waiting') THEN NULL
            WHEN call IS NULL AND status_requests_used >= max_status_requests THEN due
            ELSE max(min(deadline_at, coalesce(business_deadline_at, deadline_at)), coalesce(lease_until, 0))
        END
    ) VIRTUAL,
    -- From when it may be claimed to be closed without a request, past its pool's limits: a deadline, a spent budget,
    PRIMARY KEY (workspace, id)
) STRICT;

CREATE INDEX operation_claim ON operation (workspace, pool, priority, due, id) WHERE state IN ('submitting', 'waiting') AND due IS NOT NULL;

CREATE INDEX operation_close ON operation (close_at, workspace, id) WHERE close_at IS NOT NULL;

CREATE INDEX operation_leased ON operation (workspace, pool, lease_until) WHERE lease_until IS NOT NULL;

CREATE INDEX operation_listed ON operation (workspace, state, id);

CREATE UNIQUE INDEX operation_open ON operation (workspace, contract, account, job_id, parameters)
    WHERE state IN ('submitting', 'waiting', 'escalated') AND job_id <> '';

CREATE TABLE poll (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    user TEXT NOT NULL,
    managed_by TEXT NOT NULL,
    condition_version INTEGER NOT NULL DEFAULT 1,
    state TEXT NOT NULL,
    due INTEGER,
    scheduled_for INTEGER,
    attempt INTEGER NOT NULL DEFAULT 0,
    lease_until INTEGER,
    run INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 1,
    pool TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    cursor TEXT,
    baselined INTEGER NOT NULL DEFAULT 0,
    -- Runs in a row that were claimed and never ended.
    abandoned INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    auth_failures INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    matches INTEGER NOT NULL DEFAULT 0,
    last_run_at INTEGER,
    last_error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, id)
) STRICT;

CREATE INDEX poll_claim ON poll (workspace, pool, priority, due, id) WHERE state = 'active' AND due IS NOT NULL;

CREATE INDEX poll_leased ON poll (workspace, pool, lease_until) WHERE lease_until IS NOT NULL;

CREATE UNIQUE INDEX poll_name ON poll (workspace, name) WHERE state <> 'removed';

CREATE TABLE poll_object (
    workspace TEXT NOT NULL,
    poll TEXT NOT NULL,
    external_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    version INTEGER NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    kept TEXT,
    present INTEGER NOT NULL DEFAULT 1,
    matching INTEGER,
    episodes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace, poll, external_id)
) STRICT, WITHOUT ROWID;

CREATE VIEW poll_runs AS
SELECT subject || '.' || number AS id, workspace, subject AS poll_id, scheduled_for, attempt, claimed_by, started_at, finished_at, status,
       checked AS items_checked, changed AS items_changed, matched AS items_matched, cursor_before, cursor_after, summary AS decision_summary, error
FROM run WHERE kind = 'poll';

CREATE TABLE poll_spec (
    workspace TEXT NOT NULL,
    poll TEXT NOT NULL,
    spec TEXT NOT NULL,
    PRIMARY KEY (workspace, poll)
) STRICT;

CREATE VIEW polls AS
SELECT id, poll.workspace, user AS user_id,
       json_extract(spec, '$.source_type') AS source_type,
       coalesce(json_extract(spec, '$.source.url'), json_extract(spec, '$.source.path'), json_extract(spec, '$.source.argv')) AS source_ref,
       json_extract(spec, '$.condition') AS condition_text,
       json_extract(spec, '$.schedule.type') AS schedule_type,
       json_extract(spec, '$.schedule.every_s') AS interval_seconds,
       json_extract(spec, '$.schedule.zone') AS timezone,
       due AS next_run_at, last_run_at, cursor AS cursor_value,
       (SELECT o.content_hash FROM poll_object o WHERE o.workspace = poll.workspace AND o.poll = poll.id
         ORDER BY o.last_seen_at DESC, o.external_id LIMIT 1) AS last_hash,
       state AS status, failures AS failure_count, last_error, created_at, updated_at
FROM poll JOIN poll_spec ON poll_spec.workspace = poll.workspace AND poll_spec.poll = poll.id;

CREATE TABLE pool (
    workspace TEXT NOT NULL,
    name TEXT NOT NULL,
    rate REAL,
    burst INTEGER NOT NULL DEFAULT 5,
    in_flight INTEGER,
    tat INTEGER NOT NULL DEFAULT 0,
    wake INTEGER,
    PRIMARY KEY (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX pool_wake ON pool (wake, workspace, name) WHERE wake IS NOT NULL;

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

CREATE UNIQUE INDEX call_key ON provider_call (workspace, contract, account, key, parameters) WHERE kind = 'submit' AND number = 1;

CREATE INDEX call_listed ON provider_call (workspace, operation, id);

CREATE UNIQUE INDEX call_open ON provider_call (workspace, operation) WHERE state IN ('queued', 'sending');

CREATE TABLE pushed_body (
    workspace TEXT NOT NULL,
    operation TEXT NOT NULL,
    body BLOB NOT NULL,
    content_type TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, operation)
) STRICT;

CREATE TABLE run (
    workspace TEXT NOT NULL,
    subject TEXT NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    scheduled_for INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    claimed_by TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    claim_expires_at INTEGER NOT NULL,
    finished_at INTEGER,
    status TEXT NOT NULL DEFAULT 'running',
    checked INTEGER,
    changed INTEGER,
    matched INTEGER,
    requests INTEGER,
    missed INTEGER,
    cursor_before TEXT,
    cursor_after TEXT,
    summary TEXT,
    error TEXT,
    PRIMARY KEY (workspace, subject, number)
) STRICT;

CREATE INDEX run_started ON run (workspace, started_at, subject, number);
