"""Write bad plans: texts that every client must refuse before it looks at a record.

``python vectors/make_bad.py`` rewrites ``bad/plans.json``. Each case is a plan with one fault. Its hash
is that of its content, unless the hash is the fault.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from keyveil import Plan, Schema
from keyveil.foundation.arrays import WORD
from keyveil.plan.plan_document import canonical

FORMAT = "keyveil/bad-plans/1"
FOODS = Schema.of(["Fries", "Pepsi", "Salad"], 1, 5)
Change = Callable[[dict[str, Any]], Any]


def sealed(body: dict[str, Any]) -> str:
    """The canonical text of a plan with the hash of what it says."""
    content = {name: part for name, part in body.items() if name != "hash"}
    return canonical({**content, "hash": hashlib.sha256(canonical(content)).hexdigest()}).decode()


def at(*path: Any) -> Callable[[Any], Change]:
    """A change of one member, given by its path."""

    def to(value: Any) -> Change:
        def change(body: Any) -> None:
            for step in path[:-1]:
                body = body[step]
            body[path[-1]] = value

        return change

    return to


def without(name: str) -> Change:
    """A change that removes a member."""
    return lambda body: body.pop(name)


CHANNEL = ("channels", 0)
HALF = WORD // 2
KVUE: dict[str, Change] = {
    "an unknown version": at("format")("keyveil/plan/2"),
    "a member that no plan has": at("tracking")("yes"),
    "no client member": without("client"),
    "another mapping of records": at("client", "unknown_key")("refuse"),
    "a promise below what is proven": at("epsilon", "promised")("0.5"),
    "a claim below what the integers prove": at("epsilon", "proven")("0.5"),
    "a claim that differs in the last decimal": at("epsilon", "proven")("0.999999999291956741"),
    "an epsilon that is a number": at("epsilon", "promised")(1),
    "an epsilon with an exponent": at("epsilon", "promised")("1e0"),
    "an epsilon above 20": at("epsilon", "promised")("21"),
    "a negative epsilon": at("epsilon", "promised")("-1"),
    "no epsilon": at("epsilon")({}),
    "weights that sum to more than 2^32": at(*CHANNEL, "keep")(2474403179),
    "a lie that is never told": at(*CHANNEL, "lie")(0),
    "a negative weight": at(*CHANNEL, "lie")(-1),
    "a weight that is text": at(*CHANNEL, "keep")("2474403178"),
    "a weight that is true": at(*CHANNEL, "lie")(True),
    "more states than fit": at(*CHANNEL, "states")(2**20 + 1),
    "states that do not fit the view": at(*CHANNEL)(
        {"shape": "symmetric", "states": 4, "keep": HALF, "lie": HALF // 3}
    ),
    "a channel of an unknown shape": at(*CHANNEL, "shape")("truth"),
    "a channel with another member": at(*CHANNEL, "seed")(1),
    "no channels": at("channels")([]),
    "channels that are no list": at("channels")({}),
    "a channel for a view that is not there": at("channel_of")([0, 0, 1]),
    "too few channels of views": at("channel_of")([0]),
    "an unknown encoding": at("encode")("plain"),
    "an encoding that does not fit": at("encode")("items"),
    "an encoding named after a method": at("encode")("constructor"),
    "no keys": at("schema", "keys")([]),
    "a key twice": at("schema", "keys")(["Fries", "Fries", "Salad"]),
    "an empty name": at("schema", "keys")(["Fries", "", "Salad"]),
    "a name with outer spaces": at("schema", "keys")(["Fries", " Pepsi", "Salad"]),
    "a name with a control character": at("schema", "keys")(["Fries", "Pep\tsi", "Salad"]),
    "a name that is a number": at("schema", "keys")(["Fries", 7, "Salad"]),
    "a range that is reversed": at("schema", "ranges")([["5", "1"]]),
    "a range of numbers": at("schema", "ranges")([[1, 5]]),
    "a range with an exponent": at("schema", "ranges")([["1", "5e0"]]),
    "a range that no double holds": at("schema", "ranges")([["1", "1" + "0" * 320]]),
    "two ranges for three keys": at("schema", "ranges")([["1", "5"], ["1", "4"]]),
    "no levels": at("schema", "levels")(0),
    "too many levels": at("schema", "levels")(65),
    "another number of levels": at("schema", "levels")(3),
    "views without weight": at("views", "weights")([WORD, 0, 0]),
    "views whose weights sum to less": at("views", "weights")([1, 1, 1]),
    "a view of a key that is not there": at("views", "keys")([[0], [1], [3]]),
    "a view of a key twice": at("views", "keys")([[0, 0], [1], [2]]),
    "no views": at("views", "keys")([]),
    "a mechanism without a name": at("mechanism", "name")(7),
    "a calibration of an unknown kind": at("mechanism", "calibrate")("loose"),
    "a chain without a total": at("chain")({"round": 1, "parent": ""}),
    "parts next to views": at("parts")([]),
}
"""Changes of a plan of kvue."""

OTHERS: dict[str, tuple[str, dict[str, Any], dict[str, Change]]] = {
    "f2m": ("f2m", {}, {
        "an output that one state never sends": at(*CHANNEL, "rows", 1)([WORD, 0, 0, 0]),
        "a row that sums to less": at(*CHANNEL, "rows", 0, 0)(1),
        "rows of different lengths": at(*CHANNEL, "rows", 0)([WORD]),
    }),
    "rappor": ("rappor", {}, {
        "a symbol without weight": at(*CHANNEL, "laws", 0)([WORD, 0]),
        "too many positions": at(*CHANNEL, "positions")(2**20 + 1),
        "a third silent state": at(*CHANNEL, "silent")(2),
        "only one law": at(*CHANNEL, "laws")([[HALF, HALF]]),
    }),
    "shist": ("shist", {}, {"a salt of more than 32 bits": at(*CHANNEL, "salt")(2**32)}),
    "collision": ("collision", {"cap": 2, "pool": 16}, {
        "a pool that is no power of two": at(*CHANNEL, "pool")(15),
        "more cells than a tally has": at(*CHANNEL, "pool")(2**22),
        "no weight for empty cells": at(*CHANNEL, "high")(WORD // 2),
        "more items than the keys have": at(*CHANNEL, "items")(8),
    }),
    "coco": ("coco", {"cap": 2, "pool": 16}, {
        "an odd number of cells": at(*CHANNEL, "cells")(9),
        "a low weight above the high one": at(*CHANNEL, "low")(WORD // 4),
    }),
    "meanest": ("meanest", {}, {"a side kept less than half the time": at(*CHANNEL, "keep")(HALF - 1)}),
    "privkvm": ("privkvm", {"rounds": 2}, {
        "a first round with a parent": at("chain", "parent")("0" * 64),
        "a second round without a parent": at("chain", "round")(2),
        "a total that is a number": at("chain", "total")(1),
    }),
    "parts": ("parts", {"parts": "collision:cap=2+pool=16/sign@0.1/size@0.05"}, {
        "a part without weight": at("parts", 0, "weight")(0),
        "parts whose weights sum to more": at("parts", 0, "weight")(WORD),
        "only one part": lambda body: body["parts"].__delitem__(slice(1, None)),
        "a part within a part": at("parts", 0, "parts")([]),
        "a part with another member": at("parts", 0, "epsilon")("1"),
        "a part whose levels do not fit": at("parts", 0, "levels")(1),
    }),
}  # fmt: skip
"""Changes of other plans: mechanism, parameters, changes."""


def texts(text: str) -> Iterator[tuple[str, str]]:
    """Faults of a plan's text, not of its content."""
    yield "no JSON", text[:-1]
    yield "a list", f"[{text}]"
    yield "null", "null"
    yield "a member twice", text.replace('"format":', '"format":"keyveil/plan/1","format":', 1)
    yield "a weight with decimals", text.replace("910282059", "910282059.0")
    yield "a weight with an exponent", text.replace("910282059", "910282059e0")
    yield "a false hash", _flipped(text)
    yield "a hash in capitals", _capital_hash(text)
    yield "half a character", text.replace("Pepsi", "\\ud83c", 1)
    yield "lists in lists", text[:-1] + ',"x":' + "[" * 5_000 + "]" * 5_000 + "}"


def _flipped(text: str) -> str:
    """The plan with another last digit of its hash."""
    body = json.loads(text)
    last = "0" if body["hash"][-1] != "0" else "1"
    return canonical({**body, "hash": body["hash"][:-1] + last}).decode()


def _capital_hash(text: str) -> str:
    body = json.loads(text)
    return canonical({**body, "hash": body["hash"].upper()}).decode()


def cases() -> Iterator[dict[str, str]]:
    """All bad plans, each with its fault."""
    good = Plan.of(FOODS, "kvue", 1)
    for what, text in texts(good.dumps()):
        yield {"what": what, "text": text}
    made = {"kvue": ("kvue", {}, KVUE), **OTHERS}
    for mechanism, parameters, changes in made.values():
        plan = Plan.of(FOODS, mechanism, 1, **parameters)
        for what, change in changes.items():
            body = copy.deepcopy(json.loads(plan.dumps()))
            change(body)
            yield {"what": f"{mechanism}: {what}", "text": sealed(body)}


def main(folder: Path) -> None:
    """Rewrite the file."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases()]
    text = f'{{"format":"{FORMAT}","cases":[\n' + ",\n".join(lines) + "\n]}\n"
    (folder / "plans.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(__file__).parent / "bad")
