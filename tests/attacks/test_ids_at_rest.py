"""Whoever reads every byte that a collector has on disk finds no id of a closed epoch, nor its key."""

from __future__ import annotations

import base64
import json
import shutil
import time
import urllib.request
import uuid
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg
import pytest
from desk import PLAN, Desk, fresh, plan_of
from faults.keys import remember_keys
from faults.kill import Server
from process import keyveil

from keyveil.service.collector.engine import admin
from keyveil.service.collector.operations.backup import backup
from keyveil.service.collector.operations.restore import restore
from keyveil.service.collector.operations.verify import key_warnings, verify
from keyveil.service.collector.store import store_at
from keyveil.service.collector.store.epoch_keys import KeyFolder
from keyveil.service.collector.store.report_log import LogStore

DAY = 86_400
OTHER = plan_of("kvoh")


def forms(secret: bytes) -> list[bytes]:
    """How sixteen bytes may be written down."""
    plain = secret.hex()
    text = str(uuid.UUID(bytes=secret))
    spelled = [plain, plain.upper(), text, text.upper()]
    coded = base64.b64encode(secret).rstrip(b"="), base64.urlsafe_b64encode(secret).rstrip(b"=")
    return [secret, secret[::-1], *(spelling.encode() for spelling in spelled), *coded]


@dataclass
class Places:
    """All that the store of a test writes to."""

    folders: list[Path]
    database: str | None = None
    since: float = field(default_factory=lambda: time.time() - 1)

    def find(self, secrets: Iterable[bytes]) -> dict[str, int]:
        """The files that hold any of some secrets, and how many each; of all written since."""
        if self.database is not None:
            with psycopg.connect(self.database, autocommit=True) as connection:
                connection.execute("checkpoint")  # what PostgreSQL has in memory is in its files now
        wanted = [forms(secret) for secret in secrets]
        places: dict[str, int] = {}
        for path in (path for folder in self.folders for path in folder.rglob("*")):
            try:
                fresh_file = path.is_file() and path.stat().st_mtime >= self.since
                content = path.read_bytes() if fresh_file else b""
            except FileNotFoundError:  # PostgreSQL removes some at any time
                continue
            here = sum(any(form in content for form in each) for each in wanted)
            if here:
                places[str(path)] = here
        return places


@pytest.fixture
def places(request, address, tmp_path) -> Places:
    """PostgreSQL's log and tables, too."""
    if not address.startswith("postgresql"):
        return Places([tmp_path])
    return Places([tmp_path, request.getfixturevalue("postgres").folder / "data"], address)


@pytest.fixture
def keys():
    """Every key that was made."""
    keys, undo = remember_keys()
    yield keys
    undo()


def plain_ids(monkeypatch) -> None:
    """Stores write ids as they are, as those did that were made before there were keys."""
    monkeypatch.setattr(LogStore, "_stored", lambda *_: None)


def raw(reports: list[dict]) -> list[bytes]:
    return [bytes.fromhex(report["id"]) for report in reports]


def collected(desk: Desk) -> list[bytes]:
    """Reports of two collections, one after the other, so that their segments lie mixed."""
    desk.create()
    desk.create("other", OTHER)
    ids = []
    for _ in range(4):
        mine, others = fresh(2), fresh(1, OTHER)
        assert desk.send(mine).status_code == 200
        assert desk.send(others, name="other", plan=OTHER.hash).status_code == 200
        ids += raw(mine) + raw(others)
    return ids


def test_ids_and_keys_of_a_closed_epoch_are_in_no_file(desk, places, keys, tmp_path):
    ids = collected(desk)
    assert len(keys) == 2
    assert places.find(ids) == {}, "open epochs hold their images alone"
    assert sum(places.find(keys).values()) == 2, "each key is in its file, and nowhere else"
    desk.clock.advance(3 * DAY)
    desk.keep()
    assert places.find(ids + keys) == {}
    assert not list((tmp_path / "segments" / "keys").iterdir())
    later = fresh(4)
    assert desk.send(later).status_code == 200
    backup(desk.address, tmp_path / "segments", tmp_path / "copy")
    assert places.find(ids + keys[:2]) == {}, "nor in a backup that was made later"
    manifests = desk.get("/v1/collections/menu/segments").json()["segments"]
    path = f"/v1/collections/menu/segments/1/{manifests[0]['epoch']}/part-0001.parquet"
    exported = desk.get(path).content
    assert exported.startswith(b"PAR1")
    assert not any(form in exported for name in ids for form in forms(name))
    assert not [f for v in verify(desk.store, tmp_path / "segments") for f in v.findings]


def test_ids_that_are_written_as_they_are_would_be_found(desk, places, monkeypatch):
    """The broken twin: the search above sees ids where there are any."""
    plain_ids(monkeypatch)
    ids = collected(desk)
    assert max(places.find(ids).values()) == len(ids)
    desk.clock.advance(3 * DAY)
    desk.keep()
    if desk.store.kind == "postgresql":
        assert places.find(ids), "no DELETE takes them out of PostgreSQL's files"


def test_a_deleted_collection_leaves_no_key(desk, places, keys):
    ids = collected(desk)
    for name in ("menu", "other"):
        desk.post(f"/v1/collections/{name}/state", json={"state": "closed"})
        assert desk.ask("DELETE", f"/v1/collections/{name}").status_code == 204
    assert places.find(ids + keys) == {}


class Killed(Exception):
    """As by kill -9, at this point."""


def killed(*_):
    raise Killed


def test_a_key_that_outlived_its_process_is_destroyed_at_the_next_look(desk, places, keys, monkeypatch):
    """The process ends after the epoch was closed, and before its key was destroyed.

    The next process keeps the key for as long as the epoch can be reopened; here that is no time.
    """
    ids = collected(desk)
    desk.clock.advance(3 * DAY)
    with monkeypatch.context() as patch:
        patch.setattr(KeyFolder, "destroy", killed)
        with pytest.raises(Killed):
            desk.keep()
    assert places.find(keys), "the test is at the point that it means to be at"
    desk.die()
    again = Desk(desk.address, desk.folder, desk.clock)
    again.keep()
    assert places.find(ids + keys) == {}
    assert again.status()["rounds"][0]["sealed_epochs"][0]["reports"] == 8
    again.close()


# -- a process that is really killed ---------------------------------------------------------------


def send(server: Server, reports: list[dict], epoch: int) -> int:
    body = json.dumps({"plan": PLAN.hash, "epoch": epoch, "reports": reports}).encode()
    url = f"http://127.0.0.1:{server.port}/v1/collections/menu"
    kind = {"content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/reports", body, kind)) as answer:
        return int(answer.status)


def sealed(server: Server) -> int:
    url = f"http://127.0.0.1:{server.port}/v1/collections/menu/status"
    with urllib.request.urlopen(url) as answer:
        return sum(epoch["reports"] for epoch in json.load(answer)["rounds"][0]["sealed_epochs"])


@contextmanager
def serving(address: str, folder: Path):
    server = Server(address, folder)
    server.start()
    yield server
    server.kill()


def test_kill_9_before_and_after_the_seal(address, places, tmp_path):
    store = store_at(address)
    store.open()
    admin.create(store, "menu", PLAN.dumps(), {"epoch": 1, "grace": 1, "early": 1}, time.time())
    store.close()
    first, second, keys = fresh(5), fresh(5), []
    with serving(address, tmp_path) as server:
        assert send(server, first, int(time.time())) == 200
        keys += [path.read_bytes() for path in (tmp_path / "segments" / "keys").iterdir()]
        while sealed(server) < 5:
            time.sleep(0.02)
        assert places.find(raw(first) + keys) == {}, "at once, while it serves"
        assert send(server, second, int(time.time())) == 200
        keys += [path.read_bytes() for path in (tmp_path / "segments" / "keys").iterdir()]
    assert places.find(raw(first) + raw(second) + keys[:1]) == {}, "killed before the seal"
    with serving(address, tmp_path) as server:
        while sealed(server) < 10:
            time.sleep(0.02)
    assert len(keys) == 2
    assert places.find(raw(first) + raw(second) + keys) == {}, "killed after the seal"


# -- stores that were made before there were keys ----------------------------------------------------


def test_plain_ids_of_an_older_store_leave_its_file_when_they_are_swept(file_desk, monkeypatch):
    """Someone reads from the store while the epoch is sealed: they leave when the reader does."""
    places = Places([file_desk.folder])
    with monkeypatch.context() as patch:
        plain_ids(patch)
        ids = collected(file_desk)
    more = fresh(3)
    assert file_desk.send(more).status_code == 200
    ids += raw(more)
    assert places.find(ids), "an epoch that began with plain ids goes on with them"
    assert file_desk.send(more).status_code == 200
    assert file_desk.reports() == 11, "and they still count once"
    file_desk.clock.advance(3 * DAY)
    with file_desk.store.reading() as session:
        session.rows("select count(*) from segments")
        file_desk.keep()
    file_desk.service.writer.tick()
    assert places.find(ids) == {}


# -- a key that is missing ---------------------------------------------------------------------------


def test_without_its_key_an_epoch_takes_nothing_and_says_why(desk, tmp_path):
    """No id can be looked up, so nothing may be counted: a report could count twice."""
    desk.create()
    reports = fresh(4)
    assert desk.send(reports).status_code == 200
    (key,) = (tmp_path / "segments" / "keys").iterdir()
    content = key.read_bytes()
    desk.close()
    for wrong in (None, bytes(16), content[:-1]):
        key.unlink()
        if wrong is not None:
            key.write_bytes(wrong)
        again = Desk(desk.address, desk.folder, desk.clock)
        answer = again.send(reports + fresh(1))
        assert (answer.status_code, answer.json()["reason"]) == (503, "key_missing")
        assert answer.json()["retry"] is True
        assert "key" in " ".join(again.get("/health").json()["warnings"])
        assert again.get("/ready").json()["why"] == ["the keys of all open epochs are missing"]
        assert "keyveil_missing_keys 1" in again.get("/metrics").text
        (line,) = [
            line for line in map(json.loads, again.log.getvalue().splitlines()) if "epoch" in line
        ]
        wanted = {"event": "key_missing", "level": "error", "collection": "menu", "epoch": again.epoch()}
        assert wanted.items() <= line.items(), "logged at the start, before any report"
        (warning,) = key_warnings(again.store, tmp_path / "segments")
        assert "lacks the key of an open epoch" in warning
        (verdict,) = verify(again.store, tmp_path / "segments")
        assert len(verdict.findings) == 1
        key.write_bytes(content)
        assert again.send(reports + fresh(1)).status_code == 200, "it was brought back"
        assert again.get("/health").json()["warnings"] == []
        assert again.get("/ready").status_code == 200
        again.close()


def test_a_key_that_is_lost_while_it_is_served_is_noticed(desk, tmp_path):
    """One of two is missing: other reports are accepted, so the collector stays ready."""
    desk.create()
    desk.create("other", OTHER, epoch=3600)
    desk.send(fresh(1))
    (key,) = (tmp_path / "segments" / "keys").iterdir()
    other = fresh(1, OTHER)
    now = int(desk.clock.now()) // 3600
    assert desk.send(other, "other", plan=OTHER.hash, epoch=now).status_code == 200
    key.unlink()
    for _ in range(2):
        desk.keep()
    assert desk.log.getvalue().count("key_missing") == 1
    assert desk.get("/health").json()["warnings"]
    assert desk.get("/ready").status_code == 200


def test_a_copy_of_a_store_that_was_served_is_told_from_the_store(file_desk, tmp_path):
    """Its reports are still in SQLite's log beside the file, but its keys are in the folder."""
    file_desk.create()
    file_desk.store._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert file_desk.send(fresh(4)).status_code == 200
    shutil.copy(file_desk.address, tmp_path / "copy.sqlite")
    shutil.copytree(tmp_path / "segments", tmp_path / "copy.sqlite.segments")
    copy = ("verify", "--store", str(tmp_path / "copy.sqlite"))
    done = keyveil(*copy)
    assert "menu round 1: 0 reports" in done.stdout
    (warning,) = done.stderr.splitlines()
    assert warning.startswith(f"warning: {tmp_path}/copy.sqlite.segments/keys has a key that ")
    assert "use 'keyveil backup'" in warning
    own = keyveil("verify", "--store", file_desk.address, "--segments", str(tmp_path / "segments"))
    assert own.stderr == ""


def test_a_backup_has_the_keys_of_open_epochs(desk, tmp_path, postgres):
    """So a report that was counted before the backup counts once after it, on either kind of store."""
    desk.create()
    reports = fresh(6)
    desk.send(reports)
    backup(desk.address, tmp_path / "segments", tmp_path / "copy")
    for number, target in enumerate((str(tmp_path / "new.sqlite"), postgres.database())):
        folder = tmp_path / f"new-{number}"
        restore(tmp_path / "copy", target, folder / "segments")
        again = Desk(target, folder, desk.clock)
        assert again.send(reports + fresh(1)).status_code == 200
        assert again.reports() == 7
        again.close()
