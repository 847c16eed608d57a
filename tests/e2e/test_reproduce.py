"""``keyveil reproduce`` as a user types it: the quick run whole, an interrupted one, and refusals."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from keyveil.experiments import NAMES

KEYVEIL = Path(sys.executable).parent / "keyveil"
PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"


def keyveil(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KEYVEIL, *words], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    done = keyveil("reproduce", "--quick", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "out", json.loads(done.stdout)


def test_the_quick_run_makes_every_figure_number_and_claim(quick):
    out, facts = quick
    assert facts["experiments"] == list(NAMES)
    figures = {path.stem for path in (out / "figures").glob("*.svg")}
    assert not list((out / "figures").glob("*.png"))  # these are for whole runs
    assert {"fig1-people", "fig1-reports", *(f"fig{n}" for n in range(2, 8))} <= figures
    for name in ("fig1", "fig2", "fig4", "fig5", "fig6", "rivals", "cost", "bounds", "privacy"):
        for ending in ("csv", "parquet", "json"):
            assert (out / "numbers" / f"{name}.{ending}").stat().st_size > 0
    report = (out / "report.html").read_text()
    assert len(re.findall("data:image/svg", report)) == len(figures)
    for claim in facts["claims"]:
        assert re.match("confirmed|not confirmed|true only if .+", claim["verdict"])
    with (out / "claims.csv").open() as file:
        assert [row["claim"] for row in csv.DictReader(file)] == [c["claim"] for c in facts["claims"]]


def test_verdicts_that_do_not_depend_on_luck(quick):
    """Differences so large that five repetitions show them."""
    verdicts = {claim["claim"]: claim["verdict"] for claim in quick[1]["claims"]}

    def said(words: str) -> str:
        return next(verdict for claim, verdict in verdicts.items() if words in claim)

    assert said("KVUE, KVOH and IOH are epsilon-LDP") == "confirmed"
    assert said("PrivKVM is the only one") == "not confirmed"
    assert "100,000 reports" in said("error under 0.05")
    assert "absent keys say 1" in said("higher accuracy with the rise of the mean")
    assert said("does not fluctuate") == "not confirmed"
    assert said("PrivKVM returns an inaccurate result") == "confirmed"
    assert said("errors of F2M stay below the stated bounds") == "not confirmed"
    assert "F2M's and KVOH's" in said("Costs are")


def test_every_claim_stands_in_the_docs(quick):
    page = PAGE.read_text().replace("\\|", "|")
    for claim in quick[1]["claims"]:
        assert claim["claim"] in page


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    words = ("reproduce", "--quick", "--only", "fig5,fig6", "--processes", "1", "-o", "out")
    running = subprocess.Popen([KEYVEIL, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    finished = tmp_path / "out" / "numbers" / "fig5.json"
    for _ in range(1200):
        if finished.exists() or running.poll() is not None:
            break
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    _, complaint = running.communicate(timeout=60)
    assert running.returncode == 130
    assert complaint == "keyveil: stopped; what is finished is kept in out: run again to go on\n"
    assert not (tmp_path / "out" / "report.html").exists()
    done = keyveil(*words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fig5" in json.loads(done.stdout)["taken_from_an_earlier_run"]
    assert (tmp_path / "out" / "report.html").exists()


def test_refusals_are_one_line(tmp_path):
    for words, said in (
        (("--only", "fig9"), "unknown experiment 'fig9'; known: fig1"),
        (("--movielens", "nowhere"), "there is no folder nowhere"),
    ):
        done = keyveil("reproduce", *words, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"keyveil: {said}")
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_a_movielens_folder_takes_the_place_of_the_summary(tmp_path):
    """A made-up 100K: a hundred films, everyone rates about half of them."""
    rows = [
        f"{user}\t{film}\t{1 + (user * film) % 5}\t881250949"
        for user in range(1, 401)
        for film in range(1, 101)
        if (user * 7 + film * 13) % 100 < 60 - film // 2
    ]
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "u.data").write_text("\n".join(rows) + "\n")
    done = keyveil("reproduce", "--quick", "--only", "fig1", "--movielens", "films", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = (tmp_path / "out" / "report.html").read_text()
    assert f"{len(rows):,} ratings by 400 people" in report
    assert "summary of" not in report
