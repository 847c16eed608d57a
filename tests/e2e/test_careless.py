"""Careless hands: files swapped, missing, empty or broken get one line, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from keyveil import Plan, Schema, Tally
from keyveil.cli.command import run

RIGHT = {
    "PLAN": "plan.json",
    "TALLY": "tally.kv",
    "REPORTS": "reports.kv",
    "TABLE": "people.csv",
    "KEYS": "keys.txt",
}
COMMANDS = [
    ("audit", "PLAN"),
    ("plan", "--epsilon", "1", "--mechanism", "kvue", "--keys", "KEYS"),
    ("plan", "--next", "PLAN", "TALLY"),
    ("privatise", "PLAN", "TABLE", "-o", "out"),
    ("tally", "PLAN", "REPORTS", "-o", "out"),
    ("estimate", "PLAN", "TALLY"),
    ("query", "PLAN", "TALLY", "mean(Pepsi)"),
    ("conditional", "PLAN", "TALLY"),
    ("learn", "rules", "PLAN", "TALLY"),
    ("learn", "tree", "PLAN", "TALLY", "Pepsi"),
    ("learn", "bayes", "PLAN", "TALLY", "Pepsi"),
    ("learn", "chow-liu", "PLAN", "TALLY"),
    ("learn", "cube", "PLAN", "TALLY", "Pepsi"),
    ("poison", "PLAN", "TALLY"),
    ("health", "PLAN", "TALLY"),
    ("shuffle", "PLAN"),
    ("compare", "--mechanism", "kvue", "--repeat", "1", "--people", "9", "--data", "TABLE"),
    ("collection", "create", "menu", "PLAN", "--store", "new.sqlite"),
]
WRONG = {
    "PLAN": ("tally.kv", "reports.kv", "people.csv", "keys.txt", "cut.json"),
    "TALLY": ("plan.json", "reports.kv", "people.csv", "cut.kv"),
    "REPORTS": ("plan.json", "people.csv", "cut.kv", "list.json"),
    "TABLE": ("plan.json", "tally.kv", "reports.kv", "keys.txt", "list.json"),
    "KEYS": ("plan.json", "tally.kv", "reports.kv", "people.csv", "list.json", ""),
}
NO_FILES = ("none", "empty", "junk.bin", "folder", "plan.json/x", "a" * 300, "schneemann-☃", "/dev/null")
NAMED = {"tally.kv": "a tally", "reports.kv": "a file of reports", "plan.json": "a plan"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """One file of each kind, and some that are none."""
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text("Pepsi\nFries\n")
    Path("people.csv").write_text("person,key,value\n1,Pepsi,1\n1,Fries,0\n2,Fries,-1\n")
    plan = Plan.of(Schema.of(["Pepsi", "Fries"]), "kvue", 1)
    plan.save("plan.json")
    Tally(plan).add(plan.report({})).save("tally.kv")
    assert run(["privatise", "plan.json", "people.csv", "-o", "reports.kv"]) == 0
    for name in ("plan.json", "tally.kv"):
        Path("cut" + Path(name).suffix).write_bytes(Path(name).read_bytes()[:-9])
    Path("empty").write_bytes(b"")
    Path("junk.bin").write_bytes(bytes(range(256)) * 20)
    Path("list.json").write_text('["Pepsi", "Fries"]')
    Path("deep.json").write_text("[" * 100_000)
    Path("short").write_text("3")
    Path("folder").mkdir()
    return tmp_path


def contents() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().rglob("*") if path.is_file()}


def mistakes() -> list[tuple[tuple[str, ...], str]]:
    """Every command with each of its files replaced by each wrong one, and that one's name."""
    cases = []
    for words in COMMANDS:
        for place, kind in enumerate(words):
            for wrong in (*WRONG[kind], *NO_FILES) if kind in RIGHT else ():
                given = [RIGHT.get(word, word) for word in words]
                given[place] = wrong
                cases.append((tuple(given), wrong))
    return cases


def may_be_read(words: tuple[str, ...], wrong: str) -> bool:
    """No reports at all are a tally of none, with a warning; an audit lists what it finds."""
    no_reports = words[0] == "tally" and words[2] == wrong and wrong in ("empty", "/dev/null")
    return no_reports or words[0] == "audit"


def test_every_wrong_file_gets_one_line_that_names_it_and_nothing_is_lost(folder, command):
    before = contents()
    for words, wrong in mistakes():
        if may_be_read(words, wrong):
            continue
        message = command(*words, code=1)
        if words[0] != "collection":
            assert wrong in message, words
            assert NAMED.get(wrong, "") in message, words
        for name in ("new.sqlite", "new.sqlite.lock", "new.sqlite-wal", "new.sqlite-shm"):
            Path(name).unlink(missing_ok=True)
        assert contents() == before, words


def test_an_audit_of_another_file_says_what_it_is(folder, command, capsys):
    assert "tally.kv: this is a tally, not a plan" in command("audit", "tally.kv", code=1)
    for name in ("people.csv", "junk.bin", "deep.json"):
        assert f"{name}: this is not a plan; keyveil plan makes one" in command("audit", name, code=1)
    capsys.readouterr()
    for name in ("empty", "cut.json"):
        assert run(["audit", name]) == 4
        output = capsys.readouterr()
        assert "NOT sound" in output.out
        assert output.err == ""


def test_a_file_without_reports_is_counted_and_said(folder, command):
    assert "out: 2 reports" in command("tally", "plan.json", "empty", "reports.kv", "-o", "out")
    assert command.noted == "warning: empty has no reports\n"


@pytest.mark.parametrize("name", ["short", "people.csv", "plan.json", "junk.bin", "reports.kv"])
@pytest.mark.parametrize(
    "words",
    [
        ("collection", "list"),
        ("collection", "create", "menu", "plan.json"),
        ("token", "create", "--role", "admin"),
        ("verify",),
        ("migrate",),
        ("serve", "--port", "0"),
        ("backup", "copy"),
    ],
)
def test_a_file_that_is_no_store_is_never_made_one(folder, command, words, name):
    """SQLite takes a file of a few bytes for an empty one."""
    before = contents()
    message = command(*words, "--store", name, code=1)
    assert message.startswith(f"keyveil: {name} is not a store")
    assert contents() == before


@pytest.mark.parametrize("words", [("collection", "list"), ("migrate",), ("backup", "copy")])
def test_a_store_has_a_name(folder, command, words):
    assert "--store needs a file's name" in command(*words, "--store", "", code=1)


def test_an_empty_file_is_no_store_to_look_at(folder, command):
    assert "there is no store at empty" in command("collection", "list", "--store", "empty", code=1)
    assert Path("empty").read_bytes() == b""


@pytest.mark.parametrize("words", [("--state", "deep.json"), ("--apart", "deep.json"), ("--apart", "")])
def test_a_ledger_that_is_none_gets_one_line(folder, command, words):
    command("ledger", *words, code=1)


def test_a_report_of_the_paper_replaces_no_one_elses(folder, command):
    Path("folder/report.html").write_text("mine")
    before = contents()
    for fresh in ((), ("--fresh",)):
        message = command("reproduce", "--quick", "--only", "fig5", "-o", "folder", *fresh, code=1)
        assert "folder has a report.html of no earlier run; name another folder" in message
    message = command("reproduce", "--movielens", "folder", "-o", f"{os.getcwd()}/folder", code=1)
    assert "is an input of this command" in message
    assert "is not a folder" in command("reproduce", "-o", "people.csv", code=1)
    assert "needs a folder's name" in command("reproduce", "-o", "", code=2)
    assert contents() == before


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("mechanisms", "--keys", "-1"), 2, "-1 is not in the range"),
        (("mechanisms", "--keys", "0"), 2, "0 is not in the range"),
        (("plan", "--keys", "", "--epsilon", "1", "--mechanism", "kvue"), 1, "cannot read the keys"),
        (("plan", "--keys", "3", "--epsilon", "", "--mechanism", "kvue"), 1, "epsilon must be a number"),
        (("plan", "--keys", "3", "--epsilon", "-1", "--mechanism", "kvue"), 1, "epsilon"),
        (("plan", "--keys", "-3", "--epsilon", "1", "--mechanism", "kvue"), 1, "the number of keys"),
        (("estimate", "plan.json", "tally.kv", "--level", "-0.5"), 1, "between 0 and 1"),
        (("health", "plan.json", "tally.kv", "--fakes", "-0.1"), 1, ""),
        (("poison", "plan.json", "--fakes", "-0.1"), 1, ""),
        (("shuffle", "plan.json", "--delta", "-1"), 1, "delta"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(folder, command, words, code, message):
    assert message in command(*words, code=code)


@pytest.mark.parametrize("option", ["--held", "--mean", "--spread"])
@pytest.mark.parametrize("value", ["x", "", "nan", "7"])
def test_a_prior_that_makes_no_sense_makes_no_plan(folder, command, option, value):
    words = ("plan", "--keys", "3", "--range", "1,5", "--epsilon", "1", "--mechanism", "kvue")
    command(*words, "--people", "100", option, value, "-o", "new.json", code=1)
    assert not Path("new.json").exists()


@pytest.mark.parametrize(
    "given", [("--min-lift", "inf"), ("--min-frequency", "-1"), ("--min-support", "nan")]
)
def test_limits_of_rules_are_numbers_that_make_sense(folder, command, given):
    plan = Plan.of(Schema.of(["Pepsi", "Fries"]), "pairs", 1)
    plan.save("pairs.json")
    Tally(plan).add(plan.report({})).save("pairs.kv")
    assert given[0][2:].replace("-", "_") in command(
        "learn", "rules", "pairs.json", "pairs.kv", *given, code=1
    )
