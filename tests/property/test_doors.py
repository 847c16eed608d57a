"""Every door to a tally: what one takes all take, and what one refuses all refuse for the same reason.

A report can arrive as cells (one report, a line of JSON, a JSON request, an audited message) or as a
packed row (a batch, a file, a binary request, a segment). The reference here is written out by hand
from the channels' rules and does not use ``Packing``.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, Report, ReportError, Reports, Schema, Tally
from keyveil.channel import Table
from keyveil.foundation.arrays import WORD
from keyveil.people.population import Population
from keyveil.people.views import Views
from keyveil.plan.packing import IMPOSSIBLE, Packing
from keyveil.plan.report_file import ReportWriter, parse, reading
from keyveil.service.collector.http import batches
from keyveil.service.collector.store.segments import write_epoch
from keyveil.simulate.tallies import simulate
from keyveil.trust.messages import read_message

QUARTER = WORD // 4
SILENT = Table(((2 * QUARTER, 0, 2 * QUARTER), (QUARTER, 0, 3 * QUARTER), (3 * QUARTER, 0, QUARTER)))
"""A channel whose second output no state sends."""
PLANS = {
    name: Plan.of(Schema.of(keys, 1, 5), name, 1)
    for name, keys in {
        "kvue": 5, "kvoh": 5, "ioh": 8, "harmony": 20, "collision": 6, "shist": 4, "pckv_ue": 20,
        "pairs": 4,
    }.items()
}  # fmt: skip
PLANS["subset"] = Plan.of(Schema.of(40), "sized", "0.2")
PLANS["several"] = Plan.of(Schema.of(4), "several", 1)
PLANS["silent"] = Plan(Schema.of(["a", "b"]), Views.singles(2), "views", (SILENT,), Decimal(2), "kvue")
EVERY = list(PLANS.values())


# -- the reference ---------------------------------------------------------------------------------


def own_cell(plan: Plan, view: int) -> int:
    return sum(1 + channel.cells for channel in plan.view_channels[:view])


def honest(plan: Plan, cells: list[int]) -> bool:
    """Whether a device could mark these cells, by the law of the channel that owns the first."""
    for view, channel in enumerate(plan.view_channels):
        own = own_cell(plan, view)
        if cells[:1] != [own]:
            continue
        marks = [cell - own - 1 for cell in cells[1:]]
        if any(not 0 <= mark < channel.cells for mark in marks) or len(set(marks)) < len(marks):
            return False
        if channel.one_cell:
            return len(marks) == 1 and bool(channel.possible[marks[0]])
        if channel.shape == "subset":
            return len(marks) == channel.size
        if channel.shape == "symbols":
            positions = [mark // (channel.alphabet - 1) for mark in marks]
            return len(set(positions)) == len(positions)
        return True
    return False


def row_of(plan: Plan, cells: list[int]) -> bytes | None:
    """The packed row that says the same as the cells; None if no row can say it."""
    owns = [own_cell(plan, view) for view in range(len(plan.views))]
    if not cells or cells[0] not in owns or len(set(cells)) < len(cells):
        return None
    view, marks = owns.index(cells[0]), [cell - cells[0] - 1 for cell in cells[1:]]
    if plan.view_channels[0].one_cell:
        outputs = sum(channel.cells for channel in plan.view_channels)
        width = 1 if outputs <= 1 << 8 else 2
        code = cells[-1] - view - 1
        right = len(marks) == 1 and 0 <= marks[0] < plan.view_channels[view].cells
        return code.to_bytes(width, "little") if right else None
    width = -(-max(channel.cells for channel in plan.view_channels) // 8)
    if any(not 0 <= mark < 8 * width for mark in marks):
        return None
    bits = sum(1 << mark for mark in marks)
    return view.to_bytes(4, "little") + bits.to_bytes(width, "little")


def cells_of(plan: Plan, row: bytes) -> list[int]:
    """The cells that a row says; cells that the plan does not have if its code or view is too large."""
    cells = sum(1 + channel.cells for channel in plan.view_channels)
    if plan.view_channels[0].one_cell:
        code = int.from_bytes(row, "little")
        for view, channel in enumerate(plan.view_channels):
            if code < channel.cells:
                return [own_cell(plan, view), own_cell(plan, view) + 1 + code]
            code -= channel.cells
        return [own_cell(plan, view), cells + code]
    view, bits = int.from_bytes(row[:4], "little"), int.from_bytes(row[4:], "little")
    own = own_cell(plan, view) if view < len(plan.views) else cells + view
    return [own, *(own + 1 + mark for mark in range(8 * len(row[4:])) if bits >> mark & 1)]


# -- the doors -------------------------------------------------------------------------------------


def by_report(plan, cells, folder):
    return Tally(plan).add(Report(plan.hash, tuple(cells)))


def by_lines(plan, cells, folder):
    (folder / "r.jsonl").write_text(Report(plan.hash, tuple(cells)).dumps() + "\n")
    tally = Tally(plan)
    for batch in reading(plan, folder / "r.jsonl"):
        tally.add(batch)
    return tally


def by_message(plan, cells, folder):
    return by_report(plan, read_message(plan, Report(plan.hash, tuple(cells)).dumps()).cells, folder)


def by_json_request(plan, cells, folder):
    body = {"plan": plan.hash, "epoch": 1, "reports": [{"id": "0" * 32, "cells": cells}]}
    return logged(plan, batches.decode_json(json.dumps(body).encode(), 10))


def by_binary_request(plan, row, folder):
    return logged(plan, batches.decode_binary(batches.encode_binary(plan.hash, 1, bytes(16), row), 10))


def logged(plan, batch):
    """The counts of what the collector's log takes; ``impossible`` is the wire's name of the reason."""
    packed = batches.pack(batch, plan.packing)
    if packed.impossible:
        raise ReportError(IMPOSSIBLE)
    cells, often = plan.packing.marks(plan.packing.rows(packed.rows))
    counts = np.zeros(plan.layout.cells, np.int64)
    counts[cells] = often
    return Tally(plan, counts)


def batch_of_row(plan, row, kind=np.int64):
    if plan.view_channels[0].one_cell:
        return Reports(plan.hash, codes=np.array([int.from_bytes(row, "little")], kind))
    bits = np.frombuffer(row[4:], np.uint8).reshape(1, -1)
    return Reports(plan.hash, views=np.array([int.from_bytes(row[:4], "little")]), bits=bits)


def by_batch(plan, row, folder):
    return Tally(plan).add(batch_of_row(plan, row))


def by_unsigned_batch(plan, row, folder):
    return Tally(plan).add(batch_of_row(plan, row, np.uint16))


def by_file(plan, row, folder):
    file = io.BytesIO()
    writer = ReportWriter(plan, file)
    writer.add(batch_of_row(plan, row))
    writer.close()
    (batch,) = parse(plan, file.getvalue())
    return Tally(plan).add(batch)


def by_segment(plan, row, folder):
    return write_epoch(folder / "epoch", {}, plan, [row])[1]


def by_cells_of_a_batch(plan, row, folder):
    (cells,) = plan.packing.cells_of(batch_of_row(plan, row))
    return by_report(plan, cells, folder)


CELL_DOORS = (by_report, by_lines, by_json_request)
ROW_DOORS = (by_batch, by_unsigned_batch, by_file, by_binary_request, by_segment, by_cells_of_a_batch)


def outcome(door, plan, form, folder):
    """The marked cells, or the reason of the refusal."""
    try:
        return np.flatnonzero(door(plan, form, folder).counts).tolist()
    except ReportError as error:
        return str(error).rpartition(": ")[2]  # files say their name and the line first


def check_doors(plan, cells, folder):
    """Send the cells through every door that can carry them."""
    row = row_of(plan, cells)
    doors = [(door, cells) for door in CELL_DOORS if cells or door is by_report]
    if cells == sorted(set(cells)) and cells:  # a message may show its cells in no other order
        doors.append((by_message, cells))
    if row is not None:
        doors += [(door, row) for door in ROW_DOORS]
    expected = sorted(cells) if honest(plan, cells) else IMPOSSIBLE
    for door, form in doors:
        assert outcome(door, plan, form, folder) == expected, door.__name__


def check_rows(plan, row, folder):
    cells = cells_of(plan, row)
    check_doors(plan, cells, folder)
    expected = cells if honest(plan, cells) else IMPOSSIBLE
    for door in ROW_DOORS:
        assert outcome(door, plan, row, folder) == expected, door.__name__


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("doors")


# -- the checks ------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_any_cells_are_taken_or_refused_by_all_doors(folder, data):
    plan = data.draw(st.sampled_from(EVERY))
    cells = data.draw(st.lists(st.integers(0, min(60, plan.layout.cells + 2)), max_size=6))
    if data.draw(st.booleans()):
        own = own_cell(plan, data.draw(st.integers(0, len(plan.views) - 1)))
        cells = [own, *(own + 1 + cell for cell in sorted(cells))]
    check_doors(plan, cells, folder)


@settings(max_examples=60)
@given(st.data())
def test_any_row_is_taken_or_refused_by_all_doors(folder, data):
    plan = data.draw(st.sampled_from(EVERY))
    width = plan.packing.width
    row = bytearray(data.draw(st.binary(min_size=width, max_size=width)))
    if width > 4 and data.draw(st.booleans()):
        row[:4] = bytes(4)
    check_rows(plan, bytes(row), folder)


@pytest.mark.sampled
@pytest.mark.parametrize("name", PLANS)
def test_what_devices_and_simulations_send_passes_all_doors(folder, name):
    plan, coins = PLANS[name], Coins.stated("doors")
    records = [dict.fromkeys(plan.schema.keys[:held], 1) for held in (0, 1, 2)]
    people = People.of_records(plan.schema, records)
    batch = plan.packing.cells_of(plan.privatise(people, coins))
    for person, record in enumerate(records):
        report = plan.report(record, coins, person)
        assert honest(plan, list(report.cells))
        assert report.cells == batch[person]
        check_doors(plan, list(report.cells), folder)
    tally = simulate(plan, Population(plan.schema, people), 1, coins)
    check_doors(plan, np.flatnonzero(tally.counts).tolist(), folder)


@pytest.mark.parametrize("code", [-1, 15, 256, 1 << 40])
def test_codes_that_would_wrap_are_refused(code):
    """A plan of 15 codes writes one byte for each; 256 must not become 0."""
    plan = PLANS["kvue"]
    batch = Reports(plan.hash, codes=np.array([3, code]))
    writer = ReportWriter(plan, io.BytesIO())
    for door in (Tally(plan).add, writer.add, plan.packing.packed, plan.packing.cells_of):
        with pytest.raises(ReportError, match=IMPOSSIBLE):
            door(batch)


BROKEN = {
    "cells are not looked at": ("kvue", "_code", lambda self, cells: bytes([cells[-1] % 15])),
    "outputs of no weight pass": (
        "silent",
        "_filled_tables",
        lambda self: ({0: 0, 4: 1}, [3, 3], b"\1" * 6),
    ),
    "any bits pass": ("pckv_ue", "admits", lambda self, cells: bool(cells) and cells[0] == 0),
    "any row passes": ("silent", "admitted", lambda self, rows: np.ones(len(rows), bool)),
    "a batch is counted blindly": (
        "pckv_ue",
        "count",
        lambda self, batch, counts: np.add.at(counts, [0, *np.flatnonzero(batch.bits) + 1], 1),
    ),
    "codes wrap": ("kvue", "narrow_codes", lambda self, batch: batch.codes.astype(np.uint8) % 15),
}


@pytest.mark.parametrize("twin", BROKEN)
def test_a_door_with_a_rule_of_its_own_is_found(folder, twin, monkeypatch):
    name, method, broken = BROKEN[twin]
    plan = replace(PLANS[name])  # without the packing that was used before
    monkeypatch.setattr(Packing, method, broken)
    tried = [[0, cell] for cell in range(1, 5)] + [[0, 1, 2], [1, 2], [0, 20], [99], [0, 2, 3, 4]]
    width = plan.packing.width
    rows = [
        bytes(4 * (width > 4)) + bytes([byte]) * (width - 4 * (width > 4)) for byte in (0, 1, 3, 255)
    ]

    def every() -> None:
        for cells in tried:
            check_doors(plan, cells, folder)
        for row in rows:
            check_rows(plan, row, folder)

    with pytest.raises(AssertionError):
        every()
