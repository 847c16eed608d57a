"""``plan --mechanism auto`` and ``compare`` for single keys, at the terminal."""

from __future__ import annotations

import json
import os
import sys
from decimal import Decimal

import click
import numpy as np
import pytest

from keyveil import Coins, Plan, Schema
from keyveil.cli import planner_output
from keyveil.cli.command import run
from keyveil.people.prior import Prior, enough_people
from keyveil.planner.advice import Advice
from keyveil.planner.key_scores import people_factor
from keyveil.planner.options import ALIKE
from keyveil.planner.planner import advise, two_digit_numbers


@pytest.fixture
def at(tmp_path, monkeypatch, command):
    """The command in a folder of its own, with a table of 400 people."""
    monkeypatch.chdir(tmp_path)
    draw = Coins.stated("planning").generator()
    lines = ["user,key,value"]
    for person in range(400):
        for key in range(6):
            if draw.random() < 0.2 + 0.1 * key:
                lines.append(f"{person},k{key},{draw.integers(1, 6)}")
    (tmp_path / "people.csv").write_text("\n".join(lines))

    command.folder = tmp_path
    return command


LONG = os.environ.get("KEYVEIL_LONG") == "1"
AUTO = ("plan", "--keys", 20, "--range", "1,5", "--mechanism", "auto")


def kept_answers(patch: pytest.MonkeyPatch) -> list[Advice]:
    """The planner's answers to the commands from here on, in their order."""
    answers, advise_once = [], planner_output.advise

    def keep(*question: object, **options: object) -> Advice:
        answers.append(advise_once(*question, **options))
        return answers[-1]

    patch.setattr(planner_output, "advise", keep)
    return answers


def test_auto_makes_a_plan_that_names_what_was_chosen_and_says_why(at):
    output = at(
        *AUTO, "--epsilon", 1, "--people", "1e6", "--held", 3, "--explain", "--plot", "e.png", "-o", "p"
    )
    plan = Plan.load(at.folder / "p")
    assert plan.mechanism_name in output
    assert "least predicted error" in output
    assert "kvue" in output
    assert "shuffler" in output
    assert "fake" in output
    assert f"1 {plan.mechanism_name} (chosen)" in output
    assert (at.folder / "e.png").stat().st_size > 10_000


def test_auto_as_json(at):
    arguments = (*AUTO, "--epsilon", 1, "--people", "1e6", "--ask", "frequency", "--json")
    document = json.loads(at(*arguments, "--one-round"))
    assert document["advice"]["chosen"]["mechanism"] == document["mechanism"]
    assert document["is_first_round"] is False
    assert document["advice"]["answers"] is True
    scores = [option["score"] for option in document["advice"]["options"]]
    assert scores[1:] == sorted(scores[1:])
    assert scores[0] <= 1.1 * scores[1]


def test_told_nothing_auto_says_whether_it_made_a_first_round(at):
    line = (*AUTO, "--epsilon", 2, "--people", "1e6")
    output = at(*line, "-o", "first")
    pilot = Plan.load(at.folder / "first")
    assert pilot.mechanism_name == "sized"
    assert "the plan is a first round (sized): ask " in output
    assert "why: after it the error is at most about" in output
    assert "what would help most: how many keys do people hold? (--held N" in output
    document = json.loads(at(*line, "--json"))
    assert document["is_first_round"] is True
    assert f"ask {document['advice']['first_round']['people']:,} of the 1,000,000 people" in output
    output = at(*line, "--one-round", "-o", "everyone")
    plan = Plan.load(at.folder / "everyone")
    assert "the plan is one for everyone (as --one-round says)" in output
    assert f"{plan.mechanism_name} " in output
    assert "is the safest choice: its error is at most" in output
    assert "--one-round: there is no first round if it is known" in at(
        *line, "--held", 3, "--one-round", code=2
    )


def test_explain_without_a_file_says_that_no_plan_was_written(at, capsys):
    assert run([str(a) for a in (*AUTO, "--epsilon", 2, "--people", "1e6", "--explain")]) == 0
    output = capsys.readouterr()
    assert "frequency ±" in output.out
    assert '"format"' not in output.out
    assert output.err == "no plan is written: -o FILE writes it\n"
    assert run([str(a) for a in (*AUTO, "--epsilon", 2, "--people", "1e6")]) == 0
    output = capsys.readouterr()
    assert Plan.parse(output.out).mechanism_name in output.err


def test_an_explanation_needs_no_keys_and_no_epsilon_and_has_its_picture(at, capsys, monkeypatch):
    """Exactly as one would first try it; a plan to be written still needs both."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    bare = ("plan", "--mechanism", "auto", "--people", "1e6", "--explain")
    with monkeypatch.context() as patch:
        answers = kept_answers(patch)
        lines = at(*bare).splitlines()
    assert lines[0] == "no --keys and no --epsilon given: explained for 100 keys and epsilon 1"
    assert lines[1].startswith("the plan is a first round (sized): ask ")
    assert lines[4].startswith(
        "1,000,000 people at epsilon 1, expecting that people may hold anything from one key to"
    )
    (advice,) = answers
    names = [option.family for option in advice.runners_up(4)]
    expected = f"1 {names[0]} (chosen)   " + "   ".join(f"{n} {m}" for n, m in enumerate(names[1:], 2))
    start = lines.index(expected)
    for above, part in ((start + 1, "frequency"), (start + 11, "mean")):
        assert lines[above].split("  ")[-1].strip() == f"{part} ± against people"
        assert f"{part} ± against epsilon" in lines[above]
        assert "┊" in lines[above + 7]
        assert lines[above + 9].split() == [
            *("0.1", "0.2", "0.5", "1", "2", "5"),
            *("10", "k", "100", "k", "1", "M", "10", "M", "100", "M"),
        ]
    assert not any("\x1b" in line for line in lines)
    arguments = (*bare, "--held", 3)
    assert at(*arguments, "--keys", 20).startswith("no --epsilon given: explained for epsilon 1\n")
    assert at(*arguments, "--epsilon", 2).startswith("no --keys given: explained for 100 keys\n")
    assert "plan needs --keys, --epsilon (or" in at(*bare, "-o", "p", code=2)
    assert "plan needs --keys, --epsilon (or" in at(*bare[:-1], code=2)
    monkeypatch.setenv("LC_ALL", "C")
    assert at(*bare).isascii()


@pytest.mark.parametrize("width", [39, 40, 60, 80])
def test_an_explanation_fits_the_terminal(at, monkeypatch, width):
    """No row is wider, charts stand one under the other where there is no room, no word is broken."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    line = ("plan", "--mechanism", "auto", "--people", "1e6", "--explain")
    piped = at(*line)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    rows = click.unstyle(at(*line)).splitlines()[1:]  # the first is not the picture's
    assert max(len(row.rstrip()) for row in rows) <= width
    assert sum("against people" in row and "±" in row for row in rows) == (2 if width >= 40 else 0)
    assert sum(row.count("± against") for row in rows) == (4 if width >= 40 else 0)
    assert any(row.count("± against") == 2 for row in rows) == (width >= 80)
    assert ("--plot FILE draws it in a file" in " ".join(rows)) == (width < 40)
    joined = " ".join(" ".join(rows).split())
    sentences = [
        row for row in piped.splitlines() if row.startswith(("if ", "error: ", "±: ", "1,000,000"))
    ]
    assert len(sentences) == 5
    assert all(sentence in joined for sentence in sentences)


def test_an_explanation_of_nothing_in_json_says_so_beside_it(at, capsys):
    assert run(["plan", "--mechanism", "auto", "--people", "1e6", "--explain", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["keys"] == 100
    assert output.err == "no --keys and no --epsilon given: explained for 100 keys and epsilon 1\n"


REFUSED = (*AUTO, "--epsilon", "0.1", "--people", "1e4", "--held", 6)


def test_a_refusal_is_json_where_json_is_asked_for(at, capsys):
    assert run([str(a) for a in (*REFUSED, "--json", "-o", "p")]) == 1
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert document["answers"] is False
    assert document["people_needed"] > 1000
    assert float(document["epsilon_needed"]) > 0.1
    assert document["why"] in output.err
    assert document["chosen"] is None
    assert len(document["options"]) > 3
    assert output.err.count("\n") == 1
    assert not (at.folder / "p").exists()


def test_a_refusal_is_explained_too(at, capsys):
    assert run([str(a) for a in (*REFUSED, "--explain", "--plot", "e.png")]) == 1
    output = capsys.readouterr()
    assert "times the people" in output.out
    assert "kvue" in output.out
    assert "least predicted error" not in output.out
    assert "(chosen)" not in output.out
    assert " (least error)   2 " in output.out
    assert output.err.count("\n") == 1
    assert "it takes about" in output.err
    assert (at.folder / "e.png").stat().st_size > 10_000


def test_the_explanation_names_the_estimator_that_the_plan_is_chosen_for(at):
    words = (*AUTO, "--epsilon", 2, "--people", "2e4", "--held", 9)
    assert "chosen for the default answers of keyveil estimate (best)" in at(*words, "--explain")
    assert json.loads(at(*words, "--json"))["advice"]["estimator"] == "best"


@pytest.mark.parametrize(
    ("ask", "compared", "fakes"),
    [
        ("both", "frequency and mean alike, after shrinkage", "a key's frequency from 0.45 to"),
        ("frequency", "the frequency, after shrinkage", "a key's frequency from 0.45 to"),
        ("mean", "the mean, after shrinkage", "a key's mean from 3 to"),
        ("conditional", "conditional frequency and mean alike", "a conditional frequency from 0.45 to"),
        ("mean(3 | 4, 5)", "conditional mean, as estimated", "mean(3 | 4, 5) from 3 to"),
        ("lift(3 | 4)", "conditional frequency, as estimated", "frequency(3 | 4) from 0.45 to"),
        ("mean(3 | 4); lift(3 | 4)", "conditional frequency and mean alike", "mean(3 | 4) from 3 to"),
    ],
)
def test_the_explanation_speaks_of_what_was_asked(at, ask, compared, fakes):
    output = at(
        *AUTO, "--epsilon", 2, "--people", "1e6", "--held", 9, "--ask", ask, "--explain", "-o", "p"
    )
    assert f"error: squared error over the first's: {compared}" in output
    assert f"they can raise {fakes}" in output
    assert ("default answers of keyveil estimate" in output) == ("conditional" not in compared)


def test_with_few_keys_no_shrinkage_is_advised(at):
    output = at(*AUTO, "--keys", 3, "--epsilon", 2, "--people", "1e6", "--explain", "-o", "p")
    assert "after shrinkage" not in output


def test_a_named_mechanism_says_what_to_expect(at):
    named = ("plan", "--keys", 20, "--epsilon", 1, "--people", "1e5", "--force", "--mechanism")
    output = at(*named, "kvue", "-o", "p")
    assert "with 100,000 people a key's answers will be off: frequency by about 0.0" in output
    assert "(expecting 6 keys held on average" in output
    assert "expecting 2 keys held" in at(*named, "kvue", "--held", 2, "-o", "p")
    document = json.loads(at(*named, "kvue", "--json"))
    assert 0 < document["expected"]["frequency_error"] < document["expected"]["mean_error"] < 1
    assert "mass by about" in at(*named, "harmony", "-o", "p")
    assert "a key's answers" in at(*named, "several", "-o", "p")
    assert "conditional frequency" in at(*named, "pairs", "-o", "p")
    assert Plan.parse(at(*named, "kvue")).mechanism_name == "kvue", "the plan alone, without a file"


def test_auto_answers_queries(at):
    document = json.loads(
        at(*AUTO, "--epsilon", 2, "--people", "1e6", "--ask", "mean(0 | 1); mean(2 | 3)", "--json")
    )
    assert document["mechanism"] == "workload"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--epsilon", 1), 2, "needs --people"),
        (("--epsilon", "0.1", "--people", "1e4"), 1, "it takes about"),
        (("--epsilon", 1, "--people", 0), 1, "whole number of at least 1"),
        (("--epsilon", 1, "--people", 1000, "--ask", "all"), 1, "--ask is one of"),
        (("--epsilon", 1, "--people", 1000, "--held", 21), 1, "at most 20"),
        (("--epsilon", 1, "--people", 1000, "--set", "levels=3"), 1, "auto sets the parameters"),
        (("--epsilon", 1, "--people", 1000, "--spread", "wide"), 1, "spread"),
        (("--epsilon", 1, "--people", 1000, "--spread", "3"), 1, "spread lies between 0 and 2"),
        (("--epsilon", 1, "--people", 1000, "--mean", "0.5"), 1, "mean lies above 1 and below 5"),
        (("--epsilon", 1, "--people", "lots"), 1, "--people must be a whole number of at least 1"),
        (
            ("--epsilon", 1, "--people", 1000, "--calibrate", "paper"),
            1,
            "--calibrate paper is for a mechanism",
        ),
        (("--epsilon", 1, "--people", 1000, "--ask", "mean(cola)"), 1, "no key"),
    ],
)
def test_auto_refuses_in_one_line(at, arguments, code, said):
    assert said in at(*AUTO, *arguments, code=code)


def test_anyway_makes_the_best_plan_all_the_same(at):
    at(*AUTO, "--epsilon", "0.1", "--people", 1000, "--held", 3, "--anyway", "-o", "p")
    plan = Plan.load(at.folder / "p")
    assert plan.proven <= plan.promised == Decimal("0.1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ask", "mean"), "--ask: only for --mechanism auto"),
        (("--people", 9, "--anyway", "--plot", "e.png"), "--plot, --anyway: only for --mechanism auto"),
        (("--held", 2, "--spread", 1), "--held, --spread: only with --people"),
    ],
)
def test_nothing_that_is_said_is_ignored(at, arguments, said):
    assert said in at("plan", "--keys", 3, "--epsilon", 1, "--mechanism", "kvue", *arguments, code=2)


def test_the_next_round_is_not_told_again_what_its_plan_says(at):
    message = at("plan", "--next", "p", "t", "--epsilon", 1, "--mechanism", "kvue", code=2)
    assert "--epsilon, --mechanism: the next round takes this from PLAN" in message


@pytest.mark.parametrize(
    ("name", "fakes"), [("kvue", "frequency from 0.1 to"), ("harmony", "mass from")]
)
def test_a_named_mechanism_is_explained(at, name, fakes):
    named = ("plan", "--keys", 20, "--epsilon", 1, "--mechanism", name, "--explain")
    lines = at(*named, "--people", "1e4", "--held", 2, "-o", "p").splitlines()
    assert "a key's answers will be off" in lines[0]
    assert "10,000 people pass a shuffler" in lines[1]
    assert f"they can raise a key's {fakes}" in lines[2]
    assert lines[3].startswith(f"p: {name}")
    assert Plan.load(at.folder / "p").mechanism_name == name
    assert "--explain: only with --people" in at(*named, code=2)


def _shown(output: str, mechanism: str) -> tuple[float, float]:
    """A row's errors of frequency and mean in the table of options."""
    row = next(line for line in output.splitlines() if line.startswith(f"{mechanism}  "))
    _, frequency, mean, *_ = row.removeprefix(mechanism).split()
    return float(frequency), float(mean)


def test_what_is_seen_and_typed_is_on_the_users_scale(at):
    """The same people on [-1, 1] and on [1, 5]: the mean's errors double, and nothing else moves."""
    plan = ("plan", "--keys", 20, "--held", 6, "--epsilon", 2, "--people", "1e5", "--mechanism")
    unit = ("--range=-1,1", "--mean", "0.5", "--spread", "0.3")
    own = ("--range", "1,5", "--mean", "4", "--spread", "0.6")
    outputs = [at(*plan, "auto", *which, "--explain") for which in (unit, own)]
    for name in ("kvue", "graded", "privkv"):
        (f, m), (same, double) = (_shown(each, name) for each in outputs)
        assert same == f
        assert double == pytest.approx(2 * m, abs=2e-4)  # rounded to four digits
    assert "means near 4, spread 0.6 on [1, 5]" in outputs[1]
    assert "means on [1, 5]" in outputs[1]
    assert "optimal (frequency 0.1, spread 0.3, mean 0.4)" in outputs[0]
    assert "optimal (frequency 0.1, spread 0.6, mean 3.8)" in outputs[1]
    assert "[-1, 1]" not in outputs[1]
    options = json.loads(at(*plan, "auto", *own, "--json"))["advice"]["options"]
    assert {"3.8"} == {o["parameters"]["mean"] for o in options if o["mechanism"] == "optimal"}
    predictions = [json.loads(at(*plan, "kvue", *which, "--json"))["expected"] for which in (unit, own)]
    assert predictions[1]["mean_error"] == pytest.approx(2 * predictions[0]["mean_error"])
    assert predictions[1]["frequency_error"] == predictions[0]["frequency_error"]
    assert predictions[1]["mean_scale"] == {"low": 1, "high": 5, "of": "all keys"}
    output = at(*plan, "kvue", *own, "-o", "p.json")
    assert "mean by about" in output
    assert "on [1, 5] (expecting" in output
    at(*plan, "kvue", "--range", "1,5", "--mean", "0.5", "-o", "wrong.json", code=1)
    assert not (at.folder / "wrong.json").exists()


def test_keys_of_different_ranges_say_which_scale(at):
    (at.folder / "own.csv").write_text("key,low,high\na,0,1\nb,0,10\n")
    plan = ("plan", "--keys", "own.csv", "--epsilon", 2, "--people", "1e5", "--mechanism")
    output = at(*plan, "auto", "--explain")
    assert "means in half ranges" in output
    assert "half ranges: keys have different ranges, so -1 is the low end of each key's range" in output
    assert "spread and mean of a mechanism are in half ranges, too" in output
    document = json.loads(at(*plan, "kvue", "--json"))["expected"]
    assert document["mean_scale"] == {"low": -1, "high": 1, "of": "each key's own range"}


@pytest.mark.parametrize(("ends", "mean", "kept"), [("1,5", "4", "0.5"), ("0,3", "2", "0." + 18 * "3")])
def test_a_parameter_is_typed_and_shown_on_the_users_scale(at, ends, mean, kept):
    plan = ("plan", "--keys", 4, "--range", ends, "--epsilon", 1, "--mechanism", "optimal", "--set")
    shown = json.loads(at(*plan, f"mean={mean}", "--json", "-o", "p.json"))
    assert shown["parameters"]["mean"] == mean
    assert shown["mean_scale"]["high"] == float(ends[-1])
    assert Plan.load(at.folder / "p.json").parameters["mean"] == kept
    assert "sound" in at("audit", "p.json")
    bounds = {"1,5": "[1.2, 4.8], for values on [1, 5]", "0,3": "[0.15, 2.85], for values on [0, 3]"}
    assert f"mean must lie in {bounds[ends]}" in at(*plan, "mean=0.1", code=1)


def test_names_in_compare_are_on_the_users_scale(at):
    """The same people on [-1, 1] and on [1, 5]: the same plans under other names."""
    rows = {}
    named = {"-1,1": "optimal:mean=0.5+spread=0.4", "1,5": "optimal:mean=4+spread=0.8"}
    for ends, values in (("-1,1", (0, 0.5, 0.75, 1)), ("1,5", (3, 4, 4.5, 5))):
        lines = [f"{user},{key},{values[(user + ord(key)) % 4]}" for user in range(60) for key in "abc"]
        (at.folder / "t.csv").write_text("\n".join(["person,key,value", *lines]))
        compare = ("compare", "--data", "t.csv", f"--range={ends}", "--people", "1e4", "--epsilon", 3,
                   "--repeat", 2, "--coins", "x", "--processes", 1, "--told", "table",
                   "--mechanism")  # fmt: skip
        output = at(*compare, f"{named[ends]},auto", "--json", "r.json", "--force")
        rows[ends] = json.loads((at.folder / "r.json").read_text())
        chosen = rows[ends][-1]["chosen"]
        assert f"auto took {chosen} at epsilon 3." in output
        assert rows[ends][0]["mechanism"] == named[ends]
        assert "mean must lie in" in at(*compare, "optimal:mean=5.5", code=1)
    unit, own = rows.values()
    assert own[0]["chosen"] == "optimal:spread=0.8+mean=4"
    assert unit[0]["chosen"] == "optimal:spread=0.4+mean=0.5"
    assert [row["mse_frequency"] for row in own] == [row["mse_frequency"] for row in unit]
    (of_unit, of_own) = (dict(p.split("=") for p in each[-1]["chosen"].partition(":")[2].split("+"))
                         for each in (unit, own))  # fmt: skip
    assert float(of_own["mean"]) == pytest.approx(3 + 2 * float(of_unit["mean"]))


def test_compare_measures_on_the_users_scale(at):
    """One table on [-1, 1] and on [1, 5], with the same coins."""
    rows = {}
    for ends, values in (("-1,1", (-1, -0.5, 0, 1)), ("1,5", (1, 2, 3, 5))):
        lines = [f"{user},{key},{values[(user + ord(key)) % 4]}" for user in range(60) for key in "abc"]
        (at.folder / "t.csv").write_text("\n".join(["person,key,value", *lines]))
        for order, name in (((), "kvue"), (("--conditional", 2), "pairs")):
            text = at("compare", "--data", "t.csv", f"--range={ends}", "--people", "1e4", "--mechanism",
                      name, "--repeat", 2, "--coins", "x", "--json", "r.json", "--plot", "r.png",
                      "--force", "--processes", 1, *order)  # fmt: skip
            assert f"means on [{ends.replace(',', ', ')}]" in text
            rows[ends, order] = json.loads((at.folder / "r.json").read_text())
    for order in ((), ("--conditional", 2)):
        middle = "conditional_" if order else ""
        for unit, own in zip(rows["-1,1", order], rows["1,5", order], strict=True):
            for name in (f"mse_{middle}frequency", "coverage_mean", "true_epsilon", "chosen"):
                assert unit[name] == own[name]
            for name, times in ((f"mse_{middle}mean", 4), (f"mae_{middle}mean_se", 2)):
                assert own[name] == pytest.approx(times * unit[name])
            assert own["runs"]["mean"] == pytest.approx([4 * e for e in unit["runs"]["mean"]])
            assert own["mean_scale"] == {"low": 1, "high": 5, "of": "all keys"}


def test_fakes_are_told_of_the_keys_that_are_expected(at):
    output = at(*AUTO, "--epsilon", 1, "--people", "1e6", "--held", 3, "--mean", "4", "--explain")
    assert "raise a key's frequency from 0.15 to" in output
    assert "its mean from 4 to" in output


def test_a_refusal_agrees_with_its_table(at, capsys, monkeypatch):
    """Each row's number of people is enough for its plan. (``test_planner`` checks the refusal's.)"""
    answers = kept_answers(monkeypatch)
    assert run([str(a) for a in (*REFUSED, "--explain")]) == 1
    output = capsys.readouterr()
    (advice,) = answers
    for option in advice.runners_up():
        factor = advice.factor(option)
        assert f"with {factor:.1f} times the people" in output.out
        assert people_factor(option.plan, round(factor * 10_000), "both", advice.prior) <= 1
    times = advice.people_needed / 10_000
    assert f"which answer with {times:.1f} times the people" in output.out
    needed = enough_people(advice.people_needed)
    assert f"it takes about {needed} people, or epsilon {advice.epsilon_needed}" in output.err
    people = int(needed.replace(",", ""))
    assert advice.people_needed <= people < 1.01 * advice.people_needed
    assert people % 1000 == 0, "in three digits"
    assert 100_000 < advice.people_needed < 140_000
    assert Decimal("0.3") < Decimal(advice.epsilon_needed) < Decimal("0.4")


def test_nothing_is_refused_where_something_can_answer():
    prior = Prior.of(Schema.of(100, 1, 5))
    advice = advise(Schema.of(100, 1, 5), "0.1", 650_000, prior=prior, brief=True)
    able = [option for option in advice.options if option.people_factor <= 1]
    assert 0 < len(able) < len(advice.options)
    assert advice.answers
    assert advice.best.cost <= ALIKE * min(option.cost for option in advice.options)
    assert min(option.score for option in advice.options) < min(option.score for option in able)
    assert Plan.choose(Schema.of(100, 1, 5), "0.1", 650_000, prior=prior) == advice.plan


@pytest.mark.parametrize(
    ("below", "most", "made"),
    [
        ("0.7", "1", ["0.71", "0.72", "0.8", "0.99", "1"]),
        ("1", "1.5", ["1.1", "1.2", "1.3", "1.4", "1.5"]),
        ("0.05", "0.1", ["0.051", "0.099", "0.1"]),
        ("8", "10", ["8.1", "9.9", "10"]),
    ],
)
def test_epsilons_of_two_digits(below, most, made):
    epsilons = two_digit_numbers(Decimal(below), Decimal(most))
    assert set(made) <= set(epsilons)
    assert (epsilons[0], epsilons[-1]) == (made[0], made[-1])
    assert [float(each) for each in epsilons] == sorted(map(float, epsilons))
    assert all(len(each.replace(".", "").strip("0")) <= 2 for each in epsilons)


TABLE = ("compare", "--data", "people.csv", "--person", "user", "--range", "1,5", "--people", 5000)


def test_compare_says_where_the_planner_would_refuse(at):
    options = (*TABLE[:-1], 100, "--mechanism", "kvue,auto", "--repeat", 2, "--told", "table")
    output = at(*options, "--epsilon", "0.05,8", "--json", "rows.json")
    assert "At epsilon 0.05 the planner would refuse" in output
    rows = json.loads((at.folder / "rows.json").read_text())
    refused = {(row["mechanism"], row["epsilon"]) for row in rows if row["refused"]}
    assert ("auto", 0.05) in refused
    assert ("auto", 8) not in refused
    table = (*TABLE, "--mechanism", "auto", "--epsilon", 3, "--repeat", 2, "--told", "table")
    assert "would refuse" not in at(*table)


def test_compare_gives_the_error_of_every_repetition(at):
    at(*TABLE, "--mechanism", "kvue", "--repeat", 4, "--json", "rows.json")
    for row in json.loads((at.folder / "rows.json").read_text()):
        for part in ("frequency", "mean"):
            runs = row["runs"][part]
            assert len(runs) == 4
            assert np.mean(runs) == pytest.approx(row[f"mse_{part}"])
            assert np.std(runs, ddof=1) / 2 == pytest.approx(row[f"mse_{part}_se"])


@pytest.mark.parametrize("epsilons", ["1,,2", "1,2,", ",1"])
def test_a_missing_epsilon_is_not_passed_over(at, epsilons):
    assert "an epsilon is missing" in at(*TABLE, "--epsilon", epsilons, code=1)


def test_compare_measures_single_keys(at):
    output = at(*TABLE, "--mechanism", "kvue,graded:levels=3,auto", "--epsilon", 3, "--repeat", 2,
              "--json", "rows.json", "--plot", "rows.png", "--coins", "x")  # fmt: skip
    rows = json.loads((at.folder / "rows.json").read_text())
    planner = {"auto", "auto:one_round", "auto:pilot"}
    assert {row["mechanism"] for row in rows} == {"kvue", "graded:levels=3", *planner}
    assert "auto:pilot is told nothing and first asks" in output
    for name in ("estimator", "true_epsilon", "mse_frequency", "mse_mean", "coverage_frequency"):
        assert all(row[name] is not None for row in rows)
    assert "auto (" in output
    assert (at.folder / "rows.png").stat().st_size > 10_000
    at(*TABLE, "--mechanism", "kvue,graded:levels=3", "--epsilon", 3, "--repeat", 2, "--coins", "x",
       "--processes", 1, "--json", "again.json")  # fmt: skip
    again = json.loads((at.folder / "again.json").read_text())
    assert again == [row for row in rows if row["mechanism"] not in planner]


def test_compare_everything_on_a_stated_population(at):
    at("compare", "--population", "gaussian", "--top", 5, "--people", 2000, "--mechanism", "all",
       "--repeat", 2, "--told", "nothing", "--json", "rows.json")  # fmt: skip
    names = {row["mechanism"] for row in json.loads((at.folder / "rows.json").read_text())}
    assert {"privkv", "privkvm", "f2m", "kvue", "kvoh", "pckv_ue", "pckv_grr", "coco", "auto"} <= names


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("compare",), 2, "needs --data"),
        ((*TABLE, "--population", "gaussian"), 2, "not both"),
        ((*TABLE, "--mechanism", "kvueue"), 1, "did you mean kvue?"),
        ((*TABLE, "--mechanism", "kvue,atuo"), 1, "did you mean auto?"),
        ((*TABLE, "--mechanism", "graded:levels=99"), 1, "between"),
        ((*TABLE, "--conditional", 2, "--mechanism", "all"), 1, "for single keys"),
        ((*TABLE, "--repeat", 0), 1, "--repeat must be at least 1, not 0"),
        ((*TABLE, "--top", 0), 1, "--top must be at least 1, not 0"),
        ((*TABLE, "--epsilon", "one"), 1, "epsilon"),
        ((*TABLE, "--estimator", "shrink"), 1, "the estimator 'shrink'; did you mean shrunk? known: "),
        ((*TABLE, "--value", "stars"), 1, "column 'stars' is not in the table"),
        ((*TABLE, "--person", "who"), 1, "column 'who' is not in the table"),
        ((*TABLE, "--range", "5,1"), 1, "--range 5,1: LOW 5 is not below HIGH 1"),
        ((*TABLE, "--range", "10,20"), 1, "every value of the table lies outside 10,20"),
        (
            (*TABLE, "--conditional", 2, "--estimator", "shrunk"),
            1,
            "'shrunk'; known: best, pooled",
        ),
    ],
)
def test_compare_refuses_in_one_line(at, arguments, code, said):
    assert said in at(*arguments, code=code)


QUICK = ("--people", 2000, "--repeat", 2, "--processes", 1)


def test_compare_says_what_it_did_in_one_line_each(at, capsys):
    def run_compare(*arguments):
        capsys.readouterr()
        assert run([str(a) for a in (*TABLE, *QUICK, *arguments)]) == 0
        output = capsys.readouterr()
        return output.out, output.err.strip().splitlines()

    _, notes = run_compare("--mechanism", "kvue")
    assert len(notes) == 1
    assert "--everyone N adds them" in notes[0]
    names = notes[0].split(" names ")[1].split(" people")[0]
    everyone = ("--everyone", names)

    out, notes = run_compare(*everyone, "--mechanism", "kvue")
    assert notes == []
    assert "6 keys, 2,000 people, 2 repetitions" in out
    assert "± is the standard error" in out

    out, notes = run_compare(*everyone, "--mechanism", "kvue", "--repeat", 1)
    assert "1 repetition," in out
    assert "±" not in out
    assert len(notes) == 1
    assert "no standard error" in notes[0]

    _, notes = run_compare(*everyone, "--mechanism", "kvue", "--range", "3,5")
    assert len(notes) == 1
    assert "is this the range" in notes[0]
    _, notes = run_compare(*everyone, "--mechanism", "kvue", "--range", "1.01,5")
    assert "were clipped to it" in notes[0]

    _, notes = run_compare(
        *everyone,
        *("--mechanism", "kvue,rr,privkvm", "--estimator", "corrected,debiased", "--json", "r.json"),
    )
    assert notes == [
        next(line for line in notes if line.startswith("rr is left out: rr has no estimator")),
        "estimator debiased is left out where there is none: kvue",
        "estimator corrected is left out where there is none: privkvm",
    ]
    rows = json.loads((at.folder / "r.json").read_text())
    assert {(r["mechanism"], r["estimator"]): r["skipped"] for r in rows} == {
        ("kvue", "corrected"): ["debiased"],
        ("privkvm", "debiased"): ["corrected"],
    }

    out, _ = run_compare(*everyone, "--mechanism", "collision:cap=1", "--json", "c.json")
    assert "Share of held keys that is left out: collision:cap=1" in out
    assert all(r["bias_from_cap"] for r in json.loads((at.folder / "c.json").read_text()))


def nasty(folder, name):
    """Tables that nobody expects, each with its range."""
    draw = Coins.stated("nasty").generator()
    users = np.repeat(np.arange(120), 5)
    keys = [f"k{k}" for k in draw.integers(0, 5, 600)]
    values = draw.uniform(0.5, 5, 600).round(2).astype(object)
    ends = "0.5,5"
    if name == "nulls, and a key without any number":
        values[draw.random(600) < 0.3] = ""
        values[[k == "k3" for k in keys]] = ""
    elif name == "one key":
        keys = ["only"] * 600
    elif name == "two keys, one of them once":
        keys = ["only"] * 599 + ["once"]
    elif name == "everyone holds all keys":
        keys = [f"k{i % 5}" for i in range(600)]
    elif name == "one key each":
        users = np.arange(600)
    elif name == "one value":
        values[:] = 3.0
    elif name == "the two ends":
        values[:] = draw.choice([0.5, 5.0], 600)
    elif name == "whole numbers and names":
        values[:] = draw.integers(1, 11, 600)
        users, ends = np.array([f"ü {u}" for u in users]), "1,10"
    elif name == "one person":
        users = np.zeros(600, int)
    lines = ["user,key,value", *(f"{u},{k},{v}" for u, k, v in zip(users, keys, values, strict=True))]
    (folder / "nasty.csv").write_text("\n".join(lines))
    return ends


TABLES = (
    "nulls, and a key without any number",
    "one key",
    "two keys, one of them once",
    "everyone holds all keys",
    "one key each",
    "one value",
    "the two ends",
    "whole numbers and names",
    "one person",
)


@pytest.mark.parametrize(
    ("name", "epsilons"),
    [(name, [0.2, 6] if LONG else [(0.2, 6)[at % 2]]) for at, name in enumerate(TABLES)],
)
def test_compare_survives_any_table(at, name, epsilons):
    """Every mechanism, at a small or a large epsilon: valid JSON, and the planner at each."""
    ends = nasty(at.folder, name)
    low, high = map(float, ends.split(","))
    ways = () if name == "one person" else ("--told", "table")  # all ways to tell the planner once
    at("compare", "--data", "nasty.csv", "--person", "user", "--range", ends, "--people", 300,
       "--mechanism", "all", "--epsilon", ",".join(map(str, epsilons)), "--repeat", 2,
       "--json", "out.json", "--coins", "x", "--processes", 1, *ways)  # fmt: skip
    rows = json.loads((at.folder / "out.json").read_text(), parse_constant=pytest.fail)
    assert {row["epsilon"] for row in rows if row["mechanism"] == "auto"} == set(epsilons)
    for row in rows:
        assert 0 <= row["mse_frequency"] <= 1
        assert row["mse_mean"] is None or 0 <= row["mse_mean"] <= (high - low) ** 2
        assert row["mean_scale"] == {"low": low, "high": high, "of": "all keys"}
        assert 0 < row["true_epsilon"] <= row["epsilon"]
