"""The cells of keys are counted alike in one compiled pass and seed by seed."""

from __future__ import annotations

import numpy as np
import pytest

from keyveil import Plan, Schema
from keyveil.estimate.pools.named_keys import named_cells


@pytest.mark.parametrize("cells", [2, 3, 5, 8, 9, 36, 1000])
@pytest.mark.parametrize("keys", [1, 16, 600])
def test_the_compiled_pass_counts_what_the_plain_form_counts(cells, keys, monkeypatch):
    plan = Plan.of(Schema.of(keys), "collision", 1, cap=1, cells=cells, pool=64)
    draw = np.random.default_rng(cells)
    rows = draw.integers(0, 1 << 20, (3, plan.layout.cells))
    rows[:, 0] = rows[:, 1:].sum(axis=1)
    for tallies in (rows, rows[:1], rows[:0]):
        results = []
        for setting in ("0", "1"):
            monkeypatch.setenv("KEYVEIL_FAST", setting)
            results.append(named_cells(plan.channels[0], keys, tallies))
        for plain, fast in zip(*results, strict=True):
            assert np.array_equal(plain, fast) or not len(tallies)


def test_more_reports_than_a_word_holds_are_counted_plainly(monkeypatch):
    monkeypatch.setenv("KEYVEIL_FAST", "1")
    plan = Plan.of(Schema.of(4), "collision", 1, cap=1, cells=3, pool=16)
    row = np.full((1, plan.layout.cells), 1 << 33)
    named, _, _ = named_cells(plan.channels[0], 4, row)
    assert (named == float(16 << 33)).all()
