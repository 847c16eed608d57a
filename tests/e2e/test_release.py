"""What a release contains: one version, complete archives, and a wheel that works by itself.

``make release-check`` does more: it installs the wheel with its dependencies in empty environments of
every Python that is there, also with the oldest versions that the package allows.
"""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy
import pytest
import yaml

ROOT = Path(__file__).parents[2]
CORE = ("numpy", "numpy.libs", "cryptography", "cffi", "pycparser")
"""Folders of the two packages that the core needs, and of what these need."""


@pytest.fixture(scope="module")
def check():
    return runpy.run_path(str(ROOT / "deploy" / "release_check.py"))


@pytest.fixture(scope="module")
def archives(check, tmp_path_factory):
    return check["build"](ROOT, tmp_path_factory.mktemp("dist"))


def test_the_version_is_the_same_everywhere(check):
    assert len(set(check["versions"]().values())) == 1


def test_archives_have_the_package_and_nothing_else(check, archives, tmp_path):
    check["check_contents"](*archives)
    lacking = tmp_path / "lacking.whl"
    with zipfile.ZipFile(archives[0]) as whole, zipfile.ZipFile(lacking, "w") as less:
        for name in whole.namelist():
            if name != "keyveil/py.typed":
                less.writestr(name, whole.read(name))
    with pytest.raises(AssertionError):
        check["check_contents"](lacking, archives[1])


def with_addresses(folder: Path, wheel: Path, page: str) -> tuple[Path, Path]:
    """A tree with all addresses, and a wheel of it whose page on PyPI is this."""
    place = "https://keyveil.example/"
    (folder / "clients/js").mkdir(parents=True)
    urls = "".join(
        f'{name} = "{place}{name}"\n' for name in ("Homepage", "Repository", "Issues", "Changelog")
    )
    (folder / "pyproject.toml").write_text(f'[project]\nname = "keyveil"\n[project.urls]\n{urls}')
    members = {"repository": {"type": "git", "url": f"git+{place}k.git"}, "bugs": {"url": place}}
    client = json.dumps({**members, "homepage": place})
    (folder / "clients/js/package.json").write_text(client)
    (folder / "CITATION.cff").write_text(f'title: "keyveil"\nrepository-code: "{place}"\n')
    described = folder / wheel.name
    with zipfile.ZipFile(described, "w") as archive:
        archive.writestr("keyveil-0.1.0.dist-info/METADATA", f"Name: keyveil\n\n{page}")
    return folder, described


def test_a_release_to_an_index_is_refused_without_addresses(check, archives, tmp_path, monkeypatch):
    lacking = check["lacking_addresses"]
    page = "See [the tour](https://keyveil.example/tour) or [below](#tour).\n```\n[a](b.md)\n```\n"
    folder, wheel = with_addresses(tmp_path / "whole", archives[0], page)
    assert lacking(folder, wheel) == []
    for name, old, new in (
        ("pyproject.toml", "Issues", "Elsewhere"),
        ("clients/js/package.json", '"homepage"', '"other"'),
        ("clients/js/package.json", "git+https", "git+ssh"),
        ("CITATION.cff", "repository-code", "other"),
    ):
        path, text = folder / name, (folder / name).read_text()
        path.write_text(text.replace(old, new))
        assert [line.partition(":")[0] for line in lacking(folder, wheel)] == [name]
        path.write_text(text)
    pictures = "![a](docs/a.png) and [b](docs/b.md)\n"
    _, wheel = with_addresses(tmp_path / "relative", archives[0], page + pictures)
    (line,) = lacking(folder, wheel)
    assert line == "README.md: 2 links and pictures lead nowhere on PyPI, such as docs/a.png"


def test_the_release_check_says_what_an_index_would_lack(check, archives, capsys):
    """The project has no public address yet; this test changes once it has one."""
    lines = check["lacking_addresses"](ROOT, archives[0])
    assert {line.partition(":")[0] for line in lines} == {
        "pyproject.toml",
        "clients/js/package.json",
        "CITATION.cff",
        "README.md",
    }
    with pytest.raises(SystemExit, match="not ready for PyPI and npm"):
        check["check_addresses"](archives[0], for_index=True)
    check["check_addresses"](archives[0], for_index=False)
    assert f"{len(lines)} things are missing" in capsys.readouterr().out


def test_the_demo_installs_less_than_400_mb_and_only_what_it_needs():
    """As its pinned list says, whose packages this environment has in the same versions."""
    names, pinned = (
        dict(re.findall(r"^([\w.-]+)(?:\[\w+\])?==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE))
        for file in ("requirements-demo.txt", "requirements.txt")
    )
    assert {
        "click",
        "rich",
        "starlette",
        "uvicorn",
        "apsw",
        "numpy",
        "cryptography",
        "hatchling",
    } <= set(names)
    large = {"pandas", "polars", "matplotlib", "numba", "llvmlite", "scipy", "cvxpy", "pyspark", "mypy"}
    assert not large & set(names)
    assert large < set(pinned)
    assert {name: version for name, version in names.items() if pinned.get(name) != version} == {}
    size = sum(size_of(name) for name in [*names, "pip"])
    assert 150e6 < size < 400e6


def size_of(name: str) -> int:
    """The bytes of an installed package; 0 if it is for another system."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return 0
    places = (Path(str(file.locate())) for file in files)
    return sum(place.stat().st_size for place in places if place.is_file())


def test_the_oldest_versions_are_those_of_every_requirement(check, archives):
    core = check["requirements"](archives[0], "")
    assert {package.split("<")[0] for package in core} == {"numpy", "cryptography"}
    assert all(">=" in package for package in core), "the check takes the lowest version that is named"
    command = set(check["requirements"](archives[0], "cli"))
    everything = set(check["requirements"](archives[0], "all"))
    assert set(core) < command < everything
    assert any(package.startswith("psycopg[binary]<") for package in everything), "an extra of extras"
    assert not any(package.startswith(("keyveil", "pyspark", "pytest")) for package in everything)


def test_the_wheel_works_with_its_core_dependencies_alone(archives, tmp_path):
    """An environment with the wheel, NumPy and cryptography; nothing of the repository or of extras."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (site,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    with zipfile.ZipFile(archives[0]) as wheel:
        wheel.extractall(site)
    ours = Path(numpy.__file__).parents[1]
    for name in (*CORE, *(path.name for path in ours.glob("_cffi_backend*"))):
        if (ours / name).exists():
            (site / name).symlink_to(ours / name)
    python = tmp_path / "bare" / "bin" / "python"
    words = [python, "-I", ROOT / "deploy" / "smoke.py", "core"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    place = "import keyveil; print(keyveil.__file__)"
    done = subprocess.run([python, "-I", "-c", place], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(site))


def test_the_client_for_web_pages_is_a_package_that_imports(check, tmp_path):
    assert (
        check["try_client"](tmp_path) == f"keyveil-{check['versions']()['clients/js/package.json']}.tgz"
    )


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("citation-file-format", ["CITATION.cff"]),
        ("github-issue-forms", [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"]),
        ("github-issue-config", [".github/ISSUE_TEMPLATE/config.yml"]),
    ],
)
def test_forms_follow_their_schemas(schema, files):
    tool = Path(sys.executable).parent / "check-jsonschema"
    subprocess.run([tool, "--builtin-schema", f"vendor.{schema}", *files], cwd=ROOT, check=True)


def test_hooks_use_the_tools_of_the_environment():
    (ours,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert ours["repo"] == "local"
    for hook in ours["hooks"]:
        assert hook["entry"].startswith(".venv/bin/")
