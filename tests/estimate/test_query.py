"""Queries: text and Python say the same, and bad ones get the position and what was expected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Schema
from keyveil.estimate.together.query import KINDS, Query, split_queries
from keyveil.foundation.errors import QueryError, UnknownKeyError

names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda name: name == name.strip()
)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("frequency(Pepsi)", Query("frequency", "Pepsi")),
        ("mean(Pepsi | Hamburger, !Fries)", Query.of("mean", "Pepsi", ["Hamburger"], ["Fries"])),
        ('frequency("Diet Coke" | Fries)', Query.of("frequency", "Diet Coke", ["Fries"])),
        ("frequency(Diet Coke|Fries)", Query.of("frequency", "Diet Coke", ["Fries"])),
        ("lift( Pepsi | Hamburger )", Query.of("lift", "Pepsi", ["Hamburger"])),
        ('mean("a, \\"b\\" | c" | ! d)', Query.of("mean", 'a, "b" | c', (), ["d"])),
    ],
)
def test_text_and_python_say_the_same(text, query):
    assert Query.parse(text) == query
    assert Query.parse(str(query)) == query


@given(st.sampled_from(KINDS), st.lists(names, min_size=2, max_size=5, unique=True), st.data())
def test_every_query_survives_its_own_text(kind, keys, data):
    held = data.draw(st.lists(st.booleans(), min_size=len(keys) - 1, max_size=len(keys) - 1))
    query = Query(kind, keys[0], tuple(zip(keys[1:], held, strict=True)))
    assert Query.parse(str(query)) == query


@given(st.lists(st.tuples(st.sampled_from(KINDS), names, names), max_size=4))
def test_several_queries_survive_their_own_text_whatever_keys_have_in_them(parts):
    queries = tuple(Query.of(kind, a, [b]) for kind, a, b in parts if a != b)
    assert Query.parse_all("; ".join(map(str, queries))) == queries


def test_a_semicolon_within_quotes_is_part_of_a_key():
    text = ' mean("a; b" | c) ;; frequency("say \\"x;\\"") ; '
    assert Query.parse_all(text) == (Query.of("mean", "a; b", ["c"]), Query("frequency", 'say "x;"'))
    assert Query.parse_all(" ; ") == ()
    with pytest.raises(QueryError, match="has no end"):
        Query.parse_all('mean(a); mean("b; c)')
    with pytest.raises(QueryError, match="a key with ; in it stands in double quotes"):
        Query.parse_all("mean(a; b | c)")


@given(st.text(max_size=40))
def test_any_text_is_a_query_or_one_clear_line(text):
    output = ""
    try:
        output = str(Query.parse(text))
    except QueryError as error:
        output = str(error)
    assert output
    assert "\n" not in output or "\n" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a statistic"),
        ("mean", r"expected '\(' at the end"),
        ("meen(A)", "did you mean mean"),
        ("MEAN(A)", "did you mean mean"),
        ("x" * 300 + "(A)", r"^unknown statistic at position 1; known: frequency, mean, lift$"),
        (f"mean({'a' * 257})", "a key has at most 256 characters; the one at position 6 has 257"),
        (f'mean(A | "{"a" * 999}")', "the one at position 10 has 999"),
        (
            "mean(A | " + "B, " * 40_000 + "C)",
            "a query has at most 65,536 characters; this one has 120,011",
        ),
        ("mean()", "expected a key at position 6"),
        ("mean(!A)", r"^the target at position 6 cannot have a !; only conditions after \| can: mean\("),
        (
            "mean(A, B | C)",
            "^a query has one target, and the comma at position 7 begins another; ask",
        ),
        ("mean(A", r"expected '\|' or '\)' at the end"),
        ("mean(A | )", "expected a key at position 10"),
        ("mean(A | B", "expected ',' or '\\)' at the end"),
        ("mean(A | B ! C)", "expected ',' or '\\)' at position 12"),
        ("mean(A) x", "expected the end of the query at position 9"),
        ('mean("A | B)', "begins at position 6 has no end"),
        ('mean("")', "empty quotes"),
        ("mean(A | A)", "cannot be a condition of itself"),
        ("mean(A | B, B)", "given twice"),
        ("mean(A | B, !B)", "both held and not held"),
        ("lift(A)", "compares with a condition"),
    ],
)
def test_bad_queries_say_where_and_what_was_expected(text, message):
    with pytest.raises(QueryError, match=message):
        Query.parse(text)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("mean(Pepsi | not Fries)", "write !key for people who do not hold it"),
        ("mean(Pepsi given Fries)", "write | before conditions"),
        ("mean(Pepsi | Fries & Salad)", "write a comma between conditions"),
        ("mean(Pepsi | Fries and Salad)", "write a comma between conditions"),
        ("mean(Pepsi | Fries or Salad)", "conditions cannot be joined by or"),
        ("mean(Pepsi | Fries>3)", "values cannot be conditions"),
        ("mean(Pepsi | Fries = 3)", "values cannot be conditions"),
    ],
)
def test_words_of_other_languages_get_the_mark_that_is_meant(text, hint):
    schema = Schema.of(["Pepsi", "Fries", "Salad"])
    with pytest.raises(UnknownKeyError) as caught:
        Query.parse(text).places(schema)
    assert str(caught.value).startswith("the plan has no key ")
    assert str(caught.value).lower().count(hint) == 1
    assert "?;" not in str(caught.value)
    names = ["not Fries", "Pepsi given Fries", "Fries & Salad", "Fries and Salad", "Fries or Salad"]
    fine = Schema.of(["Pepsi", *names, "Fries>3", "Fries = 3"])
    assert Query.parse(text).places(fine)[0] < 3  # as names of keys the same words are fine


def test_a_query_without_a_statistic_gets_one():
    with pytest.raises(QueryError, match=r"did you mean frequency\(Pepsi \| Hamburger\)\? known: freq"):
        Query.parse("Pepsi | Hamburger")


def test_part_of_a_name_suggests_the_keys_that_have_it():
    films = [
        "The Martian (2015)",
        "Alien (1979)",
        "Aliens (1986)",
        "Alien 3 (1992)",
        "Alien Nation (1988)",
    ]
    schema = Schema.of(films)
    with pytest.raises(QueryError, match=r"did you mean 'The Martian \(2015\)'\?$"):
        schema.place("martian")
    with pytest.raises(QueryError) as caught:
        schema.place("lien")
    assert str(caught.value).endswith(f"did you mean {' or '.join(map(repr, films[1:4]))}?")
    with pytest.raises(QueryError, match=r"the plan has no key 'a'$"):
        schema.place("a")


@pytest.mark.parametrize("name", ["Pepsy", "PEPSI", "pepsi", "pEPSY"])
def test_unknown_keys_get_the_nearest_name(name):
    schema = Schema.of(["Pepsi", "Fries"])
    with pytest.raises(QueryError, match="did you mean 'Pepsi'"):
        Query.parse(f"mean({name} | Fries)").places(schema)


@pytest.mark.parametrize("inside", ["a; b", r"\"; b", r"\\\"; b", "\\"])
def test_a_quotation_without_an_end_takes_the_rest(inside):
    """So no character is read twice: a text that is split again at each quote takes quadratic time."""
    assert split_queries(f'mean(a); mean("{inside}') == ["mean(a)", f'mean("{inside}']
    with pytest.raises(QueryError, match="position 6 has no end"):
        Query.parse_all(f'mean(a); mean("{inside}')


@pytest.mark.parametrize(
    "text", ['mean("' + r"\"" * 30_000, "(" * 60_000, "mean(a|" * 8_000, '"' * 60_001]
)
def test_long_nonsense_gets_one_short_line(text):
    with pytest.raises(QueryError) as caught:
        Query.parse_all(text)
    assert len(str(caught.value)) < 200


def test_many_conditions_can_be_read():
    keys = [f"k{i}" for i in range(8_000)]
    assert Query.parse(f"mean(A | {', '.join(keys)})") == Query.of("mean", "A", keys)
