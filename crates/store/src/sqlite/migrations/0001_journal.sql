-- The journal: tasks, their events, and what rides in the same transaction. ADR 0009 says why it looks so.

-- A realm, an owner and an agent as one small number. Numbers are never used again.
CREATE TABLE scopes (
    scope INTEGER PRIMARY KEY AUTOINCREMENT,
    realm TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    UNIQUE (realm, owner, agent)
) STRICT;

-- How many tasks a scope has in a state. Scope 0 stands for all of them together.
CREATE TABLE counts (
    scope INTEGER NOT NULL,
    state INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (scope, state)
) STRICT, WITHOUT ROWID;

-- `number`, `sum` and `fold` are there once no events are: the number of the last one, and the task as JSON.
-- A `sum`, here and below, is the CRC-32 of the bytes beside it: what the disk has changed is not served.
CREATE TABLE tasks (
    task INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    id TEXT NOT NULL,
    context TEXT,
    state INTEGER NOT NULL,
    millis INTEGER NOT NULL,
    nanos INTEGER NOT NULL,
    ended INTEGER,
    number INTEGER,
    sum INTEGER,
    fold BLOB
) STRICT;
CREATE UNIQUE INDEX tasks_by_id ON tasks (scope, id);
CREATE INDEX tasks_by_state ON tasks (scope, state, millis, id);
CREATE INDEX tasks_by_context ON tasks (scope, context, state, millis, id) WHERE context IS NOT NULL;
CREATE INDEX tasks_by_end ON tasks (ended) WHERE ended IS NOT NULL;
CREATE INDEX tasks_with_events ON tasks (ended) WHERE ended IS NOT NULL AND number IS NULL;

-- One row for the events of one batch. `place` is the task and the number of the first one in one integer;
-- `ends` says where in `json` each ends, if there is more than one; `received` has the messages that the
-- events do not show.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    ends BLOB,
    received BLOB,
    json BLOB NOT NULL
) STRICT;

-- The agent's own state for a task.
CREATE TABLE states (
    task INTEGER PRIMARY KEY,
    sum INTEGER NOT NULL,
    json TEXT NOT NULL
) STRICT;

-- Idempotency keys that have been used, in that order.
CREATE TABLE admissions (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    id TEXT NOT NULL,
    used INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX admissions_by_key ON admissions (scope, key);

-- What there is one of.
CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO facts VALUES ('epoch', 0);
