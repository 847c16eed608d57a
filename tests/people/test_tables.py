"""Tables: every door gives the tally of the one-person path, whatever the order, chunks and disk."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Coins, People, Plan, RecordError, Schema, TableError, Tally
from keyveil.foundation.coins import address
from keyveil.people.tables import key_counts, people_of, read_people, sources, spill
from keyveil.people.tables import text_tables as textfiles

SCHEMA = Schema.of(["Fries", "Pepsi", "Tea", "7", "NA"], 1, 5)
PLAN = Plan.of(SCHEMA, "kvue", 1)
COINS = Coins.stated("x")

SECRET_KEY, SECRET_VALUE, SECRET_PERSON = "Whisky", "4.125", "mallory-77"
"""What no message may contain."""


# -- people to write and read ------------------------------------------------------------------------


def records_of(names):
    """A record of up to four keys for each name; every fifth person holds nothing."""
    keys = SCHEMA.keys
    return {
        name: {keys[(i + j) % 5]: 1 + (3 * i + j) % 9 / 2 for j in range(i % 5)}
        for i, name in enumerate(names)
    }


NUMBERS = records_of([*range(-3, 14), 100, 1 << 62])
TEXTS = records_of(["", "007", "7", "10", "9", "é", "\U0001f600", *(f"user {i}" for i in range(12))])
WORDS = records_of([name for name in TEXTS if name])
"""Texts as a .csv can hold them: there, an empty cell is a missing one."""


def rows_of(records, order):
    """The records as rows; a row without a key says that its person is there."""
    rows = [
        (name, key, value)
        for name, record in sorted(records.items())
        for key, value in (record or {None: None}).items()
    ]
    if order == "grouped":
        return sorted(rows, key=lambda row: row[0], reverse=True)
    if order == "shuffled":
        return [rows[i * 29 % len(rows)] for i in range(len(rows))]
    return rows


def table_of(rows):
    persons, keys, values = zip(*rows, strict=True)
    return pa.table(
        {
            "extra": ["-"] * len(rows),
            "person": pa.array(persons),
            "key": pa.array(keys, pa.string()),
            "value": pa.array(values, pa.float64()),
        }
    )


def tally_of(records):
    tally = Tally(PLAN)
    for name, record in records.items():
        tally.add(PLAN.report(record, COINS, name))
    return tally


EXPECTED = {id(records): tally_of(records) for records in (NUMBERS, TEXTS, WORDS)}


def check_chunks(records, chunks):
    """Everyone is there once, and the tally is that of the one-person path."""
    tally, addresses = Tally(PLAN), []
    for people in chunks:
        assert len(people)
        addresses += people.addresses.tolist()
        tally.add(PLAN.privatise(people, COINS))
    assert sorted(addresses) == sorted(address(list(records)).tolist())
    assert tally == (EXPECTED.get(id(records)) or tally_of(records))


# -- doors -------------------------------------------------------------------------------------------


def write_parquet(table, path):
    pyarrow.parquet.write_table(table, path, row_group_size=10)


def write_arrow_file(table, path):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=9)


def write_arrow_stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=9)


def write_feather(table, path):
    pyarrow.feather.write_feather(table, path)


def write_csv(table, path):
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter=delimiter))
    pack(path)


def write_json(table, path):
    rows = [json.dumps({k: v for k, v in row.items() if v is not None}) for row in table.to_pylist()]
    path.write_text("\n\n".join(rows))
    pack(path)


def pack(path):
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.read_bytes()))


FILES = {
    "t.parquet": write_parquet,
    "t.arrow": write_arrow_file,
    "stream.arrow": write_arrow_stream,
    "t.feather": write_feather,
    "t.csv": write_csv,
    "T.CSV": write_csv,
    "t.tsv": write_csv,
    "T.TSV.gz": write_csv,
    "t.csv.gz": write_csv,
    "t.jsonl": write_json,
    "t.ndjson": write_json,
    "t.jsonl.gz": write_json,
}
FRAMES = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "dictionary": lambda table: table.set_column(2, "key", table["key"].dictionary_encode()),
    "coded persons": lambda table: table.set_column(1, "person", table["person"].dictionary_encode()),
    "views": lambda table: table.set_column(2, "key", table["key"].cast(pa.string_view())),
    "pandas": lambda table: table.to_pandas(),
    "pandas index": lambda table: table.to_pandas().set_index("person"),
    "pandas category": lambda table: table.to_pandas().astype({"key": "category", "person": "category"}),
    "polars": polars.from_arrow,
    "polars category": lambda table: polars.from_arrow(table).cast({polars.String: polars.Categorical}),
    "polars lazy": lambda table: polars.from_arrow(table).lazy(),
    "reader": lambda table: table.to_reader(max_chunksize=9),
}


def door(name, table, folder):
    if name in FRAMES:
        return FRAMES[name](table)
    FILES[name](table, folder / name)
    return folder / name


@pytest.fixture
def room(request, monkeypatch):
    """Room for all rows, or for a handful, so that the others go by way of the disk."""
    if request.param == "disk":
        monkeypatch.setattr(spill, "HELD", 8)
        monkeypatch.setattr(spill, "MOST_PARTS", 3)
        monkeypatch.setattr(textfiles, "BLOCK", 300)
        monkeypatch.setattr(sources, "BATCH", 5)


@pytest.mark.parametrize("order", ["sorted", "grouped", "shuffled"])
@pytest.mark.parametrize("kind", ["numbers", "texts"])
@pytest.mark.parametrize(
    ("name", "room"),
    [(name, "memory") for name in (*FILES, *FRAMES)] + [(name, "disk") for name in (*FILES, "reader")],
    indirect=["room"],
)
@pytest.mark.usefixtures("room")
def test_every_door_gives_the_tally_of_the_one_person_path(name, kind, order, tmp_path):
    separated = name in FILES and FILES[name] is write_csv
    records = NUMBERS if kind == "numbers" else WORDS if separated else TEXTS
    table = table_of(rows_of(records, order))
    source = door(name, table, tmp_path)
    for chunk in (1, 7, 65536):
        check_chunks(records, read_people(SCHEMA, source, chunk=chunk))
        source = door(name, table, tmp_path) if name == "reader" else source
    check_chunks(records, [people_of(SCHEMA, source)])


NAMES = st.one_of(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), unique=True),
    st.lists(st.text(max_size=4), unique=True),
)
RECORD = st.dictionaries(st.sampled_from(SCHEMA.keys), st.floats(1, 5), max_size=4)


@given(st.data(), NAMES, st.integers(1, 20), st.integers(1, 12))
def test_any_table_in_any_order_gives_that_tally(data, names, chunk, held):
    records = {name: data.draw(RECORD) for name in names}
    rows = rows_of(records, "sorted")
    if not rows:
        return
    table = table_of(data.draw(st.permutations(rows)))
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(spill, "HELD", held)
        path = Path(folder) / "t.parquet"
        write_parquet(table, path)
        check_chunks(records, read_people(SCHEMA, path, chunk=chunk))
        check_chunks(records, read_people(SCHEMA, table, chunk=chunk))
        check_chunks(records, read_people(SCHEMA, table.to_reader(3), chunk=chunk))
        check_chunks(records, [people_of(SCHEMA, table)])


# -- cells -------------------------------------------------------------------------------------------


def test_chunks_of_ascending_rows_are_as_large_as_asked_for():
    table = pa.table({"person": [1, 1, 2, 3, 3, 3, 3, 4, 5], "key": ["Tea"] * 9, "value": [1.0] * 9})
    table = table.set_column(1, "key", pa.array(["Tea", "7", "Tea", *SCHEMA.keys[:4], "Tea", "Tea"]))
    assert [len(p.keys) for p in read_people(SCHEMA, table, chunk=3)] == [3, 4, 2]
    assert [len(p.keys) for p in read_people(SCHEMA, table.to_reader(2), chunk=100)] == [9]


def test_people_that_ascend_in_every_batch_but_not_over_all_are_brought_together(tmp_path):
    records = records_of(range(9))
    rows = rows_of(records, "sorted")
    table = table_of(rows[::2] + rows[1::2])
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=len(rows[::2]))
    check_chunks(records, read_people(SCHEMA, tmp_path / "t.arrow", chunk=3))


@pytest.mark.parametrize(
    "persons",
    [
        pa.array([1, 2, 3], pa.int8()),
        pa.array([1, 2, 3], pa.uint64()),
        pa.array([1.0, 2.0, 3.0], pa.float32()),
        pa.array(np.array([1, 2, 3], np.float16)),
        pa.array([1, 2, 3]).dictionary_encode(),
    ],
)
def test_whole_numbers_of_any_type_name_the_same_people(persons):
    table = pa.table({"person": persons, "key": ["Tea"] * 3, "value": [1, 2, 3]})
    assert np.array_equal(people_of(SCHEMA, table).addresses, address(np.array([1, 2, 3])))


@pytest.mark.parametrize(
    "cells", [["1", "2", "x"], ["01", "2", "3"], ["-0", "2", "3"], ["1", "2", "NA"]]
)
def test_people_in_a_csv_are_numbers_only_if_all_are_written_so(cells, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("person,key,value\n" + "".join(f"{cell},Tea,1\n" for cell in cells))
    assert sorted(people_of(SCHEMA, path).addresses.tolist()) == sorted(address(cells).tolist())
    path.write_text("person,key,value\n9,Tea,1\n10,Tea,1\n-1,Tea,1\n")
    numbers = address(np.array([-1, 9, 10]))
    assert np.array_equal(people_of(SCHEMA, path).addresses, numbers)
    assert np.array_equal(next(read_people(SCHEMA, path)).addresses, numbers)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([7, None, 7], pa.int16()),
        pa.array([7.0, None, 7.0]),
        pa.array([7.0, float("nan"), 7.0]),
        pa.array(["7", None, "7"]),
        pa.array([7, None, 7]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["7", None])),
    ],
)
def test_a_key_is_found_by_its_name_and_without_one_a_person_is_only_there(keys):
    table = pa.table({"person": [1, 2, 3], "key": keys, "value": [1.0, None, 3.0]})
    people = people_of(SCHEMA, table)
    assert list(people.records(SCHEMA)) == [{"7": 1.0}, {}, {"7": 3.0}]


def test_a_column_of_no_keys_at_all_still_counts_everyone():
    table = pa.table({"person": ["a", "b"], "key": pa.nulls(2), "value": pa.nulls(2)})
    assert list(people_of(SCHEMA, table).records(SCHEMA)) == [{}, {}]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(5, 2)]
)
def test_values_of_any_number_type_are_read(kind):
    values = pa.array([1, 2, 5]).cast(pa.float64()).cast(kind)
    table = pa.table({"person": [1, 2, 3], "key": ["Tea"] * 3, "value": values})
    assert people_of(SCHEMA, table).values.tolist() == [1, 2, 5]
    coded = table.set_column(2, "value", pa.array([1.0, 2.0, 5.0]).dictionary_encode())
    assert people_of(SCHEMA, coded).values.tolist() == [1, 2, 5]


def test_without_values_a_schema_of_one_level_needs_no_column():
    table = pa.table({"person": [2, 1, 2], "key": ["Tea", None, "7"]})
    people = people_of(SCHEMA.at(1), table, value=None)
    assert people.keys.tolist() == [SCHEMA.index["Tea"], SCHEMA.index["7"]]
    with pytest.raises(TableError, match="name the column of values"):
        read_people(SCHEMA, table, value=None)
    with pytest.raises(TableError, match="column 'value' is not in the table; it has: person, key"):
        read_people(SCHEMA.at(1), table)


def test_lenient_maps_rows_as_a_client_maps_records():
    """An unknown key, no value, a value too large, a key twice: the first stands."""
    pairs = [(SECRET_KEY, 2.0), ("Tea", None), ("7", 99.0), ("Tea", 3.0), ("Tea", 4.0), ("NA", -9.0)]
    rows = [(person, key, value) for key, value in pairs for person in (5, 4)]
    people = people_of(SCHEMA, table_of(rows), lenient=True)
    mapped = {SCHEMA.keys[k]: v for k, v in SCHEMA.mapped([p for p in pairs if p[1]]).items()}
    assert list(people.records(SCHEMA)) == [mapped, mapped] == [{"Tea": 3, "7": 5, "NA": 1}] * 2
    (chunk,) = read_people(SCHEMA, table_of(rows), lenient=True)
    assert list(chunk.records(SCHEMA)) == [mapped, mapped]


def test_the_order_of_a_persons_rows_survives_the_disk(monkeypatch):
    monkeypatch.setattr(spill, "HELD", 4)
    rows = [(i % 7, "Tea", 1 + i / 100) for i in range(70)]
    reader = table_of(rows).to_reader(3)
    chunks = read_people(SCHEMA, reader, lenient=True, chunk=1)
    firsts = [value for people in chunks for value in people.values.tolist()]
    assert sorted(firsts) == [1 + i / 100 for i in range(7)]


def test_a_matrix_is_read_a_row_a_person():
    matrix = scipy.sparse.csr_array(np.array([[0, 2, 0, 0, 5], [0] * 5, [1, 0, 0, 0, 0]], float))
    records = {0: {"Pepsi": 2, "NA": 5}, 1: {}, 2: {"Fries": 1}}
    steps = []
    for chunk in (1, 2, 99):
        check_chunks(records, read_people(SCHEMA, matrix, chunk=chunk, lenient=chunk == 2))
    check_chunks(records, read_people(SCHEMA, matrix, chunk=2, progress=lambda *s: steps.append(s)))
    assert steps == [(2, 3), (3, 3)]
    check_chunks(records, [people_of(SCHEMA, matrix.tocoo())])
    with pytest.raises(RecordError, match="outside 1 to 5"):
        people_of(SCHEMA, matrix * 2)
    assert people_of(SCHEMA, matrix * 2, lenient=True).values.tolist() == [4, 5, 2]
    with pytest.raises(TableError, match="a column for each of 5 keys"):
        people_of(SCHEMA, matrix[:, :3], lenient=True)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.arrow", "stream.arrow"])
def test_a_table_without_rows_has_no_people(name, tmp_path):
    table = table_of([(1, "Tea", 1.0)]).slice(0, 0)
    source = door(name, table, tmp_path)
    for each in (source, table, table.to_pandas(), table.to_reader()):
        assert list(read_people(SCHEMA, each)) == []
    empty = pa.RecordBatch.from_pylist([], table.schema)
    empties = pa.RecordBatchReader.from_batches(table.schema, [empty, empty])
    assert len(people_of(SCHEMA, empties)) == 0
    assert list(read_people(SCHEMA, pa.Table.from_batches([empty, empty]))) == []
    assert len(people_of(SCHEMA, pa.Table.from_batches([empty, empty]))) == 0
    assert len(people_of(SCHEMA, source)) == 0
    assert isinstance(people_of(SCHEMA, source), People)


def test_text_files_may_have_marks_quotes_and_line_ends_of_all_kinds(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfperson,key,value\r\n"a\nb","Tea",1\r\n\r\n"a\nb","7", 2 \r\n')
    assert list(people_of(SCHEMA, path).records(SCHEMA)) == [{"Tea": 1, "7": 2}]
    assert np.array_equal(people_of(SCHEMA, path).addresses, address(["a\nb"]))
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"person": 1, "key": 7, "value": 2}\r\n{"person": 2.0}\r\n')
    assert list(people_of(SCHEMA, path).records(SCHEMA)) == [{"7": 2}, {}]


def test_progress_is_told_rows_done_and_all_rows_where_known():
    steps = []
    table = table_of(rows_of(NUMBERS, "shuffled"))
    for _ in read_people(SCHEMA, table, chunk=20, progress=lambda *step: steps.append(step)):
        assert not steps or steps[-1][0] < table.num_rows
    done, everything = zip(*steps, strict=True)
    assert list(done) == sorted(set(done))
    assert done[-1] == table.num_rows
    assert set(everything) == {table.num_rows}
    steps.clear()
    list(read_people(SCHEMA, table.to_reader(), progress=lambda *step: steps.append(step)))
    assert steps == [(table.num_rows, None)]


# -- content, not names ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt", "t", "t.csv.gz"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_line_says_what_stands_between_cells(name, delimiter, tmp_path):
    rows = [("value", "person", "key"), ("1.5", "ann", "Tea"), ("", "bob", ""), ("5", "ann", "Fries")]
    path = tmp_path / name
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    pack(path)
    people = people_of(SCHEMA, path)
    assert len(people) == 2
    assert sorted(zip(people.keys.tolist(), people.values.tolist(), strict=True)) == [(0, 5.0), (2, 1.5)]
    assert key_counts(path) == {"Tea": 1, "Fries": 1}


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t"])
@pytest.mark.parametrize("write", [write_parquet, write_arrow_file, write_json])
def test_a_file_is_read_by_its_content_whatever_it_is_called(name, write, tmp_path):
    write(columns(), tmp_path / name)
    assert len(people_of(SCHEMA, tmp_path / name)) == 2


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather", "t.jsonl", "t.ndjson"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_cells_are_read_under_the_name_of_another_form(name, delimiter, tmp_path):
    text = "person,key,value\nann,Tea,1.5\nbob,Fries,5\n".replace(",", delimiter)
    (tmp_path / name).write_text(text)
    assert len(people_of(SCHEMA, tmp_path / name)) == 2


def test_what_is_packed_is_read_by_its_content_too(tmp_path):
    cells, line = "person,key,value\nann,Tea,1.5\n", '{"person": "ann", "key": "Tea", "value": 1.5}\n'
    for name, text in {"t.jsonl.gz": cells, "t.csv.gz": line, "t.gz": cells}.items():
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert people_of(SCHEMA, tmp_path / name).values.tolist() == [1.5]
        (tmp_path / name).write_text(text)
        refused(tmp_path / name, "is not packed; take .gz off its name")
    (tmp_path / "t.csv").write_bytes(gzip.compress(cells.encode()))
    refused(tmp_path / "t.csv", "is packed by gzip; end its name in .gz")


def test_delimiters_that_are_not_known_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("person:key:value\nann:Tea:1.5\n")
    refused(tmp_path / "t.csv", "commas, semicolons, tabs, vertical bars are the known delimiters")


def test_a_record_that_breaks_a_rule_is_refused_with_the_files_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"person,key,value\n1,{SECRET_KEY},1\n")
    refused(path, r"t\.csv: a key is not in the plan", RecordError)


def test_a_delimiter_within_a_key_is_no_delimiter(tmp_path):
    schema = Schema.of(["a;b;c;d", "x,y"], 1, 5)
    path = tmp_path / "t.csv"
    path.write_text('person,key,value\n1,a;b;c;d,2\n1,"x,y",3\n')
    assert people_of(schema, path).values.tolist() == [2, 3]


# -- errors ------------------------------------------------------------------------------------------


def refused(source, match, error=TableError, **options):
    """Both ways in refuse the source with the same one line, which tells nothing of a person."""
    for read in (
        lambda: list(read_people(SCHEMA, source, **options)),
        lambda: people_of(SCHEMA, source, **options),
    ):
        with pytest.raises(error, match=match) as caught:
            read()
        message = str(caught.value)
        assert "\n" not in message
        for secret in (SECRET_KEY, SECRET_VALUE, SECRET_PERSON):
            assert secret not in message
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def columns(person=(1, 2), key=("Tea", "Tea"), value=(1.0, 2.0)):
    return pa.table({"person": person, "key": key, "value": value})


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (columns(key=["Tea", SECRET_KEY]), "a key is not in the plan"),
        (columns(value=[1.0, None]), "a value is missing"),
        (columns(value=[1.0, float("nan")]), "a value is missing"),
        (columns(value=[1.0, 1000.0 * float(SECRET_VALUE)]), "outside 1 to 5"),
        (columns(person=[1, 1]), "a key appears twice"),
    ],
)
def test_a_record_that_breaks_a_rule_is_refused_by_the_rule(table, match):
    refused(table, match, RecordError)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (columns(person=[SECRET_PERSON, None]), "'person' has an empty cell; every row must name"),
        (columns(person=pa.nulls(2)), "'person' has an empty cell"),
        (columns(key=["Tea", None]), "a row has a value and no key in column 'key'"),
        (columns(key=pa.nulls(2)), "a row has a value and no key in column 'key'"),
        (columns(person=[1.0, None]), "'person' has an empty cell"),
        (columns(person=[1.0, float("nan")]), "'person' holds fractions, NaN"),
        (
            columns(person=[1.0, float(SECRET_VALUE)]),
            "'person' holds fractions.*whole number or by text",
        ),
        (columns(person=[1.0, 2.0**53]), "too large numbers"),
        (columns(person=pa.array([1, 1 << 63], pa.uint64())), "must fit in 64 bits with its sign"),
        (columns(person=[True, False]), "'person' holds True and False; a person is named by"),
        (columns(person=pa.array([1, 2], pa.timestamp("s"))), "'person' holds dates or times"),
        (columns(person=[b"a", SECRET_PERSON.encode()]), "'person' holds the type binary"),
        (columns(person=[{SECRET_KEY: 1}] * 2), "'person' holds lists or objects"),
        (
            columns(person=pa.array([b"a", b"\xff"]).view(pa.string())),
            "'person' holds text that is not UTF-8",
        ),
        (columns(key=pa.array([b"a", b"\xff"]).view(pa.string())), "'key' holds text that is not UTF-8"),
        (columns(value=["1", SECRET_VALUE]), "'value' holds text; values must be numbers"),
        (columns(value=[True, False]), "'value' holds True and False; values must be numbers"),
        (columns(value=[{SECRET_KEY: 1}] * 2), "'value' holds lists or objects; values must be numbers"),
        (
            columns().rename_columns(["user", "key", "value"]),
            "'person' is not in the table; it has: user, key, value",
        ),
        (columns().rename_columns(["person", "key", "key"]), "'key' is in the table twice"),
        (pa.table({}), "'person' is not in the table; it has: no columns"),
        (
            pa.table({f"c{i}": [1] for i in range(30)}),
            r"it has: c0, .*c19 and 10 more \(person= or --person names another column\)$",
        ),
    ],
)
def test_a_column_that_cannot_be_used_is_refused_by_its_name(table, match, tmp_path):
    refused(table, match)
    if table.num_columns and len(set(table.column_names)) == table.num_columns:
        write_arrow_file(table, tmp_path / "t.arrow")
        refused(tmp_path / "t.arrow", match)


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ([1.0, float(SECRET_VALUE)], "'key' holds fractions; a key is text or a whole number"),
        ([True, False], "'key' holds True and False; a key is text or a whole number"),
        (pa.array([b"a" * 16] * 2, pa.binary(16)).cast(pa.uuid()), "'key' holds the type .*uuid"),
    ],
)
def test_keys_of_a_file_are_text_or_whole_numbers(keys, match, tmp_path):
    write_arrow_file(columns(key=keys), tmp_path / "t.arrow")
    refused(tmp_path / "t.arrow", match)


def test_frames_say_the_same_of_a_missing_column():
    table = columns().rename_columns(["user", "key", "value"])
    match = "column 'person' is not in the table; it has: user, key, value"
    for source in (table.to_pandas(), polars.from_arrow(table), polars.from_arrow(table).lazy()):
        refused(source, match)
    odd = pandas.DataFrame({"user": [1, SECRET_PERSON], "key": ["Tea", "7"], "value": [1, 2]})
    refused(odd, match)
    refused(odd, "cannot be turned into Arrow columns.*give each column one type", person="user")


def test_columns_that_are_not_asked_for_may_hold_anything():
    odd = columns().to_pandas().assign(extra=[{SECRET_KEY: 1}, "text"])
    assert len(people_of(SCHEMA, odd)) == 2


def test_one_column_cannot_be_two_things():
    with pytest.raises(TableError, match="must be different columns"):
        read_people(SCHEMA, columns(), person="key")


@pytest.mark.parametrize("source", [[1, 2], {"person": [1]}, 7, None, np.zeros((2, 2))])
def test_what_is_no_table_is_refused(source):
    refused(source, "cannot read a .* as a table; give a path, an Arrow, pandas or Polars frame")


def test_a_chunk_has_at_least_one_row():
    with pytest.raises(TableError, match="at least one row"):
        read_people(SCHEMA, columns(), chunk=0)


def test_a_stream_that_breaks_off_tells_only_the_kind_of_trouble():
    def batches():
        yield from columns().to_batches()
        raise ZeroDivisionError(SECRET_KEY)

    reader = pa.RecordBatchReader.from_batches(columns().schema, batches())
    with pytest.raises(TableError, match="the Arrow stream broke off") as caught:
        list(read_people(SCHEMA, reader))
    assert SECRET_KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("none.csv", "cannot read .*none.csv: No such file"),
        ("none.parquet", "cannot read .*none.parquet: No such file"),
        ("t.xlsx", "t.xlsx is a spreadsheet or an archive, not a table of people"),
        ("t.dat", r"cannot tell what .*t.dat is; known: \.csv, .*\.parquet"),
        ("t.parquet.gz", "cannot tell what"),
        ("tally", "tally is a tally, not a table of people"),
        ("plan.json", "plan.json is a plan, not a table of people"),
        ("list.json", "list.json is one JSON list; write each row as an object on its own line"),
        ("folder.csv", "cannot read .*folder.csv: Is a directory"),
    ],
)
def test_a_path_that_is_no_table_is_refused(name, match, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04\x14")
    (tmp_path / "t.dat").write_bytes(b"\0\1\2\3")
    (tmp_path / "t.parquet.gz").write_bytes(gzip.compress(b"PAR1"))
    (tmp_path / "list.json").write_text(f'[{{"person": "{SECRET_PERSON}"}}]')
    PLAN.save(tmp_path / "plan.json")
    Tally(PLAN).save(tmp_path / "tally")
    refused(tmp_path / name, match)
    refused(str(tmp_path / name), match)


@pytest.mark.parametrize("name", FILES)
def test_an_empty_file_is_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    refused(tmp_path / name, "is empty; a table has at least its column names")


@pytest.mark.parametrize(
    "name", ["t.parquet", "t.arrow", "stream.arrow", "t.feather", "t.csv.gz", "t.jsonl.gz"]
)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_file_cut_short_is_refused(name, part, tmp_path):
    whole = door(name, table_of(rows_of(TEXTS if "csv" not in name else WORDS, "shuffled")), tmp_path)
    content = whole.read_bytes()
    whole.write_bytes(content[: int(len(content) * part)])
    refused(whole, "cannot read .*: it is (damaged|cut short, or not what its name says)$")
    whole.write_bytes(b"something else entirely")
    refused(whole, "cannot read .*: it is (damaged|cut short, or not what its name says)$")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv.gz", "t.jsonl.gz"])
def test_a_damaged_file_is_refused(name, tmp_path):
    whole = door(name, table_of(rows_of(WORDS, "shuffled") * 20), tmp_path)
    content = bytearray(whole.read_bytes())
    content[20 : len(content) // 4] = b"\xaa" * (len(content) // 4 - 20)
    whole.write_bytes(content)
    refused(whole, "cannot read .*: it is (damaged|cut short, or not what its name says)$")


HEAD = "person,key,value\n"


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        (
            "t.csv",
            f"{HEAD}1,Tea,1\n{SECRET_PERSON},{SECRET_KEY}\n",
            "line 3 of .*t.csv has 2 cells, but the first line names 3",
        ),
        ("t.csv", f"{HEAD}1,Tea,1,{SECRET_KEY}\n", "line 2 of .* has 4 cells"),
        ("t.csv", f'{HEAD}1,Tea,1\n1,"{SECRET_KEY},1\n2,Tea,1\n', "line 3 of .* is a quote open"),
        (
            "t.csv",
            f"{HEAD}1,Tea,1\n1,7,{SECRET_KEY}\n",
            "column 'value' must hold numbers.*line 3 has neither",
        ),
        ("t.csv", f"{HEAD}1,Tea,{SECRET_VALUE}x\n", "column 'value' must hold numbers"),
        (
            "t.csv",
            f"{HEAD}1,Tea,NA\n",
            "column 'value' must hold numbers, or nothing where there is none",
        ),
        (
            "t.csv",
            f"{HEAD}1,Tea,1_0\n",
            "cannot be read: a line is too long, or a cell is not a plain number",
        ),
        ("t.csv", f"{HEAD}1,Tea,1\n,{SECRET_KEY},1\n", "column 'person' has an empty cell"),
        (
            "t.csv",
            f"{SECRET_PERSON},{SECRET_KEY},{SECRET_VALUE}\n",
            "'person' is not in the table; its first line must name",
        ),
        ("t.csv", "user,key,value\n1,Tea,1\n", "'person' is not in the table; it has: user, key, value"),
        ("t.csv", "person,person,key,value\n1,1,Tea,1\n", "'person' is in the table twice"),
        ("t.csv", "\n\n", "t.csv is empty; a table has at least its column names"),
        ("t.csv", f"{SECRET_PERSON},{SECRET_KEY},\n", "its first line must name the columns"),
        (
            "t.csv",
            f"{SECRET_PERSON}:{SECRET_KEY}:{SECRET_VALUE}\n",
            "its first line must name the columns",
        ),
        ("t.csv", "Person,key,value\n1,Tea,1\n", "t.csv: column 'person' .* did you mean 'Person'"),
        ("t.csv", "user;key;value\n1;Tea;1\n", "'person' is not in the table; it has: user, key, value"),
        ("t.csv", "person;key;value\n1;Tea;4,125\n", "line 2 has a number with a decimal comma"),
        (
            "t.csv",
            HEAD.encode() + b"1,Tea,1\n1,\xff\xfe,1\n",
            "t.csv is not UTF-8 text; save it as UTF-8",
        ),
        ("t.csv", HEAD.encode("utf-16"), "t.csv is not UTF-8 text; save it as UTF-8"),
        ("t.csv", HEAD + '1,Tea,1\n1,"' + SECRET_KEY * 30000, "t.csv cannot be read|has 2 cells"),
        (
            "t.jsonl",
            f'{{"person": 1}}\n{{"person": "{SECRET_KEY}\n',
            "'key' is not in the table|line 2 of .* is not a JSON object",
        ),
        ("t.jsonl", f'[1, "{SECRET_KEY}"]\n', "t.jsonl is one JSON list; write each row as an object"),
        ("t.jsonl", f'"{SECRET_KEY}"\n', "line 1 of .*t.jsonl is not a JSON object"),
        (
            "t.jsonl",
            '{"user": 1, "key": "Tea", "value": 1}\n',
            "'person' is not in the table; it has: user, key, value",
        ),
        (
            "t.jsonl",
            f'{{"{SECRET_PERSON}": 1, "17": 2}}\n',
            "'person' is not in the table; its first line must name",
        ),
    ],
)
def test_a_text_file_that_cannot_be_read_is_refused_by_its_line(name, content, match, tmp_path):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(path, match)


@pytest.mark.parametrize(
    ("line", "match"),
    [
        (f'{{"person": 1, "key": "{SECRET_KEY}"', "line 3 of .* is not a JSON object"),
        (f'"{SECRET_KEY}"', "line 3 of .* is not a JSON object"),
        (
            f'{{"person": 1, "key": "Tea", "value": "{SECRET_VALUE}"}}',
            "'value' must hold numbers.*line 3",
        ),
        ('{"person": 1, "key": "Tea", "value": true}', "'value' must hold numbers.*line 3"),
        (
            f'{{"person": "{SECRET_PERSON}", "key": "7", "value": 1}}',
            "'person' and 'key' of .* must each hold only",
        ),
        ('{"person": true, "key": "7", "value": 1}', "'person' and 'key' of .* must each hold only"),
        ('{"person": 1, "key": ["7"], "value": 1}', "'person' and 'key' of .* must each hold only"),
        ('{"person": null, "key": "7", "value": 1}', "'person' has an empty cell"),
        ('{"key": "7", "value": 1}', "'person' has an empty cell"),
        ('{"person": 99999999999999999999, "key": "7", "value": 1}', "too large numbers"),
        (
            '{"person": 2, "key": "7"}\n{"person": "\xff"}',
            "t.jsonl is not UTF-8|each hold only|not UTF-8 text",
        ),
    ],
)
def test_a_json_line_that_cannot_be_read_is_refused_by_its_line(line, match, tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(f'{{"person": 1, "key": "Tea", "value": 1}}\n\n{line}\n'.encode("latin-1"))
    refused(path, match)


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_a_line_beyond_all_measure_is_refused(name, tmp_path, monkeypatch):
    path = door(name, columns(key=["Tea", SECRET_KEY * 200]), tmp_path)
    monkeypatch.setattr(textfiles, "BLOCK", 400)
    refused(path, "too long")


def test_a_table_that_changes_between_the_passes_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    for later in ("2,Tea,1\n1,Tea,1\n", f"1,Tea,1\n{SECRET_PERSON},Tea,1\n"):
        path.write_text(f"{HEAD}1,Tea,1\n2,Tea,1\n")
        table = read_people(SCHEMA, path, chunk=1)
        source = table.gi_frame.f_locals["table"]._source
        passes = source.batches

        def changed(passes=passes, later=later, **options):
            yield from passes(**options)
            path.write_text(HEAD + later)

        source.batches = changed
        with pytest.raises(TableError, match="the table changed while it was read"):
            list(table)


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TableError, match=r"needs pyarrow: pip install 'keyveil\[data\]'"):
        read_people(SCHEMA, "t.csv")


def test_the_module_loads_without_pyarrow():
    code = "import sys, keyveil.people.tables; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- temporary files and memory ----------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A folder that is the only one for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(spill, "HELD", 8)
    return folder


def opened_in(folder):
    """The files of a folder that this process has open, with or without a name."""
    links = []
    for handle in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the handle that lists them is closed by now
            links.append(os.readlink(f"/proc/self/fd/{handle}"))
    return [link for link in links if link.startswith(str(folder))]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at open files in /proc")
def test_temporary_files_have_no_name_and_are_gone_afterwards(temporary, tmp_path):
    path = tmp_path / "t.parquet"
    write_parquet(table_of(rows_of(NUMBERS, "shuffled")), path)
    chunks = read_people(SCHEMA, path, chunk=5)
    next(chunks)
    assert opened_in(temporary), "the disk was used"
    assert list(temporary.iterdir()) == [], "under no name, so that not even a kill leaves one"
    list(chunks)
    assert not opened_in(temporary)
    for ending in ("close", "error"):
        chunks = read_people(SCHEMA, path, chunk=5)
        next(chunks)
        assert opened_in(temporary)
        if ending == "close":
            chunks.close()
        else:
            with pytest.raises(ZeroDivisionError):
                chunks.throw(ZeroDivisionError())
        assert not opened_in(temporary)
        assert list(temporary.iterdir()) == []
    write_parquet(table_of([*rows_of(NUMBERS, "shuffled"), (5, SECRET_KEY, 1.0)]), path)
    refused(
        path,
        "a key is not in the plan",
        RecordError,
    )
    assert not opened_in(temporary)
    assert list(temporary.iterdir()) == []


def test_a_disk_that_cannot_be_written_is_said_so(temporary, monkeypatch):
    table = table_of(rows_of(NUMBERS, "shuffled"))

    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "none"))
    with pytest.raises(TableError, match="cannot write temporary files: No such file"):
        list(read_people(SCHEMA, table.to_reader(5)))

    class Full:
        def write(self, _):
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    with pytest.raises(TableError, match="No space left on device; set TMPDIR to a folder with room"):
        list(read_people(SCHEMA, table.to_reader(5)))


def test_the_current_folder_is_never_used_unless_told_to(temporary, monkeypatch):
    table = table_of(rows_of(NUMBERS, "shuffled"))
    monkeypatch.chdir(temporary)
    assert list(read_people(SCHEMA, table.to_reader(5)))
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(TableError, match="no folder for temporary files; set TMPDIR"):
        list(read_people(SCHEMA, table.to_reader(5)))


STREAM = """
import sys
import pyarrow
from keyveil import Schema
from keyveil.people.tables import read_people

def peak():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

schema = Schema.of(50, 1, 5)
small, large = sys.argv[1:]
for people in read_people(schema, small):
    pass
before, pool, total = peak(), pyarrow.default_memory_pool().max_memory(), 0
for people in read_people(schema, large):
    total += len(people)
print(total, peak() - before, pyarrow.default_memory_pool().max_memory() / pool)
"""


def write_many(path, rows, order):
    """Ten rows a person, written a row group at a time; shuffled by a stride through all rows."""
    schema = pa.schema({"person": pa.int64(), "key": pa.int64(), "value": pa.float32()})
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none") as writer:
        for first in range(0, rows, 250_000):
            place = np.arange(first, first + 250_000)
            place = place * 7_919 % rows if order == "shuffled" else place
            columns = [place // 10, place % 10, np.float32(1 + place % 5)]
            writer.write_batch(pa.record_batch(columns, schema=schema))


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
def test_memory_does_not_grow_with_the_table(order, tmp_path):
    """Reading four times as many rows after the first file takes hardly more than it had taken."""
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    write_many(small, 2_000_000, order)
    write_many(large, 8_000_000, order)
    command = [sys.executable, "-c", STREAM, str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    people, kilobytes, times = done.stdout.split()
    assert int(people) == 800_000
    assert float(times) < 1.2, "what Arrow holds at its peak depends on the batches alone"
    assert int(kilobytes) < 80_000, "allocators keep some; the rows more would be 120,000"
