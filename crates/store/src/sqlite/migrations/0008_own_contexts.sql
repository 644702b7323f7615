-- A task that has opened its own context does not say so: either id gives the other, and `context` is NULL. One without any
-- context has an empty one.
UPDATE tasks SET context = '' WHERE context IS NULL;
