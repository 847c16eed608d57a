"""Shared by all tests: counts that grow under ``make test-long``, and the collector's stores.

Fixtures of the collector import it when they are used: other tests do not need its packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine

if TYPE_CHECKING:
    from desk import Desk, Postgres
    from xdist.scheduler import LoadScopeScheduling

for library in ("OPENBLAS", "OMP", "MKL"):
    # Read when NumPy is imported, which nothing above does. The tests' matrices are small: threads of
    # the linear algebra wait for each other, at up to 20 times the processor time. Processes that tests
    # start inherit this.
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

COMPILE_HERE = "KEYVEIL_FAST" not in os.environ
"""Tests use compiled loops for few people, too, because they compare both forms.

Processes that tests start choose for themselves, as those of users do: Numba takes each half a second
to load.
"""
if COMPILE_HERE:
    os.environ["KEYVEIL_FAST"] = "1"

LONG = os.environ.get("KEYVEIL_LONG") == "1"

engine.MAX_SHRINKING_SECONDS = 300 if LONG else 30  # a failing sequence of operations would take them
WITHOUT_EXPLANATION = tuple(phase for phase in Phase if phase is not Phase.explain)

settings.register_profile(
    "short", max_examples=60, deadline=None, derandomize=True, phases=WITHOUT_EXPLANATION
)
settings.register_profile(
    "long", max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("long" if LONG else "short")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """What ``COMPILE_HERE`` says is for this process: those that it starts do not inherit it."""
    if COMPILE_HERE:
        os.unsetenv("KEYVEIL_FAST")  # os.environ keeps it


@pytest.fixture(scope="session")
def scale() -> int:
    """How many times the usual count a sampled check may draw."""
    return 20 if LONG else 1


@pytest.fixture(scope="module")
def few_draws() -> Iterator[None]:
    """A few of the draws by which errors without a closed form are predicted, of keys and of queries.

    For tests of what is said and done with a prediction. That predictions are right, and choices the
    best, is checked with all draws in ``tests/estimate`` and ``tests/planner``.
    """
    from keyveil.estimate.forecast import by_draws, query_draws

    with pytest.MonkeyPatch.context() as patch:
        for module in (by_draws, query_draws):
            patch.setattr(module, "MOST", 32)
        patch.setattr(query_draws, "FINE", 1)
        patch.setattr(query_draws, "FINE_WORK", 1)
        yield


# -- which worker runs a test ----------------------------------------------------------------------

APART = ("tests/e2e/test_docs.py",)
"""Files whose tests are long and share nothing."""
SPARK = "tests/plan/engines/test_spark"
"""Files whose tests share one cluster and one application."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """The tests of a file run on one worker, so that what they share is set up and computed once.

    xdist's groups do not do that: with pytest 9.2 its mark has no effect.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(APART):
                return nodeid
            return SPARK if nodeid.startswith(SPARK) else nodeid.partition("::")[0]

    return ByFile(config, log)


# -- the collector's stores ------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    return str(request.getfixturevalue("database"))


@pytest.fixture
def desk(address: str, tmp_path: Path) -> Iterator[Desk]:
    """A collector on either store."""
    from desk import Desk

    collector = Desk(address, tmp_path)
    yield collector
    collector.close()


@pytest.fixture
def file_desk(tmp_path: Path) -> Iterator[Desk]:
    """A collector on a SQLite file, where the kind of store does not matter."""
    from desk import Desk

    collector = Desk(str(tmp_path / "store.sqlite"), tmp_path)
    yield collector
    collector.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL; without one on the machine the tests that need it are skipped, unless
    KEYVEIL_POSTGRES=required (as ``make test`` has it)."""
    from desk import Postgres, postgres_binaries

    binaries = postgres_binaries()
    if binaries is None:
        if os.environ.get("KEYVEIL_POSTGRES") == "required":
            pytest.fail("PostgreSQL is needed: apt-get install postgresql")
        pytest.skip("PostgreSQL is not installed")
    server = Postgres(binaries)
    yield server
    server.stop()


@pytest.fixture
def database(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new database with all tables; its stores have the keys of ids in the test's own folder."""
    from keyveil.service.collector.store import store_at
    from keyveil.service.collector.store.postgres import PostgresStore

    monkeypatch.setattr(PostgresStore, "segments_folder", tmp_path / "segments")
    address = postgres.database()
    store = store_at(address)
    store.migrate_alone()
    store.close()
    return address
