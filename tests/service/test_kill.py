"""``kill -9`` of real collectors under load, at random moments: nothing acknowledged is lost, nothing
counts twice, and the counts are the fold of the segments; while epochs are closed and sealed."""

from __future__ import annotations

import pytest
from desk import PLAN
from faults import LONG
from faults.kill import kill_and_count

from keyveil.service.collector.engine import admin
from keyveil.service.collector.store import store_at

KILLS = 1000 if LONG else 12
"""Four times as many as those in which the broken twins are seen."""
KILLS_OF_SEVERAL = 100 if LONG else 4
SEED, SEED_OF_SEVERAL = 4, 5
"""So that a collector is killed once more while it starts, in either."""


def prepared(address):
    store = store_at(address)
    store.open()
    admin.create(store, "menu", PLAN.dumps(), {}, 0.0)
    admin.create(store, "quick", PLAN.dumps(), {"epoch": 1, "grace": 1, "early": 1}, 0.0)
    store.close()
    return store_at(address)


def kept(figures, record_property):
    for name, value in figures.items():
        record_property(name, value)
    print(figures)


def test_a_collector_that_is_killed_loses_nothing_and_doubles_nothing(tmp_path, record_property):
    address = str(tmp_path / "store.sqlite")
    wrong, figures = kill_and_count(prepared(address), address, tmp_path, KILLS, 1, SEED)
    kept(figures, record_property)
    assert wrong == []
    assert figures["acknowledged"] > 40 * KILLS


def test_nor_do_two_on_one_database(database, tmp_path, record_property):
    wrong, figures = kill_and_count(
        prepared(database), database, tmp_path, KILLS_OF_SEVERAL, 2, SEED_OF_SEVERAL
    )
    kept(figures, record_property)
    assert wrong == []
    assert figures["acknowledged"] > 40 * KILLS_OF_SEVERAL


@pytest.mark.parametrize("twin", ["forgetful", "stale"])
def test_one_that_forgets_ids_is_caught(tmp_path, twin):
    """The broken twins: all ids of before a restart, or only the last of them.

    Whether one of the last is sent again after a kill is chance, so there are as many rounds of three
    kills as it takes, and at most twenty.
    """
    wrong: list[str] = []
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        address = str(folder / "store.sqlite")
        wrong += kill_and_count(prepared(address), address, folder, 3, 1, 3 + attempt, twin)[0]
        if any("counted twice" in text for text in wrong):
            break
    assert any("counted twice" in text for text in wrong)
    assert any("reports twice" in text for text in wrong)
    assert not any("lost" in text for text in wrong)
