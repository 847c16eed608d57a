"""What a release contains: one version, complete archives, and a wheel that works by itself.

``make release-check`` does more: it installs the wheel with its dependencies in empty environments of
every Python that is there, also with the oldest versions that the package allows.
"""

from __future__ import annotations

import runpy
import subprocess
import sys
import zipfile
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
