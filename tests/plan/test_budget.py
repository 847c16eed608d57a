"""Budget: one device answers one plan once, within a cap the person can read."""

from __future__ import annotations

import json
import multiprocessing
import stat
from decimal import Decimal
from pathlib import Path

import pytest

from keyveil import Budget, BudgetError, Coins, CoinsError, Ledger, Plan, RecordError, Schema, Tally
from keyveil.service.client.ledger import LedgerView

SCHEMA = Schema.of(["Fries", "Pepsi"], 1, 5)
PLAN = Plan.of(SCHEMA, "kvue", 1)


def test_asked_again_it_gives_the_same_report_also_when_the_record_changed(tmp_path):
    budget = Budget(tmp_path / "ledger", cap=3)
    first = budget.answer(PLAN, {"Fries": 1})
    assert budget.answer(PLAN, {"Pepsi": 5}) == first
    assert Budget(tmp_path / "ledger").answer(PLAN, {}) == first, "across restarts"
    assert first.id is not None
    assert len(first.id) == 32
    Tally(PLAN).add(first)


def test_a_function_is_called_for_the_record_after_all_checks(tmp_path, monkeypatch):
    records, called = [], []
    drawn = Plan.report_as_client
    monkeypatch.setattr(
        Plan,
        "report_as_client",
        lambda plan, record, *a: records.append(record) or drawn(plan, record, *a),
    )

    def record() -> dict[str, int]:
        called.append(1)
        return {"Fries": 1}

    async def later() -> dict[str, int]:
        return {"Fries": 1}

    for make in (Budget, Ledger):
        records.clear(), called.clear()
        budget = make(tmp_path / make.__name__ / "ledger", cap=PLAN.proven)
        with pytest.raises(BudgetError, match="but only"):
            budget.answer(Plan.of(SCHEMA, "kvue", 3), record)
        assert called == []
        with pytest.raises(RecordError, match="must be awaited; use AsyncClient"):
            budget.answer(PLAN, later)
        assert budget.spent == 0
        assert budget.answer(PLAN, record) == budget.answer(PLAN, record)
        assert (records, called) == ([{"Fries": 1}], [1])


def test_the_ledger_adds_up_proven_epsilons_to_a_hard_cap(tmp_path):
    budget = Budget(tmp_path / "ledger", cap="1.5")
    budget.answer(PLAN, {})
    assert budget.spent == PLAN.proven
    assert budget.left == Decimal("1.5") - PLAN.proven
    with pytest.raises(BudgetError, match=r"only 0\.5"):
        budget.answer(Plan.of(SCHEMA, "kvoh", 1), {})
    assert budget.spent == PLAN.proven, "a refusal costs nothing"
    half = Plan.of(SCHEMA, "kvoh", "0.5")
    budget.answer(half, {})
    assert [e["mechanism"] for e in budget.entries()] == ["kvue", "kvoh"]
    assert budget.left == Decimal("1.5") - PLAN.proven - half.proven
    spent = Budget(tmp_path / "spent", cap=PLAN.proven)
    spent.answer(PLAN, {})
    with pytest.raises(BudgetError, match=r"costs epsilon 0\.500, but nothing is left of the cap of 0"):
        spent.answer(half, {})
    with pytest.raises(BudgetError, match=r"chain cost epsilon 2\.000, but only 1\.500 is left of the"):
        Budget(tmp_path / "chain", cap="1.5").answer(Plan.of(SCHEMA, "privkvm", 2, rounds=2), {})


def test_the_file_is_private_and_never_half_written(tmp_path, monkeypatch):
    budget = Budget(tmp_path / "ledger", cap=3)
    assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o600
    before = (tmp_path / "ledger").read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("keyveil.foundation.files.os.fsync", fail)
    with pytest.raises(BudgetError, match=r"cannot write the ledger .*ledger: no space left on device$"):
        budget.answer(PLAN, {})
    assert (tmp_path / "ledger").read_bytes() == before, "what was not kept was not told"
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".ledger.")] == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "other"}'])
def test_a_broken_ledger_answers_nothing(tmp_path, content):
    """It is named, and no lock file appears next to a file that is no ledger."""
    (tmp_path / "ledger").write_bytes(content)
    for make in (Budget, Ledger, LedgerView):
        with pytest.raises(BudgetError, match=r"the ledger .*/ledger cannot be read"):
            make(tmp_path / "ledger")
    with pytest.raises(BudgetError, match=r"the ledger .*/ledger cannot be read"):
        Budget(tmp_path / "ledger", cap=1)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger"]


@pytest.mark.parametrize("make", [Budget, Ledger])
def test_where_no_ledger_can_be_one_line_says_so(tmp_path, make, monkeypatch):
    (tmp_path / "file").touch()
    wrong = {
        tmp_path: f"a .* is a file; {tmp_path} is a folder",
        Path("."): "is a file; . is a folder",
        tmp_path / "file" / "l.json": f"cannot write the ledger .*: {tmp_path}/file is a file, not a",
        Path("/proc/keyveil/l.json"): "cannot write the ledger /proc/keyveil/l.json: no such file",
    }
    for path, line in wrong.items():
        with pytest.raises(BudgetError, match=line):
            make(path, cap=1)
    before = make(tmp_path / "own" / "l.json", cap=1)
    monkeypatch.setattr("keyveil.foundation.files.os.open", refuse)
    for call in (lambda: make(tmp_path / "other.json", cap=1), lambda: before.answer(PLAN, {})):
        with pytest.raises(BudgetError, match=r"cannot write the .*\.json: permission denied$"):
            call()


def refuse(*_):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("make", [Budget, Ledger])
def test_an_error_of_the_records_own_function_stays_what_it_is(tmp_path, make):
    with pytest.raises(PermissionError):
        make(tmp_path / "ledger", cap=1).answer(PLAN, refuse)


@pytest.mark.parametrize("plan", ["plan.json", None, b"{}"])
@pytest.mark.parametrize("make", [Budget, Ledger])
def test_what_is_answered_is_a_plan(tmp_path, make, plan):
    with pytest.raises(BudgetError, match=r"^answer takes a Plan: Plan\.load\('plan\.json'\)$"):
        make(tmp_path / "ledger", cap=1).answer(plan, {})


@pytest.mark.parametrize("make", [Budget, Ledger])
def test_a_refusal_leaves_neither_folder_nor_lock_file(tmp_path, make):
    for path in (tmp_path / "ledger", tmp_path / "folder" / "ledger"):
        with pytest.raises(BudgetError, match="needs a cap"):
            make(path)
        with pytest.raises(BudgetError, match="above zero"):
            make(path, cap=-1)
    assert list(tmp_path.iterdir()) == []


def test_its_folder_is_made_for_its_owner_alone(tmp_path):
    path = tmp_path / "of" / "a person" / "ledger.json"
    Budget(path, cap=1).answer(PLAN, {})
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert Budget(path).spent == PLAN.proven


def test_a_cap_is_needed_once_and_stands(tmp_path):
    with pytest.raises(BudgetError, match="needs a cap"):
        Budget(tmp_path / "ledger")
    with pytest.raises(BudgetError, match="above zero"):
        Budget(tmp_path / "ledger", cap=0)
    Budget(tmp_path / "ledger", cap=2)
    Budget(tmp_path / "ledger", cap="2.0")
    with pytest.raises(
        BudgetError, match=r"ledger was made with a cap of 2, and the cap asked for now is 9; a cap is"
    ):
        Budget(tmp_path / "ledger", cap=9)


def test_a_device_refuses_stated_and_recorded_coins(tmp_path):
    budget = Budget(tmp_path / "ledger", cap=2)
    for coins in (Coins.stated(1), Coins.recorded([1] * 9)):
        with pytest.raises(CoinsError, match="secure coins only"):
            budget.answer(PLAN, {}, coins)


@pytest.mark.parametrize(
    "record",
    [
        *(None, 5, "Fries", {3: 4}, [1, 2, 3], {"Nothing": 3}, {"Fries": "much"}, {"Fries": None}),
        *({"Fries": float("nan")}, {"Fries": float("inf")}, {"Fries": 10**400}),
        [("Fries", 2), ("Fries", 3)],
    ],
)
def test_taking_part_never_depends_on_the_record(tmp_path, record):
    report = Budget(tmp_path / "ledger", cap=2).answer(PLAN, record)
    Tally(PLAN).add(report)


def test_the_record_is_not_in_the_ledger(tmp_path):
    Budget(tmp_path / "ledger", cap=2).answer(PLAN, {"Fries": 4.25})
    text = (tmp_path / "ledger").read_text()
    assert "Fries" not in text
    assert "4.25" not in text
    json.loads(text)


def _answer(path, queue):
    queue.put(Budget(path, cap=2).answer(PLAN, {"Fries": 2}).dumps())


def test_two_processes_at_once_give_one_report(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_answer, args=(tmp_path / "ledger", queue)) for _ in range(4)]
    for worker in workers:
        worker.start()
    results = {queue.get(timeout=60) for _ in workers}
    for worker in workers:
        worker.join()
    assert len(results) == 1


def test_a_chain_costs_the_sum_of_its_rounds(tmp_path):
    budget = Budget(tmp_path / "ledger", cap=1)
    plan = Plan.of(SCHEMA, "privkvm", 1, rounds=2)
    tally = Tally(plan).add(budget.answer(plan, {"Fries": 5}))
    after = plan.next(tally)
    budget.answer(after, {"Fries": 5})
    assert budget.spent == plan.proven + after.proven
    assert budget.spent <= 1
