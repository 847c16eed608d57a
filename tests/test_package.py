"""The package as a whole: what it exports, which way imports point, what it loads."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import keyveil

ROOT = Path(keyveil.__file__).parent
HEAVY = (
    "numba",
    "llvmlite",
    "matplotlib",
    "click",
    "rich",
    "pyarrow",
    "scipy",
    "pandas",
    "polars",
    "tqdm",
    "IPython",
    "cvxpy",
    "msgspec",
    "apsw",
    "starlette",
    "httpx",
    "pyspark",
)

ROOMS = (
    "foundation",
    "people",
    "channel",
    "plan",
    "plot",
    "estimate",
    "mechanisms",
    "planner",
    "simulate",
    "trust",
    "service",
    "cli",
)
"""The folders of the package. Each imports only from itself and from those above it."""

SERVICE_ROOMS = ("client", "collector")
"""The folders of ``service``, in the same order of imports."""

COLLECTOR_ROOMS = ("process", "store", "engine", "http", "relay", "operations")
"""The folders of ``service/collector``, in the same order of imports."""

EXCEPTIONS = {
    "plan.front_door": "an analyst starts from a plan and a tally, which lead to the rooms below",
    "plan.registry": "a plan's document names its mechanism, whose file is loaded by that name",
}
"""Modules that may import from rooms below, each with its reason."""


def test_all_is_what_can_be_imported():
    assert sorted(keyveil.__all__) == sorted(set(keyveil.__all__))
    for name in keyveil.__all__:
        assert getattr(keyveil, name) is not None


def moved_names(changelog):
    """The names in the right columns of the tables of renames, with those of ``theory`` in full."""
    rows = [line.split("|")[2] for line in changelog.splitlines() if line.startswith("| ")]
    return [name for row in rows for name in re.findall(r"`((?:keyveil|theory)\.[\w.]+)", row)]


def resolves(name):
    """Whether a dotted name is a module, or a chain of attributes of one."""
    try:
        resolve_name(f"keyveil.{name.removeprefix('keyveil.')}")
    except (ImportError, AttributeError):
        return False
    return True


def test_the_changelog_points_to_names_that_exist():
    names = moved_names((ROOT.parents[1] / "CHANGELOG.md").read_text())
    assert len(names) > 40
    assert [name for name in names if not resolves(name)] == []
    assert not resolves("keyveil.estimate.nowhere")


def test_subjects_are_loaded_when_they_are_asked_for():
    code = (
        "import sys, keyveil as k\n"
        "places = {n: 'keyveil.' + p for n, p in k._SUBJECTS.items()}\n"
        "before = [n for n, p in places.items() if p in sys.modules]\n"
        "after = [n for n, p in places.items() if getattr(k, n).__name__ != p]\n"
        "names = [getattr(k.theory, n) for n in k.theory.__all__]\n"
        "names += [getattr(k.testing, n) for n in k.testing._FOR_CLIENTS]\n"
        "print(before, after, len(places), len(names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after, places, names = done.stdout.split()
    assert (before, after) == ("[]", "[]")
    assert int(places) == len(keyveil._SUBJECTS)
    assert int(names) > 25


@cache
def modules():
    """Every module of the package by its name below ``keyveil``."""
    files = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


@cache
def parsed(file):
    """The syntax tree of a file, for all tests that read it."""
    return ast.parse(file.read_text())


@cache
def imports(name, file):
    """What a module imports, at its top, within functions, or for types alone: a path and its member.

    A name of the package itself leads to the module that it stands for. Imports by a string count too.
    """
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    pairs, aliases = [], set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            paths = [a.name.removeprefix("keyveil.") for a in node.names if "keyveil." in a.name]
            pairs += zip(paths, paths, strict=True)
            aliases |= {a.asname or a.name for a in node.names if a.name == "keyveil"}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = [*package[: len(package) + 1 - node.level], *(node.module or "").split(".")]
            elif (node.module or "").split(".")[0] == "keyveil":
                base = node.module.split(".")[1:]
            else:
                continue
            path = ".".join(part for part in base if part)
            members = [f"{path}.{alias.name}" if path else place_of(alias.name) for alias in node.names]
            pairs += ((path or member, member) for member in members)
    members = [
        place_of(node.attr)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in aliases
    ]
    members += by_string(file, package)
    return pairs + list(zip(members, members, strict=True))


def place_of(name):
    """The module that a name of the package itself stands for, or the name."""
    return {**keyveil._LATER, **keyveil._SUBJECTS}.get(name, name)


def by_string(file, package):
    """Modules that a file names in a text, and those of a table of names that are loaded later."""
    tree = parsed(file)
    tables = {ast.unparse(n.targets[0]): n.value for n in tree.body if isinstance(n, ast.Assign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value.removeprefix("keyveil.") in modules() and node.value.startswith("keyveil."):
                yield node.value.removeprefix("keyveil.")
        elif isinstance(node, ast.Call) and node.args:
            called, first = ast.unparse(node.func).rpartition(".")[2], node.args[0]
            if called == "loaded_later" and any(word.arg == "below" for word in node.keywords):
                for table in (tables.get(ast.unparse(own), own) for own in node.args[1:]):
                    yield from (value.value for value in table.values)
            elif called == "import_module" and isinstance(first, ast.Constant):
                text = first.value.lstrip(".")
                dots = len(first.value) - len(text)
                if dots:
                    yield ".".join([*package[: len(package) + 1 - dots], text])


def imported(name, file, known):
    """The modules that a module imports."""
    return (member if member in known else path for path, member in imports(name, file))


def downward(known, inside="", rooms=ROOMS):
    """Imports from a room below as (module, imported module); ``__version__`` belongs to all."""
    for name, file in known.items():
        room = name.removeprefix(inside).split(".")[0]
        if not name.startswith(inside) or room not in rooms:
            continue
        for used in imported(name, file, known):
            other = used.removeprefix(inside).split(".")[0]
            if used == "__version__" or not f"{used}.".startswith(inside):
                continue
            if other not in rooms or rooms.index(other) > rooms.index(room):
                yield name, used


def test_imports_point_one_way():
    pointing_down = {name for name, _ in downward(modules())}
    assert pointing_down == set(EXCEPTIONS), "imports point up, from a room to those above it"
    assert len(EXCEPTIONS) <= 2


def test_the_front_door_loads_nothing_before_it_is_asked():
    """Its imports are for types, or within functions."""
    tree = parsed(modules()["plan.front_door"])
    top = [ast.unparse(n) for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    below = ROOMS[ROOMS.index("plan") + 1 :]
    assert not [line for line in top if any(f"..{room}" in line for room in below)]


def test_imports_point_one_way_within_the_service():
    service = ROOT / "service"
    assert {p.parent.name for p in service.glob("*/__init__.py")} == set(SERVICE_ROOMS)
    assert list(downward(modules(), "service.", SERVICE_ROOMS)) == []
    collector = service / "collector"
    assert {p.parent.name for p in collector.glob("*/__init__.py")} == set(COLLECTOR_ROOMS)
    assert [p.name for p in collector.glob("*.py")] == ["__init__.py"]
    assert list(downward(modules(), "service.collector.", COLLECTOR_ROOMS)) == []


def test_an_import_that_points_down_is_seen(tmp_path):
    for number, line in enumerate(
        (
            "from ..plan.tally import Tally",
            "if TYPE_CHECKING:\n    from ..plan import tally",
            "def late():\n    from keyveil.plan.tally import Tally",
            "from .. import Tally",
            "from keyveil import Tally",
            "import keyveil as kv\nkv.Tally",
            "from importlib import import_module\nimport_module('keyveil.plan.tally')",
            "from importlib import import_module\nimport_module('..plan.tally', __package__)",
            "PRELOADED = ['numpy', 'keyveil.plan.tally']",
            "PLACES = {'Tally': 'plan.tally'}\nget = loaded_later(__name__, PLACES, below='keyveil')",
        )
    ):
        file = tmp_path / f"people{number}.py"
        file.write_text(line)
        files = modules() | {"people.people": file}
        assert ("people.people", "plan.tally") in set(downward(files))


def test_the_hall_holds_rooms_and_each_says_what_belongs_in_it():
    entries = {p.name for p in ROOT.iterdir() if p.suffix == ".py" or p.is_dir()}
    entries -= {"__init__.py", "__main__.py", "__pycache__", "testing"}
    assert entries == set(ROOMS)
    assert len(entries) <= 12
    assert all((ROOT / entry).is_dir() for entry in entries)
    for folder in (f.parent for f in ROOT.rglob("__init__.py")):
        first = ast.get_docstring(parsed(folder / "__init__.py")).splitlines()[0]
        assert first.endswith((".", ":")), folder


NAMED = re.compile(r"``?([\w/]+(?:/|\.py))``?")
"""Files and folders as a text names them."""


def test_the_answers_of_contributing_name_files_that_exist():
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text().partition("## Find your way")[2]
    answers = [row.split(" | ")[1] for row in page.splitlines() if row.startswith("| W")]
    named = [name for answer in answers for name in NAMED.findall(answer)]
    assert len(answers) == 5
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert NAMED.findall("in `plan/no.py`, and `plan/`") == ["plan/no.py", "plan/"]


def test_no_file_name_and_no_public_class_stands_for_two_things():
    files, classes = {}, {}
    for name, file in modules().items():
        if file.name == "__init__.py":
            continue
        files.setdefault(file.name, []).append(name)
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(name)
    assert [places for places in files.values() if len(places) > 1] == []
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}


def test_a_fresh_process_reports_without_loading_anything_heavy():
    code = (
        "import sys, keyveil as k\n"
        "p = k.Plan.of(k.Schema.of(['Fries', 'Pepsi'], 1, 5), 'kvue', 1)\n"
        "k.Tally(p).add(p.report({'Pepsi': 4.5}))\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_scipy_batches_are_written_and_an_audit_says_what_to_install():
    code = (
        "import sys; sys.modules['scipy'] = None\n"
        "import keyveil as k\n"
        "import keyveil.trust.blackbox\n"
        "from keyveil.testing import encode_binary\n"
        "plan = k.Plan.of(k.Schema.of(['Fries', 'Pepsi'], 1, 5), 'kvue', 1)\n"
        "asked = (\n"
        "    lambda: k.audit_messages(None, plan),\n"
        "    lambda: keyveil.trust.blackbox.audit_device(None, [], 2),\n"
        ")\n"
        "for ask in asked:\n"
        "    try:\n"
        "        ask()\n"
        "    except k.KeyveilError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    hint = "needs SciPy: pip install 'keyveil[testing]', or '.[testing]' in a clone"
    assert done.stdout.splitlines() == [f"audit_messages {hint}", f"audit_device {hint}"]


def test_frameworks_are_named_in_their_own_corner():
    corners = {
        "numba": {"kernels"},
        "matplotlib": {"plot", "figures.py"},
        "pandas": {"frame_output.py"},
        "polars": {"frame_output.py"},
        "tqdm": {"progress_bar.py"},
        "click": {"cli"},
        "rich": {"cli"},
        "pyarrow": {"tables", "segments.py"},
        "scipy": {"identified_range.py"},
        "starlette": {"collector"},
        "uvicorn": {"collector"},
        "msgspec": {"collector"},
        "apsw": {"sqlite.py", "sqlite_files.py", "backup.py", "restore.py", "sent_ids.py"},
        "psycopg": {"postgres.py", "postgres_ids.py", "postgres_connection.py"},
        "pyspark": {"engines"},
        "httpx": {"client", "relay.py", "upstream.py", "collection_answers.py"},
    }
    for file in modules().values():
        for node in ast.walk(parsed(file)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [(node.module or "").split(".")[0]]
            for name in set(names) & set(corners):
                places = {file.name, *file.relative_to(ROOT).parts}
                assert places & corners[name], f"{file} names {name}"


def private_names(tree):
    """Private names of the package that a test file names: imported, of a module, or in a text."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "keyveil":
            aliases |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            yield from (a.name for a in node.names if is_private(a.name))
        elif isinstance(node, ast.Import):
            aliases |= {a.asname: a.name for a in node.names if a.asname and "keyveil." in a.name}
    paths = {f"keyveil.{name}" for name in modules()}
    aliases = {alias for alias, path in aliases.items() if path in paths}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner in aliases or owner in paths:
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
            names = [text for text in texts[:1] if isinstance(text, str)]
            if names and (ast.unparse(node.args[0]) in aliases or names[0].rpartition(".")[0] in paths):
                yield from (name for name in names if is_private(name.rpartition(".")[2]))


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def test_no_test_names_what_is_private_to_a_module():
    """A test that calls a private function fails when a module is tidied, and shows no user's view."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    named = {str(f): list(private_names(parsed(f))) for f in files}
    assert {file: names for file, names in named.items() if names} == {}


def test_a_private_name_in_a_test_is_seen():
    module = "from keyveil.people import prior as guess\n"
    for line in (
        "from keyveil.people.prior import _hidden",
        module + "guess._hidden()",
        module + "monkeypatch.setattr(guess, '_hidden', 1)",
        "monkeypatch.setattr('keyveil.people.prior._hidden', 1)",
        "import keyveil.people.prior\nkeyveil.people.prior._hidden()",
    ):
        assert list(private_names(ast.parse(line))), line
    assert not list(private_names(ast.parse(module + "guess.__name__; own._hidden")))


DRAWING = {"Contest", "check_mechanism", "check_sampler", "measure", "simulate", "simulate_runs"}
"""Functions that draw many reports. A test that calls one of them compares with a sample."""


def drawing_tests(tree):
    """The tests of a file that draw many reports, by themselves or by a function of the file."""
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}

    def used(node):
        calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
        return {ast.unparse(f).rpartition(".")[2] for f in calls} | {a.arg for a in node.args.args}

    uses = {name: used(node) for name, node in functions.items()}
    drawing, before = {name for name in uses if uses[name] & DRAWING}, set()
    while drawing != before:
        before = set(drawing)
        drawing |= {name for name in uses if uses[name] & before}
    return {name: functions[name] for name in drawing if name.startswith("test_")}


def is_sampled(node):
    return any(ast.unparse(mark) == "pytest.mark.sampled" for mark in node.decorator_list)


def test_sampled_tests_are_marked():
    """``pytest -m "not sampled"`` runs the exact tests alone."""
    for file in sorted(Path(__file__).parent.rglob("test_*.py")):
        tests = drawing_tests(parsed(file))
        missing = [name for name, node in tests.items() if not is_sampled(node)]
        assert missing == [], f"{file} draws reports in tests without the mark 'sampled'"


def test_a_sampled_test_without_its_mark_is_seen():
    lines = ("def rows(): simulate(1)", "def test_a(): rows()", "def test_b(rows): 1", "def test_c(): 1")
    tree = ast.parse("\n".join(lines))
    assert set(drawing_tests(tree)) == {"test_a", "test_b"}
    marked = ast.parse("@pytest.mark.sampled\ndef test_a(): simulate(1)")
    assert [is_sampled(node) for node in drawing_tests(marked).values()] == [True]
