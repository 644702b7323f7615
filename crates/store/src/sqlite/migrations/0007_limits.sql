-- What a call may use up besides what its budgets allow, as JSON, where anybody has limited that: a process that goes on with
-- the call has to know. Of a settled call only what its own caller had said, since calls below it may still be open.
ALTER TABLE edges ADD COLUMN limits TEXT;
