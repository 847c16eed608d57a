"""The command: the whole day, machine-readable output, and one clear line for bad input."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from keyveil import REGISTRY, Coins, People, Plan, Schema, Tally, estimate, synthetic
from keyveil.cli.audit_command import shown_ratio
from keyveil.cli.command import run
from keyveil.foundation.exact import rounded_up
from keyveil.people.tables import people_of
from keyveil.people.tables.everyone import who_takes_part, with_everyone

KEYVEIL = os.fspath(Path(sys.executable).parent / "keyveil")


def keyveil(*arguments: object, cwd: Path, code: int = 0) -> str:
    """What the command prints, run in this process; tests about the process start one themselves."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with contextlib.chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        ended = run([str(argument) for argument in arguments])
    for stream in (out, err):
        stream.seek(0)
    output, complaint = out.read(), err.read()
    assert ended == code, output + complaint
    if code:
        assert len(complaint.strip().splitlines()) <= 1, complaint
    return output if not code else complaint + output


@pytest.fixture
def here(monkeypatch, capsys):
    """The command without a process of its own, for input that is refused: its one line."""

    def refused(cwd: Path, code: int, *arguments: str) -> str:
        monkeypatch.chdir(cwd)
        assert run(arguments) == code
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        return lines[0]

    return refused


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
    assert "estimator: best" in table.splitlines()
    note = "± stderr: one standard error, the typical distance of the value to its left from the truth"
    for words in (("estimate",), ("query", "frequency(Pepsi)")):
        shown = keyveil(words[0], "p.json", "t.kv", *words[1:], cwd=folder).splitlines()
        assert "± stderr" in shown[0]
        assert shown.count(note) == 1
        assert shown.index(note) + 1 == shown.index("estimator: best")
        assert "± stderr" not in keyveil(words[0], "p.json", "t.kv", *words[1:], "--json", cwd=folder)
    keyveil("estimate", "p.json", "t.kv", "--plot", "a.png", cwd=folder)
    assert (folder / "a.png").stat().st_size > 5000


def test_everyone_counts_people_without_rows_as_python_does(folder, monkeypatch, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(folder)
    Plan.of(Schema.of(["Pepsi", "Diet Coke"], 0, 10), "kvue", 2).save("p.json")
    plan = Plan.load("p.json")
    people = people_of(plan.schema, "people.csv", person="user")
    rows = [line.split(",") for line in Path("people.csv").read_text().splitlines()[1:]]
    columns = {"user": [int(r[0]) for r in rows], "key": [r[1] or None for r in rows]}
    columns["value"] = [float(r[2]) if r[2] else None for r in rows]
    Path("tables").mkdir()
    pq.write_table(pa.table(columns), "tables/all.parquet")
    expected = Tally(plan).add(plan.privatise(with_everyone(people, 2500), Coins.stated("x")))
    for table, output in (("people.csv", "a.kv"), ("tables", "b.kv"), ("tables", "c/")):
        common = ["p.json", table, "--person", "user", "--coins", "x", "-o", output]
        assert run(["privatise", *common, "--everyone", "2500"]) == 0
        assert "take part" not in capsys.readouterr().err
        assert run(["tally", "p.json", output.rstrip("/"), "-o", "t.kv", "--force"]) == 0
        assert Tally.load(plan, "t.kv") == expected
        assert run(["privatise", *common[:-1], f"few-{output}", "--everyone", "1999"]) == 1
        assert "everyone is 1,999, but the table names 2,000 people" in capsys.readouterr().err
        assert not Path(f"few-{output}").exists()
        assert run(["privatise", *common[:-1], f"again-{output}"]) == 0
        assert capsys.readouterr().err == (
            "the table names 2,000 people; 400 of them hold none of the 2 keys. People who are not in "
            "the table do not take part: --everyone N adds them, N is the number of all people\n"
        )
    assert run(["privatise", *common[:-1], "d.kv", "--everyone", "2500.5"]) == 1
    assert "--everyone must be a whole number" in capsys.readouterr().err


def test_compare_counts_people_without_rows(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    common = [
        "compare",
        "--data",
        "people.csv",
        "--person",
        "user",
        "--range",
        "1,5",
        "--people",
        "2000",
    ]
    common += ["--mechanism", "kvue", "--repeat", "2", "--coins", "x", "--processes", "1"]
    assert run([*common, "--json", "named.json"]) == 0
    message = capsys.readouterr().err
    assert "the table names 2,000 people; 400 of them hold none of the 2 keys. People who are" in message
    assert run([*common, "--json", "all.json", "--everyone", "20000"]) == 0
    assert "take part" not in capsys.readouterr().err
    few, many = (json.loads(Path(name).read_text())[0] for name in ("all.json", "named.json"))
    assert few != many  # other people are simulated
    assert run([*common, "--everyone", "1999"]) == 1
    assert "everyone is 1,999, but the table names 2,000 people" in capsys.readouterr().err
    assert run(["compare", "--population", "gaussian", "--everyone", "5"]) == 2
    assert "--everyone is for --data; a population has everyone" in capsys.readouterr().err


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
    done = subprocess.run(
        [KEYVEIL, "tally", "p.json", "a.kv", "one.kv", "a.kv", "-o", "t.kv", "--json"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["reports"] == 6000
    assert done.stderr.strip() == ("warning: a.kv has the same content as a.kv; its reports count twice")


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
    assert by_name["pckv_ue"]["paper_name"] == "PCKV-UE"
    assert by_name["pairs"]["paper_name"] is None
    assert re.search(r"^privkvm_plus +PrivKVM\+ ", keyveil("mechanisms", cwd=tmp_path), re.MULTILINE)


def test_a_proven_epsilon_is_shown_in_three_digits_and_never_too_small():
    shown = {"0.99999999929": "1.000", "1.2341": "1.235", "0.719": "0.719", "0.0012341": "0.00124"}
    assert {number: rounded_up(Decimal(number)) for number in shown} == shown


def test_an_audit_prints_three_digits_and_has_all_of_them_for_machines(tmp_path):
    plan = Plan.of(Schema.of(["Hamburger", "Pepsi"], 1, 5), "pairs", 2)
    (tmp_path / "p.json").write_text(plan.dumps())
    shown = keyveil("audit", "p.json", cwd=tmp_path)
    (worst,) = re.findall(r"^worst +(.+)$", shown, re.MULTILINE)
    assert re.fullmatch(
        r"output \d+ is at most 7\.39 times \(e\^2\.000\) as likely from state \d+ as from state \d+",
        worst,
    )
    assert not re.search(r"\d\.\d{4}|\d{6}", shown)
    document = json.loads(keyveil("audit", "p.json", "--json", cwd=tmp_path))
    up, down = document["worst"]["ratio"]
    assert f"{up / down:.3f}" == "7.389"
    assert math.log(up / down) == pytest.approx(float(document["proven_exactly"]), abs=1e-14)
    assert len(document["proven_exactly"]) > 15
    assert [shown_ratio(n, 1000) for n in (1000, 1001, 7389, 1234567, 10**8)] == [
        "1.00",
        "1.01",
        "7.39",
        "1,240",
        "100,000",
    ]


def test_a_made_up_table_to_try_commands_on(tmp_path):
    output = keyveil(
        "demo", "--table", "people.csv", "--keys", "keys.txt", "--guests", 500, cwd=tmp_path
    )
    assert output.startswith("people.csv: ")
    rows = [line.split(",") for line in (tmp_path / "people.csv").read_text().splitlines()]
    assert rows[0] == ["person", "key", "value"]
    keys = (tmp_path / "keys.txt").read_text().split()
    assert {row[1] for row in rows[1:]} == {*keys, ""}
    assert {int(row[0]) for row in rows[1:]} == set(range(500))
    table = synthetic.orders(500)
    assert [row[2] for row in rows[1:] if row[1]] == [str(stars) for stars in table["rating"]]
    assert set(table["rating"].tolist()) <= {1, 2, 3, 4, 5}


def test_audit_for_machines_and_a_broken_plan(tmp_path):
    keyveil("plan", "--keys", 5, "--epsilon", 1, "--mechanism", "privkv", "-o", "p.json", cwd=tmp_path)
    document = json.loads(keyveil("audit", "p.json", "--json", cwd=tmp_path))
    assert (document["promised"], round(document["proven"], 3)) == (1.0, 0.719)
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
        keyveil("privatise", here, "people.csv", "--person", "user", "-o", f"r{number}.kv", cwd=folder)
        keyveil("tally", here, f"r{number}.kv", "-o", f"t{number}.kv", cwd=folder)
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
            "LOW 5 is not below HIGH 1",
        ),
        (
            ["plan", "--keys", "3", "--range", "5", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "LOW,HIGH",
        ),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "f2m", "--set", "x"], 1, "NAME=VALUE"),
        (
            ["plan", "--keys=-1", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "number of keys .* at least 1",
        ),
        (
            ["plan", "--keys", "2.5", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "number of keys .* whole",
        ),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "workload"], 1, "give queries"),
        (
            ["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "pairs", "--people", "2.5"],
            1,
            "people must be a whole number",
        ),
        (
            ["plan", "--keys", "people.csv", "--epsilon", "1", "--mechanism", "kvue"],
            1,
            "has a column 'value': it is a table of people, and a plan is public; write the keys",
        ),
        (["audit", "none.json"], 1, "cannot read the plan"),
        (["audit", "people.csv"], 1, "people.csv: this is not a plan; keyveil plan makes one"),
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
            "there is no folder no",
        ),
        (["tally", "plan.json", "none.kv", "-o", "r.kv"], 1, "cannot read the reports"),
        (
            ["tally", "plan.json", "people.csv", "-o", "r.kv"],
            1,
            "people.csv: this is not a file of reports; keyveil privatise makes one",
        ),
        (["estimate", "plan.json", "t.kv", "--confidence", "95"], 2, r"did you mean --level\?"),
        (["learn", "plan.json", "t.kv", "rules"], 2, r"after keyveil learn comes one of: .*rules"),
        (
            ["estimate", "other.json", "t.kv"],
            1,
            r"belongs to another plan \([0-9a-f]{12}, not [0-9a-f]{12}\)",
        ),
        (["estimate", "plan.json", "none.kv"], 1, "cannot read the tally"),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "autoo"], 1, "did you mean auto?"),
        (
            [
                "plan",
                "--keys",
                "3",
                "--epsilon",
                "1",
                "--mechanism",
                "auto",
                "--people",
                "9",
                "--ask",
                "",
            ],
            1,
            "--ask is one of both",
        ),
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
    Plan.of(plan.schema, "kvue", 2).save(folder / "other.json")
    Tally(plan).add(plan.report({})).save(folder / "t.kv")
    assert re.search(message, keyveil(*arguments, cwd=folder, code=code))
    assert not (folder / "r.kv").exists()


def test_a_record_that_breaks_a_rule_is_refused_without_being_told(folder):
    """The rule is named, the key and the value are not; --lenient maps it, and nothing is lost."""
    plan = Plan.of(Schema.of(["Pepsi"], 1, 5), "kvue", 1)
    plan.save(folder / "plan.json")
    arguments = ("privatise", "plan.json", "people.csv", "--person", "user", "-o", "r.kv")
    message = keyveil(*arguments, cwd=folder, code=1)
    counted = r"people\.csv has [\d,]+ rows with a key that the plan does not list; --lenient drops unk"
    assert re.search(counted, message)
    assert "Diet" not in message
    assert not (folder / "r.kv").exists()
    document = json.loads(keyveil(*arguments, "--lenient", "--json", cwd=folder))
    assert document["reports"] == 2000


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            "1,Pepsi,4\n2,Pepsi,\n3,Pepsi,\n4,Tea,2\n5,Pepsi,9\n1,Pepsi,2\n",
            "t.csv has 1 row with a key that the plan does not list, 2 rows without a number as value, "
            "1 row with a value outside 1 to 5, 1 row with a key that its person has already; --lenient "
            "drops unknown keys, counts a key without a number as not held, clips values, takes the "
            "first of repeated rows",
        ),
        (
            "1,Pepsi,4\n2,,3\n",
            "t.csv: a row (line 3) has a value and no key in column 'key'; the row of a person who "
            "holds nothing leaves both empty",
        ),
        (
            "1,Pepsi,4\n,Pepsi,3\n",
            "t.csv: column 'person' has an empty cell (line 3); every row must name its person",
        ),
        ('1,Pepsi,4\n2,"Pep,3\n', "line 3 of t.csv cannot be read; is a quote open?"),
    ],
)
def test_bad_rows_are_counted_or_found_by_their_line(rows, line, tmp_path):
    """Nor is a table without rows taken in silence."""
    Plan.of(Schema.of(["Pepsi"], 1, 5), "kvue", 1).save(tmp_path / "plan.json")
    (tmp_path / "t.csv").write_text("person,key,value\n" + rows)
    message = keyveil("privatise", "plan.json", "t.csv", "-o", "r.kv", cwd=tmp_path, code=1)
    assert message == f"keyveil: {line}\n"
    (tmp_path / "t.csv").write_text("person,key,value\n")
    done = subprocess.run(
        [KEYVEIL, "privatise", "plan.json", "t.csv", "-o", "r.kv"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == "t.csv: the table has no rows\n"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "t.csv",
            "user,key,value\n1,Pepsi,4\n2,Pepsi,lots\n3,Pepsi,\n4,Tea,2\n5,Pepsi,9\n6,,\n6,,3\n1,Pepsi,2\n",
        ),
        (
            "t.jsonl",
            '{"user": 1, "key": "Pepsi", "value": 4}\n{"user": 2, "key": "Pepsi", "value": "lots"}\n'
            '{"user": 3, "key": "Pepsi"}\n{"user": 4, "key": "Tea", "value": [2]}\n'
            '{"user": 5, "key": "Pepsi", "value": 9}\n{"user": 6}\n{"user": 6, "value": 3}\n'
            '{"user": 1, "key": "Pepsi", "value": 2}\n',
        ),
    ],
)
def test_lenient_counts_what_it_maps_and_no_one_falls_silent(name, rows, tmp_path):
    plan = Plan.of(Schema.of(["Pepsi"], 1, 5), "kvue", 1)
    plan.save(tmp_path / "plan.json")
    (tmp_path / name).write_text(rows)
    arguments = ("privatise", "plan.json", name, "--person", "user", "-o", "r.kv", "--coins", "x")
    assert "lenient" in keyveil(*arguments, cwd=tmp_path, code=1)
    done = subprocess.run(
        [KEYVEIL, *arguments, "--lenient", "--json"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["reports"] == 6
    assert document["mapped"] == {
        "unknown_key": 1,
        "no_number": 2,
        "outside_range": 1,
        "no_key": 1,
        "repeated": 1,
    }
    assert "2 rows without a number as value: counted as not held" in done.stderr
    assert "1 row with a value and no key: ignored" in done.stderr
    assert "1 row with a key that its person has already: the first one counts" in done.stderr
    assert "lots" not in done.stderr
    keyveil("tally", "plan.json", "r.kv", "-o", "t.kv", cwd=tmp_path)
    records = [{"Pepsi": 4}, {}, {}, {}, {"Pepsi": 5}, {}]
    coins, goal = Coins.stated("x"), Tally(plan)
    for person, record in enumerate(records, 1):
        goal.add(plan.report(record, coins, person))
    assert Tally.load(plan, tmp_path / "t.kv") == goal


def test_no_reports_have_no_size(tmp_path):
    Plan.of(Schema.of(["Pepsi"], 1, 5), "kvue", 1).save(tmp_path / "plan.json")
    (tmp_path / "none.csv").write_text("person,key,value\n")
    output = keyveil("privatise", "plan.json", "none.csv", "-o", "r.kv", cwd=tmp_path)
    assert "0 reports" in output
    assert "bits each" not in output
    again = json.loads(
        keyveil("privatise", "plan.json", "none.csv", "-o", "r.kv", "--force", "--json", cwd=tmp_path)
    )
    assert again["bits_sent_per_report"] is None
    assert "0 reports" in keyveil("tally", "plan.json", "r.kv", "r.kv", "-o", "t.kv", cwd=tmp_path)


def test_help_speaks_of_every_command(tmp_path):
    output = keyveil("--help", cwd=tmp_path)
    for name in ("mechanisms", "plan", "audit", "privatise", "tally", "estimate", "learn"):
        assert name in output
        assert keyveil(name, "--help", cwd=tmp_path)
    assert "0.1.0" in keyveil("--version", cwd=tmp_path)


def test_queries_matrices_and_comparisons(folder):
    keyveil("plan", "--keys", "keys.csv", "--epsilon", 3, "--mechanism", "pairs", "--people", "2e3",
            "-o", "p.json", cwd=folder)  # fmt: skip
    keyveil(
        "privatise", "p.json", "people.csv", "--person", "user", "--coins", "q", "-o", "r.kv", cwd=folder
    )
    keyveil("tally", "p.json", "r.kv", "-o", "t.kv", cwd=folder)
    queries = ('mean(Pepsi | "Diet Coke")', "frequency(Diet Coke | Pepsi)", "lift(Pepsi | Diet Coke)")
    rows = json.loads(keyveil("query", "p.json", "t.kv", *queries, "--json", cwd=folder))
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
    wanted |= {"predicted_conditional_frequency", "predicted_conditional_mean"}
    assert all(set(row) >= wanted for row in out)
    forecast = [row for row in out if row["estimator"] != "simplex"]
    assert all(row["predicted_conditional_mean"] > 0 for row in forecast)
    assert {row["mechanism"] for row in out} == {"ioh", "auto", "auto:nothing"}
    assert (folder / "c.png").stat().st_size > 5000
    for bad, code in (("mean(Pepsy)", 1), ("mean(", 1), ("mean(Pepsi | Pepsi)", 1)):
        keyveil("query", "p.json", "t.kv", bad, cwd=folder, code=code)


def test_keys_that_no_view_holds_together_get_a_range_and_a_guess_that_says_so(tmp_path):
    plan = Plan.of(Schema.of(["a", "b", "c"]), "pairs", 3)
    plan.save(tmp_path / "p.json")
    records = ({"a": 1, "b": 1}, {"a": 1, "c": 1}, {"b": 1, "c": 1}, {})
    people = People.of_records(plan.schema, records * 2000)
    Tally(plan).add(plan.privatise(people, Coins.stated("guess"))).save(tmp_path / "t.kv")
    arguments = ("p.json", "t.kv", "frequency(c | a, b)", "frequency(c | a)")
    unknown, known = json.loads(keyveil("query", *arguments, "--json", cwd=tmp_path))
    assert (unknown["how"], known["how"]) == ("range", "view")
    assert (unknown["value"], unknown["stderr"], known["guess"]) == (None, None, None)
    assert unknown["low"] < 0.05, "the truth is 0"
    assert unknown["high"] > 0.95
    assert unknown["guess"] == pytest.approx(0.5, abs=0.1)
    output = keyveil("query", *arguments, cwd=tmp_path)
    assert output.splitlines()[0].split()[-1] == "guess"
    assert f"{unknown['guess']:.4f}" in output
    assert "no view of this plan holds these keys together, so there is no estimate" in output
    assert "guess" not in keyveil("query", "p.json", "t.kv", "frequency(c | a)", cwd=tmp_path)
    few = Plan.of(plan.schema, "workload", 3, queries="mean(a | b)")
    few.save(tmp_path / "few.json")
    Tally(few).add(few.privatise(people, Coins.stated("few"))).save(tmp_path / "few.kv")
    output = keyveil("conditional", "few.json", "few.kv", "--plot", "few.png", cwd=tmp_path)
    assert output.count("unknown") == 4, "no report speaks of c"


def test_a_plan_for_single_keys_refuses_conditionals_once(tmp_path):
    plan = Plan.of(Schema.of(8), "kvue", 2)
    plan.save(tmp_path / "p.json")
    people = People.of_records(plan.schema, [{"0": 1, "1": -1}] * 200)
    Tally(plan).add(plan.privatise(people, Coins.stated("x"))).save(tmp_path / "t.kv")
    for command in (
        ("conditional",),
        ("query", "frequency(0 | 1)"),
        ("query", "mean(0)", "mean(0 | 1)"),
    ):
        done = subprocess.run(
            [KEYVEIL, command[0], "p.json", "t.kv", *command[1:]],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 1
        assert not done.stdout
        assert len(done.stderr.splitlines()) == 1
        assert "this plan (kvue) does not ask about keys together" in done.stderr
        assert "--mechanism auto --ask conditional" in done.stderr
    assert "mean(0)" in keyveil("query", "p.json", "t.kv", "mean(0)", cwd=tmp_path)


def test_compare_of_conditionals_hears_the_prior(folder):
    """By default four keys in ten are held, in the table all by everyone: auto chooses otherwise."""
    rows = [f"{user},{key},1" for user in range(50) for key in "abcdef"]
    (folder / "all.csv").write_text("\n".join(["user,key,value", *rows]))
    chosen = []
    for prior in ("table", "nothing"):
        keyveil(*COMPARE, "all.csv", "--range", "0,10", "--top", 6, "--people", "1e4", "--mechanism",
                "auto", "--epsilon", "4,6", "--repeat", 1, "--coins", "x", "--told", prior,
                "--estimator", "pooled", "--json", f"{prior}.json", cwd=folder)  # fmt: skip
        chosen.append([row["chosen"] for row in json.loads((folder / f"{prior}.json").read_text())])
    assert chosen[0] != chosen[1]


COMPARE = ("compare", "--conditional", "2", "--person", "user", "--data")


def test_compare_says_what_it_did_to_the_table(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    short = ("--people", "1e4", "--mechanism", "pairs", "--estimator", "pooled", "--repeat", "2")

    def noted(*arguments: str) -> str:
        capsys.readouterr()
        assert run([*COMPARE, *arguments, *short]) == 0
        return capsys.readouterr().err

    values = [line.split(",") for line in (folder / "people.csv").read_text().splitlines()[1:]]
    held = [float(value) for _, _, value in values if value]
    outside = sum(not 2 <= value <= 4 for value in held)
    share = f"{outside / len(held):.0%} of all: is this the range (--range) that they are on?"
    assert noted("people.csv", "--range", "2,4").splitlines() == [
        f"{outside:,} of {len(held):,} values lay outside 2,4 and were clipped to it, {share}",
        who_takes_part(2000, 400, 2, "table", "--everyone N adds them, N is the number of all people"),
    ]
    for last, sentence, named in (
        ("3,a,\n", "2 rows had no number as value and count", "3 people; 2 of them hold"),
        ("", "1 row had no number as value and counts", "2 people; 1 of them holds"),
    ):
        (folder / "text.csv").write_text(f"user,key,value\n1,a,x\n2,a,1\n2,b,0\n{last}")
        assumed = "no --range given: values are taken to be in [-1, 1]"
        *lines, last_line = noted("text.csv").splitlines()
        assert lines == [assumed, f"{sentence} as not held"]
        assert last_line.startswith(f"the table names {named} none of the 2 keys. People who are not in")


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ("user,key,value\n", [], "has no keys"),
        ("", [], "is empty"),
        ("user,key,value\n1,,\n", [], "has no keys"),
        ("user,key,value\n1,a,x\n2,b,y\n", [], "no number in column 'value'"),
        ("user,key,value\n1,a,inf\n2,b,nan\n3,b,-inf\n", [], "has no finite number in column 'value'"),
        ("user,key,value\n1,a,70\n2,b,inf\n", [], "outside 0,10; give the range that they are on"),
        ("user,key,value\n1,a,1\n2,b,0\n", [], "no one holds the keys together"),
        ("user,key,value\n1,a,1\n2,a,0\n", [], "at least two keys"),
        ("who,key,value\n1,a,1\n", [], "column 'user' is not in the table"),
        ("user,thing,value\n1,a,1\n", [], "column 'key' is not in the table"),
        ("user,key,rating\n1,a,1\n", [], "column 'value' is not in the table"),
        (None, ["--people", "2.5"], "people must be a whole number"),
        (None, ["--people", "0"], "people must be a whole number"),
        (None, ["--repeat", "0"], "at least 1"),
        (None, ["--range", "5,1"], "--range 5,1: LOW 5 is not below HIGH 1"),
        (None, ["--mechanism", ","], "name at least one mechanism"),
        (None, ["--mechanism", "kvue"], "does not ask about keys together"),
        (None, ["--mechanism", "workload"], "give queries"),
        (None, ["--mechanism", "pairs:magic"], "one of best"),
        (None, ["--epsilon", ","], "at least one epsilon"),
        (None, ["--epsilon", "1,x"], "epsilon must be a number"),
        (None, ["--conditional", "5"], "takes 2 keys together, target included, not 5"),
    ],
)
def test_bad_comparisons_get_one_clear_line(table, arguments, message, folder, here):
    if table is not None:
        (folder / "people.csv").write_text(table)
    assert re.search(message, here(folder, 1, *COMPARE, "people.csv", "--range", "0,10", *arguments))


@pytest.fixture(scope="module")
def meals(tmp_path_factory):
    """Fries go with hamburgers, Pepsi with neither: 20,000 people, pairs at epsilon 4."""
    records = []
    for drink in ({}, {"Pepsi": 4}):
        records += [{"Hamburger": 5, "Fries": 5, **drink}] * 30 + [{"Hamburger": 1, **drink}] * 10
        records += [{"Fries": 1, **drink}] * 10 + [drink] * 50
    plan = Plan.of(Schema.of(["Hamburger", "Fries", "Pepsi"], 1, 5), "pairs", 4)
    place = tmp_path_factory.mktemp("meals")
    plan.save(place / "p.json")
    people = People.of_records(plan.schema, records * 100)
    Tally(plan).add(plan.privatise(people, Coins.stated("meals"))).save(place / "t.kv")
    Tally(plan).save(place / "none.kv")
    single = Plan.of(plan.schema, "kvue", 1)
    single.save(place / "single.json")
    Tally(single).add(single.report({})).save(place / "single.kv")
    return place


def test_learn_rules(meals):
    rules = json.loads(keyveil("learn", "rules", "p.json", "t.kv", "--json", cwd=meals))
    (rule,) = rules  # once, with both directions
    assert {rule["antecedent"][0]["key"], rule["consequent"]} == {"Hamburger", "Fries"}
    for direction in ("frequency", "reverse"):
        assert rule[direction]["low"] < 0.75 < rule[direction]["high"]  # fixed coins
    assert rule["adjusted"] < 0.05
    output = keyveil("learn", "rules", "p.json", "t.kv", cwd=meals)
    assert output.splitlines()[0].split()[:5] == ["people", "also", "have", "frequency", "reverse"]
    assert "Pepsi" not in output
    few = keyveil("learn", "rules", "p.json", "t.kv", "--key", "Pepsi", "--key", "Fries", cwd=meals)
    assert few == "no rule is above noise at a false-discovery rate of 0.05\n"
    assert json.loads(keyveil("learn", "rules", "p.json", "none.kv", "--json", cwd=meals)) == []


def test_learn_a_tree(meals):
    output = keyveil("learn", "tree", "p.json", "t.kv", "Fries", "--depth", 1, cwd=meals)
    assert output.startswith("if Hamburger is ")
    assert "maximum entropy" not in output
    deep = json.loads(
        keyveil("learn", "tree", "p.json", "t.kv", "Fries", "--levels", "--json", cwd=meals)
    )
    assert deep["classes"] == ["absent", "low", "high"]
    assert deep["root"]["key"] == "Hamburger"
    assert sum(deep["root"]["law"]) == pytest.approx(1)
    assert deep["root"]["yes"]["share"] + deep["root"]["no"]["share"] == pytest.approx(1)


def test_learn_naive_bayes(meals):
    document = json.loads(keyveil("learn", "bayes", "p.json", "t.kv", "Fries", "--json", cwd=meals))
    assert (document["target"], document["classes"]) == ("Fries", ["absent", "held"])
    assert document["keys"][0]["key"] == "Hamburger"  # says most
    output = keyveil("learn", "bayes", "p.json", "t.kv", "Fries", cwd=meals)
    assert output.splitlines()[1].split() == ["key", "is", "Fries", "absent", "Fries", "held"]


def test_learn_a_chow_liu_tree(meals):
    document = json.loads(keyveil("learn", "chow-liu", "p.json", "t.kv", "--json", cwd=meals))
    (edge,) = document["edges"]
    assert {edge["first"], edge["second"]} == {"Hamburger", "Fries"}
    assert edge["lift"] > 1.5
    output = keyveil("learn", "chow-liu", "p.json", "t.kv", cwd=meals)
    assert output.splitlines()[0].split() == ["key", "with", "information", "lift", "p-value"]


def test_learned_pictures_are_files(meals):
    words = {"rules": (), "tree": ("Fries",), "bayes": ("Fries",), "chow-liu": (), "cube": ("Fries",)}
    for name, more in words.items():
        keyveil("learn", name, "p.json", "t.kv", *more, "--plot", f"{name}.png", cwd=meals)
        assert (meals / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_learn_a_cube(meals):
    arguments = ("learn", "cube", "p.json", "t.kv", "Hamburger", "Fries")
    cube = json.loads(keyveil(*arguments, "--people", "2e4", "--json", cwd=meals))
    assert (cube["how"], cube["keys"], len(cube["cells"])) == ("view", ["Hamburger", "Fries"], 9)
    assert sum(cell["share"]["value"] for cell in cube["cells"]) == pytest.approx(1)
    assert cube["cells"][0]["count"]["value"] == 20_000 * cube["cells"][0]["share"]["value"]
    part = json.loads(
        keyveil(*arguments, "--slice", "Hamburger=held", "--roll-up", "Fries=held", "--json", cwd=meals)
    )
    assert part["where"] == {"Hamburger": "held"}
    (absent, held) = part["cells"]
    assert held["of_slice"]["low"] < 0.75 < held["of_slice"]["high"]  # fixed coins
    assert absent["of_slice"]["value"] + held["of_slice"]["value"] == pytest.approx(1)
    output = keyveil(*arguments, "--dice", "Fries=low,high", "--roll-up", "Hamburger", cwd=meals)
    assert output.splitlines()[0].split() == ["Fries", "share", "of", "all", "of", "these"]
    assert len(output.splitlines()) == 3
    wide = keyveil(*arguments, "Pepsi", cwd=meals)
    assert "no view holds these keys together, so there is no estimate" in wide
    assert wide.splitlines()[0].split()[-1] == "guess"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["rules", "p.json", "none.txt"], 1, "cannot read the tally"),
        (["rules", "p.json", "single.kv"], 1, "another plan"),
        (["rules", "single.json", "single.kv"], 1, "does not ask about keys together"),
        (["rules", "p.json", "t.kv", "--key", "Frie"], 1, "did you mean 'Fries'"),
        (["rules", "p.json", "t.kv", "--false-discovery", "2"], 1, "between 0 and 1"),
        (["rules", "p.json", "t.kv", "--min-lift", "0"], 1, "above 0"),
        (["rules", "p.json", "t.kv", "--conditions", "0"], 1, "at least 1"),
        (["rules", "p.json", "t.kv", "--given", "maybe"], 2, "held"),
        (["rules", "p.json", "t.kv", "--level", "1"], 1, "between 0 and 1"),
        (["tree", "p.json", "t.kv"], 2, "Missing argument"),
        (["tree", "p.json", "t.kv", "Frie"], 1, "did you mean 'Fries'"),
        (["tree", "p.json", "t.kv", "Fries", "--depth", "9"], 1, "from 0 to 6"),
        (["tree", "p.json", "t.kv", "Fries", "--min-share", "0.7"], 1, "below 0.5"),
        (["tree", "p.json", "t.kv", "Fries", "--significance", "0"], 1, "between 0 and 1"),
        (["tree", "p.json", "none.kv", "Fries"], 1, "no report about 'Fries'"),
        (["tree", "single.json", "single.kv", "Fries"], 1, "does not ask about keys together"),
        (["bayes", "p.json", "t.kv", "Frie"], 1, "did you mean 'Fries'"),
        (["chow-liu", "p.json", "t.kv", "--significance", "1"], 1, "between 0 and 1"),
        (["chow-liu", "p.json", "t.kv", "--plot", "tree.gif"], 1, "ends in .png, .svg or .pdf"),
        (["cube", "p.json", "t.kv"], 2, "Missing argument"),
        (["cube", "p.json", "t.kv", "Fries", "Fries"], 1, "each once"),
        (["cube", "p.json", "t.kv", "Pepsy"], 1, "did you mean 'Pepsi'"),
        (["cube", "p.json", "t.kv", "Fries", "--slice", "Fries"], 1, "--slice KEY=PART"),
        (["cube", "p.json", "t.kv", "Fries", "--slice", "Pepsi=held"], 1, "no axis"),
        (["cube", "p.json", "t.kv", "Fries", "--slice", "Fries=much"], 1, "unknown part 'much'"),
        (["cube", "p.json", "t.kv", "Fries", "--dice", "Fries=held,low"], 1, "overlap"),
        (["cube", "p.json", "t.kv", "Fries", "--dice", "Fries=,"], 1, "at least one part"),
        (["cube", "p.json", "t.kv", "Fries", "--roll-up", "Fries=low"], 1, "all or held"),
        (["cube", "p.json", "t.kv", "Fries", "--people", "1.5"], 1, "whole number"),
        (["cube", "p.json", "none.kv", "Fries", "Pepsi"], 1, "no report about"),
        (["forest", "p.json", "t.kv"], 2, "No such command"),
    ],
)
def test_bad_learning_gets_one_clear_line(arguments, code, message, meals, here):
    assert re.search(message, here(meals, code, "learn", *arguments))


def test_a_cap_is_corrected_by_a_size_part_in_every_command(tmp_path):
    """Half of all held keys are beyond the cap; estimate, query and the library agree."""
    draw = Coins.stated("caps").generator()
    keys = [f"k{number}" for number in range(8)]
    held = [draw.permutation(8)[: 1 + person % 4] for person in range(3000)]
    rows = [f"{person},{keys[k]},0.5" for person, chosen in enumerate(held) for k in chosen]
    (tmp_path / "people.csv").write_text("\n".join(["person,key,value", *rows]))
    (tmp_path / "keys.txt").write_text("\n".join(keys))
    listed = "parts=pair_collision:cap=2+pool=64/size@0.2"
    options = (
        "--keys",
        "keys.txt",
        "--range=-1,1",
        "--epsilon",
        6,
        "--mechanism",
        "parts",
        "--set",
        listed,
    )
    keyveil("plan", *options, "-o", "p.json", cwd=tmp_path)
    keyveil("privatise", "p.json", "people.csv", "--coins", "x", "-o", "r.kv", cwd=tmp_path)
    keyveil("tally", "p.json", "r.kv", "-o", "t.kv", cwd=tmp_path)
    document = json.loads(keyveil("estimate", "p.json", "t.kv", "--json", cwd=tmp_path))
    output = " ".join(keyveil("estimate", "p.json", "t.kv", cwd=tmp_path).split())
    assert "frequencies include what a cap of 2 leaves out" in output
    (query,) = json.loads(keyveil("query", "p.json", "t.kv", "frequency(k0)", "--json", cwd=tmp_path))
    first, raw = document[0]["frequency"], document[0]["raw"]["frequency"]
    assert (query["value"], query["low"], query["high"]) == (first["value"], first["low"], first["high"])
    assert raw["value"] < first["value"]
    plan = Plan.load(tmp_path / "p.json")
    tally = Tally.load(plan, tmp_path / "t.kv")
    assert estimate(plan, tally)["k0"].frequency.document() == first
    assert first["low"] < sum(0 in chosen for chosen in held) / 3000 < first["high"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete_commands(shell, tmp_path):
    words = Path(sys.executable).parent / "keyveil"
    env = {**os.environ, "_KEYVEIL_COMPLETE": f"{shell}_source"}
    done = subprocess.run([words], env=env, capture_output=True, text=True, check=True)
    assert f"{shell}_complete" in done.stdout
    env |= {"_KEYVEIL_COMPLETE": f"{shell}_complete", "COMP_WORDS": "keyveil priv", "COMP_CWORD": "1"}
    env["COMP_CWORD"] = "priv" if shell == "fish" else "1"
    done = subprocess.run([words], env=env, capture_output=True, text=True, check=True)
    assert "privatise" in done.stdout


# -- engines ---------------------------------------------------------------------------------------


def test_many_processes_read_parquet_tables_and_folders(tmp_path):
    """The same coins give the same tally as one process, from a file and from a folder of files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "keys.txt").write_text("a\nb\nc")
    plan = ("plan", "--keys", "keys.txt", "--range", "0,1", "--epsilon", "1", "--mechanism", "kvue")
    keyveil(*plan, "-o", "p.json", cwd=tmp_path)
    rows = {
        "person": [n % 700 for n in range(2000)],
        "key": list("abc" * 700)[:2000],
        "value": [0.5] * 2000,
    }
    (tmp_path / "tables").mkdir()
    for half in (0, 1):
        part = {name: cells[1000 * half :][:1000] for name, cells in rows.items()}
        pq.write_table(pa.table(part), tmp_path / "tables" / f"{half}.parquet")
    pq.write_table(pa.table(rows), tmp_path / "people.parquet")
    coins = ("--coins", "same")
    keyveil("privatise", "p.json", "people.parquet", *coins, "-o", "one.kv", cwd=tmp_path)
    keyveil("privatise", "p.json", "tables", *coins, "-o", "two.kv", "--processes", "2", cwd=tmp_path)
    output = keyveil("privatise", "p.json", "tables", *coins, "-o", "three/", cwd=tmp_path)
    assert "700 reports" in output
    for name, source in (("one", "one.kv"), ("two", "two.kv"), ("three", "three")):
        keyveil("tally", "p.json", source, "-o", f"{name}.tally", cwd=tmp_path)
    tallies = {(tmp_path / f"{name}.tally").read_bytes() for name in ("one", "two", "three")}
    assert len(tallies) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--engine", "dask", "-o", "r.kv"], "'dask' is not one of"),
        (["--master", "spark://a:1", "-o", "r.kv"], "--master is for --engine spark"),
        (["--engine", "spark", "--processes", "2", "-o", "r/"], "--processes is for --engine local"),
        (
            ["-o", "r/"],
            "people.csv is no Parquet file: other forms are read by keyveil privatise into one file",
        ),
        (["-o", "."], "is a folder"),
        (["-o", "here/"], "exists and is not an empty folder"),
        (["-o", "no/such/"], "there is no folder"),
    ],
)
def test_engines_refuse_in_one_line(words, complaint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("person,key,value\n1,a,0\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    Plan.of(Schema.of(["a"]), "kvue", 1).save("p.json")
    assert run(["privatise", "p.json", "people.csv", *words]) in (1, 2)
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "p.json", "people.csv"]
