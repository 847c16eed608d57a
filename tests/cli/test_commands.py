"""What all commands have in common: their help, their JSON, their numbers and nouns."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from keyveil import Plan, Schema, Tally
from keyveil.cli.command import SECTIONS, keyveil, run
from keyveil.cli.output import counted, figure, print_table
from keyveil.foundation import result_table

ASKED = {"verify", "collection list", "collection compare", "token list"}
"""Of the collector's commands those that find something out; the others do something."""


def leaves(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield before + name, command


COMMANDS = dict(leaves(keyveil))
OF_A_COLLECTOR = set(SECTIONS["A collector"])


@pytest.mark.parametrize(
    "name", sorted(name for name in COMMANDS if name.split()[0] not in OF_A_COLLECTOR or name in ASKED)
)
def test_every_command_that_finds_something_has_json(name):
    assert any("--json" in option.opts for option in COMMANDS[name].params)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_what_it_is_for(name):
    help_text = COMMANDS[name].get_short_help_str(limit=500)
    assert help_text
    assert not help_text.endswith("...")


def test_the_list_of_commands_has_them_all_with_whole_sentences(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    for name in keyveil.list_commands(click.Context(keyveil)):
        assert f"\n  {name} " in out
    assert "..." not in out.partition("Options:")[2]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [(n, summary) for members in SECTIONS.values() for n, (_, summary) in members.items()],
)
def test_the_list_says_what_the_command_says_of_itself(name, sentence):
    """The list does not load the commands, so it has their sentences written down."""
    command = keyveil.get_command(click.Context(keyveil), name)
    assert command is not None
    assert command.name == name
    assert " ".join(command.get_short_help_str(limit=200).split()) == sentence


def test_a_command_loads_no_other_command():
    code = (
        "import sys\nfrom keyveil.cli.command import run\nrun(['audit', '--help'])\n"
        "print([m for m in sys.modules if m.endswith('_command')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "['keyveil.cli.audit_command']"


def test_numbers_come_with_their_nouns():
    assert [counted(n, "key") for n in (0, 1, 2, 1000)] == ["0 keys", "1 key", "2 keys", "1,000 keys"]
    assert [counted(n, "person", "people") for n in (1, 2)] == ["1 person", "2 people"]


def test_a_title_is_one_line_however_narrow_the_table(capsys):
    print_table(["a"], [["1"]], "a title that is a good deal wider than its table")
    assert capsys.readouterr().out.startswith("a title that is a good deal wider than its table\na")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A plan of one key, a tally of one report, and a tally of a plan of many."""
    monkeypatch.chdir(tmp_path)
    for keys, name in ((1, "one"), (50, "many")):
        plan = Plan.of(Schema.of(keys), "kvue", 1)
        plan.save(f"{name}.json")
        Tally(plan).add(plan.report({})).save(f"{name}.kv")
    return tmp_path


def test_one_is_said_in_the_singular(folder, capsys):
    assert run(["plan", "--keys", "1", "--epsilon", "1", "--mechanism", "kvue", "-o", "p.json"]) == 0
    assert "kvue, 1 key, promises" in capsys.readouterr().out
    assert run(["tally", "one.json", "one.kv", "-o", "t.kv"]) == 0
    assert "t.kv: 1 report in 4 cells" in capsys.readouterr().out
    assert run(["health", "one.json", "one.kv"]) == 0
    assert "in 1 report;" in capsys.readouterr().out
    assert run(["mechanisms", "--keys", "1"]) == 0
    assert "bits at 1 key " in capsys.readouterr().out


@pytest.mark.parametrize(("plan", "tally"), [("one.json", "many.kv"), ("many.json", "one.kv")])
@pytest.mark.parametrize("command", ["health", "estimate", "poison"])
def test_another_plans_tally_is_called_that(folder, capsys, command, plan, tally):
    assert run([command, plan, tally]) == 1
    message, hashes = capsys.readouterr().err, r"\([0-9a-f]{12}, not [0-9a-f]{12}\)"
    assert re.fullmatch(rf"keyveil: {tally}: the tally belongs to another plan {hashes}\n", message)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["Estimate"], "did you mean estimate?"),
        (["TALY"], "did you mean tally?"),
        (["learn", "Rules"], "did you mean rules?"),
        (["poison", "many.json", "--goal", "Raise-Mean"], "did you mean raise-mean?"),
        (["compare", "--population", "Gausian"], "did you mean gaussian?"),
        (["reproduce", "--only", "Fig11"], "did you mean fig1?"),
        (["collection", "CREATE"], "did you mean create?"),
        (["plan", "--Epsilon", "1"], "did you mean --epsilon?"),
        (["plan", "--MECHANISMS", "kvue"], "did you mean --mechanism?"),
        (["estimate", "many.json", "many.kv", "--estimator", "Shrunk"], "did you mean shrunk?"),
        (["estimate", "many.json", "many.kv", "--key", "KEY 3"], "the plan has no key 'KEY 3'"),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "KVUE"], "did you mean kvue?"),
        (["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "PrivKV"], "did you mean privkv?"),
        (
            ["plan", "--keys", "3", "--epsilon", "1", "--mechanism", "privkvm", "--set", "Rounds=3"],
            "did you mean rounds?",
        ),
        (["compare", "--population", "uniform", "--mechanism", "AUTO"], "did you mean auto?"),
    ],
)
def test_misspelt_names_get_the_nearest_whatever_their_case(folder, capsys, words, hint):
    assert run(words) in (1, 2)
    message = capsys.readouterr().err
    assert hint in message
    assert message.count("\n") == 1


def test_the_package_runs_as_a_module():
    words = [sys.executable, "-m", "keyveil", "estimates"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "keyveil: No such command 'estimates'; did you mean estimate?\n"


@pytest.mark.parametrize("command", ["shuffle", "poison"])
@pytest.mark.parametrize("people", ["lots", "0", "1.5", "1e300", "nan"])
def test_people_are_a_whole_number(folder, capsys, command, people):
    assert run([command, "one.json", "--people", people]) == 1
    message = capsys.readouterr().err
    assert "--people must be a whole number of at least 1" in message
    assert message.count("\n") == 1


def test_answers_name_their_estimator_and_raw_ones_are_given_on_request(folder, capsys):
    assert run(["estimate", "many.json", "many.kv"]) == 0
    output = capsys.readouterr()
    assert "estimator: best" in output.out
    assert not output.err
    assert run(["estimate", "many.json", "many.kv", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert run(["estimate", "many.json", "many.kv", "--estimator", "least_squares", "--json"]) == 0
    raw = json.loads(capsys.readouterr().out)
    assert [answer["raw"]["frequency"] for answer in answers] == [key["frequency"] for key in raw]
    values = [answer["frequency"]["value"] for answer in answers]
    assert all(value is None or 0 <= value <= 1 for value in values)
    assert all("raw" not in key for key in raw)


def test_a_frequency_outside_its_range_is_remarked_on(folder, capsys):
    assert run(["poison", "many.json", "--fakes", "0.3", "--target", "0"]) == 0
    assert "a frequency outside [0, 1] is seen at once: keyveil health" in capsys.readouterr().out
    assert run(["poison", "many.json", "--fakes", "0.001", "--target", "0"]) == 0
    assert "outside" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mechanism", "keys", "states", "words"),
    [
        ("kvue", 2, (0, 1), "0 is the key not held; 1 is the key held with a low value"),
        ("graded", 2, (3, 0), "3 is the key held with level 3 of 3; 0 is the key not held"),
        (
            "pairs",
            3,
            (0, 5),
            "0 is no key of the view held; 5 is the first key held with a low value and "
            "the second key held with a high value",
        ),
        ("pairs", 3, (3, 0), "3 is the first key held with a low value, no other; "),
        ("collision", 2, (0, 1), None),
        ("ioh", 5, (0, 1), None),
    ],
)
def test_an_audit_names_the_records_of_its_worst_case(mechanism, keys, states, words):
    from keyveil.cli.audit_command import states_in_words

    phrase = states_in_words(Plan.of(Schema.of(keys), mechanism, 1), states)
    assert phrase is None if words is None else phrase.startswith(words)


def test_a_schema_is_shown_in_a_few_words():
    assert repr(Schema.of(10, "0.5", 5)) == "Schema(10 keys, values in [0.5, 5])"
    assert repr(Schema.of(["a"])) == "Schema(1 key, values in [-1, 1])"
    ranges = {"b": (0, 2)}
    assert repr(Schema.of(["a", "b"], ranges=ranges)) == "Schema(2 keys, values of several ranges)"


def test_a_number_that_rounds_to_zero_has_no_minus():
    assert (figure(-0.00001), figure(-0.00001, "+.4f"), figure(-0.4, ",.0f")) == (
        "0.0000",
        "+0.0000",
        "0",
    )
    assert (result_table.figure(-0.00001), result_table.figure(-0.0057)) == ("0.0000", "-0.0057")
