"""``make demo``: what a person sees, over real sockets, and that nothing is left behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest
from process import user_environment

ROOT = Path(__file__).parents[2]
WORDS = [sys.executable, str(ROOT / "examples" / "demo.py")]


def gone(url: str) -> bool:
    """Whether nobody listens there any more."""
    try:
        httpx.get(url + "/health", timeout=5)
    except httpx.TransportError:
        return True
    return False


def test_the_demo_shows_answers_beside_the_truth_and_cleans_up(tmp_path):
    """Coins are secure, so 13 intervals of 95 % hold the truth by chance: 8 or more of them, but for
    one run in a million or so."""
    begun = time.monotonic()
    done = subprocess.run(
        WORDS,
        cwd=tmp_path,
        env=user_environment(TMPDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert time.monotonic() - begun < 60, "meant for 20 seconds, on a machine with nothing else to do"
    assert done.stderr == ""
    out = done.stdout
    assert "50,000 reports counted" in out
    assert "5 devices of their own: each counted once" in out
    for question in ("frequency(Pepsi)", "mean(Pepsi)", "frequency(Pepsi | Hamburger)"):
        match = re.search(rf"^{re.escape(question)} +([0-9.]+) +([0-9.]+) ", out, re.MULTILINE)
        assert match is not None
        assert abs(float(match[1]) - float(match[2])) < 0.4
    inside = re.search(r"(\d+) of (\d+) intervals hold", out)
    assert int(inside[2]) == 13
    assert int(inside[1]) >= 8
    bars = re.findall(r"^\w+\(.*\] +([─█│]{40}|[-=|]{40})((?:  missed)?)$", out, re.MULTILINE)
    assert len(bars) == 13
    assert sum(not missed for _, missed in bars) == int(inside[1])
    assert all(sum(sign in "│|" for sign in bar) == 1 for bar, _ in bars)
    assert "keyveil demo" in out
    url = re.search(r"its dashboard: (http://127\.0\.0\.1:\d+)/", out)[1]
    assert gone(url)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_cleans_up_when_it_is_stopped(tmp_path):
    demo = subprocess.Popen(
        [WORDS[0], "-u", WORDS[1]],
        cwd=tmp_path,
        env=user_environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # if these tests ignore it
    )
    try:
        match = None
        while match is None:
            line = demo.stdout.readline()
            assert line, "it ended by itself"
            match = re.search(r"collecting at (http://\S+)", line)
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.communicate()
    assert demo.returncode != 0
    assert gone(match[1])
    assert list(tmp_path.iterdir()) == []


def test_a_dashboard_with_visitors_stays_open_until_it_is_stopped(tmp_path):
    demo = subprocess.Popen(
        [sys.executable, "-m", "keyveil", "demo", "--visitors", "50"],
        cwd=tmp_path,
        env=user_environment(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        lines = [demo.stdout.readline() for _ in range(3)]
        url = re.search(r"dashboard: +(http://127\.0\.0\.1:\d+)/#/c/menu/answers", lines[0])[1]
        assert f"{url}/demo" in lines[1]

        def reports():
            return httpx.get(f"{url}/v1/overview", timeout=30).json()["collections"][0]["reports"]

        while reports() < 4_000:  # the crowd, then visitors one by one
            assert demo.poll() is None
            time.sleep(0.1)
        before = reports()
        while reports() <= before:
            assert demo.poll() is None
            time.sleep(0.1)
        for path, words in (
            ("/", "keyveil"),
            ("/demo", "What do you order?"),
            ("/demo/demo.js", "Client"),
        ):
            answer = httpx.get(url + path)
            assert words in answer.text
            assert "default-src 'none'" in answer.headers["content-security-policy"]
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    finally:
        if demo.poll() is None:
            demo.kill()
            demo.communicate()
    assert (demo.returncode, errors) == (0, "")
    assert gone(url)
    assert list(tmp_path.iterdir()) == []


def test_the_truth_of_the_demo_is_computed_from_its_records():
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import demo
    finally:
        sys.path.pop(0)
    held, ratings = demo.population(demo.PEOPLE)
    assert held.shape == ratings.shape == (demo.PEOPLE, len(demo.FOODS))
    both = sum(1 for row in held.tolist() if row[0] and row[2])
    assert demo.true_answer("frequency(Pepsi | Hamburger)", held, ratings) == pytest.approx(
        both / sum(row[0] for row in held.tolist())
    )
    liked = [float(r[1]) for h, r in zip(held.tolist(), ratings, strict=True) if h[0] and h[1]]
    assert demo.true_answer("mean(Fries | Hamburger)", held, ratings) == pytest.approx(
        sum(liked) / len(liked)
    )
