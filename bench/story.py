"""How good the answers of README are: ``python -m bench.story [--runs N] [--epsilon E] [--guests N]``.

Every run draws everyone's report anew with secure coins. A row says how often the answer had a finite
interval, how often that held the truth, and how wide it was.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import keyveil as kv

QUERIES = (
    "frequency(Pepsi)",
    "mean(Pepsi)",
    "frequency(Pepsi | Hamburger)",
    "frequency(Pepsi | !Hamburger)",
    "lift(Pepsi | Hamburger)",
    "mean(Pepsi | Hamburger)",
    "mean(Pepsi | !Hamburger)",
    "frequency(Tea | Hamburger)",
)


def truths(frame: pd.DataFrame, guests: int) -> list[float]:
    """The answers to the queries, from the records themselves."""
    rating = frame.pivot(index="guest", columns="dish", values="rating").reindex(range(guests))
    burger, pepsi, tea = (rating[dish].notna() for dish in ("Hamburger", "Pepsi", "Tea"))
    given = pepsi[burger].mean()
    return [
        pepsi.mean(),
        rating.Pepsi.mean(),
        given,
        pepsi[~burger].mean(),
        given / pepsi.mean(),
        rating.Pepsi[burger].mean(),
        rating.Pepsi[~burger].mean(),
        tea[burger].mean(),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.story", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epsilon", default="2")
    parser.add_argument("--guests", type=int, default=60_000)
    given = parser.parse_args()
    frame = pd.DataFrame(kv.synthetic.orders(given.guests))
    schema = kv.Schema.from_frame(frame, person="guest", key="dish", value="rating", low=1, high=5)
    plan = kv.Plan.choose(schema, epsilon=given.epsilon, people=given.guests, ask="conditional")
    results = np.empty((given.runs, len(QUERIES), 3))
    shown = np.zeros(len(QUERIES))
    for run in range(given.runs):
        answers = plan.collect(frame, everyone=given.guests).query(*QUERIES)
        results[run] = [(a.estimate.value, a.estimate.low, a.estimate.high) for a in answers]
        shown += [answer.shown is True for answer in answers]
    print(
        f"{given.runs} runs, {given.guests:,} guests, epsilon {given.epsilon}, {plan.mechanism_name}\n"
    )
    print(
        "| query | truth | median answer | half the interval | answered | held the truth | go together |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for place, (query, truth) in enumerate(zip(QUERIES, truths(frame, given.guests), strict=True)):
        value, low, high = results[:, place].T
        finite = np.isfinite(results[:, place]).all(axis=1)
        inside = ((low <= truth) & (truth <= high))[finite].mean()
        print(
            f"| `{query}` | {truth:.3f} | {np.median(value[finite]):.3f} "
            f"| {np.median((high - low)[finite]) / 2:.3f} | {finite.mean():.0%} | {inside:.1%} "
            f"| {shown[place] / given.runs:.0%} |"
        )


if __name__ == "__main__":
    main()
