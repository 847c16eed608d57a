"""Bad plans: the library refuses each of them, as every client must."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

from keyveil import PlanError, audit
from keyveil.plan.plan import Plan

FOLDER = Path(__file__).parents[2] / "vectors"
FILE = FOLDER / "bad" / "plans.json"
CASES = json.loads(FILE.read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
def test_the_library_refuses_the_plan(case):
    assert audit(case["text"]).findings
    with pytest.raises(PlanError):
        Plan.parse(case["text"])


def test_the_bad_plans_are_what_the_script_writes(tmp_path):
    runpy.run_path(str(FOLDER / "make_bad.py"))["main"](tmp_path)
    assert (tmp_path / "plans.json").read_text("utf-8") == FILE.read_text("utf-8")
