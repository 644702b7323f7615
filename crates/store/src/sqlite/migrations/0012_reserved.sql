-- Admitted calls whose agent has shown nothing yet: no task to anybody. `sum` is the CRC-32 of `json`.
CREATE TABLE reserved (
    scope INTEGER NOT NULL,
    id TEXT NOT NULL,
    sum INTEGER NOT NULL,
    json TEXT NOT NULL,
    PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;

-- What a key answers that no task came of.
ALTER TABLE admissions ADD COLUMN answer TEXT;

-- Random bytes that stay with the store.
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO secrets VALUES ('contexts', randomblob(32));
