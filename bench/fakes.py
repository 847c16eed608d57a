"""The share of fakes that the health check sees, and how far they have moved an answer by then.

``python -m bench.fakes [NAME ...] [--write]`` adds planted fakes to honest people, for each mechanism
and attack. With ``--write`` the table goes to docs/poisoning.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from keyveil import REGISTRY, Coins, KeyveilError, People, Plan, Schema, Tally
from keyveil.trust.health import health
from keyveil.trust.poison.fakes import fake_tally

PAGE = Path(__file__).parents[1] / "docs" / "poisoning.md"
START, END = "<!-- bench:fakes -->", "<!-- /bench:fakes -->"
PEOPLE, KEYS, EPSILON, RUNS = 100_000, 20, 1, 3
SHARES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
TARGET = 2
"""The key that fakes target. A share 0.4 / k hold the k-th key; every second key has no holders."""
ATTACKS = {
    "chosen": {"attack": "crafted", "views": "chosen", "seeds": "chosen"},
    "drawn": {"attack": "crafted", "views": "drawn", "seeds": "assigned"},
    "random": {"attack": "random"},
    "pairs": {"attack": "pairs"},
}
COINS = Coins.stated("bench of fakes")


def crowd_of(schema: Schema) -> People:
    """Two thousand people; the honest ones are drawn from them."""
    draw, keys = np.random.default_rng(4), len(schema.keys)
    often = np.where(np.arange(keys) % 2 == 0, 0.4 / (1 + np.arange(keys)), 0.0)
    held = draw.random((2000, keys)) < often
    values = np.clip(draw.normal(0.2, 0.5, held.shape), -1, 1)
    return People.of_records(
        schema,
        [{schema.keys[k]: float(values[i, k]) for k in np.flatnonzero(held[i])} for i in range(2000)],
    )


def answer(plan: Plan, tally: Tally) -> float:
    """The target's frequency, or its mass if the mechanism has no frequency."""
    values = plan.mechanism.moments(plan, tally.counts).values[TARGET]
    return float(values[0] if "frequency" in plan.mechanism.answers else values[1])


def row_of(name: str) -> str:
    """One mechanism's row of the table."""
    schema = Schema.of(min(KEYS, REGISTRY[name].most_keys, 6 if "ioh" in name else KEYS))
    try:
        given = {"queries": f"mean({TARGET} | 0)"} if name == "workload" else {}
        plan = Plan.of(schema, name, EPSILON, **{**REGISTRY[name].example(schema), **given})
        if plan.parts is not None or plan.speaks_of_size or not plan.mechanism.answers:
            return ""
        crowd = crowd_of(schema)
        honest = []
        for run in range(RUNS):
            rows = np.random.default_rng(run).integers(0, len(crowd), PEOPLE)
            people = crowd.chosen(rows, np.arange(PEOPLE, dtype=np.int64))
            honest.append(Tally(plan).add(plan.privatise(people, COINS.under(f"{name} {run}"))))
        cells = [cell_of(plan, honest, attack) for attack in ATTACKS]
    except KeyveilError as error:
        return f"| {name} | {error} | | | | |"
    before = np.mean([answer(plan, tally) for tally in honest])
    return f"| {name} | {before:.2f} | " + " | ".join(cells) + " |"


def cell_of(plan: Plan, honest: list[Tally], attack: str) -> str:
    """The smallest share that most runs see, with its shift; or the largest shift if none is seen."""
    goal = "raise-frequency" if "frequency" in plan.mechanism.answers else "raise-mean"
    for share in SHARES:
        count, alarms, shifts = round(PEOPLE * share / (1 - share)), 0, []
        for run, tally in enumerate(honest):
            fakes = fake_tally(
                plan,
                count,
                [plan.schema.keys[TARGET]],
                goal,
                coins=COINS.under(f"{attack} {share} {run}"),
                tally=tally,
                **ATTACKS[attack],
            )
            alarms += health(plan, tally + fakes).suspicious
            shifts.append(answer(plan, tally + fakes) - answer(plan, tally))
        if 2 * alarms > RUNS:
            return f"{share:g} ({np.mean(shifts):+.2f})"
    return f"not seen ({np.mean(shifts):+.2f})"


def table(names: list[str]) -> str:
    """The table, a row for each mechanism."""
    lines = [
        "| mechanism | honest | chosen | drawn | random | pairs |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in names:
        row = row_of(name)
        if row:
            print(row, flush=True)
            lines.append(row)
    return "\n".join(lines)


def main() -> None:
    """Print the table, or write it to its page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    output = table(chosen.names or list(REGISTRY))
    if chosen.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(START)
        PAGE.write_text(f"{before}{START}\n{output}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
