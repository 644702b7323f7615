PRAGMA application_id=1130914158;
PRAGMA user_version=13;
BEGIN TRANSACTION;
CREATE TABLE scopes (
    scope INTEGER PRIMARY KEY AUTOINCREMENT,
    realm TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    UNIQUE (realm, owner, agent)
) STRICT;
INSERT INTO scopes VALUES(1,'realm','owner','agent');
INSERT INTO scopes VALUES(2,'realm','other','agent');
CREATE TABLE counts (
    scope INTEGER NOT NULL,
    state INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (scope, state)
) STRICT, WITHOUT ROWID;
INSERT INTO counts VALUES(0,2,1);
INSERT INTO counts VALUES(1,2,1);
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
INSERT INTO tasks VALUES(1,1,'t0','c',3,4102444800000,0,0,3,1029900966,CAST('{"id":"t0","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2100-01-01T00:00:00.000Z"},"artifacts":[{"artifactId":"a","parts":[{"text":"t0"}]}],"history":[{"messageId":"01a1f197-3780-73e6-a0be-85ee6f4bb9a6","role":"ROLE_USER","parts":[{"text":"begin t0"}]}]}' AS BLOB));
INSERT INTO tasks VALUES(2,2,'x0','c',3,4102444800001,0,0,3,679775931,CAST('{"id":"x0","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2100-01-01T00:00:00.001Z"},"artifacts":[{"artifactId":"a","parts":[{"text":"x0"}]}],"history":[{"messageId":"01a1f197-3781-7752-af9e-ff9f9999a373","role":"ROLE_USER","parts":[{"text":"begin x0"}]}]}' AS BLOB));
INSERT INTO tasks VALUES(3,1,'t1','c',3,4102444800002,0,0,3,1603220354,CAST('{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2100-01-01T00:00:00.002Z"},"artifacts":[{"artifactId":"a","parts":[{"text":"t1"}]}],"history":[{"messageId":"01a1f197-3784-734c-b029-31b0eceb1c61","role":"ROLE_USER","parts":[{"text":"begin t1"}]}]}' AS BLOB));
INSERT INTO tasks VALUES(4,1,'t2','c',3,4102444800003,0,0,3,3306943360,CAST('{"id":"t2","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2100-01-01T00:00:00.003Z"},"artifacts":[{"artifactId":"a","parts":[{"text":"t2"}]}],"history":[{"messageId":"01a1f197-3784-734c-b029-31b15141f265","role":"ROLE_USER","parts":[{"text":"begin t2"}]}]}' AS BLOB));
INSERT INTO tasks VALUES(5,1,'r','c',2,4102444800004,0,NULL,NULL,NULL,NULL);
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    weight INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    ends BLOB,
    received BLOB,
    json BLOB NOT NULL
) STRICT;
INSERT INTO events VALUES(83886081,1,295,1727171047,NULL,NULL,CAST('{"task":{"id":"r","contextId":"c","status":{"state":"TASK_STATE_WORKING","timestamp":"2100-01-01T00:00:00.004Z"},"history":[{"messageId":"01a1f197-3784-734c-b029-31b2530ba7bb","role":"ROLE_USER","parts":[{"text":"begin r"}]}]}}' AS BLOB));
CREATE TABLE states (
    task INTEGER PRIMARY KEY,
    sum INTEGER NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE TABLE admissions (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    scope INTEGER NOT NULL,
    key TEXT NOT NULL,
    digest BLOB NOT NULL,
    id TEXT NOT NULL,
    used INTEGER NOT NULL
, answer TEXT) STRICT;
CREATE TABLE facts (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO facts VALUES('clock',4102444800000001);
INSERT INTO facts VALUES('counted',0);
INSERT INTO facts VALUES('edges_removed',0);
INSERT INTO facts VALUES('epoch',1);
INSERT INTO facts VALUES('posted',2);
CREATE TABLE pushes (
    push INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL,
    id TEXT NOT NULL,
    config BLOB NOT NULL,
    cursor INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER
, version TEXT NOT NULL DEFAULT '1.0') STRICT;
CREATE TABLE parties (
    party INTEGER PRIMARY KEY AUTOINCREMENT,
    realm TEXT NOT NULL,
    caller TEXT,
    agent TEXT NOT NULL,
    UNIQUE (realm, caller, agent)
) STRICT;
CREATE TABLE edges (
    hop BLOB PRIMARY KEY,
    party INTEGER NOT NULL,
    root BLOB,
    parent BLOB,
    depth INTEGER NOT NULL,
    trace ANY,
    skill TEXT,
    peer TEXT,
    task ANY,
    opened INTEGER NOT NULL,
    held_micro_usd INTEGER NOT NULL,
    held_tokens INTEGER NOT NULL,
    held_tasks INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    settled INTEGER,
    micro_usd INTEGER,
    tokens INTEGER,
    tasks INTEGER,
    source INTEGER,
    state INTEGER
, payer INTEGER, limits TEXT, overrun TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE spend (
    span INTEGER NOT NULL,
    at INTEGER NOT NULL,
    party INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    calls INTEGER NOT NULL, overrun_micro_usd INTEGER NOT NULL DEFAULT 0, overrun_tokens INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (span, at, party)
) STRICT, WITHOUT ROWID;
CREATE TABLE reserved (
    scope INTEGER NOT NULL,
    id TEXT NOT NULL,
    sum INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO secrets VALUES('contexts',X'f583cc9a7fa5b966fdce445869381eed49e556df7e47bde4f3b0deb6cc83c1d4');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence VALUES('scopes',2);
CREATE UNIQUE INDEX tasks_by_id ON tasks (scope, id);
CREATE INDEX tasks_by_state ON tasks (scope, state, millis, id);
CREATE INDEX tasks_by_context ON tasks (scope, context, state, millis, id) WHERE context IS NOT NULL;
CREATE INDEX tasks_with_events ON tasks (ended) WHERE ended IS NOT NULL AND number IS NULL;
CREATE UNIQUE INDEX admissions_by_key ON admissions (scope, key);
CREATE UNIQUE INDEX pushes_by_task ON pushes (task, id);
CREATE INDEX pushes_by_due ON pushes (due, push) WHERE due IS NOT NULL;
CREATE INDEX tasks_at_work ON tasks (scope, id) WHERE state IN (1, 2);
CREATE INDEX edges_by_root ON edges (root) WHERE root IS NOT NULL;
CREATE INDEX edges_open ON edges (hop) WHERE settled IS NULL;
CREATE INDEX tasks_by_end ON tasks (ended) WHERE ended > 0;
COMMIT;
