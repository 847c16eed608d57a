"""The package as a whole: what it exports, which way imports point, what it loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

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
    "cvxpy",
    "msgspec",
    "apsw",
    "starlette",
    "httpx",
)

LINE = [
    *("errors", "arrays", "tails", "exact", "coins", "channel", "viewchannels", "patterns"),
    *("scale", "sample", "prior", "valuechannels", "schema", "views", "people", "encode"),
    *("query", "layout", "report", "files", "fast", "estimate", "mechanism", "mechanisms", "tally"),
    "plan",
    *("outlook", "shuffle", "worth", "poison", "fakes", "health"),
]
"""Along the line: a module imports only from those before it (lazily, and for types, from any)."""


def test_all_is_what_can_be_imported():
    assert sorted(keyveil.__all__) == sorted(set(keyveil.__all__))
    for name in keyveil.__all__:
        assert getattr(keyveil, name) is not None


def test_imports_point_one_way():
    for place, module in enumerate(LINE):
        path = ROOT / f"{module}.py"
        files = [path] if path.exists() else sorted((ROOT / module).glob("*.py"))
        for file in files:
            depth = 1 if path.exists() else 2
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ImportFrom) and node.level == depth and node.module:
                    used = node.module.split(".")[0]
                    assert used in LINE[: place + 1], f"{file.name} imports {used}"


def test_a_fresh_process_reports_without_loading_anything_heavy():
    code = (
        "import sys, keyveil as k\n"
        "p = k.Plan.of(k.Schema.of(['Fries', 'Pepsi'], 1, 5), 'kvue', 1)\n"
        "k.Tally(p).add(p.report({'Pepsi': 4.5}))\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_frameworks_are_named_in_their_own_corner():
    corners = {
        "numba": {"loops.py"},
        "matplotlib": {"plot", "figures.py"},
        "click": {"cli"},
        "rich": {"cli"},
        "pyarrow": {"tables", "segments.py"},
        "scipy": {"testing.py", "blackbox.py", "messageaudit.py", "possible.py"},
        "starlette": {"collector"},
        "uvicorn": {"collector"},
        "msgspec": {"collector"},
        "apsw": {"sqlite.py", "backup.py", "restore.py", "memory.py"},
        "psycopg": {"postgres.py"},
        "httpx": {"client", "relay.py", "upstream.py", "collected.py"},
    }
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [(node.module or "").split(".")[0]]
            for name in set(names) & set(corners):
                places = {file.name, file.parent.name}
                assert places & corners[name], f"{file} names {name}"
