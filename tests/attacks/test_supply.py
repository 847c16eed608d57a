"""What is installed is what was reviewed: every dependency is pinned, and each pin has its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^(?P<name>[a-z0-9._-]+)==\S+(?P<rest>.*)$")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", name, maxsplit=1)[0]).lower()


def _unhashed(text: str) -> list[str]:
    """The pinned names that have no hash, and lines that are no pin."""
    entries = text.replace("\\\n", " ").splitlines()
    pins = [(PIN.match(entry), entry) for entry in entries if entry.strip()]
    return [entry for pin, entry in pins if pin is None or "--hash=sha256:" not in pin["rest"]]


def test_every_dependency_is_pinned_with_its_hashes():
    text = (ROOT / "requirements.txt").read_text()
    assert _unhashed(text) == []
    pinned = {_normal(line) for line in text.splitlines() if PIN.match(line)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        declared += extra
    assert {_normal(name) for name in declared} - {"keyveil"} <= pinned


def test_a_pin_without_a_hash_is_seen():
    good = "numpy==2.4.0 \\\n    --hash=sha256:00\n"
    assert _unhashed(good) == []
    assert _unhashed(good + "scipy==1.17.0\n") == ["scipy==1.17.0"]
    assert _unhashed("-e .\n") == ["-e ."]


def test_the_install_asks_for_hashes():
    install = [
        line for line in (ROOT / "Makefile").read_text().splitlines() if "requirements.txt" in line
    ]
    assert any("--require-hashes" in line for line in install)
