"""Plans: canonical, immutable, and refused unless their integers prove what they promise."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from dataclasses import FrozenInstanceError
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest

from keyveil import (
    REGISTRY,
    ChannelError,
    Plan,
    PlanError,
    Schema,
    SchemaError,
    Tally,
    audit,
    estimate,
)
from keyveil.channel import Symmetric, Table
from keyveil.people.views import Views
from keyveil.plan.plan_document import canonical
from keyveil.testing import example_plan

SCHEMA = Schema.of(["Fries", "Diet Coke", "Müsli"], 1, 5)


def rehashed(document: dict) -> dict:
    body = {name: part for name, part in document.items() if name != "hash"}
    return {**body, "hash": hashlib.sha256(canonical(body)).hexdigest()}


@pytest.mark.parametrize("name", REGISTRY)
def test_a_plan_survives_its_own_text(name, tmp_path):
    plan = example_plan(SCHEMA, name, "0.7", "tight")
    assert Plan.parse(plan.dumps()) == plan
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.hash == plan.hash
    assert again.dumps() == plan.dumps()
    assert again.schema == plan.schema


def test_a_plan_cannot_be_changed():
    plan = Plan.of(SCHEMA, "kvue", 1)
    with pytest.raises(FrozenInstanceError):
        plan.promised = Decimal(2)  # type: ignore[misc]


def test_plans_are_equal_by_content_and_differ_by_any_part():
    plan = Plan.of(SCHEMA, "kvue", 1)
    assert plan == Plan.of(SCHEMA, "kvue", "1.0")
    assert plan != Plan.of(SCHEMA, "kvue", "1.1")
    assert plan != Plan.of(Schema.of(["Fries", "Diet Coke", "Mash"], 1, 5), "kvue", 1)
    assert len({plan, Plan.of(SCHEMA, "kvue", 1)}) == 1


def test_the_document_is_canonical_and_its_hash_is_of_those_bytes():
    document = json.loads(Plan.of(SCHEMA, "f2m", 1, default="4.5").dumps())
    assert Plan.of(SCHEMA, "f2m", 1, default="4.5").dumps() == canonical(document).decode()
    assert rehashed(document)["hash"] == document["hash"]

    def numbers(part):
        if isinstance(part, dict):
            return [n for p in part.values() for n in numbers(p)]
        if isinstance(part, list):
            return [n for p in part for n in numbers(p)]
        return [part] if isinstance(part, float) else []

    assert numbers(document) == [], "every non-integer is a decimal string"


def test_published_mechanisms_state_their_true_smaller_epsilon():
    privkv = Plan.of(SCHEMA, "privkv", 1)
    assert (float(privkv.promised), round(float(privkv.proven), 3)) == (1.0, 0.719)
    assert round(float(Plan.of(SCHEMA, "f2m", 1, default=3).proven), 3) == 0.781
    for name in ("privkv", "f2m"):
        given = {"default": 3} if name == "f2m" else {}
        assert 0.999 <= float(Plan.of(SCHEMA, name, 1, "tight", **given).proven) <= 1


def test_a_channel_that_breaks_its_promise_names_the_states_and_the_ratio():
    table = Table(((3 << 30, 1 << 30), (1 << 30, 3 << 30), (1 << 30, 3 << 30)))
    with pytest.raises(ChannelError, match=r"epsilon 1: output 0 is 3221225472/1073741824 = e\^1\.098"):
        Plan(SCHEMA.at(2), Views.singles(3), "views", (table,), Decimal(1), "harmony")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="keyveil/plan/2"), "unknown plan version"),
        (lambda d: d["channels"][0].update(keep=d["channels"][0]["keep"] + 2), "sum to 2|breaks"),
        (lambda d: d["epsilon"].update(promised="0.5"), "breaks its promise of epsilon 0.5"),
        (lambda d: d["epsilon"].update(proven="0.1"), "claims to prove 0.1"),
        (lambda d: d["epsilon"].update(promised=1), "decimal string"),
        (lambda d: d["schema"]["keys"].append("Fries"), "listed twice"),
        (lambda d: d["views"].update(keys=[[0], [1], [7]]), "from 0 to 2"),
        (lambda d: d["views"].update(weights=[1, 2, 3]), "sum to 2"),
        (lambda d: d.update(encode="guess"), "unknown encoding"),
        (lambda d: d.update(client={"unknown_key": "tell"}), "mapping for clients"),
        (lambda d: d.update(extra=1), "unknown member 'extra'"),
        (lambda d: d.pop("views"), "lacks 'views'"),
        (lambda d: d["mechanism"].update(name="nope"), "unknown mechanism"),
        (lambda d: d["channels"][0].update(shape="cube"), "unknown channel shape"),
        (lambda d: d.update(channels=[]), "channels are a list"),
        (lambda d: d["schema"].update(levels=3), "does not fit"),
    ],
)
def test_a_document_that_does_not_hold_is_refused_even_with_a_right_hash(change, message):
    document = copy.deepcopy(Plan.of(SCHEMA, "kvue", 1).document())
    change(document)
    with pytest.raises(PlanError, match=message):
        Plan.parse(canonical(rehashed(document)))


def test_a_changed_document_with_the_old_hash_is_refused():
    document = Plan.of(SCHEMA, "kvue", 1).document()
    document["schema"]["keys"][0] = "Chips"
    with pytest.raises(PlanError, match="hash does not match"):
        Plan.parse(canonical(document))


@pytest.mark.parametrize(
    "text",
    ["", "null", "[]", "{", '{"format": 1}', "{" * 5000, '{"a":1,"a":2}', '{"a":1.5}', b"\xff\xfe"],
)
def test_what_is_no_plan_is_refused_in_one_line(text):
    with pytest.raises(PlanError) as caught:
        Plan.parse(text)
    assert "\n" not in str(caught.value)


def test_audit_reads_a_broken_plan_and_shows_what_is_wrong():
    document = Plan.of(SCHEMA, "kvue", 1).document()
    document["epsilon"] = {"promised": "0.9", "proven": document["epsilon"]["proven"]}
    result = audit(rehashed(document))
    assert not result.sound
    assert result.plan is None
    assert float(result.promised) == 0.9
    assert float(result.proven) == pytest.approx(1, abs=1e-8)  # 2^-32 steps of the weights
    assert result.worst is not None
    assert result.worst.states == (0, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("kvu", 1), PlanError, "did you mean kvue"),
        (("kvue", 0), PlanError, "between 0.001 and 20"),
        (("kvue", "one"), PlanError, "must be a number"),
        (("kvue", float("nan")), PlanError, "finite"),
        (("kvue", True), PlanError, "must be a number"),
        (("kvue", 1, "loose"), PlanError, "known: paper, tight"),
    ],
)
def test_bad_arguments_say_what_would_be_right(arguments, error, message):
    with pytest.raises(error, match=message):
        Plan.of(SCHEMA, *arguments)


def test_parameters_are_checked():
    with pytest.raises(PlanError, match="no parameter 'vbar'; known: default, split"):
        Plan.of(SCHEMA, "f2m", 1, vbar=0)
    with pytest.raises(PlanError, match=r"default must lie in \[1, 5\]"):
        Plan.of(SCHEMA, "f2m", 1, default=0)
    with pytest.raises(PlanError, match=r"split must lie between 0\.01 and 0\.99"):
        Plan.of(SCHEMA, "f2m", 1, split=3)
    with pytest.raises(PlanError, match="whole number"):
        Plan.of(SCHEMA, "privkvm", 1, rounds="2.5")


def test_parameters_are_typed_and_shown_on_the_range_and_kept_on_the_unit_scale():
    plan = Plan.of(SCHEMA, "optimal", 1, mean=4, spread="0.8")
    assert (plan.parameters["mean"], plan.parameters["spread"]) == ("0.5", "0.4")
    assert (plan.parameters_on_scale["mean"], plan.parameters_on_scale["spread"]) == ("4", "0.8")
    assert plan.parameters_on_scale["frequency"] == plan.parameters["frequency"] == "0.3"
    unit = Plan.of(Schema.of(SCHEMA.keys), "optimal", 1, mean="0.5", spread="0.4")
    assert unit.channels == plan.channels, "the same law"
    assert unit.parameters == plan.parameters == unit.parameters_on_scale
    defaults = Plan.of(SCHEMA, "optimal", 1)
    assert (defaults.parameters["mean"], defaults.parameters["spread"]) == ("0", "0.5")
    assert (defaults.parameters_on_scale["mean"], defaults.parameters_on_scale["spread"]) == ("3", "1")


def test_a_parameter_without_a_finite_decimal_is_rounded_to_18_places():
    thirds = Schema.of(2, 0, 3)
    plan = Plan.of(thirds, "optimal", 1, mean=2, spread="0.4")
    assert plan.parameters["mean"] == "0.333333333333333333"
    assert plan.parameters["spread"] == "0.266666666666666667"
    assert (plan.parameters_on_scale["mean"], plan.parameters_on_scale["spread"]) == ("2", "0.4")
    assert Plan.parse(plan.dumps()).parameters_on_scale == plan.parameters_on_scale


@pytest.mark.parametrize(
    "ends", [("-1", "1"), ("1", "5"), ("0", "3"), ("-7", "0.1"), ("1e-30", "3e-30"), ("0", "7e40")]
)
@pytest.mark.parametrize("share", ["0", "0.1", "0.123456789", "0.5", "0.77", "1"])
def test_a_shown_parameter_makes_the_same_plan_again(ends, share):
    schema = Schema.of(2, *ends)
    low, high = schema.ranges[0]
    typed = low + Decimal(share) * (high - low)
    plan = Plan.of(schema, "f2m", 1, default=typed)
    assert Decimal(plan.parameters_on_scale["default"]) == typed
    again = Plan.of(schema, "f2m", 1, **plan.parameters_on_scale)
    assert again.hash == plan.hash
    document = Plan.of_document(schema, "f2m", 1, "paper", plan.parameters)
    assert document.hash == plan.hash


@pytest.mark.parametrize("unit", ["0.123456789012345678", "-0.9", "0.000000000000000001", "0.35"])
def test_a_documents_parameter_is_shown_so_that_it_is_read_back(unit):
    for ends in ((0, 3), (1, 5), ("0.1", "0.7"), (-40, 120)):
        plan = Plan.of_document(Schema.of(2, *ends), "f2m", 1, "paper", {"default": unit})
        assert plan.parameters["default"] == unit
        assert Plan.of(plan.schema, "f2m", 1, **plan.parameters_on_scale) == plan


def test_a_parameter_of_keys_with_different_ranges_is_in_half_ranges():
    mixed = Schema.of(["a", "b"], ranges={"a": (0, 1), "b": (0, 10)})
    plan = Plan.of(mixed, "optimal", 1, mean="0.5")
    assert plan.parameters["mean"] == plan.parameters_on_scale["mean"] == "0.5"
    words = r"mean must lie in \[-0.9, 0.9\] in half ranges: .* \(keys have different ranges, so -1 is"
    with pytest.raises(PlanError, match=words):
        Plan.of(mixed, "optimal", 1, mean=4)


def test_a_document_from_before_loads_and_names_its_own_scale_in_a_finding():
    """Its numbers are on [-1, 1] as they always were, with this hash."""
    plan = Plan.of_document(SCHEMA, "f2m", 1, "paper", {"default": "0.5"})
    assert plan.hash == "f792eab79dc91e89a83a39c61fcdf9a67b7632b34867a8b53c7569e9436d5b06"
    assert Plan.parse(plan.dumps()).parameters == {"default": "0.5", "split": "0.5"}
    result = audit(changed_parameters(plan, default="4"))
    assert result.findings[0].startswith("default must lie in [-1, 1], in a plan's document: ")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "1 to"),
        (["a", "a"], "'a' is listed twice"),
        ([""], "1 to 256 characters"),
        ([" a"], "outer spaces"),
        (["a\x00b"], "control characters"),
        ([None], "1 to 256 characters"),
        ([object()], "1 to 256 characters"),
        ([3, "3"], "'3' is listed twice"),
    ],
)
def test_bad_keys_are_refused(keys, message):
    with pytest.raises(SchemaError, match=message):
        Schema.of(keys)


def test_bad_ranges_are_refused():
    with pytest.raises(SchemaError, match="low 5 is not below high 1"):
        Schema.of(["a"], 5, 1)
    with pytest.raises(SchemaError, match="not listed"):
        Schema.of(["a"], ranges={"b": (0, 1)})
    with pytest.raises(SchemaError, match="too wide"):
        Schema.of(["a"], "-1.7e308", "1.7e308")


def test_thousands_of_keys_make_a_plan_and_a_report():
    schema = Schema.of([f"key {i}" for i in range(5000)], 0, 10)
    plan = Plan.of(schema, "kvue", 1)
    assert Plan.parse(plan.dumps()) == plan
    assert len(plan.report({"key 77": 3}).cells) == 2


def test_even_views_are_the_slices_that_their_weights_say():
    views = Views.singles(7)
    ends = [0, *views.bounds.tolist(), 1 << 32]
    listed = Views(views.keys, tuple(b - a for a, b in pairwise(ends)))
    words = np.array([w for e in views.bounds.tolist() for w in (e - 1, e)] + [0, 2**32 - 1], np.uint32)
    assert np.array_equal(views.pick(words), listed.pick(words))
    assert listed.shares.sum() == 1.0


def test_several_channels_and_views_of_mixed_sizes_make_one_plan():
    """The foundation of conditional plans: singles and pairs, each with a channel of its own."""
    views = Views(((0,), (1,), (0, 2)), (1 << 30, 1 << 30, 1 << 31))
    channels = (Symmetric.of(3, Decimal(1)), Symmetric.of(9, Decimal(1)))
    plan = Plan(SCHEMA.at(2), views, "views", channels, Decimal(1), "kvue", channel_of=(0, 0, 1))
    assert Plan.parse(plan.dumps()) == plan
    assert plan.layout.codes == 3 + 3 + 9


def changed_parameters(plan: Plan, **changes: object) -> bytes:
    """The plan's document with other parameters; a removed one is ``...``."""
    document = copy.deepcopy(plan.document())
    parameters = {**document["mechanism"]["parameters"], **changes}
    rest = {name: value for name, value in parameters.items() if value is not ...}
    document["mechanism"]["parameters"] = rest
    return canonical(rehashed(document))


@pytest.mark.parametrize("name", REGISTRY)
def test_a_plan_that_lacks_a_parameter_is_refused(name):
    """Its estimator may need it, long after the reports were collected."""
    plan = example_plan(Schema.of(6), name, 1)
    assert set(plan.parameters) == set(REGISTRY[name].parameters)
    for parameter in plan.parameters:
        result = audit(changed_parameters(plan, **{parameter: ...}))
        assert result.findings == (f"the plan lacks {parameter!r}, a parameter of {name}",)
    assert "does not know" in audit(changed_parameters(plan, more=1)).findings[0]


@pytest.mark.parametrize("name", REGISTRY)
def test_a_plan_with_other_parameters_is_refused_or_can_be_estimated(name):
    """Parameters at their bounds that the views, levels and channels were not made for."""
    plan = example_plan(Schema.of(6), name, 1)
    for parameter, stated in REGISTRY[name].parameters.items():
        ends = (getattr(stated, "low", ""), getattr(stated, "high", ""))
        values = getattr(stated, "names", ends)
        for value in values:
            result = audit(changed_parameters(plan, **{parameter: value}))
            if result.plan is None:
                assert len(result.findings) == 1
                continue
            tally = Tally(result.plan).add(result.plan.report({}))
            if result.plan.encode != "size":  # a pilot has no answers for keys
                estimate(result.plan, tally)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": "2"}, "weight must lie between"),
        ({"weight": "0.50"}, "one form"),
        ({"weight": 1}, "weight must lie between"),
        ({"weight": "x"}, "must be a number"),
        ({"weight": True}, "must be a number|whole numbers and strings"),
        ({"channel": "x"}, "channel must be one of"),
        ({"keys": 3}, "does not fit|do not have the keys"),
        ({"levels": 5}, "do not have the keys and levels"),
    ],
)
def test_parameters_of_a_document_are_checked(changes, message):
    result = audit(changed_parameters(Plan.of(Schema.of(6), "several", 1), **changes))
    assert result.plan is None
    assert re.search(message, result.findings[0])


def test_the_canonical_form_is_these_bytes():
    """Sorted members, no spaces, UTF-8 as it is, whole numbers: nothing is left to a writer's taste."""
    document = {"b": [1, -2, {"z": 0, "y": ""}], "a": "Müsli \N{FRENCH FRIES}", "A": None, "_": True}
    assert canonical(document) == (
        '{"A":null,"_":true,"a":"Müsli \N{FRENCH FRIES}","b":[1,-2,{"y":"","z":0}]}'.encode()
    )
    assert canonical({"a": 'quote " slash \\ / line\n'}) == b'{"a":"quote \\" slash \\\\ / line\\n"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


@pytest.mark.parametrize("depth", range(5))
def test_a_doubled_member_is_refused_even_if_both_say_the_same(depth):
    """Readers differ in which of the two they believe; the hash is right for either."""
    text = Plan.of(SCHEMA, "kvue", 1).dumps()
    assert audit(text).sound
    starts = [place for place, letter in enumerate(text) if letter == "{"][: depth + 1]
    place = starts[-1]
    assert len(starts) == depth + 1
    member = re.match(r'"[a-z_]+":("[^"]*"|[0-9]+|null)', text[place + 1 :])
    again = member[0] if member else '"channels":' + json.dumps(json.loads(text)["channels"])
    result = audit(text[: place + 1] + again + "," + text[place + 1 :])
    assert result.findings == ("a plan is a JSON object: a member appears twice",)
    assert result.plan is None


@pytest.mark.parametrize(
    ("encode", "views", "states"),
    [("views", Views.singles(3), 3), ("views", Views.whole(3), 27), ("item", Views.whole(3), 4)],
)
def test_a_channel_has_just_as_many_states_as_its_view(encode, views, states):
    for count in (states - 1, states, states + 1, 2 * states):
        channel = Symmetric.of(count, Decimal(1))
        parts = (SCHEMA, views, encode, (channel,), Decimal(1), "kvue")
        if count == states:
            assert Plan(*parts).channels == (channel,)
        else:
            with pytest.raises(PlanError, match="does not fit the states of its view"):
                Plan(*parts)
