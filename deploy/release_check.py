"""Check that a release can be made: ``make release-check``, for an index with ``--index``.

Versions agree; wheel and sdist build, the sdist gives the same wheel, and both have what they need and
nothing else; the wheel installs in empty environments of every Python that is there, and passes
``smoke.py`` in each: the core and the command, each with the newest and the oldest versions that the
package allows. The extra ``all`` is tried in both ways on the first Python that is there. The client for
web pages is packed and imported from an empty project of Node.

PyPI and npm show pages about a package. With ``--index`` a release is refused if these pages would not
say where the project is, or would have links that lead nowhere.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENTS = (
    ("core", "", False),
    ("core", "", True),
    ("command", "cli", False),
    ("command", "cli", True),
)
"""Environments in which the wheel must work: name, extra, and whether to take the oldest versions."""
EVERYTHING = (("everything", "all", False), ("everything", "all", True))
"""Those that are tried on one Python."""


def versions() -> dict[str, str]:
    """The version in every place that states one."""
    package = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/keyveil/__init__.py").read_text(), re.M)
    citation = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    changes = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert package, "no version in the package"
    assert citation, "no version in CITATION.cff"
    assert changes, "no version in CHANGELOG.md"
    client = json.loads((ROOT / "clients/js/package.json").read_text())["version"]
    modules = {
        f"clients/js/src/{file.name}": release[1]
        for file in sorted((ROOT / "clients/js/src").glob("*.js"))
        if (release := re.search(r'(?:RELEASE =|release:) "(.+?)"', file.read_text()))
    }
    assert len(modules) > 1, "no release in the modules of the client for web pages"
    return {
        **modules,
        "src/keyveil/__init__.py": package[1],
        "CITATION.cff": citation[1],
        "CHANGELOG.md": changes[1],
        "clients/js/package.json": client,
    }


def pythons() -> list[str]:
    """The Python versions that the classifiers name."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [name.split(" :: ")[2] for name in classifiers if re.search(r"Python :: 3\.\d+$", name)]


def interpreter(version: str) -> str | None:
    """A Python of this version: one on the path, or one that pyenv has installed."""
    installed = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python{version}"))
    for place in (shutil.which(f"python{version}"), *map(str, installed)):
        if place and subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode == 0:
            return place
    return None


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist of a source tree."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder)]
    subprocess.run(words, cwd=source, capture_output=True, check=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Refuse archives that lack a file of the package or contain what is not to be released."""
    names = set(zipfile.ZipFile(wheel).namelist())
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src/keyveil").rglob("*.py")}
    assert sources <= names, sorted(sources - names)
    assert {"keyveil/py.typed", "keyveil/service/collector/client_js/client.js"} <= names
    assert all(name.startswith(("keyveil/", "keyveil-")) for name in names), (
        "the wheel has the package alone"
    )
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "tests/conftest.py", "docs/index.md"} <= packed
    unwanted = ("node_modules", ".venv", "out/", "__pycache__", ".hypothesis")
    assert not [name for name in packed if any(part in name for part in unwanted)]


def same_wheel(wheel: Path, sdist: Path, folder: Path) -> None:
    """Refuse an sdist that builds another wheel."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    again, _ = build(source, folder / "again")

    def contents(path: Path) -> dict[str, int]:
        return {entry.filename: entry.CRC for entry in zipfile.ZipFile(path).infolist()}

    assert contents(again) == contents(wheel), "the sdist builds another wheel"


CLIENT_FILES = {
    "package.json",
    "README.md",
    "LICENSE",
} | {f"src/{file.name}" for file in (ROOT / "clients/js/src").iterdir()}
IMPORT_CLIENT = """
import { Client, PlanError } from "keyveil";
import { fileStorage } from "keyveil/node";
import { recordedCells } from "keyveil/testing";
const storage = fileStorage("ledger.json");
const fetch = () => Promise.reject(new TypeError("no network"));
const client = new Client("https://collector.example", { cap: 4, storage, fetch });
const refused = await client.answer("menu", { Pepsi: 4 }).catch((error) => error);
if (refused.name !== "ClientError" || !PlanError || !recordedCells) throw refused;
"""


def try_client(folder: Path) -> str:
    """Pack the client for web pages, install it into an empty project and import it; its file's name."""
    npm = ["npm", "--silent", "--offline", "--no-audit", "--no-fund"]
    subprocess.run(
        [*npm, "pack", "--pack-destination", folder],
        cwd=ROOT / "clients/js",
        capture_output=True,
        check=True,
    )
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= CLIENT_FILES, sorted(CLIENT_FILES - names)
    unwanted = ("node_modules", "test/", "package-lock")
    assert not [name for name in names if name.startswith(unwanted)], sorted(names)
    project = folder / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}')
    subprocess.run([*npm, "install", packed], cwd=project, check=True)
    (project / "try.js").write_text(IMPORT_CLIENT)
    subprocess.run(["node", "try.js"], cwd=project, check=True)
    return packed.name


RELATIVE = re.compile(r"\]\((?!https?://|#)([^)\s]+)[^)]*\)")
"""A link or picture in Markdown whose address holds only inside the repository."""
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
INDEX_PAGES = ("Homepage", "Repository", "Issues", "Changelog")
"""The addresses that a page on PyPI must have."""


def lacking_addresses(root: Path, wheel: Path) -> list[str]:
    """What an index would lack: addresses of the project, and links that work outside a clone."""
    lacking = []
    urls = tomllib.loads((root / "pyproject.toml").read_text())["project"].get("urls", {})
    lacking += [
        f"pyproject.toml: [project.urls] has no {n}" for n in INDEX_PAGES if not _web(urls.get(n))
    ]
    client = json.loads((root / "clients/js/package.json").read_text())
    for name, member in (("repository", "url"), ("homepage", ""), ("bugs", "url")):
        value = client.get(name)
        if not _web(value.get(member) if isinstance(value, dict) else value):
            lacking.append(f"clients/js/package.json: no {name}")
    if not re.search(r"^repository-code: [\"']?https://\S+", (root / "CITATION.cff").read_text(), re.M):
        lacking.append("CITATION.cff: no repository-code")
    description = _metadata(wheel).partition("\n\n")[2]
    if relative := RELATIVE.findall(FENCED.sub("", description)):
        lacking.append(
            f"README.md: {len(relative)} links and pictures lead nowhere on PyPI, such as {relative[0]}"
        )
    return lacking


def _web(address: object) -> bool:
    """Whether this is an address on the web, as a browser or git takes it."""
    return isinstance(address, str) and address.removeprefix("git+").startswith("https://")


def _metadata(wheel: Path) -> str:
    """What a wheel says about itself; its description follows the first empty line."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def requirements(wheel: Path, extra: str) -> list[str]:
    """What the wheel requires of other packages, alone or with an extra."""
    lines = re.findall(r"^Requires-Dist: (.+)$", _metadata(wheel), re.M)
    marked = [
        (line.partition(";")[0].strip(), re.search(r"extra == '([\w-]+)'", line)) for line in lines
    ]
    return [package for package, mark in marked if mark is None or mark[1] == extra]


def try_wheel(
    wheel: Path,
    python: str,
    folder: Path,
    environments: tuple[tuple[str, str, bool], ...] = ENVIRONMENTS,
) -> None:
    """Install the wheel in empty environments and run the smoke test in each."""
    uv = str(Path(sys.executable).parent / "uv")
    for name, extra, oldest in environments:
        place = folder / f"{Path(python).name}-{name}-{'oldest' if oldest else 'newest'}"
        subprocess.run([uv, "venv", "--quiet", "--python", python, str(place)], check=True)
        own = str(place / "bin/python")
        install = [uv, "pip", "install", "--quiet", "--python", own]
        required = requirements(wheel, extra)
        if oldest:  # uv takes the lowest version of what is named here, and we want no compiler
            install += ["--resolution", "lowest-direct", "--only-binary", ":all:", *required]
        subprocess.run([*install, f"{wheel}[{extra}]" if extra else str(wheel)], check=True)
        smoke = [own, "-I", str(ROOT / "deploy/smoke.py"), extra or "core"]
        subprocess.run(smoke, cwd=folder, check=True)
        print(f"{place.name}: works with {installed(own, required)}")


def installed(python: str, required: list[str]) -> str:
    """The versions of the required packages in an environment."""
    names = sorted({re.split(r"[\[<>=~! ]", package)[0] for package in required})
    words = "import sys; from importlib.metadata import version as v; print(*map(v, sys.argv[1:]))"
    done = subprocess.run(
        [python, "-I", "-c", words, *names], capture_output=True, text=True, check=True
    ).stdout
    return ", ".join(f"{name} {version}" for name, version in zip(names, done.split(), strict=True))


def check_addresses(wheel: Path, for_index: bool) -> None:
    """Refuse a release to an index without addresses; otherwise say that they are needed there."""
    lacking = lacking_addresses(ROOT, wheel)
    if lacking and for_index:
        raise SystemExit("not ready for PyPI and npm:\n  " + "\n  ".join(lacking))
    if lacking:
        print(f"before PyPI or npm: {len(lacking)} things are missing, which --index lists")
    else:
        print("addresses: complete, and no link leads nowhere")


def main() -> None:
    """Run all checks; the first that fails ends it."""
    stated = versions()
    assert len(set(stated.values())) == 1, f"versions differ: {stated}"
    print(f"version {stated['CHANGELOG.md']} in {len(stated)} places")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, sdist = build(ROOT, folder / "dist")
        check_contents(wheel, sdist)
        same_wheel(wheel, sdist, folder / "source")
        print(f"{wheel.name} and {sdist.name}: built, complete, and the same from the sdist")
        check_addresses(wheel, "--index" in sys.argv[1:])
        if shutil.which("npm"):
            print(f"{try_client(folder)}: packed, complete, and imported from an empty project")
        else:
            print("npm: not on this machine, the client for web pages is not tried")
        tried = 0
        for version in pythons():
            python = interpreter(version)
            if python is None:
                print(f"python{version}: not on this machine, not tried")
                continue
            try_wheel(wheel, python, folder, ENVIRONMENTS if tried else ENVIRONMENTS + EVERYTHING)
            tried += 1
    first = (ROOT / "CHANGELOG.md").read_text().partition("\n## ")[2].splitlines()[0]
    if "unreleased" in first:
        print(f"before the tag: give CHANGELOG.md's '{first}' its date, and run this again")


if __name__ == "__main__":
    main()
