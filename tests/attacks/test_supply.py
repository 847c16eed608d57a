"""What is installed is what was reviewed: every dependency is pinned, and each pin has its hashes."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

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


def _versions(text: str) -> dict[str, str]:
    """The pinned version of each name."""
    return {
        _normal(line): line.split("==")[1].split()[0] for line in text.splitlines() if PIN.match(line)
    }


def test_the_demo_installs_a_small_part_of_the_same_pins():
    text, whole = ((ROOT / f"requirements{part}.txt").read_text() for part in ("-demo", ""))
    assert _unhashed(text) == []
    light = _versions(text)
    assert light.items() <= _versions(whole).items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    needed = [*project["project"]["dependencies"], *extras["cli"], *extras["collector"]]
    assert {_normal(name) for name in needed + project["dependency-groups"]["build"]} <= set(light)
    assert not {"numba", "scipy", "pandas", "matplotlib", "cvxpy", "playwright", "mypy"} & set(light)


@pytest.mark.parametrize(
    ("target", "file"), [("demo", "requirements-demo.txt"), ("setup", "requirements.txt")]
)
def test_the_install_asks_for_hashes(target, file, tmp_path):
    """What ``make`` would run where nothing is installed yet."""
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-demo.txt"):
        (tmp_path / name).symlink_to(ROOT / name)
    run = subprocess.run(
        ["make", "-n", target], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (install,) = [line for line in run.stdout.splitlines() if " -r " in line]
    assert "--require-hashes" in install
    assert install.split()[-1] == file


def test_the_demo_installs_nothing_after_everything_is_installed(tmp_path):
    for name in ("Makefile", "pyproject.toml", "requirements.txt", "requirements-demo.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/true")  # stands for every installation
    subprocess.run(["make", "setup"], cwd=tmp_path, capture_output=True, check=True)
    run = subprocess.run(
        ["make", "-n", "demo"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "pip" not in run.stdout
    assert "examples/demo.py" in run.stdout
