"""Audits of hostile plans: documents of at most 1 MB, built to take long or to fill memory."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from keyveil import Plan, Schema
from keyveil.foundation.arrays import WORD
from keyveil.plan.plan_document import canonical

from .table import Outcome, Table, rows

SIZE = 1_000_000
"""Largest size of a document in bytes."""
AIM_SECONDS, AIM_MEGABYTES = 2.0, 200
LIMIT = 60
"""Seconds after which an audit is ended."""

ONE = """
import json, sys, time
from keyveil import audit
content = open(sys.argv[1], "rb").read()
start = time.process_time()
result = audit(content)
seconds = time.process_time() - start
status = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("VmHWM"))
memory = int(status["VmHWM"].split()[0]) / 1024
print(json.dumps([seconds, memory, result.sound, (*result.findings, "")[0][:80]]))
"""

Document = dict[str, Any]


def run(quick: bool) -> Outcome:
    """Processor seconds and peak memory of a fresh process that audits each document."""
    measured = {}
    for name, content in documents().items():
        assert len(content) <= SIZE, name
        measured[name] = _audited(content)
    groups = list(dict.fromkeys(name.split(":")[0] for name in measured))
    lines = []
    for group in groups:
        part = {name: figures for name, figures in measured.items() if name.split(":")[0] == group}
        slow, large = (max(part, key=lambda name, i=i: part[name][i]) for i in (0, 1))  # type: ignore[misc]
        lines.append(
            (
                group,
                len(part),
                f"{part[slow][0]:.2f}",
                slow.partition(": ")[2],
                f"{part[large][1]:.0f}",
                large.partition(": ")[2],
            )
        )
    shown = Table(
        "Audits of hostile plans of at most 1 MB, each in a fresh process",
        ("what is large", "documents", "CPU seconds", "slowest", "peak MB", "largest"),
        rows(lines),
        f"Aim: at most {AIM_SECONDS:.0f} s and {AIM_MEGABYTES} MB each. An idle process has 45 MB.",
    )
    missed = [
        f"hostile: {name}: {seconds:.2f} s, {memory:.0f} MB"
        for name, (seconds, memory, _) in measured.items()
        if seconds > AIM_SECONDS or memory > AIM_MEGABYTES
    ]
    return Outcome("hostile", (shown,), {"measured": measured}, tuple(missed))


def _audited(content: bytes) -> tuple[float, float, str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        command = [sys.executable, "-c", ONE, file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        except subprocess.TimeoutExpired:
            return float(LIMIT), 0.0, "not finished"
    seconds, memory, sound, finding = json.loads(done.stdout)
    return seconds, memory, "sound" if sound else f"refused: {finding}"


# -- documents -------------------------------------------------------------------------------------


def documents() -> dict[str, bytes]:
    """Hostile documents by name."""
    return {
        **{f"JSON: {name}": content for name, content in _texts()},
        **{f"schema: {name}": _sealed(document) for name, document in _schemas()},
        **{f"views: {name}": _sealed(document) for name, document in _views()},
        **{f"channels: {name}": _sealed(document) for name, document in _channels()},
        **{f"encodings: {name}": _sealed(document) for name, document in _encodings()},
        **{f"chain: {name}": _sealed(document) for name, document in _chains()},
    }


def _plan(mechanism: str = "kvue", keys: int = 2, **parameters: Any) -> Document:
    document: Document = json.loads(Plan.of(Schema.of(keys), mechanism, 1, **parameters).dumps())
    return document


def _sealed(document: Document) -> bytes:
    """The document with its correct hash."""
    body = {name: part for name, part in document.items() if name != "hash"}
    return canonical({**body, "hash": hashlib.sha256(canonical(body)).hexdigest()})


def _filled(make: Callable[[int], Document]) -> Document:
    """Nearly the largest document of a series that fits in SIZE bytes."""
    few, more = (len(_sealed(make(count))) for count in (500, 1000))
    count = 500 * (SIZE - few) // (more - few)
    while len(_sealed(document := make(count))) > SIZE:
        count = count * 19 // 20
    return document


def _names(count: int) -> list[str]:
    """Short distinct names."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    names: list[str] = []
    for size in (1, 2, 3, 4):
        for name in product(letters, repeat=size):
            if len(names) == count:
                return names
            names.append("".join(name))
    return names


def _texts() -> Iterator[tuple[str, bytes]]:
    deep = SIZE - 10
    yield "lists in lists", b"[" * deep
    yield "objects in objects", b'{"":' * (deep // 4)
    for depth in (500, 900, 5000):
        inside = '{"x":' + "[" * depth + "]" * depth
        yield f"{depth} deep", (inside + "," + json.dumps(_plan())[1:]).encode()
    yield "empty lists", b'{"x":[' + b"[]," * 333_000 + b"0]}"
    yield "empty objects", b'{"x":[' + b"{}," * 333_000 + b"0]}"
    yield "numbers", b"[" + b"0," * 499_000 + b"0]"
    yield "long numbers", b"[" + b",".join([b"9" * 4300] * 232) + b"]"
    yield "a number of 999,000 digits", b"[" + b"9" * 999_000 + b"]"
    yield "a version of 999,000 characters", b'{"format":"' + b"9" * 999_000 + b'"}'
    yield "one member twice, last", _doubled()
    yield "many members", _sealed({**_plan(), **dict.fromkeys(_names(100_000), 0)})
    parameters = _plan()
    parameters["mechanism"]["parameters"] = dict.fromkeys(_names(100_000), 0)
    yield "many parameters", _sealed(parameters)
    for name in ("promised", "proven"):
        long = _plan()
        long["epsilon"][name] = "1" * 990_000
        yield f"{name} of 990,000 digits", _sealed(long)
    for name in ("promised", "proven"):
        zero = _plan()
        zero["epsilon"][name] = "0e-999999999"
        yield f"{name} of a zero with an exponent", _sealed(zero)
    nothing = _plan()
    yield "spaces", b" " * (SIZE - len(_sealed(nothing))) + _sealed(nothing)


def _doubled() -> bytes:
    members = ",".join(f'"{name}":0' for name in _names(100_000))
    return ("{" + members + ',"a":1}').encode()


def _with_schema(document: Document, keys: list[Any], ranges: list[Any] | None = None) -> Document:
    document["schema"]["keys"] = keys
    document["schema"]["ranges"] = ranges or [["0", "1"]]
    return document


def _schemas() -> Iterator[tuple[str, Document]]:
    many = len(_filled(lambda n: _with_schema(_plan(), _names(n)))["schema"]["keys"])
    names = _names(many)
    yield "many keys", _with_schema(_plan(), names)
    yield "a key twice", _with_schema(_plan(), [*names[:-1], names[-2]])
    yield "one key often", _with_schema(_plan(), ["a"] * 248_000)
    yield "numbers for keys", _with_schema(_plan(), [0] * 490_000)
    yield "long names", _with_schema(_plan(), [f"{i:04}" + "\u0301" * 252 for i in range(1900)])
    yield (
        "many ranges",
        _filled(lambda n: _with_schema(_plan(), _names(n), [["0", str(i)] for i in range(1, n + 1)])),
    )
    long = [["0." + "0" * 300 + "1", "1" * 60]] * 2600
    yield "long ends", _with_schema(_plan(), _names(2600), long)
    yield "zeros with exponents", _with_schema(_plan(), ["a"], [["0e-999999999", "1"]])
    yield "a long end", _with_schema(_plan(), ["a"], [["0", "1" * 990_000]])


def _with_views(document: Document, keys: Any, weights: Any = "even") -> Document:
    document["views"] = {"keys": keys, "weights": weights}
    return document


def _views() -> Iterator[tuple[str, Document]]:
    yield "one key often", _with_views(_plan(), [[0]] * 249_000)
    yield "weights", _with_views(_plan(), [[0]] * 140_000, [1] * 139_999 + [WORD - 139_999])
    yield "two keys each", _with_views(_plan("pairs"), [[0, 1]] * 166_000)
    yield "a key often in one", _with_views(_plan(), [[0] * 490_000])
    for levels in (1, 64):
        whole = _filled(lambda n: _with_schema(_with_views(_plan(), "whole"), _names(n)))
        whole["schema"]["levels"] = levels
        yield f"all keys at {levels} levels", whole
    of = _with_views(_plan(), [[0]] * 160_000)
    of["channel_of"] = [0] * 160_000
    yield "a channel for each", of
    none = _plan()
    none["channel_of"] = [0] * 490_000
    yield "channels for no view", none


def _with_channels(channel: Document, count: int | None = None, encode: str = "views") -> Document:
    def document(number: int) -> Document:
        return {**_plan(), "encode": encode, "channels": [channel] * number}

    return document(count) if count else _filled(document)


HALF = WORD // 2
TABLE = {"shape": "table", "rows": [[HALF, HALF]] * 2}


def _channels() -> Iterator[tuple[str, Document]]:
    yield "no channels", {**_plan(), "channels": [0] * 490_000}
    yield "tables of one entry", _with_channels({"shape": "table", "rows": [[WORD]]})
    yield "tables", _with_channels({**TABLE, "rows": [[HALF, HALF]] * 3})
    yield "a table of one column", _with_channels({"shape": "table", "rows": [[WORD]] * 65_536}, 1)
    square = [[1] * 255 + [WORD - 255]] * 256
    yield "a table of 256 x 256", _with_channels({"shape": "table", "rows": square}, 1)
    yield "k-RRs", _with_channels({"shape": "symmetric", "states": 3, "keep": WORD - 2, "lie": 1})
    for laws in (2, 16):
        law = [1] * (laws - 1) + [WORD - laws + 1]
        yield (
            f"symbols, laws of {laws}",
            _filled(
                lambda n, law=law: _with_channels(  # type: ignore[misc]
                    {"shape": "symbols", "positions": 1 << 20, "laws": [law] * n, "silent": 1}, 1
                )
            ),
        )
    yield (
        "symbols",
        _with_channels(
            {"shape": "symbols", "positions": 1 << 20, "laws": [[HALF, HALF]] * 2, "silent": 0}
        ),
    )
    for states, size in ((512, 256), (1024, 512), (2048, 1024), (4096, 2048), (4096, 1), (4096, 4095)):
        channel = {"shape": "subset", "states": states, "size": size, "show": HALF}
        yield f"subset of {size} of {states}", _with_channels(channel, 1)
    for step in (1, 2):
        several = [
            {"shape": "subset", "states": 4096 - i * (step - 1), "size": 2048 - i, "show": HALF}
            for i in range(2000)
        ]
        yield f"2,000 subsets, {step}", {**_plan(), "channels": several}
    small = [
        {"shape": "subset", "states": states, "size": size, "show": HALF}
        for states in range(190, 2, -1)
        for size in range(1, states)
    ]
    yield "small subsets, all", {**_plan(), "channels": small[:16_000]}
    inner = {"shape": "table", "rows": [[1, WORD - 1], [WORD - 1, 1]]}
    yield "products", _with_channels({"shape": "product", "digits": 16, "inner": inner})
    rows_ = {"shape": "table", "rows": [[WORD]] * 60_000}
    yield "a product of 64 digits", _with_channels({"shape": "product", "digits": 64, "inner": rows_}, 1)
    yield (
        "hashes",
        _with_channels({"shape": "hash", "items": 1 << 20, "pool": 1 << 20, "salt": 0, "inner": inner}),
    )
    halfspace = {"shape": "halfspace", "signs": 1 << 16, "keep": WORD - 1}
    yield "halfspaces", _with_channels(halfspace)
    collision = {
        "shape": "collision", "items": 1 << 22, "held": 1 << 21, "cells": 1 << 22, "pool": 1,
        "salt": 0, "high": 512,
    }  # fmt: skip
    yield "collisions", _with_channels(collision)
    coco = {
        "shape": "coco", "items": 1 << 22, "held": (1 << 20) - 1, "cells": 1 << 21, "pool": 1,
        "salt": 0, "high": 1024, "low": 1024,
    }  # fmt: skip
    yield "cocos", _with_channels(coco)


MOST = {"several": 4, "pair_collision": 32_000, "meanest": 60_000}
"""Largest number of keys with which a mechanism's plan stays within 1 MB."""


def _encodings() -> Iterator[tuple[str, Document]]:
    """Each encoding with as many keys as fit, and the largest of its channels."""
    for mechanism, parameters in {
        "kvue": {},
        "several": {},
        "grr": {},
        "meanest": {},
        "collision": {"cap": 64},
        "coco": {"cap": 64},
        "pair_collision": {"cap": 32},
        "pckv_ue": {"length": 64},
        "pckv_grr": {"length": 64},
        "sized": {},
    }.items():
        plan = _plan(mechanism, MOST.get(mechanism, 60_000), **parameters)
        yield f"{plan['encode']}: {mechanism}", plan
    for encode in ("views", "item", "signs", "items", "pair_items", "padded", "size"):
        keys = _names(150_000)
        yield (
            f"{encode}: k-RR on many keys",
            {
                **_with_schema(_plan(), keys),
                "views": {"keys": "whole", "weights": "even"},
                "encode": encode,
            },
        )


def _chains() -> Iterator[tuple[str, Document]]:
    for name in ("privkvm", "privkvm_plus"):
        yield f"{name} of many keys", _filled(lambda n, name=name: _plan(name, n))  # type: ignore[misc]
    plan = Plan.of(Schema.of(1000), "privkvm", 1)
    chain: Document = {**dict(plan.chain or {}), "round": 2}
    chain["feedback"] = [f"0.{i:06}" for i in range(1, 1001)]
    chain["frequency"] = [["0.5", "0.1", 9]] * 1000
    yield (
        "a table for each key",
        {
            **json.loads(plan.dumps()),
            "chain": chain,
            "channels": [plan.channels[0].document()] * 1000,
            "channel_of": list(range(1000)),
        },
    )
    wide = json.loads(plan.dumps())
    wide["chain"]["feedback"] = ["0"] * 200_000
    yield "feedback for no key", wide
