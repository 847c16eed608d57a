"""Files of keys: the content says what they are, and what was assumed is said."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from keyveil import KeyveilError, Plan, Schema
from keyveil.cli.arguments import NO_RANGE, read_schema
from keyveil.cli.command import run


@pytest.fixture
def read(tmp_path):
    """The schema of a file, and what was assumed."""

    def read(content: str, name: str = "keys.txt", ends: str | None = "1,5"):
        path = tmp_path / name
        path.write_text(content)
        notes: list[str] = []
        schema = read_schema(str(path), ends, notes)
        return schema, [note.replace(f"{path}: ", "") for note in notes]

    return read


@pytest.mark.parametrize("name", ["keys.txt", "keys.csv", "keys.tsv", "keys", "keys.list"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_columns_are_columns_whatever_the_file_is_called(read, name, delimiter):
    rows = [("Low", "key", "HIGH"), ("0", "Pepsi", "10"), ("", "Diet Coke", ""), ("-1", '"a,;|b"', "1")]
    schema, notes = read("\n".join(delimiter.join(row) for row in rows), name)
    assert schema.keys == ("Pepsi", "Diet Coke", "a,;|b")
    assert schema.ranges == tuple((Decimal(a), Decimal(b)) for a, b in ((0, 10), (1, 5), (-1, 1)))
    assert notes == []


@pytest.mark.parametrize("name", ["keys.txt", "keys", "keys.list"])
def test_lines_are_keys_and_what_looks_otherwise_is_said(read, name):
    assert read("\ufeffPepsi\n\n Diet Coke \n", name)[0].keys == ("Pepsi", "Diet Coke")
    schema, notes = read("Fish, chips\nTea\n", name)
    assert schema.keys == ("Fish, chips", "Tea")
    assert notes == ["no first line key,low,high, so each line is one key; 1 of 2 keys contain commas"]
    schema, notes = read("key\nlock\n", name)
    assert schema.keys == ("key", "lock")
    assert notes == ["the first line is taken as a key called 'key'"]


def test_columns_that_are_not_used_are_said(read):
    schema, notes = read("key,low,high,Comment\nTea,0,1,hot\n", ends=None)
    assert schema.keys == ("Tea",)
    assert notes == ["columns other than key, low and high are not used (comment)"]


def test_a_forgotten_range_is_said_only_where_it_is_used(read):
    assert read("Tea\nPepsi\n", ends=None)[1] == [NO_RANGE]
    assert read("key,low,high\nTea,1,5\nPepsi,,\n", ends=None)[1] == [NO_RANGE]
    assert read("key,low,high\nTea,1,5\nPepsi,0,1\n", ends=None)[1] == []
    assert read("Tea\n")[1] == []


def test_a_range_that_no_key_takes_is_said(read):
    given = "key,low,high\nTea,1,5\nPepsi,0,1\n"
    assert read(given, ends="0,10")[1] == ["every key has its own range, so --range is not used"]
    assert read("key,low,high\nTea,1,5\nPepsi,,\n", ends="0,10")[1] == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("keys.txt", "", "is empty"),
        ("keys.txt", " \n\n", "is empty"),
        ("keys.csv", "Pepsi\nFries\n", "needs a first line key,low,high"),
        ("keys.txt", "Pepsi,1,5\nFries,0,10\n", "ends in two numbers between commas; add a first line"),
        ("keys.txt", "Pepsi;1;5\n", "between semicolons; add a first line 'key;low;high'"),
        (
            "keys.txt",
            "key,low,high\nFish, chips,1,5\n",
            "line 2 has 4 cells, but the first line names 3",
        ),
        ("keys.txt", "key,low,high\n\nTea,1,\n", "line 3 has only one end of a range"),
        ("keys.txt", "key,low,max\nTea,1,5\n", "there is no column 'high'"),
        ("keys.txt", "key,min,high\nTea,1,5\n", "there is no column 'low'"),
        ("keys.txt", "key,low,high\nTea,one,five\n", "line 2: low must be a number"),
        ("keys.txt", "key;low;high\nTea;1;4,5\n", "line 2: high must be a number"),
        ("keys.txt", "key,low,high\nTea,5,1\n", "low 5 is not below high 1"),
        ("keys.txt", "key,key\nTea,Tea\n", "column 'key' is there twice"),
        ("keys.txt", "key,low,high\nTea,1,5\nTea,1,5\n", "line 3: the key is listed twice"),
        *(
            (
                name,
                f"{header}\nTea,1,5\n",
                f"{name} has a column '{column}': it is a table of people, and",
            )
            for name in ("keys.txt", "people.csv")
            for header, column in (("key,person,value", "person"), ("key;low;Value", "value"))
        ),
        ("keys.txt", "Tea\nTea\n", "key 'Tea' is listed twice"),
        ("keys.txt", 'key,low,high\n"Tea,1,5\nCola,1,5\n', "a line cannot be read; is a quote open"),
        ("keys.txt", "key,low,high\n", "1 to 1048576 keys"),
        ("keys.txt", "a" * 300, "1 to 256 characters"),
        ("keys.json", '["Pepsi", "Fries"]', "keys.json is JSON; a file of keys has one key a line"),
        ("keys.json", '{"cells":[1,2]}\n{"cells":[1,3]}\n', "keys.json is JSON"),
        ("keys.json", Plan.of(Schema.of(3), "kvue", 1).dumps(), "keys.json is a plan"),
        ("keys.txt", "Tea\0Pepsi", "keys.txt is no text"),
    ],
)
def test_a_bad_file_is_refused_by_its_name(read, name, content, message):
    with pytest.raises(KeyveilError, match=message) as caught:
        read(content, name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_says_what_it_assumed(tmp_path, monkeypatch, capsys):
    """On the error stream, and only of a plan that is made."""
    monkeypatch.chdir(tmp_path)
    Path("keys.txt").write_text("key,low,high\nPepsi,1,5\nTea,,\n")
    words = ["plan", "--keys", "keys.txt", "--epsilon", "1", "--mechanism", "kvue", "-o"]
    assert run([*words, "p.json"]) == 0
    assert capsys.readouterr().err == f"{NO_RANGE}\n"
    assert Plan.load("p.json").schema.keys == ("Pepsi", "Tea")
    assert run([*words, "q.json", "--range", "1,5"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*words[:-2], "kvu", "-o", "r.json"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
