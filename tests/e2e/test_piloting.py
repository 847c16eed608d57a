"""A pilot at the terminal: some tell how many keys they hold, and a plan for the others follows."""

from __future__ import annotations

import csv
import json
import re

import pytest

from keyveil import Coins, Plan, Schema, Tally
from keyveil.cli.command import run
from keyveil.cli.pilot_files import show_sizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two thousand people who were asked first and 38,000 others, all of one key; the pilot's tally."""
    folder = tmp_path_factory.mktemp("pilot")
    draw = Coins.stated("who is who").generator()
    for name, people in (("few", range(2000)), ("others", range(2000, 40_000))):
        keys = draw.integers(0, 30, len(people)).tolist()
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["person", "key", "value"])
            rows.writerows((who, f"k{key}", 1 + key % 5) for who, key in zip(people, keys, strict=True))
    (folder / "keys.txt").write_text("\n".join(f"k{key}" for key in range(30)))
    (folder / "fewer.txt").write_text("k0\nk1")

    def path(name: str) -> str:
        return str(folder / name)

    for line in (
        ("plan", "--keys", path("keys.txt"), "--range", "1,5", "--epsilon", "4", "--mechanism", "sized",
         "-o", path("pilot.json")),
        ("privatise", path("pilot.json"), path("few.csv"), "--coins", "few", "-o", path("few.kv")),
        ("tally", path("pilot.json"), path("few.kv"), "-o", path("told.kv")),
        ("plan", "--keys", "5", "--epsilon", "1", "--mechanism", "kvue", "-o", path("kvue.json")),
        ("plan", "--keys", "5", "--epsilon", "1", "--mechanism", "sized", "-o", path("other.json")),
        ("plan", "--next", path("pilot.json"), path("told.kv"), "-o", path("second.json")),
    ):  # fmt: skip
        assert run(list(line)) == 0
    return folder


@pytest.fixture
def at(folder, monkeypatch, command):
    """The command in the pilot's folder."""
    monkeypatch.chdir(folder)
    return command


COMPARE = ("compare", "--population", "pckv-uu", "--told", "pilot")
AUTO = ("plan", "--mechanism", "auto", "--people", 38_000, "--pilot", "pilot.json", "told.kv")


def test_the_whole_way_from_a_pilot_to_answers(at, folder):
    output = at(*AUTO, "--explain", "-o", "plan.json")
    assert "(from a pilot of 2,000 people)" in output
    assert "expecting 1 key held on average" in output
    pilot, plan = Plan.load(folder / "pilot.json"), Plan.load(folder / "plan.json")
    assert (plan.schema.keys, plan.schema.ranges) == (pilot.schema.keys, pilot.schema.ranges)
    assert plan.promised == pilot.promised == 4
    assert max(plan.proven, pilot.proven) <= 4
    assert plan.encode in ("items", "padded")  # of people who hold one key each
    blind = at("plan", "--keys", "keys.txt", "--range", "1,5", "--epsilon", 4, "--mechanism", "auto",
               "--people", 38_000, "--json")  # fmt: skip
    assert json.loads(blind)["mechanism"] != plan.mechanism_name
    at("privatise", "plan.json", "others.csv", "--coins", "others", "-o", "others.kv")
    at("tally", "plan.json", "others.kv", "-o", "tally.kv")
    answers = json.loads(at("estimate", "plan.json", "tally.kv", "--json"))
    assert len(answers) == 30
    for answer in answers:
        assert abs(answer["frequency"]["value"] - 1 / 30) < 0.01
        assert abs(answer["mean"]["value"] - (1 + int(answer["key"][1:]) % 5)) < 0.8


def test_what_a_pilot_told_is_in_the_json(at):
    document = json.loads(at(*AUTO, "--mean", "3.4", "--spread", "0.5", "--json"))
    assert "from a pilot of 2,000 people" in document["advice"]["prior"]
    assert "means near 3.4, spread 0.5 on [1, 5]" in document["advice"]["prior"]
    assert document["promised"] == 4


def test_what_the_pilot_says_may_be_said_again_and_another_epsilon_is_remarked_on(at):
    same = ("--keys", "keys.txt", "--range", "1,5", "--epsilon", 4)
    assert json.loads(at(*AUTO, *same, "--json")) == json.loads(at(*AUTO, "--json"))
    at(*AUTO, "--epsilon", 3, "--json")
    assert "the pilot promised epsilon 4, this plan promises 3" in at.noted


def test_how_many_to_ask_is_said_with_the_pilots_plan(at):
    output = at(
        "plan", "--keys", 30, "--epsilon", 4, "--mechanism", "sized", "--people", "1e6", "-o", "p"
    )
    assert "for a pilot (plan --mechanism auto --pilot) ask 5,000 of them" in output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((*AUTO, "--keys", "fewer.txt"), 1, "--keys are not the pilot's; leave --keys out"),
        ((*AUTO, "--range", "0,5"), 1, "--range is not the pilot's; leave --range out"),
        ((*AUTO, "--keys", "keys.txt", "--range", "0,5"), 1, "ranges are not the pilot's"),
        ((*AUTO, "--held", 3), 2, "--held: the pilot tells how many keys are held"),
        (
            ("plan", "--mechanism", "kvue", "--pilot", "pilot.json", "told.kv"),
            2,
            "only for --mechanism auto",
        ),
        ((*AUTO[:-2], "kvue.json", "told.kv"), 1, "the first one of sized, not kvue"),
        ((*AUTO[:-2], "second.json", "told.kv"), 1, "the first one of sized; this is its second"),
        (
            (*AUTO[:-2], "told.kv", "pilot.json"),
            1,
            "told.kv is no plan, and pilot.json is one: --pilot takes the pilot's plan first",
        ),
        ((*AUTO[:-2], "told.kv", "few.kv"), 1, "told.kv: this is a tally, not a plan"),
        ((*AUTO[:-2], "nothing.json", "told.kv"), 1, "cannot read the plan nothing.json"),
        (
            ("estimate", "pilot.json", "told.kv", "--key", "k1", "--after", "clip"),
            1,
            "--after, --key: this plan tells only how many keys are held",
        ),
        ((*AUTO[:-2], "other.json", "told.kv"), 1, "another plan"),
        ((*AUTO[:-2], "pilot.json", "nothing.kv"), 1, "cannot read the tally"),
        (
            ("compare", "--population", "gaussian", "--conditional", 2, "--told", "pilot"),
            1,
            "single keys",
        ),
        (("compare", "--population", "gaussian", "--people", 1, "--told", "pilot"), 1, "at least 2"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(at, arguments, code, said):
    assert said in at(*arguments, code=code)


def test_an_estimate_of_a_pilot_says_how_many_keys_are_held_and_what_is_next(at):
    rows = at("estimate", "pilot.json", "told.kv").splitlines()
    assert rows[0].split() == ["keys", "held", "share", "of", "people", "±", "stderr", "95%", "interval"]
    assert float(rows[2].split()[1]) == pytest.approx(1, abs=0.1)  # of people who hold one key each
    assert rows[9].split()[:3] == ["8", "to", "9"]
    assert "unknown" not in "".join(rows)
    assert "a pilot tells only how many keys are held" in rows[-1]
    assert "--mechanism auto --people N --pilot pilot.json told.kv" in rows[-1]
    document = json.loads(at("estimate", "pilot.json", "told.kv", "--json"))
    assert [each["held"] for each in document][-2:] == [[24, 27], [28, 30]]
    assert sum(each["share"]["value"] for each in document) == pytest.approx(1)
    second = at("estimate", "second.json", "told.kv", code=1)
    assert "another plan" in second


def test_shares_of_people_are_shown_within_their_range(capsys):
    """Two reports of one output: the unbiased estimate of the other buckets is below 0."""
    pilot = Plan.of(Schema.of(9, 1, 5), "size", 1)
    tally = Tally(pilot)
    tally.counts[list(pilot.report({}).cells)] += 2
    show_sizes(tally, 0.95, True, "p.json t.kv")
    assert min(row["share"]["value"] for row in json.loads(capsys.readouterr().out)) < 0
    show_sizes(tally, 0.95, False, "p.json t.kv")
    assert not re.search(r"[ \[]-\d", capsys.readouterr().out)


def test_a_comparison_with_a_pilot_repeats(at, folder):
    options = ("--top", 10, "--people", "1e5", "--mechanism", "kvue,auto", "--epsilon", "4")
    run_ = (*COMPARE, *options, "--repeat", 2, "--coins", "x")
    output = at(*run_, "--json", "rows.json")
    rows = json.loads((folder / "rows.json").read_text())
    for row in rows:
        if row["mechanism"] == "auto":
            assert 0 < row["pilot"] <= 0.05
            assert sum(row["choices"].values()) == 2
        else:
            assert row["pilot"] is None
            assert row["choices"] is None
    assert "of the people how many keys they hold, and auto is the planner" in output
    assert at(*run_, "--processes", 1) == output
