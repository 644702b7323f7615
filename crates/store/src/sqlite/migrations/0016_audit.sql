-- What was refused and what operators did, in order. `body` is canonical JSON (RFC 8785) that names the hash of the entry
-- before it; `hash` is the SHA-256 of `body`. `at` is when, in microseconds, as `body` says it.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- The last entry that retention has removed, and what the gateway signed about it.
CREATE TABLE audit_checkpoint (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    number INTEGER NOT NULL,
    hash BLOB NOT NULL,
    token TEXT NOT NULL
) STRICT;
