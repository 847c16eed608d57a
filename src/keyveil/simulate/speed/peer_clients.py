"""Seconds of a person in the clients of other packages; it runs in an environment that has only these.

Each line of input names a row; the answer is a line of JSON: seconds by package. For KVUE a package has
what one writes with its k-RR: pick a key, look it up in the record, round its value, randomise.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from math import e as odds
from math import sqrt
from random import random, randrange
from time import process_time
from typing import Any

import opendp.prelude as dp  # type: ignore[import-not-found]
from diffprivlib.mechanisms import Binary  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.LH import (  # type: ignore[import-not-found]
    LH_Aggregator_MI,
    LH_Client,
)
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.direct_encoding import DEClient  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles.hadamard_response import (  # type: ignore[import-not-found]
    HadamardResponseClient,
)
from pure_ldp.frequency_oracles.local_hashing import (  # type: ignore[import-not-found]
    LHClient,
    LHServer,
)
from pure_ldp.frequency_oracles.unary_encoding import UEClient  # type: ignore[import-not-found]

Call = Callable[[int], object]
"""What one person of a state does."""


def clients(task: str, states: int) -> Iterator[tuple[str, Call]]:
    """Each package that knows a task, and its client at epsilon 1."""
    if task == "k-RR":
        yield "pure-ldp", DEClient(1.0, states, lambda item: item).privatise
        yield "multi-freq-ldpy", lambda state: GRR_Client(state, states, 1.0)
        keep = odds / (odds + states - 1)
        yield "OpenDP", dp.m.make_randomized_response([*range(states)], prob=keep)
        if states == 2:
            coin = Binary(epsilon=1.0, value0="0", value1="1")
            yield "diffprivlib", lambda state: coin.randomise(str(state))
    elif task == "KVUE":
        for package, call in clients("k-RR", 3):
            yield package, _of_records(call, states)
    elif task in ("SUE", "OUE"):
        optimal = task == "OUE"
        yield "pure-ldp", UEClient(1.0, states, optimal, lambda item: item).privatise
        yield "multi-freq-ldpy", lambda state: UE_Client(state, states, 1.0, optimal)
        if not optimal:
            yield "OpenDP", _flipped_bits(states)
    elif task == "hashing":
        yield "pure-ldp", LHClient(1.0, states, use_olh=True).privatise
        yield "multi-freq-ldpy", lambda state: LH_Client(state, states, 1.0)
    elif task == "Hadamard":
        yield "pure-ldp", HadamardResponseClient(1.0, states, None, lambda item: item).privatise
    elif task == "decoding":
        yield "pure-ldp", _decoder(states)
        reports = [LH_Client(person % states, states, 1.0) for person in range(20)]
        yield "multi-freq-ldpy", lambda person: LH_Aggregator_MI([reports[person % 20]], states, 1.0)


def _flipped_bits(bits: int) -> Call:
    """OpenDP's bits of RAPPOR, each flipped with probability f / 2; they are packed, and one is set."""
    spaces = dp.bitvector_domain(max_weight=1), dp.discrete_distance()
    flip = dp.m.make_randomized_response_bitvec(*spaces, f=2 / (1 + sqrt(odds)))
    set_bits = [(1 << bit).to_bytes(-(-bits // 8), "little") for bit in range(bits)]
    return lambda bit: flip(set_bits[bit])


def _of_records(call: Call, keys: int) -> Call:
    """Randomises the state of one key of a record of ten: 0 if it is absent, else its rounded value."""
    values = [random() for _ in range(keys)]
    records = [{(first + step) % keys: values[step] for step in range(10)} for first in range(keys)]

    def privatise(person: int) -> tuple[int, object]:
        key = randrange(keys)
        value = records[person].get(key)
        state = 0 if value is None else 1 + (random() < value)
        return key, call(state)

    return privatise


def _decoder(items: int) -> Call:
    """Adds a report of optimal local hashing to the counts of all items."""
    client, server = LHClient(1.0, items, use_olh=True), LHServer(1.0, items, use_olh=True)
    reports = [client.privatise(1 + person % items) for person in range(20)]
    return lambda person: server.aggregate(reports[person % 20])


def seconds(call: Call, states: int, least: float) -> float:
    """Seconds for one person, the shortest of three runs of at least ``least`` seconds each.

    The first call is not counted: multi-freq-ldpy compiles its loops then.
    """
    call(0)
    count = 1
    while (taken := _taken(call, states, count)) < least:
        count *= 2
    return min(taken, *(_taken(call, states, count) for _ in range(2))) / count


def _taken(call: Call, states: int, count: int) -> float:
    began = process_time()
    for person in range(count):
        call(person % states)
    return process_time() - began


def main() -> None:
    """Answer rows until the input ends."""
    dp.enable_features("contrib")
    least = float(sys.argv[1])
    for line in sys.stdin:
        task, states = line.split()
        times: dict[str, Any] = {}
        for package, call in clients(task, int(states)):
            times[package] = seconds(call, int(states), least)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
