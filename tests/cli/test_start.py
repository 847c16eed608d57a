"""What a command and an import load: small commands do not wait for packages they do not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from process import user_environment

import keyveil
from keyveil import Coins, Plan, Schema, Tally
from keyveil.plan.report_file import writing

SHOW = (
    "import json, sys\nfrom keyveil.cli.command import run\n"
    "code = run(sys.argv[1:])\n"
    "print(json.dumps([code, sorted({n.split('.')[0] for n in sys.modules}), "
    "[n for n in sys.modules if n.startswith('keyveil.')]]), file=sys.stderr)"
)


def loaded(folder, *words):
    """The packages and the modules of keyveil that a command loads."""
    command, own = [sys.executable, "-c", SHOW, *words], user_environment()
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=True)
    code, packages, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    return set(packages), set(modules)


def test_an_import_and_the_help_load_no_numpy(tmp_path):
    code = "import sys, keyveil\nprint('numpy' in sys.modules, 'Plan' in dir(keyveil))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    packages, modules = loaded(tmp_path, "--help")
    assert not {"numpy", "rich", "cryptography", "matplotlib"} & packages
    assert not {name for name in modules if name.startswith("keyveil.plan")}


def test_small_commands_load_neither_estimators_nor_tables_nor_rich(tmp_path):
    plan = Plan.of(Schema.of(10, 1, 5), "kvue", 1)
    plan.save(tmp_path / "plan.json")
    with writing(plan, str(tmp_path / "reports.kv")) as writer:
        writer.add(plan.privatise(keyveil.People.of_records(plan.schema, [{}, {"3": 4.0}])))
    for words in (
        "plan --keys 10 --range 1,5 --epsilon 1 --mechanism kvue -o new.json",
        "audit plan.json",
        "tally plan.json reports.kv -o tally.kv",
    ):
        packages, modules = loaded(tmp_path, *words.split())
        for name in ("rich", "cryptography", "pyarrow", "numba", "multiprocessing", "tempfile"):
            assert name not in packages, (words, name)
        for name in ("estimate.linear", "estimate.answer", "people.tables.table_reader", "planner"):
            assert f"keyveil.{name}" not in modules, (words, name)
    assert Tally.load(plan, tmp_path / "tally.kv").reports == 2


@pytest.mark.parametrize("name", ["collision", "coco", "pair_collision"])
def test_a_small_comparison_of_sets_does_not_wait_for_numba(tmp_path, name):
    words = (
        f"compare --population gaussian --top 10 --people 3000 --epsilon 1 --repeat 2 --mechanism {name}"
    )
    packages, _ = loaded(tmp_path, *words.split(), "--processes", "1", "--coins", "x")
    assert "numba" not in packages


@pytest.mark.parametrize(("stated", "threads"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2)])
def test_linear_algebra_of_a_command_has_one_thread_unless_the_user_says_otherwise(stated, threads):
    code = (
        "import os, sys\nfrom keyveil.cli import main\nsys.argv[1:] = ['mechanisms', '--json']\n"
        "try:\n    main()\nexcept SystemExit:\n    import numpy\n"
        "    print(len(os.listdir('/proc/self/task')), file=sys.stderr)"
    )
    others = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=others | stated, capture_output=True, text=True, check=True
    )
    assert int(done.stderr) == min(threads, os.cpu_count() or 1)


def test_the_function_estimate_stays_whatever_is_imported():
    code = (
        "import keyveil\nimport keyveil.estimate.answer, keyveil.estimate.linear\n"
        "from keyveil.estimate import Answers, bands\n"
        "print(keyveil.estimate.__name__, callable(keyveil.estimate), Answers is keyveil.Answers)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["estimate", "True", "True"]


def test_one_person_draws_what_the_batch_draws():
    """The short ways for one person give the bytes of the batch."""
    for name, keys in (("kvue", 3), ("kvue", 100), ("grr", 300), ("pairs", 5), ("harmony", 4)):
        plan, coins = Plan.of(Schema.of(keys), name, 1), Coins.stated("one")
        records = [{str(key): 0.3 for key in range(person % 3)} for person in range(200)]
        people = keyveil.People.of_records(plan.schema, records)
        batch = plan.packing.cells_of(plan.privatise(people, coins))
        single = [plan.report(record, coins, person).cells for person, record in enumerate(records)]
        assert batch == single
        later = coins.later(5)
        assert later.words(7, 3, 9).tolist() == coins.words(7, 23, 9).tolist()
