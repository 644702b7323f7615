-- The version of the protocol that a configuration was registered in: notifications are written in the same one.
ALTER TABLE pushes ADD COLUMN version TEXT NOT NULL DEFAULT '1.0';
