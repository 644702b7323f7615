-- Tasks that begin and end in one batch may be in the daybook beside the file before they are here. Its lines are numbered from
-- 1 in each epoch: those up to this one are here. ADR 0039 says more.
INSERT INTO facts VALUES ('posted', 0);
