-- A task that begins and ends in one batch has 0 for `ended`: it ended at `millis`. Such tasks end in the order of their numbers,
-- so that no index need have them. ADR 0009 says more.
DROP INDEX tasks_by_end;
CREATE INDEX tasks_by_end ON tasks (ended) WHERE ended > 0;
