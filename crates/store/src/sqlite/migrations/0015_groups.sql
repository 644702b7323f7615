-- A party also says which groups it belongs to, as a JSON array: what it is charged, they are charged.
CREATE TABLE parties_with_groups (
    party INTEGER PRIMARY KEY AUTOINCREMENT,
    realm TEXT NOT NULL,
    caller TEXT,
    agent TEXT NOT NULL,
    member_of TEXT NOT NULL,
    UNIQUE (realm, caller, agent, member_of)
) STRICT;
INSERT INTO parties_with_groups SELECT party, realm, caller, agent, '[]' FROM parties;
-- Numbers are never used again, so counting goes on where it was.
DELETE FROM sqlite_sequence WHERE name = 'parties_with_groups';
INSERT INTO sqlite_sequence SELECT 'parties_with_groups', seq FROM sqlite_sequence WHERE name = 'parties';
DROP TABLE parties;
ALTER TABLE parties_with_groups RENAME TO parties;
