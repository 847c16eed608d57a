"""Backups of either kind of store, taken while it is served, and restored as either kind."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from desk import NOW, PLAN, Desk, fresh, plan_of
from process import keyveil

from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations import backup
from keyveil.service.collector.operations import restore as restoring
from keyveil.service.collector.operations.restore import restore
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import StoreError, store_at
from keyveil.service.collector.store.migrations import MIGRATIONS

DAY = 86_400


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path) -> str:
    """Where no store is yet, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "restored.sqlite")
    return request.getfixturevalue("postgres").database()


def filled(desk: Desk) -> dict[str, list]:
    """A store with everything in it: sealed and open epochs, rounds, tallies, tokens, refusals."""
    old, new = fresh(30), fresh(20)
    desk.create()
    desk.send(old)
    chain = plan_of("privkvm", rounds=2)
    desk.create("rounds", chain)
    reports = fresh(9, chain)
    desk.send(reports, name="rounds", plan=chain.hash)
    desk.post("/v1/collections/rounds/rounds")
    desk.clock.advance(3 * DAY)
    desk.keep()
    desk.send(new)
    tally = desk.get("/v1/collections/menu/tally").content
    kind = {"content-type": "application/vnd.keyveil.tally"}
    assert desk.post("/v1/collections/menu/tallies", content=tally, headers=kind).json()["added"]
    bad = fresh(1)
    bad[0]["cells"] = [0, 0]
    desk.send(bad)
    desk.service.writer.tick()
    return {"old": old, "new": new}


def everything(desk: Desk, headers: dict[str, str] | None = None) -> dict[str, object]:
    """What analysts see of all collections."""
    desk.service.writer.tick()
    contents: dict[str, object] = {}
    for name in desk.store.control.collections:
        path = f"/v1/collections/{name}"
        contents[name] = desk.get(f"{path}/status", headers=headers).json()
        contents[name, "tally"] = [
            desk.get(f"{path}/tally?round={round_.number}", headers=headers).content
            for round_ in desk.store.control.named(name).rounds
        ]
    return contents


def test_a_backup_of_either_kind_is_restored_as_either(desk, target, tmp_path):
    reports = filled(desk)
    token = admin.add_token(desk.store, "admin")
    headers = {"authorization": f"Bearer {token}"}
    facts = backup.backup(desk.address, desk.folder / "segments", tmp_path / "copy")
    assert facts["files"] == 4, "two epochs of a file and a manifest each"
    contents = everything(desk, headers)
    desk.send(fresh(5))  # after the backup: not in it
    restore(tmp_path / "copy", target, tmp_path / "other" / "segments")
    clock = desk.clock
    desk.close()
    again = Desk(target, tmp_path / "other", clock)
    assert everything(again, headers) == contents
    assert [verdict.findings for verdict in verify(again.store, tmp_path / "other" / "segments")] == [
        [], [], []
    ]  # fmt: skip
    answer = again.send(reports["new"])
    assert answer.json() == {"accepted": 20, "failed": []}
    assert everything(again, headers) == contents, "ids that the backup holds count once"
    late = again.send(reports["old"], epoch=int(NOW) // DAY)
    assert late.json()["reason"] == "closed_epoch"
    assert again.send(fresh(3)).status_code == 200
    body = {"name": "next", "plan": plan_of("kvoh").document()}
    assert again.post("/v1/collections", json=body, headers=headers).status_code == 201
    assert again.store.control.named("next").id == 3, "numbers go on where they were"
    again.clock.advance(3 * DAY)
    again.keep()
    assert not [f for v in verify(again.store, tmp_path / "other" / "segments") for f in v.findings]
    again.close()


def test_a_restore_never_writes_over_a_store(desk, target, tmp_path):
    desk.create()
    desk.send(fresh(3))
    backup.backup(desk.address, desk.folder / "segments", tmp_path / "copy")
    content = {path: path.read_bytes() for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    restore(tmp_path / "copy", target, tmp_path / "one")
    with pytest.raises(StoreError, match="never overwrites"):
        restore(tmp_path / "copy", target, tmp_path / "two")
    assert not (tmp_path / "two").exists() or target.startswith("/")
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "something").touch()
    with pytest.raises(StoreError, match="never overwrites"):
        restore(tmp_path / "copy", str(tmp_path / "new.sqlite"), tmp_path / "three")
    assert content == {path: path.read_bytes() for path in content}, "reading leaves it as it is"


def test_a_backup_is_as_of_one_moment_while_two_collectors_write(database, tmp_path):
    """What is counted is what the log holds, whatever came in while rows were copied."""
    desk = Desk(database, tmp_path)
    desk.create()
    desk.send(fresh(40))
    other = Desk(database, tmp_path)
    real, statuses = backup.copy_table, []

    def slow(source, session, table):
        for collector in (desk, other):  # between any two tables more comes, from both
            statuses.append(collector.send(fresh(7)).status_code)
        real(source, session, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backup, "copy_table", slow)
        backup.backup(database, tmp_path / "segments", tmp_path / "copy")
    assert len(statuses) >= 18
    assert set(statuses) == {200}
    store = store_at(str(tmp_path / "copy" / "store.sqlite"))
    store.open(serving=False)
    (verdict,) = verify(store, tmp_path / "copy" / "segments")
    assert (verdict.findings, verdict.reports) == ([], 54), "as of the first row that was read"
    store.close()
    other.close()
    desk.close()


def test_a_torn_copy_would_be_caught(database, tmp_path, monkeypatch):
    """The twin of the test above: each table read at its own moment."""
    desk = Desk(database, tmp_path)
    desk.create()
    desk.send(fresh(40))
    real = backup.copy_table

    def torn(source, session, table):
        desk.send(fresh(7))
        with desk.store.reading() as later:
            real(later, session, table)

    monkeypatch.setattr(backup, "copy_table", torn)
    backup.backup(database, tmp_path / "segments", tmp_path / "copy")
    store = store_at(str(tmp_path / "copy" / "store.sqlite"))
    store.open(serving=False)
    (verdict,) = verify(store, tmp_path / "copy" / "segments")
    assert verdict.findings
    store.close()
    desk.close()


def test_an_epoch_that_expires_meanwhile_is_no_missing_segment(file_desk, tmp_path, monkeypatch):
    file_desk.create(keep=1)
    file_desk.send(fresh(3))
    file_desk.clock.advance(3 * DAY)
    file_desk.keep()
    real, tries = backup.copy_segments, []

    def between(*places):
        if not tries:
            file_desk.clock.advance(2 * DAY)
            file_desk.keep()
        tries.append(1)
        return real(*places)

    monkeypatch.setattr(backup, "copy_segments", between)
    facts = backup.backup(file_desk.address, file_desk.folder / "segments", tmp_path / "copy")
    assert facts["files"] == 0
    assert len(tries) == 2


def test_a_missing_segment_is_said_and_nothing_is_left(file_desk, tmp_path):
    file_desk.create()
    file_desk.send(fresh(3))
    file_desk.clock.advance(3 * DAY)
    file_desk.keep()
    next(iter((file_desk.folder / "segments").rglob("*.parquet"))).unlink()
    with pytest.raises(StoreError, match="keyveil verify"):
        backup.backup(file_desk.address, file_desk.folder / "segments", tmp_path / "copy")
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def remove(path):
    path.unlink()


def swap(path):
    """A sound file of another epoch in its place."""
    other = next(candidate for candidate in path.parents[3].rglob(path.name) if candidate != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [flip, cut, remove, swap])
@pytest.mark.parametrize("which", ["*.parquet", "manifest.json"])
def test_a_damaged_backup_is_refused_whole(file_desk, target, tmp_path, which, damage):
    filled(file_desk)
    copy = tmp_path / "copy"
    backup.backup(file_desk.address, file_desk.folder / "segments", copy)
    victims = sorted(copy.rglob(which))
    assert len(victims) == 2
    sound = victims[-1].read_bytes()
    damage(victims[-1])
    with pytest.raises(StoreError, match="damaged or not complete"):
        restore(copy, target, tmp_path / "new.segments")
    assert not (tmp_path / "new.segments").exists()
    assert not list(tmp_path.glob("*restored*"))
    victims[-1].write_bytes(sound)
    (copy / "segments" / "stranger").write_text("not of the store")
    restore(copy, target, tmp_path / "new.segments")
    assert not (tmp_path / "new.segments" / "stranger").exists()
    restored = store_at(target)
    restored.open(serving=False)
    assert not [f for v in verify(restored, tmp_path / "new.segments") for f in v.findings]
    restored.close()


def test_segments_are_their_owners_alone_whatever_the_mask(file_desk, tmp_path):
    import os

    before = os.umask(0)
    try:
        filled(file_desk)
        backup.backup(file_desk.address, file_desk.folder / "segments", tmp_path / "copy")
        restore(tmp_path / "copy", str(tmp_path / "new.sqlite"), tmp_path / "deep" / "new")
    finally:
        os.umask(before)
    for root in (file_desk.folder / "segments", tmp_path / "copy", tmp_path / "deep"):
        paths = [root, *root.rglob("*")]
        assert len(paths) > 8
        for path in paths:
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_what_is_restored_is_its_owners_alone(file_desk, tmp_path):
    filled(file_desk)
    backup.backup(file_desk.address, file_desk.folder / "segments", tmp_path / "copy")
    restore(tmp_path / "copy", str(tmp_path / "new.sqlite"), tmp_path / "new.segments")
    paths = [tmp_path / "new.sqlite", *(tmp_path / "new.segments").rglob("*")]
    paths += (tmp_path / "copy").rglob("*")
    files = [path for path in paths if path.is_file()]
    assert len(files) > 8
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_another_version_is_not_poured_into_a_database(file_desk, postgres, tmp_path, monkeypatch):
    file_desk.create()
    backup.backup(file_desk.address, file_desk.folder / "segments", tmp_path / "copy")
    monkeypatch.setattr(restoring, "MIGRATIONS", [*MIGRATIONS, ["a step of tomorrow"]])
    with pytest.raises(StoreError, match="another version"):
        restore(tmp_path / "copy", postgres.database(), tmp_path / "new")


def test_a_database_that_refuses_says_so_in_one_line(file_desk, postgres, tmp_path):
    import psycopg

    address = postgres.database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create role guest login")
    as_guest = address.replace("keyveil@", "guest@")
    file_desk.create()
    keyveil("backup", str(tmp_path / "copy"), "--store", file_desk.address)
    for words in (("migrate",), ("restore", str(tmp_path / "copy"), "--segments", str(tmp_path / "s"))):
        done = keyveil(*words, "--store", as_guest, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith("keyveil: the database refuses: ")
        assert len(done.stderr.splitlines()) == 1
    keyveil("migrate", "--store", address)
    for words in (("verify",), ("collection", "list"), ("serve", "--port", "0")):
        done = keyveil(*words, "--store", as_guest, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_the_command_moves_a_database_into_a_file(database, tmp_path):
    plan = tmp_path / "plan.json"
    PLAN.save(plan)
    keyveil("collection", "create", "menu", str(plan), "--store", database)
    copy, new = str(tmp_path / "copy"), str(tmp_path / "new.sqlite")
    segments = ("--segments", str(tmp_path / "none"))
    assert "the store and 0 files" in keyveil("backup", copy, "--store", database, *segments).stdout
    keyveil("restore", copy, "--store", new)
    assert "menu round 1: 0 reports" in keyveil("verify", "--store", new).stdout
    listed = json.loads(keyveil("collection", "list", "--store", new, "--json").stdout)
    assert [row["plan"] for row in listed] == [PLAN.hash]
    assert Path(new).is_file()


def test_a_backup_is_verified_before_it_is_restored(file_desk, tmp_path, monkeypatch):
    filled(file_desk)
    store = str(tmp_path / "store.sqlite")
    keyveil("backup", str(tmp_path / "copy"), "--store", store, "--segments", str(tmp_path / "segments"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    good = keyveil("verify", str(tmp_path / "copy"), "--json")
    verdicts = json.loads(good.stdout)
    assert all(not verdict["findings"] for verdict in verdicts)
    assert {verdict["collection"] for verdict in verdicts} == {"menu", "rounds"}
    assert not list(tmp_path.glob("keyveil-verify-*"))
    part = next((tmp_path / "copy").rglob("*.parquet"))
    flip(part)
    bad = keyveil("verify", str(tmp_path / "copy"), check=False)
    assert bad.returncode == 1
    assert len(bad.stderr.splitlines()) == 1
