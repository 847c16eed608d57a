"""The command: the whole day, machine-readable output, and one clear line for bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from keyveil import REGISTRY, Coins, Plan, Schema, Tally
from keyveil.tables import people_of

KEYVEIL = os.fspath(Path(sys.executable).parent / "keyveil")


def keyveil(*arguments: object, cwd: Path, code: int = 0) -> str:
    done = subprocess.run(
        [KEYVEIL, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    if code:
        assert len(done.stderr.strip().splitlines()) <= 1, done.stderr
        assert "Traceback" not in done.stderr
    return done.stdout if not code else done.stderr + done.stdout


@pytest.fixture
def folder(tmp_path):
    """2,000 people, two foods; one person in five holds nothing and appears with no key."""
    draw = Coins.stated("cli").generator()
    lines = ["user,key,value"]
    for person in range(2000):
        if person % 5 == 0:
            lines.append(f"{person},,")
            continue
        lines.append(f"{person},Pepsi,{draw.integers(1, 6)}")
        if person % 2:
            lines.append(f"{person},Diet Coke,{draw.uniform(1, 5):.3f}")
    (tmp_path / "people.csv").write_text("\n".join(lines))
    (tmp_path / "keys.csv").write_text("key,low,high\nPepsi,1,5\nDiet Coke,0,10\n")
    return tmp_path


def test_a_whole_day(folder):
    keyveil(
        "plan", "--keys", "keys.csv", "--epsilon", 2, "--mechanism", "kvue", "-o", "p.json", cwd=folder
    )
    assert "sound" in keyveil("audit", "p.json", cwd=folder)
    common = ("p.json", "people.csv", "--person", "user", "--coins", "x")
    keyveil("privatise", *common, "-o", "a.kv", cwd=folder)
    keyveil("tally", "p.json", "a.kv", "-o", "t.kv", cwd=folder)
    plan = Plan.load(folder / "p.json")
    people = people_of(plan.schema, folder / "people.csv", person="user")
    assert len(people) == 2000
    assert Tally.load(plan, folder / "t.kv") == Tally(plan).add(
        plan.privatise(people, Coins.stated("x"))
    )
    rows = json.loads(keyveil("estimate", "p.json", "t.kv", "--json", cwd=folder))
    assert [row["key"] for row in rows] == ["Pepsi", "Diet Coke"]
    truth = {"Pepsi": 0.8, "Diet Coke": 0.4}
    for row in rows:
        for part in ("frequency", "mean"):
            assert set(row[part]) >= {"value", "stderr", "low", "high"}
        # Five standard errors: a false alarm once in two million, and the coins are fixed.
        assert abs(row["frequency"]["value"] - truth[row["key"]]) < 5 * row["frequency"]["stderr"]
    table = keyveil("estimate", "p.json", "t.kv", "--after", "clip", "--key", "Pepsi", cwd=folder)
    assert "Pepsi" in table
    assert "Diet" not in table
    keyveil("estimate", "p.json", "t.kv", "--plot", "a.png", cwd=folder)
    assert (folder / "a.png").stat().st_size > 5000


def test_secure_coins_differ_from_run_to_run(folder):
    keyveil(
        "plan", "--keys", "keys.csv", "--epsilon", 2, "--mechanism", "kvue", "-o", "p.json", cwd=folder
    )
    for name in ("a.kv", "b.kv"):
        keyveil("privatise", "p.json", "people.csv", "--person", "user", "-o", name, cwd=folder)
    assert (folder / "a.kv").read_bytes() != (folder / "b.kv").read_bytes()


def test_tallies_and_reports_join(folder):
    keyveil(
        "plan", "--keys", "keys.csv", "--epsilon", 2, "--mechanism", "kvoh", "-o", "p.json", cwd=folder
    )
    keyveil("privatise", "p.json", "people.csv", "--person", "user", "-o", "a.kv", cwd=folder)
    keyveil("tally", "p.json", "a.kv", "-o", "one.kv", cwd=folder)
    made = json.loads(
        keyveil("tally", "p.json", "a.kv", "one.kv", "a.kv", "-o", "t.kv", "--json", cwd=folder)
    )
    assert made["reports"] == 6000


def test_mechanisms_are_listed_for_machines(tmp_path):
    rows = json.loads(keyveil("mechanisms", "--json", cwd=tmp_path))
    assert [row["name"] for row in rows] == list(REGISTRY)
    for row in rows:
        assert set(row) >= {"name", "source", "speaks_of", "true_epsilon_at_1", "bits_per_report"}
        assert 0.7 < row["true_epsilon_at_1"] <= 1
    by_name = {row["name"]: row for row in rows}
    assert round(by_name["privkv"]["true_epsilon_at_1"], 3) == 0.719
    assert by_name["f2m"]["bits_per_report"] == round(float(np.log2(100)) + 2, 4)
    assert by_name["kvoh"]["bits_per_report"] == round(float(np.log2(100)) + 3, 4)
    assert "privkvm" in keyveil("mechanisms", cwd=tmp_path)


def test_audit_for_machines_and_a_broken_plan(tmp_path):
    keyveil("plan", "--keys", 5, "--epsilon", 1, "--mechanism", "privkv", "-o", "p.json", cwd=tmp_path)
    found = json.loads(keyveil("audit", "p.json", "--json", cwd=tmp_path))
    assert (found["promised"], round(found["proven"], 3)) == (1.0, 0.719)
    text = (tmp_path / "p.json").read_text().replace('"promised":"1"', '"promised":"0.5"')
    (tmp_path / "p.json").write_text(text)
    assert "NOT sound" in keyveil("audit", "p.json", cwd=tmp_path, code=4)
    broken = json.loads(keyveil("audit", "p.json", "--json", cwd=tmp_path, code=4))
    assert broken["promised"] == 0.5
    assert round(broken["proven"], 3) == 0.719
    assert any("breaks its promise" in finding for finding in broken["findings"])


@pytest.mark.parametrize("name", ["privkvm", "privkvm_plus"])
def test_a_chain_of_plans_runs_to_its_end(name, folder):
    keyveil("plan", "--keys", "keys.csv", "--epsilon", 4, "--mechanism", name, "--set", "rounds=3",
            "-o", "p1.json", cwd=folder)  # fmt: skip
    number = 1
    for number in range(1, 4):
        here = f"p{number}.json"
        keyveil("privatise", here, "people.csv", "--person", "user", "-o", "r.kv", cwd=folder)
        keyveil("tally", here, "r.kv", "-o", f"t{number}.kv", cwd=folder)
        done = subprocess.run(
            [KEYVEIL, "plan", "--next", here, f"t{number}.kv", "-o", f"p{number + 1}.json"],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == 3:
            assert "the chain is finished" in done.stderr
            break
        assert done.returncode == 0, done.stderr
        after = Plan.load(folder / f"p{number + 1}.json")
        assert after.chain["parent"] == Plan.load(folder / here).hash
    assert done.returncode == 3
    rows = json.loads(keyveil("estimate", f"p{number}.json", f"t{number}.kv", "--json", cwd=folder))
    assert rows[0]["frequency"]["interval"] == "bounded"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["plan", "--keys", "3", "--epsilon", "1"], 2, "plan needs --mechanism"),
        (
            ["plan", "--keys", "3", "--epsilon", "x", "--mechanism", "kvue"],
            1,
            "epsilon must be a number",
        ),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "kvu"], 1, "did you mean kvue"),
        (
            ["plan", "--keys", "no.txt", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "cannot read the keys",
        ),
        (
            ["plan", "--keys", "3", "--range", "5,1", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "LOW below",
        ),
        (
            ["plan", "--keys", "3", "--range", "5", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "LOW,HIGH",
        ),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "f2m", "--set", "x"], 1, "NAME=VALUE"),
        (
            ["plan", "--keys", "people.csv", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "listed twice|1 to 256",
        ),
        (["audit", "none.json"], 1, "cannot read the plan"),
        (["audit", "people.csv"], 4, "not JSON"),
        (["privatise", "none.json", "people.csv", "-o", "r.kv"], 1, "cannot read the plan"),
        (["privatise", "plan.json", "none.csv", "-o", "r.kv"], 1, "none.csv"),
        (
            ["privatise", "plan.json", "people.csv", "-o", "r.kv"],
            1,
            "column 'person' is not in the table",
        ),
        (
            ["privatise", "plan.json", "people.csv", "--person", "user", "-o", "no/r.kv"],
            1,
            "No such file",
        ),
        (["tally", "plan.json", "none.kv", "-o", "t.kv"], 1, "cannot read the reports"),
        (["tally", "plan.json", "people.csv", "-o", "t.kv"], 1, "line 1"),
        (["estimate", "plan.json", "none.kv"], 1, "cannot read the tally"),
        (["estimate", "plan.json", "people.csv"], 1, "not a tally"),
        (["estimate", "plan.json"], 2, "Missing argument"),
        (["estimates"], 2, "No such command"),
        (["estimate", "plan.json", "t.kv", "--level", "2"], 1, "between 0 and 1"),
        (["estimate", "plan.json", "t.kv", "--estimator", "magic"], 1, "known: least_squares"),
        (["estimate", "plan.json", "t.kv", "--key", "Pepsy"], 1, "did you mean 'Pepsi'"),
        (["estimate", "plan.json", "t.kv", "--plot", "a.txt"], 1, "ends in"),
    ],
)
def test_bad_input_gets_one_clear_line(arguments, code, message, folder):
    plan = Plan.of(Schema.of(["Pepsi", "Diet Coke"], 1, 5), "kvue", 1)
    plan.save(folder / "plan.json")
    Tally(plan).add(plan.report({})).save(folder / "t.kv")
    assert re.search(message, keyveil(*arguments, cwd=folder, code=code))
    assert not (folder / "r.kv").exists()


def test_a_record_that_breaks_a_rule_is_refused_without_being_told(folder):
    """The rule is named, the key and the value are not; --lenient maps it, and nothing is lost."""
    plan = Plan.of(Schema.of(["Pepsi"], 1, 5), "kvue", 1)
    plan.save(folder / "plan.json")
    arguments = ("privatise", "plan.json", "people.csv", "--person", "user", "-o", "r.kv")
    said = keyveil(*arguments, cwd=folder, code=1)
    assert "not in the plan" in said
    assert "Diet" not in said
    assert not (folder / "r.kv").exists()
    made = json.loads(keyveil(*arguments, "--lenient", "--json", cwd=folder))
    assert made["reports"] == 2000


def test_help_speaks_of_every_command(tmp_path):
    said = keyveil("--help", cwd=tmp_path)
    for name in ("mechanisms", "plan", "audit", "privatise", "tally", "estimate"):
        assert name in said
        assert keyveil(name, "--help", cwd=tmp_path)
    assert "0.1.0" in keyveil("--version", cwd=tmp_path)


def test_queries_matrices_and_comparisons(folder):
    keyveil("plan", "--keys", "keys.csv", "--epsilon", 3, "--mechanism", "pairs", "--people", "2e3",
            "-o", "p.json", cwd=folder)  # fmt: skip
    keyveil(
        "privatise", "p.json", "people.csv", "--person", "user", "--coins", "q", "-o", "r.kv", cwd=folder
    )
    keyveil("tally", "p.json", "r.kv", "-o", "t.kv", cwd=folder)
    asked = ('mean(Pepsi | "Diet Coke")', "frequency(Diet Coke | Pepsi)", "lift(Pepsi | Diet Coke)")
    rows = json.loads(keyveil("query", "p.json", "t.kv", *asked, "--json", cwd=folder))
    assert [row["how"] for row in rows] == ["view"] * 3
    assert (
        abs(rows[1]["value"] - 0.5) < 5 * rows[1]["stderr"]
    )  # fixed coins; half of Pepsi's also hold it
    assert "Diet Coke" in keyveil("query", "p.json", "t.kv", "mean(Pepsi | Diet Coke)", cwd=folder)
    cells = json.loads(keyveil("conditional", "p.json", "t.kv", "--json", "--plot", "m.png", cwd=folder))
    assert {(c["target"], c["given"]) for c in cells} == {("Pepsi", "Diet Coke"), ("Diet Coke", "Pepsi")}
    assert (folder / "m.png").stat().st_size > 5000
    keyveil("compare", "--conditional", 2, "--data", "people.csv", "--person", "user", "--range", "0,10",
            "--top", 2, "--people", "1e4", "--epsilon", "1,2", "--mechanism", "ioh,auto", "--repeat", 3,
            "--json", "out.json", "--plot", "c.png", cwd=folder)  # fmt: skip
    out = json.loads((folder / "out.json").read_text())
    wanted = {"mechanism", "epsilon", "d", "n", "mse_conditional_frequency", "mse_conditional_mean",
              "coverage_frequency", "coverage_mean"}  # fmt: skip
    assert all(set(row) >= wanted for row in out)
    assert {row["mechanism"] for row in out} == {"ioh", "auto"}
    assert (folder / "c.png").stat().st_size > 5000
    for bad, code in (("mean(Pepsy)", 1), ("mean(", 1), ("mean(Pepsi | Pepsi)", 1)):
        keyveil("query", "p.json", "t.kv", bad, cwd=folder, code=code)
    keyveil(
        "compare", "--conditional", 5, "--data", "people.csv", "--person", "user", cwd=folder, code=1
    )
