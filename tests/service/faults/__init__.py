"""The fault harness: a disk that forgets, a process that is killed, sequences with an oracle."""

from __future__ import annotations

import os

LONG = os.environ.get("KEYVEIL_LONG") == "1"
"""Whether the counts are those of ``make test-long``."""
