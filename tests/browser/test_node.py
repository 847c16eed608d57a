"""The client for web pages in Node: its own tests, and its proofs against the library's."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from typing import Any

import pytest
from node_client import CLIENT, node

from keyveil import REGISTRY, Plan, Schema, audit
from keyveil.channel import Hash, Product, Subset, Table
from keyveil.people.views import Views
from keyveil.plan.plan_document import canonical
from keyveil.testing import example_plan

FILES = sorted((CLIENT / "test").glob("*.test.js"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_tests_of_the_client_pass(file):
    node("--test", str(file))


READ = """
import { readFileSync } from "node:fs";
import { readPlan } from "./src/index.js";
const answers = [];
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    answers.push((await readPlan(text)).proven);
  } catch (error) {
    answers.push(error.name === "PlanError" ? null : String(error));
  }
}
console.log(JSON.stringify(answers));
"""


def read(texts: list[str]) -> list[str | None]:
    """What the client proves for each plan; None if it refuses the plan."""
    return json.loads(node("--input-type=module", "-e", READ, given=json.dumps(texts)))


def plans() -> list[Plan]:
    """Plans of all mechanisms at several epsilons, and of channels with special proofs."""
    plans = []
    for name in REGISTRY:
        for keys, epsilon in ((3, "0.3"), (6, "6"), (20, "1.5")):
            most = min(keys, REGISTRY[name].most_keys)
            plans.append(example_plan(Schema.of(most, 0, 10), name, epsilon))
    for states in (3, 9, 27, 81):
        for size in {1, 2, states // 2, states - 1}:
            plans.append(_of(states - 1, Subset(states, size, 2**31 + 12345)))
    small = Table(((3 * 2**30, 2**30), (2**30, 3 * 2**30), (2**31, 2**31)))
    plans.append(_of(6, Hash(6, 16, 7, small)))
    schema, channel = Schema.of(4), Product(4, Table(((3 * 2**30, 2**30), (2**30, 3 * 2**30))))
    plans.append(
        Plan(schema.at(1), Views.whole(4), "views", (channel,), channel.proof().epsilon, "kvue")
    )
    return plans


def _of(keys: int, channel: Any) -> Plan:
    """A plan of one held key through a channel."""
    proven = channel.proof().epsilon
    return Plan(Schema.of(keys), Views.whole(keys), "item", (channel,), proven, "grr")


def test_the_client_proves_what_the_library_proves():
    examples = plans()
    assert len(examples) > 100
    texts = [canonical(plan.document()).decode() for plan in examples]
    assert read(texts) == [plan.document()["epsilon"]["proven"] for plan in examples]


def mutated(body: dict[str, Any], chance: random.Random) -> str:
    """A plan with one number changed a little, and the hash of what it says then."""
    body = copy.deepcopy(body)
    del body["hash"]
    places: list[tuple[Any, Any]] = []

    def look(part: Any) -> None:
        pairs = part.items() if isinstance(part, dict) else enumerate(part)
        for name, value in list(pairs):
            if isinstance(value, int):
                places.append((part, name))
            elif isinstance(value, dict | list):
                look(value)

    look({name: body[name] for name in ("schema", "views", "channels", "parts") if name in body})
    part, name = chance.choice(places)
    part[name] += chance.choice((-2, -1, 1, 2, 2**32, -part[name], part[name]))
    return canonical({**body, "hash": hashlib.sha256(canonical(body)).hexdigest()}).decode()


def test_the_client_refuses_what_breaks_its_promise(scale):
    """Changed plans: what the library accepts, the client accepts; what the client accepts, the library
    proves. Only a mechanism's own rules, which need its name, are left to the library."""
    chance = random.Random("changed plans")
    bodies = [plan.document() for plan in plans() if len(plan.schema.keys) <= 20]
    texts = [mutated(chance.choice(bodies), chance) for _ in range(400 * scale)]
    for text, proven in zip(texts, read(texts), strict=True):
        result = audit(text)
        if result.sound:
            assert proven == json.loads(text)["epsilon"]["proven"]
        elif proven is not None:
            assert result.worst is not None
            assert result.worst.keeps(result.promised)
            assert str(result.proven.normalize()) == proven or result.proven == result.worst.epsilon
            assert len(result.findings) == 1, result.findings
