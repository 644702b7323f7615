-- What the agent of a call reported above what its call could pay for, as JSON, where there is any.
ALTER TABLE edges ADD COLUMN overrun TEXT;

-- The same added up.
ALTER TABLE spend ADD COLUMN overrun_micro_usd INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spend ADD COLUMN overrun_tokens INTEGER NOT NULL DEFAULT 0;
