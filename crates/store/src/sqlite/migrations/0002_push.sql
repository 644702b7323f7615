-- Push notification configurations and their cursors, and what a restart needs to know.

-- `due`, in microseconds, is there while the cursor is behind the task. What is pending of a task that has ended
-- keeps `tasks.ended` empty, so that nothing of it is compacted or forgotten.
CREATE TABLE pushes (
    push INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL,
    id TEXT NOT NULL,
    config BLOB NOT NULL,
    cursor INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER
) STRICT;
CREATE UNIQUE INDEX pushes_by_task ON pushes (task, id);
CREATE INDEX pushes_by_due ON pushes (due, push) WHERE due IS NOT NULL;

-- The tasks that somebody is at work on: SUBMITTED and WORKING.
CREATE INDEX tasks_at_work ON tasks (scope, id) WHERE state IN (1, 2);

-- About the newest time that the clock has given, in microseconds.
INSERT INTO facts VALUES ('clock', 0);
