"""Running a collector: starting, sealing epochs, backups, verification, tokens, logs, metrics."""
