"""Running a collector: starting it, verifying its store, backups and restores."""
