"""A minute with an installed keyveil, with nothing else of the repository: the release check runs it.

``python smoke.py core|cli|all`` says what is installed. With ``core`` no extra is, and the command must
say what it needs; with ``all`` tables, pictures, the planner and a collector must work, too.
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


def everything(folder: Path) -> None:
    """Each extra once: files, pictures, frames, a solved channel, ranges, a collector and its client."""
    words = [sys.executable, "-I", "-m", "keyveil"]
    for line in (
        "demo --table people.csv --keys keys.txt",
        "plan --keys keys.txt --range 1,5 --epsilon 2 --mechanism pairs -o pairs.json",
        "privatise pairs.json people.csv -o reports.kv",
        "tally pairs.json reports.kv -o tally.kv",
        "estimate pairs.json tally.kv --plot answers.png",
        "query pairs.json tally.kv mean(Pepsi|Hamburger) mean(Pepsi|Hamburger,Fries)",
        "conditional pairs.json tally.kv --plot matrix.png",
        "plan --keys keys.txt --range 1,5 --epsilon 2 --mechanism optimal --set mean=4 -o optimal.json",
        "compare --data people.csv --range 1,5 --mechanism kvue,auto --repeat 2 --plot cost.png",
        "collection create menu pairs.json --store store.sqlite",
    ):
        done = subprocess.run(
            [*words, *line.split()], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)
    import pandas as pd

    import keyveil as kv

    frame = pd.DataFrame(kv.synthetic.orders(2_000))
    schema = kv.Schema.from_frame(frame, person="guest", key="dish", value="rating", low=1, high=5)
    answers = kv.Plan.of(schema, "kvue", epsilon=4).collect(frame, everyone=2_000).estimate()
    assert len(answers.to_frame()) == len(schema.keys)
    serve = [*words, "serve", "--store", "store.sqlite", "--port", "0"]
    with subprocess.Popen(
        serve, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split("at ")[1].split()[0]
        with kv.Client(address, folder / "device", cap=4) as client:
            assert client.answer("menu", {"Pepsi": 4}).counted
        server.terminate()
    assert server.returncode == 0


def main() -> None:
    """Run what is installed in a temporary folder."""
    extra = sys.argv[1] if sys.argv[1:] else "cli"
    with tempfile.TemporaryDirectory() as name:
        library(Path(name))
        command(Path(name), extra == "core")
        if extra == "all":
            everything(Path(name))


if __name__ == "__main__":
    main()
