"""Frames in: pandas, Polars and Arrow, long and wide, with keys of any kind and people without rows."""

from __future__ import annotations

import datetime as dt
import enum
import os
import subprocess
import sys
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import keyveil as kv
from keyveil.foundation.key_names import key_name

ROWS = {
    "user": [1, 1, 2, 2, 3, 4, 4],
    "film": ["Alien", "Cats", "Alien", "Heat", "Alien", "Cats", "Jaws"],
    "stars": [5.0, 1.0, 4.0, 3.5, 4.5, 2.0, 4.0],
}
NAMES = {"person": "user", "key": "film", "value": "stars"}
STARS = {"low": 1, "high": 5}
RECORDS = [{"Alien": 5, "Cats": 1}, {"Alien": 4}, {"Alien": 4.5}, {"Cats": 2}]
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "lazy": lambda rows: pl.DataFrame(rows).lazy(),
    "arrow": pa.table,
    "category": lambda rows: pd.DataFrame(rows).astype({"film": "category"}),
    "enum": lambda rows: pl.DataFrame(rows).with_columns(pl.col("film").cast(pl.Categorical)),
}


@pytest.fixture(params=KINDS)
def frame(request):
    return KINDS[request.param](ROWS)


def records(people, schema):
    return list(people.records(schema))


TAKEN = "^the range is taken from the data, so a plan shows everyone the {} value; pass {} to Schema"


def test_a_schema_has_the_keys_with_the_most_holders_and_the_range_of_their_values(frame):
    with pytest.warns(kv.PeopleWarning, match=TAKEN.format("lowest and highest", "low= and high=")):
        schema = kv.Schema.from_frame(frame, **NAMES, top=2)
    assert schema.keys == ("Alien", "Cats")
    assert [float(end) for end in schema.shared_range] == [1.0, 5.0]
    every = kv.Schema.from_frame(frame, **NAMES, **STARS)
    assert every.keys == ("Alien", "Cats", "Heat", "Jaws")


@pytest.mark.parametrize("wide", [False, True])
def test_an_end_of_the_range_that_is_taken_from_the_data_is_told_and_never_shown(wide):
    frame = pd.DataFrame({"person": [1, 2], "key": ["a", "a"], "value": [7.25, 93.5]})
    if wide:
        frame = pd.DataFrame({"person": [1, 2], "a": [7.25, 93.5]})
    for ends, words in (
        ({"low": 0}, ("highest", "high=")),
        ({"high": np.int64(99)}, ("lowest", "low=")),
    ):
        with pytest.warns(kv.PeopleWarning, match=TAKEN.format(*words)) as caught:
            schema = kv.Schema.from_frame(frame, **ends, wide=wide)
        assert {"7.25", "93.5"} & {str(end) for end in schema.shared_range}
        (line,) = caught
        assert line.filename == __file__
        assert "7.25" not in str(line.message)
        assert "93.5" not in str(line.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kv.Schema.from_frame(frame, low=0, high=99, wide=wide)
        kv.Schema.from_frame(frame, value=None, wide=wide)


def test_people_hold_the_keys_of_the_schema(frame):
    schema = kv.Schema.from_frame(frame, **NAMES, **STARS, top=2)
    people = kv.People.from_frame(frame, schema, everyone="frame")
    assert records(people, schema) == RECORDS


def test_a_frame_is_privatised_and_tallied_without_naming_its_columns_again(frame):
    schema = kv.Schema.from_frame(frame, **NAMES, **STARS, top=2)
    plan, coins = kv.Plan.of(schema, "kvue", np.float64(1)), kv.Coins.stated("frames")
    tally = plan.collect(frame, coins, everyone="frame")
    people = kv.People.from_frame(frame, schema, everyone="frame")
    assert tally == kv.Tally(plan).add(plan.privatise(people, coins))
    assert tally == kv.Tally(plan).add(plan.privatise(frame, coins, everyone="frame"))
    one_by_one = kv.Tally(plan).add(
        plan.report(record, coins, person) for person, record in zip([1, 2, 3, 4], RECORDS, strict=True)
    )
    assert tally == one_by_one


def test_coins_are_secure_unless_stated(monkeypatch):
    plan = kv.Plan.of(kv.Schema.of(30, 0, 1), "kvue", 1)
    people = kv.People.of_records(plan.schema, [{"0": 1}] * 2000)
    assert plan.collect(people) != plan.collect(people)  # 90 counts agree with a chance below 1e-20

    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(kv.Coins, "stated", refuse)
    assert plan.privatise(people) is not None


def test_a_wide_frame_has_a_column_for_each_key():
    rows = {"user": ["a", "b", "c"], "Alien": [5.0, None, 4.0], "Cats": [None, None, 1.0]}
    named = pd.DataFrame(rows).set_index("user")
    for wide in (pd.DataFrame(rows), named, pl.DataFrame(rows), pl.LazyFrame(rows), pa.table(rows)):
        schema = kv.Schema.from_frame(wide, person="user", **STARS, wide=True)
        assert schema.keys == ("Alien", "Cats")
        people = kv.People.from_frame(wide, schema, everyone="frame")
        assert records(people, schema) == [{"Alien": 5.0}, {}, {"Alien": 4.0, "Cats": 1.0}]
        most = kv.Schema.from_frame(wide, person="user", **STARS, wide=True, top=1)
        assert most.keys == ("Alien",)


def test_a_wide_frame_of_pandas_may_be_sparse():
    dummies = pd.get_dummies(pd.Series(["Tea", "Milk", "Tea"]), sparse=True)
    schema = kv.Schema.from_frame(dummies, None, value=None, wide=True)
    assert schema.keys == ("Tea", "Milk")
    people = kv.People.from_frame(dummies, schema, everyone="frame")
    assert [set(record) for record in records(people, schema)] == [{"Tea"}, {"Milk"}, {"Tea"}]
    stars = pd.DataFrame({"user": [7, 8], "Tea": pd.arrays.SparseArray([np.nan, 4.0])})
    schema = kv.Schema.from_frame(stars, "user", **STARS, wide=True)
    people = kv.People.from_frame(stars, schema, everyone="frame")
    assert records(people, schema) == [{}, {"Tea": 4}]


def test_the_index_of_a_wide_frame_is_never_a_key():
    """A pivot table has the people in its index, and keys of any type as columns."""
    long = pd.DataFrame({"user": [70, 70, 80], "film": [7, 8.5, 7], "stars": [1.0, 2, 5]})
    wide = long.pivot(index="user", columns="film", values="stars")
    for frame, person in ((wide, None), (wide, "user"), (wide.reset_index(), "user")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schema = kv.Schema.from_frame(frame, person, **STARS, wide=True)
            people = kv.People.from_frame(frame, schema, everyone="frame")
        assert schema == kv.Schema.of(["7", "8.5"], 1.0, 5.0)
        assert records(people, schema) == [{"7": 1, "8.5": 2}, {"7": 5}]
    with pytest.raises(kv.TableError, match=r"did you mean 'user'.*person=None if rows name no one"):
        kv.Schema.from_frame(wide.reset_index(), "usr", wide=True)
    unnamed = kv.People.from_frame(
        wide, schema=kv.Schema.of([7, 8.5], 1, 5), person=None, wide=True, everyone=3
    )
    assert records(unnamed, schema) == [{"7": 1, "8.5": 2}, {"7": 5}, {}]
    narrow = kv.Schema.of(["7", "8.5"], 1.0, 4.0)
    with pytest.warns(kv.PeopleWarning, match="1 value lies outside 1 to 4 and is clipped to it, 33%"):
        kv.People.from_frame(wide, narrow, person="user", wide=True, everyone="frame")


def test_a_wide_frame_may_have_columns_of_several_levels_and_people_in_its_index():
    long = pd.DataFrame({"user": [7, 8, 8], "film": ["Up", "Up", "It"], "year": [1, 1, 2]})
    wide = long.assign(stars=[1.0, 5, 2]).pivot(index="user", columns=["film", "year"], values="stars")
    schema = kv.Schema.from_frame(wide, "user", **STARS, wide=True)
    assert schema.keys == ("('Up', 1)", "('It', 2)")
    people = kv.People.from_frame(wide, schema, everyone="frame")
    assert [dict(record) for record in records(people, schema)] == [
        {"('Up', 1)": 1},
        {"('Up', 1)": 5, "('It', 2)": 2},
    ]


def test_a_misspelt_column_of_a_wide_frame_is_named():
    wide = pd.DataFrame({"user": [7, 8], "Alein": [1.0, 5], "Cats": [2.0, 2]})
    schema = kv.Schema.of(["Alien", "Cats"], 1, 5)
    with pytest.raises(kv.TableError, match="column 'Alien' is not in the table; did you mean 'Alein'"):
        kv.People.from_frame(wide, schema, "user", wide=True, everyone="frame")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", "a"], "column 'a' is in the frame twice"),
        ([1, "1"], "column '1' is in the frame twice"),
        (["a", None], "a column of the frame has no name"),
        ([1, float("nan")], "a column of the frame has no name"),
    ],
)
def test_a_wide_frame_needs_a_name_for_each_column(labels, words):
    frame = pd.DataFrame([[1.0, 2.0], [5.0, 4.0]], columns=pd.Index(labels, dtype=object))
    with pytest.raises(kv.TableError, match=words):
        kv.Schema.from_frame(frame, None, wide=True)


def test_a_wide_frame_may_say_who_holds_a_key_by_true_and_false():
    held = {"Tea": [True, False, True], "Milk": [True, None, False]}
    for frame in (pd.DataFrame(held, dtype="boolean"), pl.DataFrame(held), pa.table(held)):
        schema = kv.Schema.from_frame(frame, None, value=None, wide=True)
        assert schema.keys == ("Tea", "Milk")
        people = kv.People.from_frame(frame, schema, everyone="frame")
        assert [set(record) for record in records(people, schema)] == [{"Tea", "Milk"}, set(), {"Tea"}]
        assert kv.Plan.of(schema, "rr", 2).collect(frame, everyone=9).reports == 9
        with pytest.raises(kv.TableError, match="pass value=None if the values"):
            kv.Schema.from_frame(frame, None, wide=True)
    with pytest.raises(kv.TableError, match="holds 0 and 1; if 0 means not held"):
        kv.Schema.from_frame(pd.DataFrame({"Tea": [0, 1]}), None, value=None, wide=True)


class Grade(enum.IntEnum):
    GOOD = 1
    BAD = 2


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ([7, 8, 7], ("7", "8")),
        ([7.5, 8.0, 7.5], ("7.5", "8")),
        (np.array([0.1, 2, 0.1], np.float32), ("0.1", "2")),
        ([True, False, True], ("True", "False")),
        (pl.Series([True, False, True]), ("True", "False")),
        (pl.Series([0.5, 2.0, 0.5]), ("0.5", "2")),
        (pd.PeriodIndex(["2024-05", "2024-06", "2024-05"], freq="M"), ("2024-05", "2024-06")),
        (pd.cut(pd.Series([1, 5, 1]), [0, 2, 9]), ("(0, 2]", "(2, 9]")),
        ([("a", "b"), ("a", "c"), ("a", "b")], ("('a', 'b')", "('a', 'c')")),
        (np.array([7, 8, 7], np.int16), ("7", "8")),
        ([7.0, 8.0, 7.0], ("7", "8")),
        (pd.Categorical([7, 8, 7]), ("7", "8")),
        ([7, "seven", 7], ("7", "seven")),
        ([dt.date(2024, 5, 1), dt.date(2024, 5, 2), dt.date(2024, 5, 1)], ("2024-05-01", "2024-05-02")),
        ([("a", 1), ("a", 2), ("a", 1)], ("('a', 1)", "('a', 2)")),
        ([Decimal("1.5"), Decimal("2.0"), Decimal("1.5")], ("1.5", "2")),
        (pl.Series([Decimal("1.50"), Decimal(2), Decimal("1.50")]), ("1.5", "2")),
        ([Grade.GOOD, Grade.BAD, Grade.GOOD], ("1", "2")),
        (pl.Series([Grade.GOOD, Grade.BAD, Grade.GOOD]), ("1", "2")),
        (
            [frozenset({"b", "a"}), frozenset({"c"}), frozenset({"a", "b"})],
            ("frozenset({'a', 'b'})", "frozenset({'c'})"),
        ),
    ],
    # The text of a set differs between processes, and workers must agree on the names of tests.
    ids=lambda value: "-".join(value)[:20] if isinstance(value, tuple) else type(value).__name__,
)
def test_a_key_is_any_value_with_a_name(keys, names):
    kind, column = (pl, keys) if isinstance(keys, pl.Series) else (pd, pd.Series(keys))
    frame = kind.DataFrame({"person": [1, 1, 2], "key": column, "value": [1, 2, 3]})
    schema = kv.Schema.from_frame(frame, **STARS)
    assert schema.keys == names
    assert records(kv.People.from_frame(frame, schema, everyone="frame"), schema)[1] == {names[0]: 3}


def test_names_of_keys():
    class Drink(enum.Enum):
        TEA = 1

    class Word(enum.StrEnum):
        TEA = "tea"

    names = {
        "a": "a",
        np.str_("a"): "a",
        np.int8(3): "3",
        np.float32(3): "3",
        np.float64(0.5): "0.5",
        True: "True",
        Drink.TEA: "TEA",
        Word.TEA: "tea",
        Grade.BAD: "2",
        Decimal("2.50"): "2.5",
        Decimal("-0.0"): "0",
        Decimal("1e3"): "1000",
        frozenset(): "frozenset()",
        (frozenset({"b", "a"}),): "(frozenset({'a', 'b'}),)",
        dt.datetime(2024, 5, 1, 12): "2024-05-01T12:00:00",
        np.datetime64("2024-05-01T12", "ns"): "2024-05-01T12:00:00",
        np.datetime64("2024-05-02"): "2024-05-02",
        dt.timedelta(hours=2): "2:00:00",
        pd.Timedelta(hours=3): "3:00:00",
        np.timedelta64(4, "h"): "4:00:00",
    }
    assert {key_name(key) for key in names} == set(names.values())
    nameless = (None, float("nan"), np.float32("nan"), object(), [1], pd.NaT, np.datetime64("NaT"))
    nameless = (*nameless, Decimal("NaN"), Decimal("sNaN"))
    assert [key_name(key) for key in nameless] == [None] * len(nameless)


def test_a_key_has_the_same_name_in_every_process():
    """Python orders the members of a set by their hashes, which differ between processes."""
    code = (
        "import keyveil as kv; "
        "key = frozenset({'ab', 'cd', 'ef', ('gh', frozenset({'ij', 'kl', 'mn'}))}); "
        "print(key, kv.Schema.of([key, 'b']).keys[0], sep='|')"
    )
    outputs = set()
    for seed in "123":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        outputs.add(tuple(run.stdout.strip().split("|")))
    assert len({text for text, _ in outputs}) > 1, "Python's own text differs"
    assert len({name for _, name in outputs}) == 1


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


class Nameless:
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    "keys",
    [
        [2.5, 3.5],
        [True, False],
        [("a", 1), ("b", 2)],
        [Size.SMALL, Size.LARGE],
        [dt.date(2024, 5, 1), dt.date(2024, 5, 2)],
        [pd.Timedelta(hours=2), pd.Timedelta(hours=3)],
    ],
    ids=str,
)
def test_a_record_names_keys_as_the_schema_was_given_them(keys):
    """On a device, too: what a person holds is never dropped for the type of its key."""
    schema = kv.Schema.of(keys, 1, 5)
    plan = kv.Plan.of(schema, "pairs", 2)
    assert schema.checked({keys[1]: 3}) == schema.mapped({keys[1]: 3, Nameless(): 4}) == {1: 3.0}
    assert plan.check({keys[0]: 3}) == []
    coins = kv.Coins.stated("keys")
    assert plan.report({keys[0]: 3}, coins, 7) == plan.report({schema.keys[0]: 3}, coins, 7)
    tally = kv.Tally(plan).add(plan.privatise([{keys[0]: 3}] * 50, coins=coins))
    assert tally.estimate()[keys[0]].key == schema.keys[0]
    assert tally.tree(keys[0]).target == schema.keys[0]
    assert len(tally.cube(keys).columns()) > 1


def test_keys_without_rows_beside_rows_of_other_keys_are_told():
    menu = kv.Schema.of(["Pepsi", "Fries"], 1, 5)
    rows = pd.DataFrame({"person": [1, 1, 2], "key": ["Pesi", "Fries", "Fries"], "value": [3, 4, 5]})
    words = "no row names 'Pepsi', and other keys are ignored: is a key misspelt"
    counted = "^1 row names a key that is not in the plan, and is ignored$"
    with pytest.warns(kv.PeopleWarning, match=words), pytest.warns(kv.PeopleWarning, match=counted):
        kv.People.from_frame(rows, menu, everyone=5)
    words = "no row of the table names a key of the plan"
    with pytest.warns(kv.PeopleWarning, match=words), pytest.warns(kv.PeopleWarning, match="no key"):
        people = kv.People.from_frame(rows.assign(key=None), menu, everyone=5)
    assert len(people.values) == 0


def test_a_table_without_rows_is_told():
    plan = kv.Plan.of(SCHEMA, "kvue", 1)
    with pytest.warns(kv.PeopleWarning, match="^the table has no rows$"):
        assert plan.collect(LONG.iloc[:0], **NAMES).reports == 0


def test_numbers_of_numpy_are_numbers():
    schema = kv.Schema.of(np.arange(3), np.float32(0.1), np.int64(5))
    assert schema.keys == ("0", "1", "2")
    assert [str(end) for end in schema.shared_range] == ["0.1", "5"]
    assert kv.Schema.of(np.int64(2)).keys == ("0", "1")
    plan = kv.Plan.of(schema, "graded", np.float32(0.5), levels=np.int64(3))
    assert str(plan.promised) == "0.5"
    assert plan == kv.Plan.of(kv.Schema.of(3, "0.1", 5), "graded", "0.5", levels=3)
    report = plan.report({0: np.float32(1), np.int64(2): np.int8(2)}, kv.Coins.stated(1), np.int64(4))
    assert report == plan.report({"0": 1, "2": 2}, kv.Coins.stated(1), 4)
    assert kv.Schema.of([1, 2], ranges={1: (0, 9)}).ranges[0][1] == 9


# -- people without rows -----------------------------------------------------------------------------

SCHEMA = kv.Schema.of(["Cats"], 1, 5)
LONG = pd.DataFrame(ROWS)
CATS = LONG.assign(**{name: LONG[name].where(LONG.film == "Cats") for name in ("film", "stars")})
"""The same people, of whom only those who saw Cats name a film."""


def test_without_everyone_a_line_says_how_many_hold_none_of_the_keys():
    with pytest.warns(
        kv.PeopleWarning, match="names 4 people; 2 of them hold none of the key"
    ) as caught:
        people = kv.People.from_frame(CATS, SCHEMA, **NAMES)
    assert len(people) == 4
    assert caught[0].filename == __file__
    few = LONG[LONG.film == "Cats"]
    with pytest.warns(kv.PeopleWarning, match=r"names 2 people; all of them hold .* pass everyone="):
        kv.People.from_frame(few, SCHEMA, **NAMES)


@pytest.mark.parametrize(
    "everyone",
    [
        [1, 2, 3, 4, 9],
        {9, 1, 2, 3, 4},
        range(1, 6),
        np.array([4, 3, 2, 1, 9]),
        pd.Series([1, 1, 2, 3, 4, 9]),
        pl.Series([1, 2, 3, 4, 9]),
        pa.array([1, 2, 3, 4, 9]),
        [1.0, 2.0, 3.0, 4.0, 9.0],
        5,
        5.0,
        np.int64(5),
        Decimal(5),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everyone_takes_part(everyone):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        people = kv.People.from_frame(CATS, SCHEMA, **NAMES, everyone=everyone)
    assert records(people, SCHEMA) == [{"Cats": 1}, {}, {}, {"Cats": 2}, {}]
    assert len(np.unique(people.addresses, axis=0)) == 5


def test_who_has_no_row_reports_as_one_who_holds_nothing():
    plan, coins = kv.Plan.of(SCHEMA, "kvue", 1), kv.Coins.stated("absent")
    tally = plan.collect(CATS, coins, **NAMES, everyone=[1, 2, 3, 4, 9])
    whole = kv.People.from_frame(CATS, SCHEMA, **NAMES, everyone="frame")
    rest = kv.Tally(plan).add(plan.report({}, coins, 9))
    assert tally == kv.Tally(plan).add(plan.privatise(whole, coins)) + rest


@pytest.mark.parametrize(
    ("everyone", "message"),
    [
        (["1", "2", "3", "4"], "4 of the 4 people of the table are not in everyone"),
        ([1, 2, 3], "1 of the 4 people"),
        (3, "everyone is 3, but the table names 4 people"),
        ("everybody", "a collection of names, a whole number, or 'frame'"),
        ("3000", "or 'frame'; this is text, so leave out the quotation marks"),
        ("all", "or 'frame'$"),
        (2.5, "a collection of names"),
        ([1, 2, 3, 4, None], "everyone has an empty name"),
        (pd.array([1, 2, 3, 4, None], dtype="Int64"), "everyone has an empty name"),
        (LONG[["user"]], r"everyone is a frame; pass its column of names"),
    ],
)
def test_everyone_that_cannot_be_is_refused(everyone, message):
    with pytest.raises(kv.TableError, match=message):
        kv.People.from_frame(CATS, SCHEMA, **NAMES, everyone=everyone)


def test_rows_that_break_a_rule_are_counted_never_shown():
    frame = pd.DataFrame({"person": [1, 1, 2, 3], "key": ["a"] * 4, "value": [77.25, 2, None, 3]})
    with pytest.warns(kv.PeopleWarning) as caught:
        people = kv.People.from_frame(frame, kv.Schema.of(["a"], 0, 5), everyone="frame")
    (line,) = [str(warning.message) for warning in caught]
    assert line == (
        "1 row has no number as value and counts as not held; 1 row repeats a key of its person; the "
        "first one counts; 1 value lies outside 0 to 5 and is clipped to it, 33% of all: is this the "
        "range (low=, high=) that they are on?"
    )
    assert records(people, kv.Schema.of(["a"], 0, 5)) == [{"a": 5}, {}, {"a": 3}]


@pytest.mark.filterwarnings("ignore:the range is taken")
def test_a_range_in_single_precision_is_written_in_few_digits_and_holds_every_value():
    values = np.array([-9.95, 0, 9.9], np.float32)
    frame = pd.DataFrame({"person": [1, 2, 3], "key": ["a"] * 3, "value": values})
    schema = kv.Schema.from_frame(frame)
    assert schema == kv.Schema.of(["a"], "-9.95", "9.9")
    for most in (np.float32(9.1), np.float32(1e-7), np.float32(123456.7)):
        frame.loc[2, "value"] = most
        high = kv.Schema.from_frame(frame, low=-10).high[0]
        assert float(most) <= high <= float(most) + abs(float(most)) * 1e-6
    exact = pd.DataFrame({"person": [1, 2], "key": ["a"] * 2, "value": [0.125, 12345678.5]})
    assert kv.Schema.from_frame(exact) == kv.Schema.of(["a"], "0.125", "12345678.5")


# -- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kv.Schema.from_frame(LONG), r"column 'person' is not in the table.*pass person="),
        (
            lambda: kv.Schema.from_frame(LONG, "user", "flim", "stars"),
            r"'flim' is not in the table; did you mean 'film'\?",
        ),
        (lambda: kv.Schema.from_frame(LONG, **NAMES, top=0), "top is the number of keys"),
        (lambda: kv.Schema.from_frame(LONG.iloc[1:]), r"it has: user, film, stars \(person="),
        (lambda: kv.Schema.from_frame(LONG, "user", "stars", "film"), "'film' holds text; values must"),
        (
            lambda: kv.Schema.from_frame(LONG.assign(film=[["a"]] * 7), **NAMES),
            "'film' holds lists or objects; a key is text",
        ),
        (
            lambda: kv.Schema.from_frame(LONG.assign(stars=1), **NAMES),
            "all values of the frame are equal",
        ),
        (lambda: kv.Schema.from_frame(LONG.assign(stars=np.inf), **NAMES), "infinite"),
        (lambda: kv.Schema.from_frame(LONG.iloc[:0], **NAMES), "^the table has no rows$"),
        (lambda: kv.Schema.from_frame(LONG.assign(film=None), **NAMES), "names no key"),
        (lambda: kv.Plan.of(SCHEMA, "kvue", 1).collect(LONG), r"pass person=, key= and value="),
        (
            lambda: kv.Plan.of(SCHEMA, "kvue", 1).collect(LONG.film),
            "^a Series is one column; pass a frame with the columns person, key, value$",
        ),
        (
            lambda: kv.Schema.from_frame(LONG.assign(stars=[1, "x"] + [2] * 5), **NAMES),
            "^the frame cannot be turned into Arrow columns: column 'stars' mixes types; give each",
        ),
        (
            lambda: kv.Plan.of("kvue", SCHEMA, 1),
            r"^a plan is made of a Schema first: Plan\.of\(schema, ",
        ),
        (lambda: kv.Schema.of(["a"], ranges={"b": (0, 1)}), "key 'b', which is not listed"),
        (lambda: kv.Schema.of(["tea"], ranges={"Tea": (0, 1)}), "did you mean 'tea'"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused_in_one_line(call, message):
    with pytest.raises((kv.TableError, kv.SchemaError, kv.PlanError), match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_values_may_not_matter():
    frame = LONG.drop(columns="stars")
    schema = kv.Schema.from_frame(frame, "user", "film", None, top=2)
    tally = kv.Plan.of(schema, "rr", 20).collect(frame, kv.Coins.stated("rr"), everyone="frame")
    assert tally.reports == 4
    with pytest.raises(kv.TableError, match=r"asks for values; pass value=.*every row the same"):
        kv.Plan.of(schema, "kvue", 1).collect(frame, everyone="frame")
    plan = kv.Plan.choose(schema, 4, 1e5, held=1)
    assert "mean" not in plan.mechanism.answers, "there is no mean to ask for"
    assert plan.collect(frame, everyone="frame").reports == 4
    valued = frame.assign(value=1)
    film_schema = kv.Schema.from_frame(valued, "user", "film", low=0, high=1)
    assert kv.Plan.of(film_schema, "kvue", 1).collect(valued, everyone="frame").reports == 4


def test_a_list_of_records_and_a_file_are_people_too(tmp_path):
    plan, coins = kv.Plan.of(kv.Schema.of(["Alien", "Cats"], 1, 5), "kvue", 1), kv.Coins.stated(3)
    people = kv.People.of_records(plan.schema, RECORDS)
    assert plan.collect(RECORDS, coins) == kv.Tally(plan).add(plan.privatise(people, coins))
    LONG.to_parquet(tmp_path / "films.parquet")
    tallies = []
    for source in (tmp_path / "films.parquet", LONG):
        with pytest.warns(kv.PeopleWarning, match="^2 rows name a key that is not in the plan, and are"):
            tallies.append(plan.collect(source, coins, **NAMES, everyone="frame"))
    assert tallies[0] == tallies[1]
