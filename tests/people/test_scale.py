"""What users see and type is on their own scale: means, spreads, errors, in words, pictures and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keyveil import REGISTRY, Plan, PlanError, Schema
from keyveil.cli.command import run
from keyveil.people.prior import Prior
from keyveil.people.scale import Scale
from keyveil.planner.curves import curves
from keyveil.planner.planner import advise
from keyveil.simulate.contest_row import on_scale
from keyveil.trust.poison.attack_summary import line

STARS = Schema.of(6, 1, 5)
UNIT = Schema.of(6)
MIXED = Schema.of(["a", "b"], ranges={"a": (0, 1), "b": (0, 10)})


def test_a_scale_is_the_range_that_all_keys_share():
    scale = Scale.of(STARS)
    assert (scale.low, scale.high, scale.half, scale.shared) == (1, 5, 2, True)
    assert [scale.value(x) for x in (-1, 0, 0.5, 1)] == [1, 3, 4, 5]
    assert [scale.unit(x) for x in (1, 3, 4, 5)] == [-1, 0, 0.5, 1]
    assert (str(scale), scale.note) == ("on [1, 5]", "")
    assert Scale.of(UNIT) == Scale() == Scale.parse(None)
    assert [Scale().unit(x) for x in (0.3, -0.7)] == [0.3, -0.7], "[-1, 1] stays as it is"


def test_keys_of_different_ranges_are_on_half_ranges():
    scale = Scale.of(MIXED)
    assert (scale.low, scale.high, scale.half, str(scale)) == (-1, 1, 1, "in half ranges")
    assert "low end of each key's range" in scale.note
    for each in (scale, Scale.of(STARS)):
        assert Scale.parse(each.document()) == each


def test_a_prior_of_a_schema_is_stated_on_its_scale():
    own = Prior.of(STARS, held=2, mean=4, spread=0.8, between=0.4)
    unit = Prior.of(6, held=2, mean=0.5, spread=0.4, between=0.2)
    np.testing.assert_allclose(own.values, unit.values)
    assert own.source == "2 keys held on average, means near 4, spread 0.8 on [1, 5]"
    assert unit.source == "2 keys held on average, means near 0.5, spread 0.4 on [-1, 1]"
    default, same = Prior.of(STARS), Prior.of(6)
    assert np.array_equal(default.values, same.values), "defaults do not depend on the range"
    assert "means near 3, spread 1 on [1, 5]" in default.source
    assert "in half ranges" in Prior.of(MIXED).source


@pytest.mark.parametrize(
    ("schema", "given", "said"),
    [
        (STARS, {"mean": 0.5}, "mean lies above 1 and below 5, for values on [1, 5]"),
        (STARS, {"spread": 2.5}, "spread lies between 0 and 2, for values on [1, 5]"),
        (STARS, {"between": 2.5}, "between lies between 0 and 2"),
        (MIXED, {"mean": 5}, "above -1 and below 1 (keys have different ranges"),
    ],
)
def test_a_refusal_speaks_of_the_users_range(schema, given, said):
    with pytest.raises(PlanError) as refusal:
        Prior.of(schema, **given)
    assert said in str(refusal.value)


def test_advice_is_the_same_on_every_scale_but_for_the_unit_of_means():
    own, unit = (advise(schema, 2, 1e5) for schema in (STARS, UNIT))
    own_scale, unit_scale = own.document(), unit.document()
    assert own_scale["mean_scale"] == {"low": 1, "high": 5, "of": "all keys"}
    assert unit_scale["mean_scale"] == {"low": -1, "high": 1, "of": "all keys"}
    assert "on [1, 5]" in own_scale["prior"]
    for a, b in zip(own_scale["options"], unit_scale["options"], strict=True):
        assert (a["mechanism"], a["score"], a["mse_frequency"]) == (
            b["mechanism"],
            b["score"],
            b["mse_frequency"],
        )
        assert a["mse_mean"] == pytest.approx(4 * b["mse_mean"])
    drawn = [curves(schema, each, 1, ["1"]) for schema, each in ((STARS, own), (UNIT, unit))]
    for name in ("by_epsilon", "by_people"):
        (a,), (b,) = (list(getattr(each, name).values()) for each in drawn)
        assert a["frequency"] == b["frequency"]
        assert a["mean"] == pytest.approx([4 * error for error in b["mean"]])
    assert [str(each.scale) for each in drawn] == ["on [1, 5]", "on [-1, 1]"]


def test_fakes_of_keys_with_different_ranges_are_told_of_one_key_by_name():
    lines = {schema: line(advise(schema, 2, 1e5).plan) for schema in (STARS, MIXED)}
    assert "raise a key's frequency" in lines[STARS]
    assert "raise the frequency of 'a' from" in lines[MIXED]


def test_rows_of_a_comparison_come_to_the_scale_once():
    row = {
        "mse_frequency": 0.1,
        "mse_mean": 0.1,
        "mse_mean_se": 0.01,
        "mae_mean": 0.2,
        "mae_mean_se": None,
        "predicted_mean": 0.3,
        "mse_conditional_mean": 0.1,
        "coverage_mean": 0.95,
        "bounded_mean": 1.0,
        "runs": {"frequency": [0.1], "mean": [0.1, None]},
    }
    document = on_scale(row, Scale(1, 5))
    for name in ("mse_mean", "mse_mean_se", "predicted_mean", "mse_conditional_mean"):
        assert document.pop(name) == pytest.approx(4 * row[name])
    assert document.pop("mae_mean") == pytest.approx(0.4)
    assert document.pop("runs") == {"frequency": [0.1], "mean": [pytest.approx(0.4), None]}
    assert document.pop("mean_scale") == {"low": 1, "high": 5, "of": "all keys"}
    assert all(row[name] == value for name, value in document.items())
    unit = on_scale(row, Scale())
    assert {name: unit[name] for name in row} == row


def test_what_fakes_add_is_on_the_values_scale(tmp_path, capsys, monkeypatch):
    """A few mechanisms are enough: with both answers, with one, with a mass, with views."""
    few = {name: REGISTRY[name] for name in ("kvue", "rr", "harmony", "pairs")}
    monkeypatch.setattr("keyveil.trust.poison.attack_summary.REGISTRY", few)
    by_scale = {}
    for name, schema in (("own", STARS), ("unit", UNIT)):
        Plan.of(schema, "kvue", 2).save(tmp_path / f"{name}.json")
        mean = "4" if name == "own" else "0.5"
        assert (
            run(["poison", str(tmp_path / f"{name}.json"), "--compare", "--mean", mean, "--json"]) == 0
        )
        rows = json.loads(capsys.readouterr().out)
        by_scale[name] = {row["mechanism"]: row for row in rows}
    for name, row in by_scale["own"].items():
        times = 2 if "mean" in REGISTRY[name].answers else 1  # a mass stays on [-1, 1]
        other = by_scale["unit"][name]
        assert row["frequency"] == other["frequency"]
        assert row["mean"] == (None if other["mean"] is None else pytest.approx(times * other["mean"]))
        assert row["mean_scale"] == {"low": 1, "high": 5, "of": "all keys"}
    assert run(["poison", str(tmp_path / "own.json"), "--mean", "0.5"]) == 1
    assert "--mean lies between 1 and 5" in capsys.readouterr().err
