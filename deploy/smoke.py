"""A minute with an installed keyveil, with nothing else of the repository: the release check runs it.

``python smoke.py [core]``. With ``core`` no extra is installed, and the command must say what it needs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

COUNTS = [5983, 3882, 1507, 594, 6017, 1996, 569, 3452]
"""The tally of stated coins, which is the same on every machine and with every Python."""


def library(folder: Path) -> None:
    """A plan, reports, a tally, answers, an audit and a device's ledger."""
    import keyveil as kv

    plan = kv.Plan.of(kv.Schema.of(["Fries", "Pepsi"], low=1, high=5), "kvue", epsilon=4)
    assert kv.audit(plan.dumps()).sound
    assert kv.Plan.parse(plan.dumps()) == plan
    people = kv.People.of_records(plan.schema, [{"Pepsi": 4.5}, {"Fries": 2, "Pepsi": 4.5}, {}] * 4000)
    tally = kv.Tally(plan).add(plan.privatise(people, kv.Coins.stated("smoke")))
    assert tally.counts.tolist() == COUNTS
    answer = tally.estimate()["Pepsi"]
    assert abs(answer.frequency.value - 2 / 3) < 0.1
    assert abs(answer.mean.value - 4.5) < 0.4
    budget = kv.Budget(folder / "ledger.json", cap=4)
    report = budget.answer(plan, {"Pepsi": 4})
    assert kv.Budget(folder / "ledger.json", cap=4).answer(plan, {}) == report


def command(folder: Path, core: bool) -> None:
    """``python -m keyveil``: its version and one plan, or what to install."""
    words = [sys.executable, "-I", "-m", "keyveil"]
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=False)
    if core:
        assert done.returncode == 1, done
        assert "keyveil[cli]" in done.stderr, done
        assert len(done.stderr.strip().splitlines()) == 1, done
        return
    import keyveil

    assert keyveil.__version__ in done.stdout, done
    plan = [
        "plan",
        "--keys",
        "3",
        "--range",
        "1,5",
        "--epsilon",
        "1",
        "--mechanism",
        "kvue",
        "-o",
        "p.json",
    ]
    for line in (plan, ["audit", "p.json"], ["mechanisms"]):
        subprocess.run([*words, *line], cwd=folder, capture_output=True, check=True)


def main() -> None:
    """Run both in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        library(Path(name))
        command(Path(name), sys.argv[1:] == ["core"])


if __name__ == "__main__":
    main()
