"""Shared by all tests: counts that grow under ``make test-long``."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

LONG = os.environ.get("KEYVEIL_LONG") == "1"

settings.register_profile("short", max_examples=60, deadline=None, derandomize=True)
settings.register_profile(
    "long", max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("long" if LONG else "short")


@pytest.fixture(scope="session")
def scale() -> int:
    """How many times the usual count a sampled check may draw."""
    return 20 if LONG else 1
