"""The paper's food example at 200,000 people, from records to answers, by the real commands."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keyveil import Coins, Plan, Tally, estimate
from keyveil.cli.command import run
from keyveil.plot import plot_answers

PEOPLE = 200_000
FOODS = {  # share of people who order it, mean rating on 1..5 among them
    "Hamburger": (0.62, 3.9),
    "Fries": (0.48, 2.6),
    "Pepsi": (0.55, 4.4),
    "Mash": (0.21, 3.4),
    "Salad": (0.30, 3.1),
    "Ice cream": (0.12, 4.7),
    "Anchovies": (0.004, 2.2),
}


def population() -> pa.Table:
    """People who order several foods together: a taste for fast food moves all of them."""
    draw = Coins.stated("demo population").generator()
    taste = draw.normal(size=PEOPLE)
    person, key, value = [], [], []
    for food, (share, mean) in FOODS.items():
        pull = -0.8 if food == "Salad" else 0.8
        cut = np.quantile(pull * taste + draw.normal(size=PEOPLE), 1 - share)
        holds = np.flatnonzero(pull * taste + draw.normal(size=PEOPLE) > cut)
        ratings = np.clip(np.round(draw.normal(mean, 0.9, size=len(holds)) * 2) / 2, 1, 5)
        person.append(holds)
        key += [food] * len(holds)
        value.append(ratings)
    nothing = np.setdiff1d(np.arange(PEOPLE), np.concatenate(person))
    table = {
        "user": np.concatenate([*person, nothing]),
        "key": key + [None] * len(nothing),  # a person who orders nothing takes part like any other
        "value": np.concatenate([*value, np.full(len(nothing), np.nan)]),
    }
    return pa.table(table)


def command(line: str) -> None:
    """Show a command and run it."""
    print(f"\n$ keyveil {line}", flush=True)
    code = run(shlex.split(line))
    if code:
        sys.exit(code)


def main() -> None:
    """Plan, privatise, tally, estimate; then the truth beside the estimates, and a picture."""
    started = time.perf_counter()
    home = Path.cwd()
    table = population()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pq.write_table(table, "people.parquet")
        Path("foods.txt").write_text("\n".join(FOODS))
        print(f"{PEOPLE:,} people hold {table.num_rows:,} foods and ratings; no record leaves a device.")
        command("plan --keys foods.txt --range 1,5 --epsilon 1 --mechanism kvue -o plan.json")
        command("audit plan.json")
        command("privatise plan.json people.parquet --person user -o reports.kv")
        command("tally plan.json reports.kv -o tally.kv")
        command("estimate plan.json tally.kv")
        plan = Plan.load("plan.json")
        answers = estimate(plan, Tally.load(plan, "tally.kv"))
        os.chdir(home)
    truth = true_values(table)
    print("\nThe truth beside the estimate and its interval:\n")
    heads = ("food", "true f", "estimate", "95 % interval", "true mean", "estimate", "95 % interval")
    print("{:<10} {:>7} {:>9} {:>18}   {:>9} {:>9} {:>18}".format(*heads))
    inside = asked = 0
    for answer in answers:
        line = f"{answer.key:<10}"
        for part in ("frequency", "mean"):
            made, true = getattr(answer, part), truth[answer.key][part]
            ends = f"[{made.low:.3f}, {made.high:.3f}]" if made.bounded else "unbounded"
            value = f"{made.value:.3f}" if made.bounded else "?"
            line += f" {true:>{7 if part == 'frequency' else 11}.3f} {value:>9} {ends:>18}"
            asked += 1
            inside += made.low <= true <= made.high
        print(line)
    print(f"\n{inside} of {asked} intervals hold the truth (95 % are meant to).")
    picture = Path("out/demo.png")
    picture.parent.mkdir(exist_ok=True)
    plot_answers(answers, picture, truth, f"{PEOPLE:,} people, KVUE, epsilon 1")
    print(f"picture: {picture}    seconds: {time.perf_counter() - started:.1f}")


def true_values(table: pa.Table) -> dict[str, dict[str, float]]:
    """What a collector who saw every record would compute."""
    keys = np.array(table["key"].to_pylist(), object)
    values = table["value"].to_numpy()
    return {
        food: {
            "frequency": float((keys == food).sum()) / PEOPLE,
            "mean": float(values[keys == food].mean()),
        }
        for food in FOODS
    }


if __name__ == "__main__":
    main()
