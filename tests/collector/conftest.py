"""Stores of either kind for the collector's tests, and a PostgreSQL of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from desk import Desk, Postgres, postgres_binaries

from keyveil.collector.store import store_at


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    return str(request.getfixturevalue("database"))


@pytest.fixture
def desk(address: str, tmp_path: Path) -> Iterator[Desk]:
    """A collector on either store."""
    made = Desk(address, tmp_path)
    yield made
    made.close()


@pytest.fixture
def file_desk(tmp_path: Path) -> Iterator[Desk]:
    """A collector on a SQLite file, where the kind of store does not matter."""
    made = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL; without one on the machine the tests that need it are skipped, unless
    KEYVEIL_POSTGRES=required (as ``make test`` has it)."""
    binaries = postgres_binaries()
    if binaries is None:
        if os.environ.get("KEYVEIL_POSTGRES") == "required":
            pytest.fail("PostgreSQL is needed: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed")
    server = Postgres(binaries)
    yield server
    server.stop()


@pytest.fixture
def database(postgres: Postgres) -> str:
    """A new database with all tables."""
    address = postgres.database()
    store = store_at(address)
    store.migrate_alone()
    store.close()
    return address
