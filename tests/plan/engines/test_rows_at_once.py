"""No Python runs per row: twice the people take the same calls, in every task on rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from engine_cases import COINS, mechanism_plan, rows_for, table

from keyveil import REGISTRY
from keyveil.foundation.compiled import compiled
from keyveil.people.tables.frames import Columns
from keyveil.plan.engines.shipped_plan import ship
from keyveil.plan.engines.spark_frames import CountRows, PrivatiseRows

FEW, MANY = 500, 1_000
"""Numbers of people that loops take at once, whoever makes their words; and enough for every step."""
BEGINNING = 10
"""Maximum number of calls by which a form for many people begins; there are 500 people more."""
COLUMNS = Columns("person", "key", "value")


def calls(work: Callable[[], object]) -> int:
    """The number of calls that Python makes. Loops are compiled, and caches filled, before."""
    work()
    seen = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal seen
        seen += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def tasks(name: str, people: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a task of Spark does of these people, and of their reports."""
    plan = mechanism_plan(name)
    rows = rows_for(plan, table(FEW)).sort_by("person")
    copies = [
        rows.set_column(0, "person", pa.array(np.asarray(rows["person"]) + place * FEW))
        for place in range(people // FEW)
    ]
    (batch,) = pa.concat_tables(copies).combine_chunks().to_batches()
    privatise, count = PrivatiseRows(ship(plan), COINS, COLUMNS), CountRows(ship(plan), True)
    reports = list(privatise([batch]))
    yield "privatise", lambda: list(privatise([batch]))
    yield "tally", lambda: list(count(reports))


@pytest.mark.parametrize("in_loops", [True, False])
@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_more_people_take_no_more_calls(name, in_loops, monkeypatch):
    """Also where a processor lacks the instructions for words, and OpenSSL makes them."""
    loops = compiled()
    assert loops is not None
    monkeypatch.setattr(loops, "FAST_AES", in_loops and loops.FAST_AES)
    few = {task: calls(work) for task, work in tasks(name, FEW)}
    more = {task: calls(work) - few[task] for task, work in tasks(name, MANY)}
    assert max(more.values()) < BEGINNING


def test_a_call_for_each_row_is_seen():
    """The broken twin: reports drawn one by one."""
    plan = mechanism_plan("kvue")
    few, many = (
        calls(lambda people=people: [plan.report({}, COINS, person) for person in range(people)])
        for people in (FEW, MANY)
    )
    assert many - few > MANY - FEW
