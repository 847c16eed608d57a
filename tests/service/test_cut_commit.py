"""A connection to PostgreSQL that ends at any message of a transaction, above all around its commit.

Whatever the collector then says is true: what it acknowledged is stored, what it did not acknowledge may
be, and sent again it counts once.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import psycopg
import pytest
from desk import NOW, PLAN
from faults.cut_wire import LAST_WORDS, CutWire

from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.process.settings import Settings
from keyveil.service.collector.store import Parcel, StoreUnready, store_at
from keyveil.service.collector.store.postgres import PostgresStore
from keyveil.service.collector.store.postgres_connection import PostgresSession

EPOCH = int(NOW) // 86_400
STORED = (
    "select (select sum(reports) from segments), (select sum(reports) from heads), "
    "(select sum(reports) from log_order join segments on id = segment)"
)


@pytest.fixture
def wired(database):
    """A store behind a wire that can be cut, with a collection whose epoch has begun; one beside it."""
    wire = CutWire(database)
    store, beside = store_at(wire.address), store_at(database)
    store.settings = Settings(connect_seconds=60)  # how fast a busy machine connects is not tested here
    store.open()
    beside.open(serving=False)
    collection = admin.create(store, "menu", PLAN.dumps(), {}, NOW)

    def parcel(ids):
        rows = (np.arange(len(ids)) % 9).astype(PLAN.layout.code_type).tobytes()
        return Parcel(collection.id, collection.round.id, EPOCH, list(ids), rows)

    with psycopg.connect(database, autocommit=True) as line:

        def stored():
            """The number of reports in the store: in its log, its heads and the order of its log."""
            ((logged, counted, ordered),) = line.execute(STORED).fetchall()
            assert logged == counted == ordered
            return int(logged)

        for _ in range(8):  # the first makes the key; the driver prepares what is asked often
            store.append([parcel([os.urandom(16) for _ in range(5)])], NOW)
        yield SimpleNamespace(wire=wire, store=store, beside=beside, parcel=parcel, stored=stored)
    store.close()
    beside.close()
    wire.close()


def cut_everywhere(wired, words, careful=False, last=None):
    """Cut at each message in turn, or at the last ones; those whose loss left reports unacknowledged."""
    store, total, unsaid, cut = wired.store, wired.stored(), [], True
    wired.wire.cut_at(10_000)
    store.append([wired.parcel([os.urandom(16)])], NOW)
    number, total = len(wired.wire.seen) - last if last else 0, total + 1
    while cut:
        parcel = wired.parcel([os.urandom(16) for _ in range(5)])
        store._careful = 8 if careful else 0
        wired.wire.cut_at(number, words)
        try:
            store.append([parcel], NOW)
            acknowledged = True
        except StoreUnready:
            acknowledged = False
        cut = wired.wire.was_cut()
        assert acknowledged or cut
        increase = wired.stored() - total
        assert increase in ((5,) if acknowledged else (0, 5)), (
            f"{wired.wire.seen[-1]}, the message {number}"
        )
        if increase and not acknowledged:
            unsaid.append(wired.wire.seen[-1])
        store.append([parcel], NOW)  # the client sends it again
        total += 5
        assert wired.stored() == total, "what was sent again counts twice"
        number += 1
    (verdict,) = verify(wired.beside, wired.beside.segments_folder)
    assert (verdict.findings, verdict.reports) == ([], total)
    return number, unsaid


@pytest.mark.parametrize(
    ("words", "careful"), [*((words, False) for words in LAST_WORDS), ("nothing", True)]
)
def test_what_is_acknowledged_is_stored_wherever_the_connection_ends(wired, words, careful):
    wanted, unsaid = {"BC", "BZ"}, set()
    for _ in range(5):  # both sides write at once, so a turn may pass over one of the two messages
        cuts, lost = cut_everywhere(wired, LAST_WORDS[words], careful)
        assert cuts > 25
        unsaid |= set(lost)
        if wanted <= unsaid:
            break
    assert wanted <= unsaid, "the commit was done, and its answer did not come"


def test_a_commit_that_is_taken_for_done_would_be_found(wired, monkeypatch):
    """The broken twin: a connection that ends with the commit counts as an answer."""
    real = PostgresSession.commit

    def commit(self):
        try:
            real(self)
        except Exception:
            self.close()

    monkeypatch.setattr(PostgresSession, "commit", commit)
    with pytest.raises(AssertionError, match=r"the message \d+"):
        cut_everywhere(wired, b"", last=20)


def test_a_report_whose_id_is_not_looked_up_would_be_found(wired, monkeypatch):
    """The broken twin: what was sent before, with an unknown outcome, counts as new."""

    def look_up_others(self, session, round_, epoch, ids, sure=True):
        return real(self, session, round_, epoch, [os.urandom(16) for _ in ids], sure)

    real = PostgresStore._known
    monkeypatch.setattr(PostgresStore, "_known", look_up_others)
    with pytest.raises(AssertionError, match="counts twice"):
        cut_everywhere(wired, b"", careful=True, last=20)
