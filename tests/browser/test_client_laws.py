"""What the client draws in Chromium: all vectors byte for byte, and its samplers against their laws.

False alarms: each of the tests of a law rejects an honest sampler with probability 1e-6. The browser's
coins are secure, so a run is not repeatable.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from example_site import ROOT
from scipy.stats import chi2

from keyveil import Plan, Schema, Views
from keyveil.channel import Channel, Subset

FALSE_ALARM = 1e-6
KEYS = ["Fries", "Pepsi", "Salad"]
RECORD = {"Fries": 2.2, "Salad": 5}
PLANS = {
    "rr": {},
    "kvue": {},
    "f2m": {},
    "kvoh": {},
    "ioh": {},
    "pairs": {},
    "several": {},
    "split": {},
    "grr": {},
    "rappor": {},
    "shist": {"rows": 16},
    "meanest": {},
    "collision": {"cap": 2, "pool": 16},
    "pair_collision": {"cap": 2, "pool": 16},
    "coco": {"cap": 2, "pool": 16},
    "pckv_grr": {"length": 2},
    "pckv_ue": {"length": 2},
    "size": {},
    "sign": {},
    "parts": {"parts": "kvue/sign@0.2/size@0.1"},
}
"""Mechanisms that use all encodings and all shapes, with their parameters."""

DRAW = """async ([text, record, count, leak]) => {
  const { readPlan } = await import("/src/index.js");
  const { cellsOf, drawCells } = await import("/src/report.js");
  const plan = await readPlan(text);
  const counts = {};
  for (let i = 0; i < count; i++) {
    const telling = leak && Math.random() < leak;
    const cells = telling ? cellsOf(plan, record, new Uint32Array(64)) : drawCells(plan, record);
    counts[cells] = (counts[cells] ?? 0) + 1;
  }
  return counts;
}"""


def test_all_vectors_replay_in_the_browser(blank_page):
    for file in sorted((ROOT / "vectors").glob("*.json")):
        vector = json.loads(file.read_text("utf-8"))
        cells = blank_page.evaluate(
            """async ([plan, cases]) => {
              const { readPlan } = await import("/src/index.js");
              const { recordedCells } = await import("/testing/recorded.js");
              const read = await readPlan(plan);
              return cases.map(({ record, words }) => recordedCells(read, record, words));
            }""",
            [vector["plan"], vector["cases"]],
        )
        assert cells == [case["cells"] for case in vector["cases"]], file.name


def test_bad_plans_are_refused_in_the_browser(blank_page):
    bad = json.loads((ROOT / "vectors" / "bad" / "plans.json").read_text("utf-8"))
    names = blank_page.evaluate(
        """async (texts) => {
          const { readPlan } = await import("/src/index.js");
          const read = (text) => readPlan(text).then(() => "read", (error) => error.name);
          return Promise.all(texts.map(read));
        }""",
        [case["text"] for case in bad["cases"]],
    )
    assert set(names) == {"PlanError"}


def law_of(plan: Plan, record: dict[str, float]) -> dict[str, float]:
    """The exact probability of each report of a record, by its cells."""
    law: dict[str, float] = {}
    for view in range(len(plan.views)):
        own, number = plan.part_of(view)
        share = float(plan.views.shares[view])
        held, channel = own.schema.mapped(record), own.view_channels[number]
        states = own.encoding.record_law(own.schema, own.views.keys[number], held, own.cap)
        for state, chance in states.items():
            for output, weight in enumerate(outputs_of(channel, state)):
                if weight > 0:
                    cell = int(plan.layout.own[view])
                    cells = f"{cell},{cell + 1 + output}"
                    law[cells] = law.get(cells, 0.0) + share * chance * float(weight)
    return law


def outputs_of(channel: Channel, state: Any) -> np.ndarray:
    """The law of the outputs of one state."""
    if channel.state_kind == "items":
        return channel.law_of(np.array(state, np.int64))  # type: ignore[attr-defined]
    number = sum(bit << place for place, bit in enumerate(state)) if isinstance(state, tuple) else state
    return channel.expected()[number]


def p_value(counts: dict[str, int], law: dict[str, float]) -> float:
    """Pearson's chi-square test; reports expected fewer than 5 times are one class."""
    reports = sum(counts.values())
    assert set(counts) <= set(law), "a report that has no probability"
    rare = [cells for cells in law if reports * law[cells] < 5]
    classes = [(counts.get(cells, 0), law[cells]) for cells in law if reports * law[cells] >= 5]
    if rare:
        classes.append((sum(counts.get(cells, 0) for cells in rare), sum(law[cells] for cells in rare)))
    numbers, share = np.array(classes, float).T
    expected = reports * share / share.sum()
    return float(chi2.sf(((numbers - expected) ** 2 / expected).sum(), len(numbers) - 1))


def plans() -> dict[str, Plan]:
    """The plans of the list, and one by hand: a subset whose sets have one cell each."""
    plans = {}
    for name, parameters in PLANS.items():
        keys = KEYS[::2] if name == "ioh" else KEYS  # few enough to have one cell for each report
        plans[name] = Plan.of(Schema.of(keys, 1, 5), name, 1, **parameters)
    channel = Subset(4, 2, 3 * 2**30)
    facts = Schema.of(KEYS, 1, 5), Views.whole(3), "item", (channel,), channel.proof().epsilon, "grr"
    return {**plans, "subset": Plan(*facts)}


@pytest.mark.sampled
def test_the_samplers_follow_their_laws(blank_page, scale):
    kinds = set()
    for name, plan in plans().items():
        assert plan.layout.one_cell
        for part in plan.part_plans:
            kinds |= {part.encode, *(channel.shape for channel in part.channels)}
        law = law_of(plan, RECORD)
        assert abs(sum(law.values()) - 1) < 1e-9
        counts = blank_page.evaluate(DRAW, [plan.dumps(), RECORD, 5000 * scale, 0])
        assert p_value(counts, law) > FALSE_ALARM, name
    used = {"views", "item", "signs", "items", "pair_items", "padded", "size", "any_value"}
    assert used <= kinds, used - kinds
    shapes = {
        "table",
        "symmetric",
        "symbols",
        "product",
        "hash",
        "halfspace",
        "collision",
        "coco",
        "subset",
    }
    assert shapes <= kinds, shapes - kinds


@pytest.mark.sampled
def test_a_planted_leak_is_rejected(blank_page):
    """A sampler that tells the truth in one of 20 reports, and one whose words lack their top bit."""
    plan = Plan.of(Schema.of(KEYS, 1, 5), "kvue", 1)
    law = law_of(plan, RECORD)
    assert p_value(blank_page.evaluate(DRAW, [plan.dumps(), RECORD, 20_000, 0.05]), law) < 1e-9
    blank_page.evaluate(
        """() => { const honest = crypto.getRandomValues.bind(crypto);
          crypto.getRandomValues = (words) => words.set(honest(words).map((word) => word >>> 1)); }"""
    )
    counts = blank_page.evaluate(DRAW, [plan.dumps(), RECORD, 20_000, 0])
    assert p_value({cells: n for cells, n in counts.items() if cells in law}, law) < 1e-9
