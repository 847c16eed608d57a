"""``keyveil reproduce`` as a user types it: the quick run whole, an interrupted one, and refusals."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from keyveil.simulate.paper import NAMES, fig1
from keyveil.simulate.paper.claim_errata import ERRATA, errata_of
from keyveil.simulate.paper.figures import clipped_marks, noise_bars

KEYVEIL = Path(sys.executable).parent / "keyveil"
PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    words = (KEYVEIL, "reproduce", "--quick", "--json")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
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
        rows = list(csv.DictReader(file))
    assert [row["claim"] for row in rows] == [c["claim"] for c in facts["claims"]]
    for row in rows:
        for shown in row["figure"].split(", "):
            assert shown in figures or (out / shown).is_file(), "a figure, or the numbers"
    for words in (
        "Epsilon 1, 20 keys, 100,000 reports for each, 50 repetitions (PrivKVM 10, auto 1 to 10);",
        "whiskers: the middle 90 % of errors over keys and repetitions",
        "100,000 reports for each key, 30 repetitions",
        "delta = 0.05. Measured: the quantile of 2,000 repetitions",
        "so their frequencies lie on each other",
        "shrunk across keys",
    ):
        assert words in html.unescape(report)


def test_verdicts_that_do_not_depend_on_luck(quick):
    """Differences so large that five repetitions show them."""
    verdicts = {claim["claim"]: claim["verdict"] for claim in quick[1]["claims"]}

    def verdict_on(words: str) -> str:
        return next(verdict for claim, verdict in verdicts.items() if words in claim)

    assert verdict_on("KVUE, KVOH and IOH are epsilon-LDP") == "confirmed"
    assert verdict_on("PrivKVM is the only one") == "not confirmed"
    assert "100,000 reports" in verdict_on("error under 0.05")
    assert "absent keys say 1" in verdict_on("higher accuracy with the rise of the mean")
    assert verdict_on("does not fluctuate") == "not confirmed"
    assert "the mean is meant" in verdict_on("PrivKVM returns an inaccurate result")
    assert verdict_on("errors of F2M stay below the stated bounds") == "not confirmed"
    assert "F2M's and KVOH's" in verdict_on("Costs are")


def test_every_claim_stands_in_the_docs_with_the_verdict_of_a_quick_run(quick):
    """The docs have a whole run's: verdicts that rest on noise would differ."""
    page = PAGE.read_text().replace("\\|", "|")
    for claim in quick[1]["claims"]:
        assert f"| {claim['claim']} | **{claim['verdict']}** |" in page


def test_claims_name_the_errata_that_explain_them(quick):
    errata = set(
        map(int, re.findall(r"^### (\d+)\.", (PAGE.parent / "errata.md").read_text(), re.MULTILINE))
    )
    texts = [claim["claim"] for claim in quick[1]["claims"]]
    for words, numbers in ERRATA.items():
        assert any(words in text for text in texts), words
        assert set(numbers) <= errata
    assert errata_of("PrivKVM is the only one that is unbiased") == "erratum 20"
    assert errata_of("no such claim") == ""
    page, report = (
        PAGE.read_text().replace("\\|", "|"),
        html.unescape((quick[0] / "report.html").read_text()),
    )
    with (quick[0] / "claims.csv").open() as file:
        for row in csv.DictReader(file):
            place = "; ".join(filter(None, (row["place"], row["errata"])))
            assert f"| {place} | {row['claim']} |" in page
            assert f"({place})" in report
    wrong = [claim for claim in quick[1]["claims"] if claim["verdict"] == "not confirmed"]
    assert all(errata_of(claim["claim"]) for claim in wrong)


def test_pictures_name_decoders_and_mark_what_lies_outside(quick):
    figures = quick[0] / "figures"
    for name in ("fig6", "fig7"):
        drawn = (figures / f"{name}.svg").read_text()
        for words in ("IOH, decoded by the paper", "pairs, decoded by pooled least squares"):
            assert f"<!-- {words}" in drawn
        assert "two standard errors" in html.unescape((quick[0] / "report.html").read_text())


def test_points_above_the_edge_have_a_mark_there():
    panel = Figure().add_subplot()
    rows = [{"x": 1.0, "y": 3.0}, {"x": 2.0, "y": 30.0}, {"x": 3.0, "y": 9.0}]
    clipped_marks(panel, {"KVUE": rows, "KVOH": rows[:1]}, "x", "y", 8.0)
    (marks,) = panel.lines
    assert (list(marks.get_xdata()), list(marks.get_ydata())) == ([2.0, 3.0], [8.0, 8.0])
    noise_bars(panel, [{"x": 1.0, "y": 3.0, "se_y": 0.5}], "x", "y", "KVUE")
    (bars,) = panel.collections
    assert bars.get_segments()[0].tolist() == [[1.0, 2.0], [1.0, 4.0]]


def test_a_part_that_is_run_again_leaves_the_report_whole(quick, command, monkeypatch):
    out, facts = quick
    before = (out / "claims.csv").read_bytes()
    monkeypatch.chdir(out.parent)
    again = json.loads(command("reproduce", "--quick", "--only", "fig5", "--json"))
    assert again["experiments"] == ["fig5"]
    assert again["in_the_report"] == list(NAMES)
    assert again["not_in_the_report"] == {}
    assert again["claims"] == [claim for claim in facts["claims"] if claim["experiment"] == "fig5"]
    assert (out / "claims.csv").read_bytes() == before
    whole = command("reproduce", "--only", "cost", code=1)
    assert whole.startswith("keyveil: out holds a quick run, which a whole one would replace")


def started(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """A run in a process group of its own, once its first setting is kept."""
    running = subprocess.Popen(
        [KEYVEIL, *words],
        cwd=cwd,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # if these tests ignore it
    )
    for _ in range(1200):
        if list(cwd.glob("out/numbers/*.jsonl")) or running.poll() is not None:
            break
        time.sleep(0.05)
    assert running.poll() is None, "it is still at work"
    return running


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_interrupted_run_ends_at_once_and_goes_on_where_it_was(
    tmp_path, processes, command, monkeypatch
):
    words = ("reproduce", "--quick", "--only", "fig5,fig6", "--processes", processes, "-o", "out")
    running = started(*words, cwd=tmp_path)
    began = time.monotonic()
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all processes of the group
    _, complaint = running.communicate(timeout=60)
    assert time.monotonic() - began < 5  # well under one on an idle machine
    assert running.returncode == 130
    assert complaint == "keyveil: stopped; what is finished is kept in out: run again to go on\n"
    assert not (tmp_path / "out" / "report.html").exists()
    monkeypatch.chdir(tmp_path)
    assert json.loads(command(*words, "--json"))["in_the_report"] == ["fig5", "fig6"]
    assert (tmp_path / "out" / "report.html").exists()
    assert not list((tmp_path / "out" / "numbers").glob("*.jsonl"))


def test_a_killed_run_leaves_no_process_behind(tmp_path):
    words = ("reproduce", "--quick", "--only", "fig5,fig6", "--processes", "2", "-o", "out")
    running = started(*words, cwd=tmp_path)
    running.kill()
    try:
        running.communicate(timeout=20)  # ends when no process holds the other end of the pipe
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        raise


def test_refusals_are_one_line(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ml-20m.zip").write_bytes(b"PK")
    for name, content in (
        ("films/movies.csv", "movieId,title\n"),
        ("cut/u.data", "1\t1\t5\t881250949\n2\t1"),
        ("few/u.data", "1\t1\t5\t881250949\n"),
    ):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)
    for words, message in (
        (("--only", "fig9"), "unknown experiment 'fig9'; did you mean fig7? known: fig1"),
        (("--only", ","), "no experiment is named; known: fig1"),
        (("--seed", ""), "a seed is a text of at least one letter or digit"),
        (("--movielens", "nowhere"), "there is no folder nowhere"),
        (("--movielens", "ml-20m.zip"), "ml-20m.zip is packed; unpack it and name the folder"),
        (("--movielens", "films"), "films has no MovieLens ratings; looked for ratings.csv"),
        (("--movielens", "films/movies.csv"), "movies.csv is not a MovieLens ratings file; known:"),
        (("--movielens", "cut"), "cut/u.data ends in the middle of a line; it was cut short"),
        (("--movielens", "few/u.data"), "few/u.data has 1 films; the top 100 were asked for"),
    ):
        assert command("reproduce", *words, code=1).startswith(f"keyveil: {message}")
        assert not (tmp_path / "out").exists()


def test_a_movielens_folder_takes_the_place_of_the_summary(tmp_path, command, monkeypatch):
    """A made-up 100K: a hundred films, everyone rates about half of them; at one epsilon."""
    monkeypatch.setattr(fig1, "QUICK", fig1.QUICK[-1:])
    rows = [
        f"{user}\t{film}\t{1 + (user * film) % 5}\t881250949"
        for user in range(1, 401)
        for film in range(1, 101)
        if (user * 7 + film * 13) % 100 < 60 - film // 2
    ]
    folder = tmp_path / "films"
    folder.mkdir()
    (folder / "u.data").write_text("\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    command("reproduce", "--quick", "--only", "fig1", "--movielens", "films")
    report = (tmp_path / "out" / "report.html").read_text()
    assert f"{len(rows):,} ratings by 400 people" in report
    assert "summary of" not in report
