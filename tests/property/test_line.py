"""The one line, for all inputs: records in, reports, tallies and plans out and back again."""

from __future__ import annotations

import hashlib
import json
import zlib
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from keyveil import (
    REGISTRY,
    Coins,
    KeyveilError,
    People,
    Plan,
    PlanError,
    RecordError,
    Report,
    ReportError,
    Reports,
    Schema,
    SchemaError,
    Tally,
    audit,
    estimate,
)
from keyveil.foundation.arrays import WORD
from keyveil.people.views import Views
from keyveil.plan.plan_document import canonical
from keyveil.testing import example_plan

COINS = Coins.stated("line")
SMALL = Plan.of(Schema.of(1), "kvue", 1)

# -- strategies ------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12).filter(
    lambda name: name == name.strip()
)


@st.composite
def ranges(draw):
    """Two decimals, of any size and as near to each other as doubles can tell."""
    ends = st.decimals(-(10**9), 10**9, places=draw(st.integers(0, 6)))
    low, high = sorted((draw(ends), draw(ends)))
    assume(float(low) < float(high))
    return low, high


@st.composite
def schemas(draw, most=6):
    keys = draw(st.lists(names, min_size=1, max_size=most, unique=True))
    if draw(st.booleans()):
        low, high = draw(ranges())
        return Schema.of(keys, low, high)
    return Schema.of(keys, ranges={key: draw(ranges()) for key in keys})


epsilons = st.sampled_from(["0.01", "0.25", "1", "3.14159265358979", "10"])


@st.composite
def plans(draw, schema=None):
    schema = draw(schemas()) if schema is None else schema
    keys = len(schema.keys)
    fit = [n for n, kind in REGISTRY.items() if kind.fewest_keys <= keys <= kind.most_keys]
    name = draw(st.sampled_from(sorted(fit)))
    return example_plan(schema, name, draw(epsilons), draw(st.sampled_from(["paper", "tight"])))


def records(schema: Schema):
    """Records that break no rule."""
    values = {
        key: st.floats(float(low), float(high)) | st.sampled_from([float(low), float(high)])
        for key, (low, high) in zip(schema.keys, schema.ranges, strict=True)
    }
    return st.fixed_dictionaries({}, optional=values)


@st.composite
def planned(draw, most=12):
    """A plan and records for it."""
    plan = draw(plans())
    return plan, draw(st.lists(records(plan.schema), min_size=0, max_size=most))


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.text()
    | st.binary()
    | st.fractions()
    | st.decimals()
    | st.complex_numbers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def wild(draw):
    """A plan and what is hardly a record."""
    plan = draw(plans())
    keys = st.sampled_from(plan.schema.keys) | names | anything.filter(_hashable)
    values = anything | st.floats(-10, 10)
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return plan, draw(st.dictionaries(keys, values, max_size=4))
    if kind == 1:
        return plan, draw(st.lists(st.tuples(keys, values) | anything, max_size=4))
    return plan, draw(anything)


def _hashable(value) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def reported(plan: Plan, held: list) -> list[Report]:
    return [plan.report(record, COINS, person) for person, record in enumerate(held)]


def tallied(plan: Plan, reports) -> Tally:
    tally = Tally(plan)
    for report in reports:
        tally.add(report)
    return tally


# -- the monoid ------------------------------------------------------------------------------------


@given(planned(), st.data())
def test_a_tally_of_all_is_the_sum_of_the_tallies_of_parts_in_any_order(case, data):
    plan, held = case
    reports = reported(plan, held)
    cut = data.draw(st.integers(0, len(reports)))
    shuffled = data.draw(st.permutations(reports))
    whole = tallied(plan, reports)
    first, second = tallied(plan, shuffled[:cut]), tallied(plan, shuffled[cut:])
    assert first + second == second + first == whole
    assert whole + Tally(plan) == whole
    assert whole.reports == len(held)


@given(planned(), st.data())
def test_one_by_one_is_the_batch_however_it_is_cut(case, data):
    plan, held = case
    people = People.of_records(plan.schema, held)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(held)), max_size=3)))
    tally = Tally(plan)
    for first, last in zip([0, *cuts], [*cuts, len(held)], strict=True):
        tally.add(plan.privatise(people[first:last], COINS))
    assert tally == tallied(plan, reported(plan, held))
    codes = plan.privatise(people, COINS).codes
    if codes is not None:
        cells = [int(plan.layout.code_cells[code]) for code in codes]
        assert cells == [report.cells[1] for report in reported(plan, held)]


@pytest.mark.parametrize("name", ["kvue", "kvoh", "rappor", "meanest", "privkvm", "grr"])
def test_a_batch_of_many_chunks_is_the_batch_of_its_halves(name):
    schema = Schema.of(30)
    plan = Plan.of(schema, name, 1)
    generator = np.random.Generator(np.random.PCG64(8))
    count = 40_000
    people = People.of_rows(
        schema,
        np.repeat(np.arange(count), 3),
        (np.arange(count)[:, None] + np.array([0, 7, 19])).ravel() % 30,
        generator.random(3 * count) * 2 - 1,
    )
    whole = plan.privatise(people, COINS)
    parts = [plan.privatise(people[:12_345], COINS), plan.privatise(people[12_345:], COINS)]
    for part in ("codes", "views", "bits"):
        if getattr(whole, part) is not None:
            joined = np.concatenate([getattr(p, part) for p in parts])
            assert np.array_equal(getattr(whole, part), joined)
    for person in (0, 12_344, 12_345, 16_383, 16_384, 39_999):
        record = next(people[person : person + 1].records(schema))
        report = plan.report(record, COINS, person)
        alone = Tally(plan).add(report)
        assert alone == Tally(plan).add(plan.privatise(people[person : person + 1], COINS))


@given(planned())
def test_whoever_is_named_first_does_not_matter(case):
    """A person's report depends on the person, the record and the plan alone."""
    plan, held = case
    forward = reported(plan, held)
    backward = [plan.report(held[i], COINS, i) for i in reversed(range(len(held)))]
    assert forward == backward[::-1]


# -- there and back --------------------------------------------------------------------------------


@given(plans())
def test_parse_of_dump_is_the_same_plan(plan):
    again = Plan.parse(plan.dumps())
    assert again == plan
    assert again.dumps() == plan.dumps()
    assert again.schema == plan.schema
    assert again.channels == plan.channels
    assert again.proven == plan.proven
    assert Plan.parse(plan.dumps().encode()) == Plan.parse(plan.document()) == plan
    assert audit(plan.dumps()).sound


@given(planned(), st.none() | st.binary(min_size=16, max_size=16).map(bytes.hex))
def test_parse_of_dump_is_the_same_report_and_tally(case, name):
    plan, held = case
    reports = [Report(r.plan, r.cells, name) for r in reported(plan, held)]
    assert [Report.parse(r.dumps()) for r in reports] == reports
    assert [Report.parse(r.dumps().encode()) for r in reports] == reports
    tally = tallied(plan, reports)
    assert Tally.parse(plan, tally.dumps()) == tally


@pytest.mark.parametrize("name", [n for n, kind in REGISTRY.items() if kind.most_keys >= 3000])
def test_thousands_of_keys_go_there_and_back(name):
    schema = Schema.of([f"clé {i} \N{HOT BEVERAGE}" for i in range(3000)], "0.5", "5")
    plan = example_plan(schema, name)
    again = Plan.parse(plan.dumps())
    assert again == plan
    held = {schema.keys[i]: 3.25 for i in (0, 17, 2999)}
    tally = tallied(plan, [plan.report(held, COINS, i) for i in range(3)])
    assert Tally.parse(again, tally.dumps()) == tally
    people = People.of_records(schema, [held] * 3)
    assert Tally(plan).add(plan.privatise(people, COINS)) == tally


@given(planned())
def test_every_answer_has_a_document_that_is_json(case):
    plan, held = case
    answers = estimate(plan, tallied(plan, reported(plan, held)))
    document = json.loads(json.dumps(answers.document(), allow_nan=False))
    assert document["mechanism"] == plan.mechanism_name


# -- records ---------------------------------------------------------------------------------------

RULES = {
    "a key is not in the plan; the plan lists every key one may hold",
    "a key is not in the plan; the plan lists every key one may hold (for developers: "
    "plan.check(record) names it)",
    "a key appears twice; a record has each key at most once",
    "a value is not a number",
    "a value is NaN or infinite",
    "a value is missing, NaN or infinite",
    "a record is a mapping of keys to values, or a list of such pairs",
}
"""Everything a record can be told, but for the range that all keys share: none of it comes from it."""


def refused(schema, call):
    """What a call gives, or None if it was refused with one of the rules and nothing more."""
    try:
        return call()
    except RecordError as error:
        refusal = error
    assert str(refusal) in RULES | {schema.outside()}
    assert refusal.__cause__ is None
    return None


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(wild())
@example((Plan.of(Schema.of(["a"]), "kvue", 1), {"a": 10**400}))
@example((Plan.of(Schema.of(["a"]), "kvue", 1), {"a": -(10**400)}))
@example((Plan.of(Schema.of(["a"]), "kvue", 1), {"a": Fraction(10**400)}))
def test_anything_in_gives_a_report_or_a_rule_out_and_a_client_never_refuses(case):
    plan, record = case
    report = refused(plan.schema, lambda: plan.report(record, COINS, 0))
    if report is not None:
        Tally(plan).add(report)
    Tally(plan).add(plan.report_as_client(record, COINS, 0))


@given(wild())
def test_batches_are_told_the_same_rules(case):
    plan, record = case
    people = refused(plan.schema, lambda: People.of_records(plan.schema, [record]))
    assert people is None or len(people) == 1


@given(planned(most=3))
def test_a_client_maps_a_good_record_to_itself(case):
    plan, held = case
    for record in held:
        assert plan.report_as_client(record, COINS, 0) == plan.report(record, COINS, 0)


@given(schemas(), st.data())
def test_a_client_clips_and_ignores_as_the_plan_states(schema, data):
    key = data.draw(st.sampled_from(schema.keys))
    place = schema.index[key]
    low, high = float(schema.low[place]), float(schema.high[place])
    for value, goal in ((low - 1e12, low), (high + 1e12, high), (float("inf"), high), (10**400, high)):
        assert schema.mapped({key: value}) == {place: goal}
    for value in (None, True, "3", float("nan"), [3.0], 1j):
        assert schema.mapped({key: value}) == {}
    assert schema.mapped({"not a key of the plan \x00": 3.0}) == {}
    assert schema.mapped([(key, low), (key, high)]) == {place: low}


# -- views -----------------------------------------------------------------------------------------


@given(st.integers(1, 2000), st.integers(0, 10**6))
def test_a_word_picks_the_view_whose_slice_it_falls_into(count, seed):
    """At both ends of every slice, even and weighted; slices fill all words and none is empty."""
    cuts = sorted({WORD * (i + 1) // count for i in range(count - 1)} | {(seed * 7919) % WORD} - {0})
    weights = tuple(b - a for a, b in zip([0, *cuts], [*cuts, WORD], strict=True))
    for views in (Views.singles(count), Views(Views.singles(len(weights)).keys, weights)):
        ends = [0, *(int(end) for end in views.bounds), WORD]
        words = np.array([w for a, b in pairwise(ends) for w in (a, b - 1)])
        assert views.pick(words.astype(np.uint32)).tolist() == np.repeat(range(len(views)), 2).tolist()
        assert views.shares.sum() == 1
        assert views.shares.min() > 0


# -- values and levels -----------------------------------------------------------------------------


@given(schemas(most=1), st.integers(2, 9), st.data())
def test_rounding_to_levels_is_unbiased_up_to_the_last_bit_of_a_word(schema, levels, data):
    """The sum over all words, exactly: the threshold is where going up ends, by one word."""
    schema = schema.at(levels)
    low, high = float(schema.low[0]), float(schema.high[0])
    value = data.draw(st.floats(low, high) | st.sampled_from([low, high]))
    at = (value - low) / (high - low) * (levels - 1)
    below = min(int(at), levels - 2)
    threshold = int((at - below) * WORD)
    tried = [w for w in (0, threshold - 1, threshold, threshold + 1, WORD - 1) if 0 <= w < WORD]
    digits = schema.rounded(
        np.zeros(len(tried), np.int64), np.full(len(tried), value), np.array(tried, np.uint32)
    )
    assert digits.tolist() == [below + 1 + (word < threshold) for word in tried]
    assert digits.min() >= 1
    assert digits.max() <= levels
    expected = below + Fraction(threshold, WORD)
    assert 0 <= Fraction(at) - expected < Fraction(1, WORD)


@pytest.mark.parametrize("levels", range(2, 10))
def test_a_value_on_a_level_is_never_rounded_away(levels):
    schema = Schema.of(1, 0, levels - 1).at(levels)
    for level in range(levels):
        for word in (0, 1, WORD // 2, WORD - 1):
            digit = schema.rounded(
                np.zeros(1, int), np.array([level], float), np.array([word], np.uint32)
            )
            assert digit[0] == level + 1


def test_one_level_looks_at_no_value():
    schema = Schema.of(1).at(1)
    words = np.array([0, WORD - 1], np.uint32)
    assert schema.rounded(np.zeros(2, int), np.array([-1.0, 1.0]), words).tolist() == [1, 1]


@given(schemas(), st.integers(2, 9))
def test_levels_map_back_into_the_range_of_their_key(schema, levels):
    """But for the rounding of one sum and one product of doubles of the ends' size."""
    schema = schema.at(levels)
    slack = 4 * np.spacing(np.maximum(np.abs(schema.low), np.abs(schema.high)))
    for value in schema.values:
        scaled = schema.scaled(np.full(len(schema.keys), value))
        assert (scaled >= schema.low - slack).all()
        assert (scaled <= schema.high + slack).all()
    assert (np.abs(schema.scaled(np.full(len(schema.keys), -1.0)) - schema.low) <= slack).all()
    assert (np.abs(schema.scaled(np.full(len(schema.keys), 1.0)) - schema.high) <= slack).all()


@given(st.lists(st.text(max_size=5), max_size=4), anything, anything)
def test_any_keys_and_ends_make_a_schema_or_a_clear_error(keys, low, high):
    try:
        schema = Schema.of(keys, low, high)
    except (SchemaError, PlanError):
        return
    assert Schema.parse(json.loads(json.dumps(schema.document()))) == schema


# -- damage ----------------------------------------------------------------------------------------

bytes_ = st.integers(0, 255)


def damaged(content: bytes, place: int, byte: int) -> bytes:
    place %= len(content)
    return content[:place] + bytes([byte]) + content[place + 1 :]


def parsed_or_refused(plan: Plan, text) -> None:
    """The same plan, or a PlanError, and never anything else."""
    try:
        again = Plan.parse(text)
    except PlanError:
        return
    assert again == plan


@settings(max_examples=150)
@given(plans(), st.integers(0, 10**6), bytes_)
def test_a_damaged_plan_is_refused(plan, place, byte):
    parsed_or_refused(plan, damaged(plan.dumps().encode(), place, byte))


@pytest.mark.parametrize("name", ["kvue", "f2m", "privkvm", "shist"])
def test_no_byte_of_a_plan_can_be_changed_unnoticed(name):
    """Every byte, and digits that become signs, exponents, quotes and brackets."""
    plan = Plan.of(Schema.of(["Fries", "Müsli"], "0.5", "5"), name, "3.1415926535")
    content = plan.dumps().encode()
    for place in range(len(content)):
        for byte in b'e9-".[ \x00\xff':
            if byte != content[place]:
                parsed_or_refused(plan, damaged(content, place, byte))


@given(plans(), st.data())
def test_a_plan_cut_short_is_refused(plan, data):
    content = plan.dumps()
    with pytest.raises(PlanError):
        Plan.parse(content[: data.draw(st.integers(0, len(content) - 1))])


def places(document) -> list[tuple]:
    """Every place in a JSON document."""
    paths: list[tuple] = []
    parts = document.items() if isinstance(document, dict) else enumerate(document)
    for name, part in parts:
        paths.append((name,))
        if isinstance(part, dict | list):
            paths += [(name, *inner) for inner in places(part)]
    return paths


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, -1, 2, WORD, WORD // 2, 1 << 20, 10**30])
    | st.text(max_size=4)
    | st.sampled_from(["1e999999999", "-1", "1e-999999999", "99999999", "0.5", "singles", "views"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
CHAINED = Plan.of(Schema.of(["a", "b"]), "privkvm", 1)
CHAINED = CHAINED.next(Tally(CHAINED, np.array([90, 20, 30, 40, 90, 10, 60, 20])))


@settings(max_examples=400)
@given(
    st.sampled_from([CHAINED, *(example_plan(Schema.of(["a", "b", "c"], 1, 5), n) for n in REGISTRY)]),
    st.data(),
)
def test_a_forged_plan_is_refused_or_says_what_it_is(plan, data):
    """Any part replaced by any JSON and hashed anew: a clear refusal, or a plan that keeps its word."""
    document = json.loads(plan.dumps())
    where = data.draw(st.sampled_from(places(document)))
    part = document
    for name in where[:-1]:
        part = part[name]
    if data.draw(st.booleans()):
        part[where[-1]] = data.draw(json_values)
    else:
        del part[where[-1]]
    document.pop("hash", None)
    document["hash"] = hashlib.sha256(canonical(document)).hexdigest()
    try:
        forged = Plan.parse(json.dumps(document))
    except PlanError:
        return
    assert forged.proof.keeps(forged.promised)
    assert forged.dumps() == canonical(document).decode()


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{}", "{", '"plan"', b"\xff\xfe", '{"format":"keyveil/plan/2"}', "[" * 100_000,
     '{"format":"keyveil/plan/1"}', '{"format":"keyveil/plan/1","format":1}', "NaN", "1" * 5000,
     '{"format":"keyveil/plan/1","chain":' + "[" * 900 + "]" * 900 + "}"],
    ids=lambda text: str(text)[:20],
)  # fmt: skip
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(PlanError):
        Plan.parse(text)
    assert not audit(text).sound


@given(planned(most=3), st.integers(0, 10**6), bytes_)
def test_a_damaged_report_is_refused_or_is_another_honest_one(case, place, byte):
    """A report carries no checksum: a changed digit is another report, and the tally judges it."""
    plan, held = case
    for report in reported(plan, held):
        try:
            other = Report.parse(damaged(report.dumps().encode(), place, byte))
            Tally(plan).add(other)
        except ReportError:
            continue
        assert set(other.cells) <= set(range(plan.layout.cells))


@settings(max_examples=200)
@given(anything | st.dictionaries(st.sampled_from(["format", "plan", "cells", "id"]), anything))
def test_any_json_is_a_report_or_refused(value):
    try:
        text = json.dumps(value)
    except TypeError:
        assume(False)
    with pytest.raises(ReportError):
        Report.parse(text)


@pytest.mark.parametrize(
    "change",
    [{"extra": 1}, {"plan": "0" * 63}, {"plan": "F" * 64}, {"cells": [0, 1.0]}, {"cells": [True]},
     {"cells": [-1]}, {"cells": []}, {"cells": 3}, {"id": "ab"}, {"id": 3}, {"format": "report/2"}],
    ids=str,
)  # fmt: skip
def test_a_report_has_its_members_and_no_others(change):
    good = json.loads(SMALL.report({}, COINS, 0).dumps())
    assert Report.parse(json.dumps(good)).cells
    with pytest.raises(ReportError):
        Report.parse(json.dumps({**good, **change}))


@pytest.mark.parametrize("cells", [(), (0,), (10**30,), (-1, 0), (0, 10**30), (0, -(10**30)), (0, 1, 2)])
def test_cells_of_any_size_are_refused_by_the_tally(cells):
    plan = Plan.of(Schema.of(2), "kvue", 1)
    with pytest.raises(ReportError):
        Tally(plan).add(Report(plan.hash, cells))


def parsed_tally_or_refused(tally: Tally, content: bytes) -> None:
    try:
        again = Tally.parse(tally.plan, content)
    except ReportError:
        return
    assert again == tally


@settings(max_examples=150)
@given(planned(), st.integers(0, 10**6), bytes_)
def test_a_damaged_tally_is_refused(case, place, byte):
    plan, held = case
    tally = tallied(plan, reported(plan, held))
    parsed_tally_or_refused(tally, damaged(tally.dumps(), place, byte))


@pytest.mark.parametrize(("name", "keys"), [("kvue", 2), ("kvue", 4096), ("shist", 3), ("grr", 70_000)])
def test_no_byte_of_a_tally_can_be_changed_unnoticed(name, keys):
    """Every byte of small ones, dense and sparse; a cell count of 16385 may become 1e385."""
    plan = Plan.of(Schema.of(keys), name, 1)
    tally = tallied(plan, [plan.report({"0": 1.0}, COINS, i) for i in range(20)])
    content = tally.dumps()
    for place in range(min(len(content), 600)):
        for byte in b"e9-\x00\xff":
            if byte != content[place]:
                parsed_tally_or_refused(tally, damaged(content, place, byte))


def written(plan: Plan, body: bytes, header: dict) -> bytes:
    """A tally with a header of one's own and a checksum that is right."""
    facts = {
        "plan": plan.hash,
        "cells": plan.layout.cells,
        "reports": int.from_bytes(body[:8], "little", signed=True),
        "sparse": False,
        "crc": zlib.crc32(body),
        **header,
    }
    text = json.dumps(facts).encode()
    return b"KVTALLY2" + len(text).to_bytes(4, "little") + text + zlib.compress(body)


@given(
    st.binary(max_size=80)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8).map(
        lambda numbers: np.array(numbers, "<i8").tobytes()
    ),
    st.dictionaries(st.sampled_from(["cells", "reports", "sparse", "plan"]), json_values | st.floats()),
)
@example(b"\x00" * 7, {})
@example(np.array([0, 1, 2], "<i8").tobytes(), {"sparse": True})
@example(np.array([1, 1, 1, 5, 0, 5], "<i8").tobytes(), {"sparse": True})
@example(b"\x00" * 32, {"cells": 4.0})
@example(b"\x00" * 32, {"cells": "4"})
@example(b"\x00" * 32, {"cells": float("inf")})
@example(b"", {"cells": 4, "sparse": 1})
def test_a_forged_tally_is_refused_or_adds_up(body, header):
    try:
        tally = Tally.parse(SMALL, written(SMALL, body, header))
    except ReportError:
        return
    own, *counts = tally.counts.tolist()
    assert own == sum(counts)
    assert min(counts) >= 0
    assert tally.counts.shape == (4,)


@given(st.binary(max_size=60))
@example(b"KVTALLY2")
@example(b"KVTALLY1\xff\xff\xff\xff{}")
@example(b"KVTALLY1\x02\x00\x00\x00{}")
@example(b"KVTALLY2" + (200_000).to_bytes(4, "little") + b"[" * 200_000)
def test_any_bytes_are_no_tally(content):
    for whole in (content, b"KVTALLY2" + content):
        with pytest.raises(ReportError):
            Tally.parse(SMALL, whole)


@given(
    st.lists(st.integers(-(2**40), 2**40), max_size=10),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64, np.int64, np.int32]),
)
def test_a_batch_of_any_codes_is_counted_or_refused_whole(codes, kind):
    array = np.array(codes, np.int64).astype(kind)
    tally = Tally(SMALL)
    good = all(0 <= int(code) < 3 for code in array)
    if good:
        tally.add(Reports(SMALL.hash, codes=array))
        assert tally.reports == len(codes)
    else:
        with pytest.raises(ReportError):
            tally.add(Reports(SMALL.hash, codes=array))
        assert not tally.counts.any()


@given(anything)
def test_any_epsilon_makes_a_plan_or_a_clear_error(epsilon):
    try:
        plan = Plan.of(Schema.of(2), "kvue", epsilon)
    except KeyveilError:
        return
    assert Decimal("0.001") <= plan.promised <= 20
    assert plan.proven <= plan.promised


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "0." + "1" * 3000, "9" * 3000])
def test_a_number_of_a_billion_digits_is_refused_before_it_is_written_out(text):
    with pytest.raises(PlanError):
        Plan.of(Schema.of(2), "kvue", text)
    with pytest.raises((SchemaError, PlanError)):
        Schema.of(2, "-" + text, text).document()
