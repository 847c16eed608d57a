"""Output files: never over an input, over another file only with --force, refused before any work."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from keyveil import Plan, Schema, Tally
from keyveil.cli.command import keyveil, run

OUTPUTS = {
    ("plan", "--output"): ("plan", "--keys", "keys.txt", "--epsilon", "1", "--mechanism", "kvue"),
    ("plan", "--plot"): ("plan", "--keys", "keys.txt", "--epsilon", "9", "--mechanism", "auto",
                         "--people", "1e6"),
    ("privatise", "--output"): ("privatise", "plan.json", "people.csv"),
    ("tally", "--output"): ("tally", "plan.json", "reports.kv"),
    ("estimate", "--plot"): ("estimate", "plan.json", "tally.kv"),
    ("conditional", "--plot"): ("conditional", "pairs.json", "pairs.kv"),
    ("poison", "--plot"): ("poison", "plan.json", "tally.kv", "--compare"),
    ("learn rules", "--plot"): ("learn", "rules", "pairs.json", "pairs.kv"),
    ("learn tree", "--plot"): ("learn", "tree", "pairs.json", "pairs.kv", "Pepsi"),
    ("learn bayes", "--plot"): ("learn", "bayes", "pairs.json", "pairs.kv", "Pepsi"),
    ("learn chow-liu", "--plot"): ("learn", "chow-liu", "pairs.json", "pairs.kv"),
    ("learn cube", "--plot"): ("learn", "cube", "pairs.json", "pairs.kv", "Pepsi", "Fries"),
    ("compare", "--plot"): ("compare", "--data", "people.csv"),
    ("compare", "--json"): ("compare", "--data", "people.csv"),
    ("bench", "--plot"): ("bench", "--only", "tally", "--seconds", "0.01"),
    ("demo", "--table"): ("demo", "--guests", "10"),
    ("demo", "--keys"): ("demo", "--guests", "10", "--table", "orders.csv"),
}  # fmt: skip
"""Every option that writes a file, with the rest of a command that would be done."""
CASES = [pytest.param(*place, id=" ".join(place)) for place in OUTPUTS]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Keys, a table, plans, reports and tallies, each a file that someone may name twice."""
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text("Pepsi\nFries\n")
    Path("people.csv").write_text("person,key,value\n1,Pepsi,1\n1,Fries,0\n2,Fries,-1\n")
    schema = Schema.of(["Pepsi", "Fries"])
    for name, mechanism in (("plan", "kvue"), ("pairs", "pairs")):
        plan = Plan.of(schema, mechanism, 1)
        plan.save(f"{name}.json")
        Tally(plan).add(plan.report({})).save("tally.kv" if name == "plan" else "pairs.kv")
    assert run(["privatise", "plan.json", "people.csv", "-o", "reports.kv"]) == 0
    return tmp_path


@pytest.fixture
def no_work(monkeypatch):
    """Any reading of a plan or a table, and any choice of one, counts as work."""

    def work(*_: object, **__: object) -> None:
        raise AssertionError("work began before the output was refused")

    for name in ("load", "of", "choose"):
        monkeypatch.setattr(Plan, name, work)
    monkeypatch.setattr("keyveil.people.tables.top_keys.read_top", work)
    monkeypatch.setattr("keyveil.cli.plan_options.read_schema", work)


def contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def all_commands(group: click.Group, before: str = "") -> dict[str, click.Command]:
    """Every command by all of its words."""
    commands = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            commands |= all_commands(command, f"{before}{name} ")
        else:
            commands[before + name] = command
    return commands


COMMANDS = all_commands(keyveil)


def output_options() -> set[tuple[str, str]]:
    return {
        (name, option.opts[-1])
        for name, command in COMMANDS.items()
        for option in command.params
        if isinstance(option.type, click.Path) and getattr(option.type, "is_output", False)
    }


def test_every_output_is_under_the_same_rule():
    """Options of these names that take a path; the folder of ``reproduce`` has a rule of its own."""
    own_rule = {("reproduce", "--output")}
    other_names = {("demo", "--table"), ("demo", "--keys")}
    named = {
        (name, option.opts[-1])
        for name, command in COMMANDS.items()
        for option in command.params
        if isinstance(option.type, click.Path) and {"--output", "--plot", "--json"} & set(option.opts)
    }
    assert named - own_rule | other_names == set(OUTPUTS) == output_options()
    for name, _ in OUTPUTS:
        assert any("--force" in option.opts for option in COMMANDS[name].params)


def inputs_of(words: tuple[str, ...]) -> list[str]:
    return [word for word in words if Path(word).is_file()]


@pytest.mark.parametrize("way", ["name", "relative", "absolute", "symlink", "hardlink", "folder link"])
@pytest.mark.parametrize(("name", "option"), CASES)
def test_an_output_never_replaces_an_input(folder, no_work, command, name, option, way):
    words = OUTPUTS[name, option]
    before = contents()
    for source in inputs_of(words):
        output = {
            "name": source,
            "relative": f"../{folder.name}/{source}",
            "absolute": f"{folder}/{source}",
        }
        path = output.get(way, "link.png")
        if way == "symlink":
            os.symlink(source, path)
        elif way == "hardlink":
            os.link(source, path)
        elif way == "folder link":
            os.symlink(folder, "here")
            path = f"here/{source}"
        for force in ((), ("--force",)):
            message = command(*words, option, path, *force, code=1)
            assert message.startswith(f"keyveil: {path} is an input of this command")
        for file in ("link.png", "here"):
            Path(file).unlink(missing_ok=True)
    assert contents() == before


@pytest.mark.parametrize(("name", "option"), CASES)
def test_another_file_is_replaced_only_with_force(folder, no_work, command, name, option):
    Path("kept.png").write_text("mine")
    message = command(*OUTPUTS[name, option], option, "kept.png", code=1)
    assert message == "keyveil: kept.png exists; give another name, or --force to replace it\n"
    assert Path("kept.png").read_text() == "mine"
    Path("gone.png").symlink_to("nowhere.png")
    assert "gone.png exists" in command(*OUTPUTS[name, option], option, "gone.png", code=1)


SOON = [("plan", "--output"), ("privatise", "--output"), ("tally", "--output"), ("estimate", "--plot")]


@pytest.mark.parametrize(("name", "option"), SOON)
def test_force_replaces_the_file_and_nothing_else(folder, command, name, option):
    Path("kept.png").write_text("mine")
    before = contents()
    command(*OUTPUTS[name, option], option, "kept.png", "--force")
    after = contents()
    assert after.pop("kept.png") != before.pop("kept.png")
    assert after == before


def test_force_replaces_a_link_and_not_what_it_points_to(folder, command):
    Path("other.json").write_text("mine")
    Path("link.json").symlink_to("other.json")
    command(*OUTPUTS["plan", "--output"], "-o", "link.json", "--force")
    assert Path("other.json").read_text() == "mine"
    Plan.load("link.json")


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("no/r.png", 1, "there is no folder no"),
        ("plan.json/r.png", 1, "there is no folder plan.json"),
        (".", 1, "is a folder; name a file"),
        ("/dev/null", 1, "/dev/null is not a regular file"),
        ("--keys", 2, "needs a file's name, not '--keys'"),
        ("-", 2, "needs a file's name, not '-'"),
        ("", 2, "needs a file's name"),
        (f"{'a' * 300}.png", 1, "File name too long"),
    ],
)
@pytest.mark.parametrize(("name", "option"), [("privatise", "--output"), ("compare", "--plot")])
def test_what_cannot_be_written_is_refused_before_any_work(
    folder, no_work, command, name, option, path, code, message
):
    before = contents()
    assert message in command(*OUTPUTS[name, option], option, path, "--force", code=code)
    assert contents() == before


@pytest.mark.parametrize(("name", "option"), [case for case in OUTPUTS if case[1] == "--plot"])
def test_a_picture_is_refused_by_its_name_before_any_work(folder, no_work, command, name, option):
    message = command(*OUTPUTS[name, option], option, "a.txt", code=1)
    assert "a picture's name ends in .png, .svg or .pdf" in message


def test_two_outputs_are_two_files(folder, no_work, command):
    words = OUTPUTS["compare", "--plot"]
    message = command(*words, "--plot", "a.png", "--json", "./a.png", code=1)
    assert "name the same file" in message
    Path("a.png").write_text("mine")
    Path("b.png").hardlink_to("a.png")
    message = command(*words, "--plot", "a.png", "--json", "b.png", "--force", code=1)
    assert "name the same file" in message


def test_a_long_name_that_the_disk_allows_can_be_written(folder, command):
    name = "é" * 120 + ".json"
    command(*OUTPUTS["plan", "--output"], "-o", name)
    Plan.load(name)


def test_force_says_nothing_about_a_plan_that_cannot_answer(folder, command):
    """Two promises, two words: --force replaces a file, --anyway takes a plan that cannot answer."""
    words = ("plan", "--keys", "keys.txt", "--epsilon", "0.1", "--mechanism", "auto", "--people", "100")
    Path("kept.json").write_text("mine")
    assert "--anyway makes the best plan" in command(*words, "-o", "kept.json", "--force", code=1)
    assert "kept.json exists" in command(*words, "-o", "kept.json", "--anyway", code=1)
    assert Path("kept.json").read_text() == "mine"
    command(*words, "-o", "kept.json", "--anyway", "--force")
    Plan.load("kept.json")
