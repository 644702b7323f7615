-- The record of admitted calls, and what they cost added up. ADR 0024 says why it looks so.

-- A realm, a caller and an agent as one small number. Numbers are never used again. A caller whose data has been
-- deleted has no name here any more; the edges of such a party are to be removed, and shown to nobody.
CREATE TABLE parties (
    party INTEGER PRIMARY KEY AUTOINCREMENT,
    realm TEXT NOT NULL,
    caller TEXT,
    agent TEXT NOT NULL,
    UNIQUE (realm, caller, agent)
) STRICT;

-- One row for each admitted call. Ids are 16 bytes, also those of trace and task if they are 128 bits written in hex;
-- `root` is left out where it is the call itself. `opened` is in microseconds from the millisecond in `hop`, `settled` in
-- microseconds from `opened`. Counts are the 64 bits that they are, so one above 2^63 looks negative. `settled` and what
-- follows are there once it is settled. `sum` is the CRC-32 of all of it, with the names of the party.
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
) STRICT, WITHOUT ROWID;
CREATE INDEX edges_by_root ON edges (root) WHERE root IS NOT NULL;
CREATE INDEX edges_open ON edges (hop) WHERE settled IS NULL;

-- What was charged to a party in the span of `span` seconds that begins at second `at`, and for how many edges.
CREATE TABLE spend (
    span INTEGER NOT NULL,
    at INTEGER NOT NULL,
    party INTEGER NOT NULL,
    micro_usd INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    PRIMARY KEY (span, at, party)
) STRICT, WITHOUT ROWID;

-- Of the edges that `spend` counts, those that have been removed: the rest are there.
INSERT INTO facts VALUES ('edges_removed', 0);
