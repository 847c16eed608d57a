"""Compiles the loops of all mechanisms once, before the workers of the tests would each compile them.

Numba keeps what it has compiled next to the sources. ``make test`` runs this while mypy runs.
"""

from __future__ import annotations

import os

os.environ["KEYVEIL_FAST"] = "1"  # loops for a few people, too

from keyveil import REGISTRY, Coins, People, Schema, Tally, estimate
from keyveil.testing import example_plan


def compile_loops() -> None:
    """Run the batch path and the estimator of every mechanism, with few keys and with many."""
    for keys in (3, 90):
        schema = Schema.of(keys, -1, 1)
        records = [{str(key): 0.3 for key in range(person % 4)} for person in range(40)]
        people = People.of_records(schema, records)
        names = [name for name, kind in REGISTRY.items() if keys <= kind.most_keys]
        for name in names:
            for epsilon in (0.5, 4):
                plan = example_plan(schema, name, epsilon)
                tally = Tally(plan).add(plan.privatise(people, Coins.stated("loops")))
                if keys == 3:
                    estimate(plan, tally)


if __name__ == "__main__":
    compile_loops()
