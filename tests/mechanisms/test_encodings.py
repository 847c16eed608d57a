"""Encodings: their laws are those of their words, and a wrong law is found."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

from keyveil import REGISTRY, Coins, People, Plan, PlanError, Schema
from keyveil.channel import Symmetric
from keyveil.foundation.stream import Stream
from keyveil.mechanisms.encodings import ENCODINGS, LINES
from keyveil.mechanisms.encodings.item_set import ItemSet
from keyveil.mechanisms.encodings.one_item import OneItem
from keyveil.mechanisms.encodings.padded_item import PaddedItem
from keyveil.mechanisms.encodings.set_size import SetSize
from keyveil.people.views import Views
from keyveil.plan.encoding import Encoding, word_share
from keyveil.testing import check_encoding, check_privacy, check_reports, example_plan

SCHEMA = Schema.of(["a", "b", "c"], 1, 5)


@pytest.mark.parametrize("name", REGISTRY)
def test_the_laws_of_states_are_those_of_words(name):
    check_encoding(example_plan(SCHEMA, name))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        *[(name, {"cap": cap}) for name in ("collision", "coco", "pair_collision") for cap in (1, 2)],
        *[(name, {"length": cap}) for name in ("pckv_ue", "pckv_grr", "signed_ue") for cap in (1, 2)],
        *[("graded", {"levels": levels}) for levels in (3, 4, 7)],
    ],
)
def test_the_laws_are_right_where_a_record_holds_more_than_the_cap(name, parameters):
    check_encoding(Plan.of(SCHEMA, name, 1, **parameters))


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_any_value_has_the_levels_of_its_plan(levels):
    channel = Symmetric.of(levels + 1, Decimal(1))
    plan = Plan(SCHEMA.at(levels), Views.whole(3), "any_value", (channel,), Decimal(1), "sign")
    check_encoding(plan)
    check_privacy(plan)
    check_reports(plan, {"a": 2.2, "c": 5}, 20_000)
    with pytest.raises(PlanError, match="does not fit"):
        Plan(SCHEMA.at(levels + 1), Views.whole(3), "any_value", (channel,), Decimal(1), "sign")


def test_every_encoding_is_checked():
    checked = {own.encode for name in REGISTRY for own in example_plan(SCHEMA, name).part_plans}
    assert checked == set(LINES) == set(ENCODINGS)
    assert [encoding.name for encoding in ENCODINGS.values()] == list(LINES)


@pytest.mark.parametrize("cap", [1, 2, 3, 5])
def test_who_holds_more_than_the_cap_keeps_each_choice_equally_often(cap):
    """The exact law of Floyd's words: uniform up to the words that do not divide evenly."""
    schema = Schema.of(5).at(2)
    law = ItemSet().record_law(schema, tuple(range(5)), dict.fromkeys(range(5), 1.0), cap)
    chances = np.array(list(law.values()))
    assert len({len(state) for state in law}) == 1
    assert chances.sum() == pytest.approx(1, abs=1e-12)  # sums of products of doubles
    assert chances == pytest.approx(1 / len(law), abs=1e-8)  # 2^32 words


def test_the_shares_of_words_are_exact():
    for of in (1, 2, 3, 5, 7, 1000):
        assert sum(word_share(number, of) for number in range(of)) == 1
    assert word_share(0, 3) == pytest.approx(1 / 3, abs=2**-32)
    assert word_share(0, 3) > word_share(1, 3)


# -- broken twins ----------------------------------------------------------------------------------


class NeverLast(OneItem):
    """Never draws the last held key."""

    def encode(self, schema, views, people, picked, stream, cap=0):
        states = super().encode(schema, views, people, picked, stream, cap)
        return np.where(states == len(schema.keys), 1, states)


class Forgetful(PaddedItem):
    """Its law of records forgets that dummies are drawn."""

    def record_law(self, schema, view, held, cap=0):
        law = super().record_law(schema, view, held, cap)
        real = {state: chance for state, chance in law.items() if state < 2 * len(schema.keys)}
        return real or law


class Uncapped(PaddedItem):
    """Its law of a population forgets that people may hold more keys than the length."""

    def population_law(self, population, view, cap):
        items = population.drawn(1).reshape(-1) / cap
        return np.concatenate([items, np.full(2 * cap, (1 - items.sum()) / (2 * cap))])


class Misnamed(OneItem):
    """Says that state 0 names the first key."""

    def key_states(self, place):
        return (place,)


class Overconfident(PaddedItem):
    """Says that padding hides twice as much as it does."""

    def largest_chance(self, cap):
        return super().largest_chance(cap) / 2


class Indistinct(SetSize):
    """Says that records of one key each tell sizes apart."""

    def telling_records(self, schema):
        return [{place: 1.0} for place in range(len(schema.keys))]


class KeepsFirst(ItemSet):
    """Its law of records says that the first keys are kept."""

    def record_law(self, schema, view, held, cap=0):
        first = dict(sorted(held.items())[:cap])
        return super().record_law(schema, view, first, cap)


@pytest.mark.parametrize(
    ("twin", "mechanism", "parameters", "message"),
    [
        (NeverLast, "grr", {}, "item: state . of . held keys"),
        (Forgetful, "pckv_ue", {"length": 2}, "padded: state"),
        (Uncapped, "pckv_grr", {"length": 2}, "padded: population_law is off"),
        (Misnamed, "grr", {}, "item: states name"),
        (Overconfident, "pckv_ue", {"length": 2}, "padded: a state has chance"),
        (Indistinct, "sized", {}, "size: two of its telling records"),
        (KeepsFirst, "collision", {"cap": 2}, "items: state"),
    ],
)
def test_an_encoding_whose_law_is_not_that_of_its_words_is_rejected(
    twin, mechanism, parameters, message, monkeypatch
):
    check_encoding(Plan.of(SCHEMA, mechanism, 1, **parameters))
    monkeypatch.setitem(ENCODINGS, twin.name, twin())
    with pytest.raises(AssertionError, match=message):
        check_encoding(Plan.of(SCHEMA, mechanism, 1, **parameters))


class Careless(PaddedItem):
    """Claims that padding hides twice as much as it does."""

    def proof(self, channel, keys):
        proof = super().proof(channel, keys)
        return type(proof)(proof.numerator, 2 * proof.denominator, proof.states, proof.output)


def test_a_proof_that_claims_too_much_for_records_is_rejected(monkeypatch):
    plan = Plan.of(SCHEMA, "pckv_grr", 2, length=2)
    check_privacy(plan)
    monkeypatch.setitem(ENCODINGS, "padded", Careless())
    with pytest.raises(AssertionError, match="is worse than"):
        check_privacy(Plan(*(getattr(plan, f) for f in plan.__dataclass_fields__)))


# -- the registry ----------------------------------------------------------------------------------


def test_an_unknown_encoding_lists_those_there_are():
    channel = Symmetric.of(3, Decimal(1))
    with pytest.raises(PlanError, match="unknown encoding; known: views, item, signs"):
        Plan(SCHEMA.at(2), Views.singles(3), "guess", (channel,), Decimal(1), "kvue")


def test_a_device_loads_the_encoding_of_its_plan_and_no_other():
    code = (
        "import sys, keyveil as k\n"
        "p = k.Plan.of(k.Schema.of(['Fries', 'Pepsi'], 1, 5), 'kvue', 1)\n"
        "p.report({'Pepsi': 4.5})\n"
        "print(sorted(m for m in sys.modules if m.startswith('keyveil.mechanisms.encodings.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['keyveil.mechanisms.encodings.view_state']"


class AnyHeld(Encoding):
    """An encoding that states only what every encoding must: whether any key is held."""

    name = "any"

    def fits(self, schema, channel, view):
        return channel.state_kind == "number" and channel.states == 2

    def telling_records(self, schema):
        return [{0: 1.0}]

    def words(self, schema, keys, cap):
        return 0

    def encode(self, schema, views, people, picked, stream, cap=0):
        return (np.diff(people.starts) > 0).astype(np.int64)

    def record_law(self, schema, view, held, cap=0):
        return {int(bool(held)): 1.0}

    def population_law(self, population, view, cap):
        return np.array([population.sizes[0], 1 - population.sizes[0]])


def test_an_encoding_of_ones_own_makes_plans_and_reports(monkeypatch):
    monkeypatch.setitem(ENCODINGS, "any", AnyHeld())
    channel = Symmetric.of(2, Decimal(1))
    plan = Plan(SCHEMA, Views.whole(3), "any", (channel,), Decimal(1), "grr")
    check_encoding(plan)
    check_reports(plan, {"a": 2}, draws=5_000)
    people = People.of_records(SCHEMA, [{}, {"b": 1}])
    stream = Stream(Coins.stated("own"), people.addresses)
    assert plan.encoding.encode(SCHEMA, plan.views, people, np.zeros(2), stream).tolist() == [0, 1]
    with pytest.raises(PlanError, match="the encoding any makes states but has no estimator"):
        plan.mechanism.forecast(plan, 1000, None)
