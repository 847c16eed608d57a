"""Ways to make a device spend more than its cap: odd arithmetic, odd caps, planted files."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from decimal import (
    ROUND_FLOOR,
    ROUND_UP,
    Context,
    Decimal,
    Inexact,
    InvalidOperation,
    Overflow,
    Rounded,
    Underflow,
    localcontext,
)
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keyveil import Budget, BudgetError, Client, Coins, KeyveilError, Plan, Schema, Tally
from keyveil.foundation.exact import at_most, decimal, difference, log_up, most_lies, text, total
from keyveil.foundation.files import locked, open_lock
from keyveil.mechanisms import REGISTRY
from keyveil.people.prior import Prior
from keyveil.service.client import Ledger
from keyveil.service.collector.store.sqlite_files import lock_beside

SCHEMA = Schema.of(["Fries", "Pepsi"], 1, 5)
PLAN = Plan.of(SCHEMA, "kvue", 1)
LAST = Decimal("1e-18")
"""The last digit of a proven epsilon."""

CONTEXTS = {
    "one digit": Context(1, ROUND_FLOOR, -99, 99, 1, 0, [], [InvalidOperation]),
    "one digit up, no signals": Context(1, ROUND_UP, -99, 99, 1, 0, [], []),
    "every signal": Context(2, ROUND_UP, -1, 1, 1, 0, [], [Inexact, Rounded, Overflow, Underflow]),
}


@pytest.fixture(params=["budget", "ledger"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Budget]:
    """A budget of either kind, made or opened again."""
    kind = Budget if request.param == "budget" else Ledger
    return lambda cap=None: kind(tmp_path / "ledger.json", cap)


def with_chain(plan: Plan, **members: Any) -> Plan:
    """The plan with other members of its chain."""
    assert plan.chain is not None
    return replace(plan, chain={**plan.chain, **members})


# -- arithmetic --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_cap_holds_in_any_decimal_context_of_the_caller(opened, name):
    plans = [Plan.of(SCHEMA, kind, "0.4") for kind in ("kvue", "kvoh", "rr", "grr", "privkv")]
    with localcontext(CONTEXTS[name]):
        budget = opened("1")
        for plan in plans[:2]:
            budget.answer(plan, {"Fries": 1})
        for plan in plans[2:]:
            with pytest.raises(BudgetError, match="is left"):
                budget.answer(plan, {"Fries": 1})
        spent, left = budget.spent, budget.left
    assert spent == plans[0].proven + plans[1].proven <= 1
    assert spent + left == 1, "to the last digit"


@pytest.mark.parametrize("name", CONTEXTS)
def test_what_a_collection_costs_is_exact_in_any_context(tmp_path, name):
    first = Plan.of(SCHEMA, "privkvm", 1, rounds=3)
    ledger = Ledger(tmp_path / "ledger.json", 9)
    with localcontext(CONTEXTS[name]):
        tally = Tally(first).add(ledger.answer(first, {}, collection="x", allow=Decimal(1)))
        second = first.next(tally)
        ledger.answer(second, {}, collection="x", allow=Decimal(1))
        spent = ledger.spent_in("x")
    assert spent == first.proven + second.proven
    third = Plan.of(SCHEMA, "kvoh", 1)
    with localcontext(CONTEXTS[name]), pytest.raises(BudgetError, match="is allowed"):
        ledger.answer(third, {}, collection="y", allow=third.proven.next_minus(Context(40)))


@pytest.mark.parametrize("mechanism", REGISTRY)
def test_a_plan_is_the_same_in_any_context(mechanism):
    kind, schema = REGISTRY[mechanism], Schema.of(3, 1, 5)
    plan = Plan.of(schema, mechanism, "0.7", **kind.example(schema))
    for context in CONTEXTS.values():
        with localcontext(context):
            assert Plan.of(schema, mechanism, "0.7", **kind.example(schema)) == plan
            assert Plan.parse(plan.dumps()) == plan


@pytest.mark.parametrize("mechanism", ["privkvm", "privkvm_plus", "sized"])
def test_a_chain_is_the_same_in_any_context(mechanism):
    plan = Plan.of(Schema.of(3), mechanism, "0.7")
    tally = Tally(plan)
    for person in range(60):
        tally.add(plan.report({"1": 1}, Coins.stated("context"), person))
    after, true = plan.next(tally), plan.mechanism.true_epsilon(Decimal("0.7"))
    prior = Prior.of(3)
    error = after.mechanism.forecast(plan, 1000, prior).frequency
    for context in CONTEXTS.values():
        with localcontext(context):
            assert plan.next(tally) == after
            assert Plan.parse(after.dumps()) == after
            assert plan.mechanism.true_epsilon(Decimal("0.7")) == true
            assert (after.mechanism.forecast(plan, 1000, prior).frequency == error).all()


@pytest.mark.parametrize("name", CONTEXTS)
def test_exact_functions_know_no_context(name):
    def computed() -> list[object]:
        values = [Decimal("1.000000000000000001"), Decimal("1e-30"), Decimal("123456789")]
        return [
            *(total(values), difference(values[0], values[1]), text(values[0])),
            *(at_most(2**32, values[0]), most_lies(7, values[0]), log_up(3, 2)),
            *(decimal("0.123456789", "x"), decimal(0.1, "x")),
        ]

    usual = computed()
    with localcontext(CONTEXTS[name]):
        assert computed() == usual
    assert usual[0] == Decimal("123456790.000000000000000001000000000001")


# -- to the last digit -------------------------------------------------------------------------------


def test_a_cap_can_be_spent_to_its_last_digit_and_not_beyond(opened):
    other = Plan.of(SCHEMA, "kvoh", "0.5")
    third = Plan.of(SCHEMA, "rr", "0.001")
    budget = opened(PLAN.proven + other.proven)
    budget.answer(PLAN, {})
    budget.answer(other, {})
    assert (budget.spent, budget.left) == (budget.cap, 0)
    with pytest.raises(BudgetError, match="but nothing is left of the cap of 1"):
        budget.answer(third, {})
    assert budget.answer(PLAN, {}) == opened().answer(PLAN, {"Fries": 5}), "what stands still stands"


def test_one_digit_less_is_not_enough(opened):
    with pytest.raises(BudgetError, match="is left"):
        opened(PLAN.proven - LAST).answer(PLAN, {})
    assert opened().spent == 0


def test_what_is_allowed_can_be_spent_to_its_last_digit(tmp_path):
    ledger = Ledger(tmp_path / "ledger.json", 9)
    with pytest.raises(BudgetError, match="is allowed"):
        ledger.answer(PLAN, {}, collection="x", allow=PLAN.proven - LAST)
    ledger.answer(PLAN, {}, collection="x", allow=PLAN.proven)
    assert ledger.spent_in("x") == PLAN.proven


@pytest.mark.parametrize(("more", "answered"), [(Decimal(0), True), (-LAST, False)])
def test_the_total_of_a_chain_can_be_spent_to_its_last_digit(opened, more, answered):
    first = Plan.of(SCHEMA, "privkvm", 1, rounds=2)
    tally = Tally(first).add(first.report({}, Coins.stated("a"), 0))
    cost = first.next(tally).proven
    stated = with_chain(first, total=text(first.proven + cost + more))
    after = with_chain(first.next(tally), parent=stated.hash)
    budget = opened(1)
    budget.answer(stated, {})
    if answered:
        budget.answer(after, {})
        assert budget.spent == stated.proven + cost
    else:
        with pytest.raises(BudgetError, match="stated a total"):
            budget.answer(after, {})
        assert budget.spent == stated.proven


# -- caps that are none ------------------------------------------------------------------------------


NONE = ["NaN", "sNaN", "-NaN", "Infinity", "-Infinity", "-1", "0", "-0.000001", "", "one", "1e999"]
NONE_EITHER = [float("nan"), float("inf"), -1.0, 0, True, Decimal("NaN"), Decimal("Infinity"), [1]]


@pytest.mark.parametrize("cap", [*NONE, *NONE_EITHER], ids=repr)
def test_a_cap_is_a_number_above_zero(tmp_path, opened, cap):
    for context in (Context(28), CONTEXTS["one digit up, no signals"]):
        with localcontext(context):
            with pytest.raises(BudgetError, match="cap"):
                opened(cap)
            with pytest.raises(BudgetError, match="cap"):
                Client("http://127.0.0.1", tmp_path / "state", cap=cap)
            with pytest.raises(BudgetError, match="allow"):
                Client("http://127.0.0.1", tmp_path / "state", cap=1, allow=cap)
            with pytest.raises(BudgetError, match="allow"):
                Ledger(tmp_path / "l" / "l.json", 1).answer(PLAN, {}, collection="x", allow=cap)
            with pytest.raises(KeyveilError, match="epsilon"):
                Plan.of(SCHEMA, "kvue", cap)
    assert not (tmp_path / "ledger.json").exists()
    assert Ledger(tmp_path / "l" / "l.json").spent == 0


@pytest.mark.parametrize("cap", [*NONE, None, 1.5, [], {}], ids=repr)
def test_a_file_whose_cap_is_none_answers_nothing(tmp_path, opened, cap):
    opened(1)
    path = tmp_path / "ledger.json"
    document = json.loads(path.read_bytes())
    path.write_text(json.dumps({**document, "cap": cap}))
    for context in (Context(28), CONTEXTS["one digit up, no signals"]):
        with localcontext(context), pytest.raises(BudgetError, match=r"cannot be read|belong together"):
            opened().answer(PLAN, {})


@pytest.mark.parametrize("cost", [*NONE[:6], NONE[-1], "-0.000001", None, [], {}], ids=repr)
def test_a_file_whose_costs_are_none_answers_nothing(tmp_path, opened, cost):
    opened(1).answer(Plan.of(SCHEMA, "kvoh", "0.5"), {})
    path = tmp_path / "ledger.json"
    document = json.loads(path.read_bytes())
    document["answers"][0]["epsilon"] = cost
    path.write_text(json.dumps(document))
    for context in (Context(28), CONTEXTS["one digit up, no signals"]):
        with localcontext(context), pytest.raises(BudgetError, match="cannot be read"):
            opened().answer(PLAN, {})


@pytest.mark.parametrize("cap", NONE, ids=repr)
def test_a_secret_whose_cap_is_none_answers_nothing(tmp_path, cap):
    Ledger(tmp_path / "ledger.json", 1)
    (tmp_path / "ledger.json").unlink()
    document = json.loads((tmp_path / "device.json").read_bytes())
    (tmp_path / "device.json").write_text(json.dumps({**document, "cap": cap}))
    with pytest.raises(BudgetError, match="cannot be read"):
        Ledger(tmp_path / "ledger.json").answer(PLAN, {})


# -- planted files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True], ids=["dangling", "to a file"])
def test_a_lock_file_that_is_a_symbolic_link_is_not_followed(tmp_path, there):
    """In a folder that others write to, a link would have the device make or open a file elsewhere."""
    shared, target = tmp_path / "shared", tmp_path / "elsewhere"
    shared.mkdir()
    if there:
        target.write_bytes(b"precious")
    for name in ("budget.json", "ledger.json", "device.json", "store.sqlite"):
        (shared / f"{name}.lock").symlink_to(target)
    (shared / "own").mkdir()
    for attempt in (
        lambda: Budget(shared / "budget.json", 1),
        lambda: Ledger(shared / "ledger.json", 1, shared / "own" / "device.json"),
        lambda: Ledger(shared / "own" / "ledger.json", 1, shared / "device.json"),
        lambda: lock_beside(shared / "store.sqlite"),
    ):
        with pytest.raises(KeyveilError, match="is no plain file of your own; remove it"):
            attempt()
    assert target.exists() == there
    assert not there or target.read_bytes() == b"precious"
    assert not (shared / "budget.json").exists()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_lock_file_is_a_plain_file(tmp_path, kind):
    planted = tmp_path / "budget.json.lock"
    planted.mkdir() if kind == "folder" else os.mkfifo(planted)
    with pytest.raises(KeyveilError, match="no plain file of your own"):
        Budget(tmp_path / "budget.json", 1)


def test_a_lock_file_of_someone_else_is_not_waited_for(tmp_path, monkeypatch):
    """Whoever owns the lock file could hold it for ever."""
    (tmp_path / "budget.json.lock").touch()
    strange = SimpleNamespace(st_mode=stat.S_IFREG | 0o666, st_uid=os.geteuid() + 1)
    with monkeypatch.context() as patch:
        patch.setattr("keyveil.foundation.files.os.fstat", lambda _: strange)
        with pytest.raises(KeyveilError, match="no plain file of your own"):
            open_lock(tmp_path / "budget.json")
    os.close(open_lock(tmp_path / "budget.json"))


def windows_files(monkeypatch):
    """The module of files as Windows loads it, with locks of a byte that POSIX offers as a stand-in."""

    def locking(handle, mode, size):
        fcntl.lockf(handle, fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB, size)

    stand_in = SimpleNamespace(LK_UNLCK=0, LK_NBLCK=2, locking=locking)
    spec = importlib.util.find_spec("keyveil.foundation.files")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delattr(os, "O_NOFOLLOW")
    spec.loader.exec_module(module)
    return module


def test_the_lock_of_windows_excludes_other_processes_and_refuses_links(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        files = windows_files(patch)
        held = tmp_path / "budget.json"
        with files.locked(held):
            pass
        with files.locked(held):
            child = os.fork()
            if not child:
                os._exit(files.take_lock(files.open_lock(held), wait=False))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "taken by this process"
        child = os.fork()
        if not child:
            os._exit(files.take_lock(files.open_lock(held)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        (tmp_path / "other.lock").symlink_to(tmp_path / "budget.json.lock")
        with pytest.raises(KeyveilError, match="no plain file of your own"):
            files.open_lock(tmp_path / "other")
        files.write_whole(tmp_path / "file", b"whole")
        assert (tmp_path / "file").read_bytes() == b"whole"


def test_a_lock_file_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        with locked(tmp_path / "file"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file.lock").stat().st_mode) == 0o600
    with locked(tmp_path / "file"):  # one that is there is opened again
        pass
