"""The notebooks of ``examples/`` run in a kernel of their own, and import only ``keyveil`` itself."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from process import user_environment

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=None, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""
LIGHT = 300_000
"""Bytes that a notebook with its outputs may have."""


def test_there_are_two_notebooks():
    assert [path.stem for path in NOTEBOOKS] == [
        "what_would_local_privacy_cost",
        "will_they_order_pepsi",
    ]


def outputs(path):
    cells = json.loads(path.read_text())["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_tables_and_pictures(path, tmp_path):
    done = tmp_path / path.name
    settings = user_environment(IPYTHONDIR=str(tmp_path), JUPYTER_RUNTIME_DIR=str(tmp_path))
    settings.pop("MPLBACKEND", None)
    run = [sys.executable, "-c", RUN, str(path), str(done)]
    result = subprocess.run(run, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    shown = [kind for output in outputs(done) for kind in output.get("data", {})]
    assert shown.count("image/png") == [kind for o in outputs(path) for kind in o.get("data", {})].count(
        "image/png"
    )
    assert "text/html" in shown
    assert not [o for o in outputs(done) if "Warning" in "".join(o.get("text", ""))]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_light_outputs_that_name_no_machine(path):
    assert path.stat().st_size < LIGHT
    assert outputs(path)
    text = path.read_text()
    assert "/home/" not in text
    assert "/tmp/" not in text
    assert not [o for o in outputs(path) if o.get("name") == "stderr"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_shows_it_as_it_is_stored(path):
    script = runpy.run_path(str(EXAMPLES / "run_notebooks.py"))
    page, pictures = script["page_of"](path)
    assert (script["PAGES"] / f"{path.stem}.md").read_text() == page, "run_notebooks.py --pages"
    assert len(pictures) >= 1
    stored = {file.name: file.read_bytes() for file in script["PAGES"].glob(f"{path.stem}-*.png")}
    assert stored == pictures
