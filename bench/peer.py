"""Nanoseconds per person of pure-ldp's k-RR client; only the speed benchmark runs this.

It runs in an environment of its own that has only what ``peer_pins.txt`` of the package lists.
"""

from __future__ import annotations

import sys
from time import process_time

from pure_ldp.frequency_oracles.direct_encoding import DEClient  # type: ignore[import-not-found]


def main(people: int, items: int) -> None:
    client = DEClient(1.0, items, lambda item: item)
    states = [person % items for person in range(people)]
    best = float("inf")
    for _ in range(5):
        start = process_time()
        for state in states:
            client.privatise(state)
        best = min(best, process_time() - start)
    print(best / people * 1e9)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
