"""What tests of engines share: people of every kind, and what the library makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from keyveil import REGISTRY, Coins, Plan, Schema, Tally
from keyveil.people.tables import people_of
from keyveil.testing import example_plan

COINS = Coins.stated("engines")
KEYS = ["Pepsi", "Fries", "Salad", "Soup"]
PEOPLE = 600


def table(people: int = PEOPLE, seed: int = 1, named: bool = False) -> pa.Table:
    """People with 0 to 4 keys in no order; who holds nothing has a row without key and value."""
    draw = np.random.default_rng(seed)
    rows = [
        (person, KEYS[key], float(draw.uniform(1, 5)))
        for person in range(people)
        for key in np.flatnonzero(draw.random(len(KEYS)) < 0.4)
    ]
    held = {row[0] for row in rows}
    rows += [(person, None, None) for person in range(people) if person not in held]
    order = draw.permutation(len(rows))
    persons, keys, values = zip(*(rows[place] for place in order), strict=True)
    names = [f"guest {person}" for person in persons] if named else list(persons)
    return pa.table({"person": names, "key": keys, "value": pa.array(values, pa.float64())})


def mechanism_plan(name: str) -> Plan:
    """A plan of a mechanism for these keys, or for as few or many of them as it takes."""
    keys = KEYS[: REGISTRY[name].most_keys]
    return example_plan(Schema.of(keys, 1, 5), name, 2)


def rows_for(plan: Plan, rows: pa.Table) -> pa.Table:
    """The rows with keys of the plan; everyone stays, if only with an empty row."""
    known = pa.compute.is_in(rows["key"], pa.array(plan.schema.keys)).to_numpy()
    keys = [key if good else None for key, good in zip(rows["key"].to_pylist(), known, strict=True)]
    values = [v if good else None for v, good in zip(rows["value"].to_pylist(), known, strict=True)]
    columns = {"person": rows["person"], "key": keys, "value": pa.array(values, pa.float64())}
    return pa.table(columns)


def library_tally(plan: Plan, rows: pa.Table) -> Tally:
    """The tally of everyone, made in one process in memory at the stated coins."""
    return Tally(plan).add(plan.privatise(people_of(plan.schema, rows), COINS))


def written(rows: pa.Table, path: Path, group: int = 300) -> Path:
    """The rows as a Parquet file of small row groups."""
    pq.write_table(rows, path, row_group_size=group)
    return path
