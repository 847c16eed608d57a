"""Seconds of a person in the clients of other packages, as JSON; only ``bench.peers`` runs this.

It runs in an environment of its own that has only what ``requirements.txt`` lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any

import opendp.prelude as dp  # type: ignore[import-not-found]
from diffprivlib.mechanisms import Binary  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client  # type: ignore[import-not-found]
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

STATES = (3, 100, 300, 6_561)


def forms() -> Iterator[tuple[str, str, Callable[[int], object], int]]:
    """Row, package, what one person of a state does, and the number of states."""
    dp.enable_features("contrib")
    for states in STATES:
        row, odds = f"k-RR over {states} states", 2.718281828459045
        client = DEClient(1.0, states, lambda item: item)
        yield row, "pure-ldp", client.privatise, states
        yield row, "multi-freq-ldpy", lambda state, k=states: GRR_Client(state, k, 1.0), states
        keep = odds / (odds + states - 1)
        yield row, "OpenDP", dp.m.make_randomized_response([*range(states)], prob=keep), states
    response = HadamardResponseClient(1.0, 9, None, lambda item: item)
    yield "Hadamard response, 9 states", "pure-ldp", response.privatise, 9
    coin = Binary(epsilon=1.0, value0="0", value1="1")
    yield "randomised response, 2 states", "diffprivlib", lambda state: coin.randomise(str(state)), 2
    yield "randomised response, 2 states", "OpenDP", _two_states(), 2
    for bits in STATES:
        row, unary = f"unary over {bits} bits", UEClient(1.0, bits, True, lambda item: item)
        yield row, "pure-ldp", unary.privatise, bits
        yield row, "multi-freq-ldpy", lambda state, k=bits: UE_Client(state, k, 1.0), bits


def _two_states() -> Any:
    answer = dp.m.make_randomized_response_bool(prob=0.7310585786300049)
    return lambda state: answer(bool(state))


def seconds(call: Callable[[int], object], states: int) -> float:
    """The shortest of three runs of about 0.05 seconds each, for one person."""
    count, best = 1, float("inf")
    while True:
        start = thread_time()
        for person in range(count):
            call(person % states)
        taken = thread_time() - start
        if taken > 0.05:
            break
        count *= 2
    for _ in range(3):
        start = thread_time()
        for person in range(count):
            call(person % states)
        best = min(best, (thread_time() - start) / count)
    return best


def main() -> None:
    found = [[row, package, seconds(call, states)] for row, package, call, states in forms()]
    client, server = LHClient(1.0, 6_561, use_olh=True), LHServer(1.0, 6_561, use_olh=True)
    reports = [client.privatise(1 + person % 6_561) for person in range(20)]
    added = seconds(lambda person: server.aggregate(reports[person % 20]), 6_561)
    found.append(["hash decoding, 6561 items", "pure-ldp", added])
    print(json.dumps(found))


if __name__ == "__main__":
    main()
