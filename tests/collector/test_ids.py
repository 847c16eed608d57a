"""The set of ids: exact, whatever comes in whatever order."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.collector import ids as module
from keyveil.collector.ids import IdSet, split

small = st.integers(0, 40).map(lambda n: n.to_bytes(16, "big"))
twins = st.tuples(st.integers(0, 2), st.integers(0, 3)).map(
    lambda p: p[0].to_bytes(8, "big") + p[1].to_bytes(8, "big")
)


@pytest.fixture
def tiny_runs(monkeypatch):
    monkeypatch.setattr(module, "RECENT", 3)


@given(st.lists(st.lists(st.one_of(small, twins), max_size=8), max_size=12))
def test_it_is_a_set(batches):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RECENT", 3)
        found, truth = IdSet(), set()
        for batch in batches:
            once = list(dict.fromkeys(batch))
            assert found.known(once) == {i for i, one in enumerate(once) if one in truth}
            new = [one for one in once if one not in truth]
            found.add(new)
            truth.update(new)
            assert len(found) == len(truth)


def test_it_is_rebuilt_from_packed_ids():
    names = [os.urandom(16) for _ in range(5000)]
    found = IdSet(b"".join(names))
    assert found.known(names) == set(range(5000))
    assert not found.known([os.urandom(16) for _ in range(5000)])
    assert split(b"".join(names)) == names


def test_ids_that_share_their_first_half_are_told_apart():
    half = os.urandom(8)
    names = [half + n.to_bytes(8, "big") for n in range(3000)]
    found = IdSet(b"".join(names[::2]))
    assert found.known(names) == set(range(0, 3000, 2))


def test_few_runs_are_searched_however_many_ids_there_are(monkeypatch):
    monkeypatch.setattr(module, "RECENT", 64)
    found = IdSet()
    for _ in range(400):
        found.add([os.urandom(16) for _ in range(64)])
    assert len(found) == 400 * 64
    assert len(found._runs) <= 8
    assert sum(run.high.nbytes + run.low.nbytes for run in found._runs) == 16 * len(found)
