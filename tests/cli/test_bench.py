"""``keyveil bench``: its table, its JSON, its picture, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from keyveil import Coins, People, Plan, Schema, Tally
from keyveil.cli.command import run
from keyveil.foundation.compiled import Loops
from keyveil.simulate.speed import machine_limits, speed_rows
from keyveil.simulate.speed.measure_speed import GROUPS, measure_speed
from keyveil.simulate.speed.plain_numpy import (
    k_rr_form,
    kvue_form,
    sums_of_bytes,
    supports_of_hashes,
    tuned_k_rr,
    tuned_kvue,
    tuned_unary,
    unary_form,
)
from keyveil.simulate.speed.speed_rows import blocks_taken
from keyveil.simulate.speed.speed_table import SpeedRow, SpeedTable
from keyveil.simulate.speed.timed_people import one_each, ten_held

TINY = ["--seconds", "0.001"]


@pytest.fixture(autouse=True)
def plainly(monkeypatch):
    """No compiled loops, and few seeds to decode: what is measured here is not speed."""
    monkeypatch.setenv("KEYVEIL_FAST", "0")
    monkeypatch.setattr(speed_rows, "POOL", 1 << 10)


def test_the_table_and_the_json_have_the_same_rows(capsys):
    assert run(["bench", *TINY, "--only", "tally", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["machine"]["million_secure_words_a_second"] > 0
    assert document["machine"]["gigabytes_read_a_second"] > 0
    assert {"numpy", "keyveil"} <= set(document["machine"]["packages"])
    for row in document["rows"]:
        assert set(row) == {"task", "of", "seconds", "ratios", "aims", "missed"}
        assert row["seconds"] > 0
        assert set(row["missed"]) <= set(row["aims"])
        assert all(ratio > 0 for ratio in row["ratios"].values())
    assert run(["bench", *TINY, "--only", "tally"]) == 0
    out = capsys.readouterr().out
    assert all(row["task"] in out for row in document["rows"])
    assert "million words a second" in out


def test_privatising_has_a_row_for_every_task_and_a_picture(tmp_path, capsys):
    picture = tmp_path / "speed.png"
    assert run(["bench", *TINY, "--only", "privatise", "--plot", str(picture), "--json"]) == 0
    rows = {row["task"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    for states in ("3", "100", "300", "6,561"):
        assert {"NumPy", "tuned NumPy", "limit", "KVUE"} == set(rows[f"k-RR, {states} states"]["ratios"])
        for name in ("SUE", "OUE"):
            assert "NumPy" in rows[f"unary ({name}), {states} bits"]["ratios"]
    assert rows["one record, KVUE, 100 keys"]["of"] == "call"
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--only", "tallly"], "did you mean tally?"),
        (["--seconds", "0"], "--seconds"),
        (["--plot", "speed.txt"], "a picture's name ends in .png, .svg or .pdf"),
        (["--only", "tally", "--peers", "."], "is not an environment of the peers; name a new folder"),
    ],
)
def test_bad_input_is_one_line(words, line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("kept")
    assert run(["bench", *words]) in (1, 2)
    output = capsys.readouterr()
    assert output.out == ""
    assert line in output.err
    assert output.err.count("\n") == 1
    assert (tmp_path / "mine.txt").read_text() == "kept"


def test_other_packages_are_asked_in_their_own_process(tmp_path):
    """A stand-in for their environment answers twice what keyveil is told to be compared with."""
    from keyveil.simulate.speed.peer_packages import HERE

    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / ".ready").write_text((HERE / "peer_pins.txt").read_text())
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\nwhile read line; do echo '{\"pure-ldp\": 1000.0}'; done\n")
    python.chmod(0o755)
    table = measure_speed(["tally"], 0.001, tmp_path)
    decoded = {row.name: row for row in table.rows}["hashes decoded, 6,561 items"]
    assert decoded.ratios["pure-ldp"] == 1000.0 / decoded.value
    assert decoded.missed == {}
    assert "pure-ldp" in table.columns


def test_packages_that_do_not_run_are_said_in_a_line(tmp_path, capsys):
    from keyveil.simulate.speed.peer_packages import HERE

    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / ".ready").write_text((HERE / "peer_pins.txt").read_text())
    python = tmp_path / "bin" / "python"
    python.write_text("#!/bin/sh\necho no module >&2\n")
    python.chmod(0o755)
    assert run(["bench", *TINY, "--only", "tally", "--peers", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "keyveil: the peers do not run: no module\n"


def test_a_missed_aim_is_seen():
    row = SpeedRow("k-RR", 1e-8, "person", {"NumPy": 2.0, "pure-ldp": 300.0, "OpenDP": 90.0})
    assert row.missed == {}
    aimed = SpeedRow("k-RR", 1e-8, "person", row.ratios, {"NumPy": 3, "packages": 100, "limit": 0.4})
    assert aimed.missed == {"NumPy": 2.0, "packages": 90.0}
    assert aimed.shown_aims == "3 x NumPy (missed), 100 x packages (missed), 40% of limit"
    late = SpeedRow("estimate", 2.0, "call", {}, {"seconds": 1})
    assert late.missed == {"seconds": 2.0}
    assert SpeedTable([aimed, late], {}).columns == ["NumPy", "pure-ldp", "OpenDP"]
    assert [r.shown_value for r in (aimed, late)] == ["10 ns", "2 s"]


def test_every_group_is_in_the_help(capsys):
    assert run(["bench", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in GROUPS)


@pytest.mark.sampled
def test_numpy_forms_have_the_law_of_the_plan():
    """False alarms: below 1e-6 a case. Six standard deviations of each count, 40,000 people."""
    draw, number = Coins.stated("laws").generator(), 40_000
    people = ten_held(number)[0]
    kvue = Plan.of(Schema.of(100), "kvue", 1)
    k_rr, unary = Plan.of(Schema.of(3), "grr", 1), Plan.of(Schema.of(20), "rappor", 1)
    batch, others = one_each(number, 3), one_each(number, 20)
    cases = [
        (np.bincount(kvue_form(kvue)(people, draw) % 3, minlength=3), _outputs(kvue, people)),
        (np.bincount(k_rr_form(k_rr, 4)(batch, draw), minlength=4), _outputs(k_rr, batch)),
        (np.bincount(tuned_kvue(kvue)(people, draw) % 3, minlength=3), _outputs(kvue, people)),
        (np.bincount(tuned_k_rr(k_rr, 4)(batch, draw), minlength=4), _outputs(k_rr, batch)),
    ]
    for form in (unary_form, tuned_unary):
        bits = np.unpackbits(form(unary, 20)(others, draw), axis=1, bitorder="little")[:, :20]
        cases.append((bits.sum(axis=0), _outputs(unary, others)))
    most = 6 * np.sqrt(2 * number / 4)
    for plain, ours in cases:
        assert np.abs(plain - ours).max() < most
    twin = k_rr_form(Plan.of(Schema.of(3), "grr", 2), 4)(batch, draw)
    assert np.abs(np.bincount(twin, minlength=4) - cases[1][1]).max() > most


def _outputs(plan, people):
    """How often each output was drawn, over all views."""
    tally = Tally(plan).add(plan.privatise(people, Coins.stated("ours")))
    return tally.counts.reshape(len(plan.views), -1)[:, 1:].sum(axis=0)


@pytest.mark.sampled
def test_tuned_forms_draw_from_the_state_of_each_person():
    """False alarms: below 1e-6 a case. All have one state; six standard deviations, 40,000 people."""
    draw, number, most = Coins.stated("states").generator(), 40_000, 6 * np.sqrt(40_000 / 4)
    plan, bits = Plan.of(Schema.of(4), "grr", 2), Plan.of(Schema.of(11), "rappor", 2)
    for key in range(4):
        people = one_each(number, 1)
        same = People(people.addresses, people.starts, np.full(number, key, np.uint16), people.values)
        law = plan.channels[0].expected()[:, key + 1]
        counts = np.bincount(tuned_k_rr(plan, 5)(same, draw), minlength=5)
        assert np.abs(counts - number * law).max() < most
        assert np.abs(np.roll(counts, 1) - number * law).max() > most
        marks = np.unpackbits(tuned_unary(bits, 11)(same, draw), axis=1, bitorder="little")[:, :11]
        chances = np.full(11, bits.channels[0].one_hot_bits.fake / 2**32)
        chances[key] = bits.channels[0].one_hot_bits.show / 2**32
        assert np.abs(marks.sum(axis=0) - number * chances).max() < most
        assert np.abs(np.roll(marks.sum(axis=0), 1) - number * chances).max() > most


def test_bytes_of_many_rows_are_summed():
    marks = np.ones((600, 3), np.uint8)
    marks[5:, 1] = 0
    assert sums_of_bytes(marks).tolist() == [600, 5, 600]


def test_blocks_are_those_that_everyone_takes():
    """One for a word or four; of bits in planes, two for each 32 positions, less for the last ones."""
    taken = {
        name: blocks_taken(Plan.of(Schema.of(keys), mechanism, 1))
        for name, keys, mechanism in (
            ("k-RR", 2, "grr"),
            ("KVUE", 100, "kvue"),
            ("100 bits", 100, "rappor"),
            ("6,561 bits", 6561, "rappor"),
        )
    }
    assert taken == {"k-RR": 1, "KVUE": 1, "100 bits": 8, "6,561 bits": 412}


def test_the_limit_is_the_faster_maker_of_words(monkeypatch):
    """Compiled loops make words faster than OpenSSL only where the processor has the instructions."""
    machine_limits.seconds_per_word.cache_clear()
    plain = machine_limits.seconds_per_word()
    loops = Loops()
    monkeypatch.setattr(machine_limits, "compiled", lambda: loops)
    monkeypatch.setattr(
        machine_limits, "shortest", lambda forms, turns: {"": 1.0 if turns == 20 else 1e-9}
    )
    machine_limits.seconds_per_word.cache_clear()
    assert plain > 0
    assert machine_limits.seconds_per_word() == (1e-9 / (1 << 16) if loops.FAST_AES else 1 / (1 << 18))
    monkeypatch.setattr(loops, "FAST_AES", False)
    machine_limits.seconds_per_word.cache_clear()
    assert machine_limits.seconds_per_word() == 1 / (1 << 18)
    machine_limits.seconds_per_word.cache_clear()


def test_hashes_are_counted_for_every_item():
    seeds, cells = np.arange(100, dtype=np.uint32), np.zeros(100, np.uint32)
    whole = sum(supports_of_hashes(seeds, cells + np.uint32(cell), 50, 4) for cell in range(4))
    assert whole.tolist() == [100] * 50
