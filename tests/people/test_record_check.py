"""The developer's check of a record: it names keys and rules, never a value; devices stay silent."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import keyveil
from keyveil import Coins, Plan, RecordError, Schema

PLAN = Plan.of(Schema.of(["Pepsi", "Fries"], 1, 5), "kvue", 1)
SECRET = 4.0625
"""A value that no line may contain."""
NO_RECORD = "a record is a mapping of keys to values, or a list of such pairs"


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        ({}, []),
        ({"Pepsi": SECRET, "Fries": 1}, []),
        ({"Pespi": SECRET}, ["key 'Pespi' is not in the plan; did you mean 'Pepsi'?"]),
        ({"FRIES": SECRET}, ["key 'FRIES' is not in the plan; did you mean 'Fries'?"]),
        ({"zebra": SECRET, "Fries": 2}, ["key 'zebra' is not in the plan"]),
        ({7: SECRET}, ["key 7 is not in the plan"]),
        *((record, [NO_RECORD]) for record in (3, "Pepsi", [("Pepsi",)], None)),
        (lambda: {"Pepsi": SECRET}, [f"{NO_RECORD}; this is a function that returns one: call it"]),
        ({"Pepsi": SECRET + 5}, ["key 'Pepsi': a value lies outside 1 to 5"]),
        ({"Pepsi": str(SECRET)}, ["key 'Pepsi': a value is not a number"]),
        ({"Pepsi": True}, ["key 'Pepsi': a value is not a number"]),
        ({"Pepsi": float("nan")}, ["key 'Pepsi': a value is NaN or infinite"]),
        (
            [("Pepsi", SECRET), ("Pepsi", SECRET)],
            ["key 'Pepsi': appears twice; a record has each key at most once"],
        ),
        (
            {"pepsi": SECRET, "Fries": -SECRET},
            [
                "key 'pepsi' is not in the plan; did you mean 'Pepsi'?",
                "key 'Fries': a value lies outside 1 to 5",
            ],
        ),
    ],
)
def test_a_misfit_is_named_by_its_key_and_never_by_its_value(record, lines):
    assert PLAN.check(record) == lines
    assert not any(str(SECRET)[:4] in line for line in PLAN.check(record))


def test_only_the_check_names_the_range_of_a_key_of_its_own():
    """If keys have different ranges, the range would say which key a person holds."""
    plan = Plan.of(Schema.of(["Pepsi", "Fries"], ranges={"Pepsi": (1, 5), "Fries": (0, 100)}), "kvue", 1)
    assert plan.check({"Pepsi": 9}) == ["key 'Pepsi': a value lies outside 1 to 5"]
    assert plan.check({"Fries": -9}) == ["key 'Fries': a value lies outside 0 to 100"]
    with pytest.raises(RecordError, match=r"^a value lies outside the range of its key$"):
        plan.report({"Pepsi": 9})
    with pytest.raises(RecordError, match=r"^a value lies outside 1 to 5$"):
        PLAN.report({"Pepsi": 9})


def test_a_refused_report_says_how_to_find_the_key_and_not_which_it_is():
    with pytest.raises(RecordError, match=r"plan\.check\(record\)") as caught:
        PLAN.report({"Pespi": SECRET})
    assert "Pespi" not in str(caught.value)


def test_a_client_maps_and_says_nothing(capsys, caplog):
    coins = Coins.stated("silent")
    assert PLAN.report_as_client({"Pespi": 2, "Fries": 3}, coins, 1).cells == (
        PLAN.report_as_client({"Fries": 3}, coins, 1).cells
    )
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_nothing_in_the_package_calls_the_check():
    """It names what a person holds; only a developer asks for it."""
    callers = []
    for file in Path(keyveil.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                if node.func.attr == "check" and owner.rpartition(".")[2] in ("plan", "schema"):
                    callers.append((file.name, owner))
    assert callers == [("device_side.py", "self.schema")]
