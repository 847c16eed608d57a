"""A backup that someone made up: ``keyveil restore`` refuses it whole, and writes nothing anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest
from desk import PLAN, Desk, fresh
from process import keyveil

from keyveil.service.collector.operations.backup import backup
from keyveil.service.collector.operations.verify import verify
from keyveil.service.collector.store import store_at

TAMPERINGS: dict[str, Callable[[Path], None]] = {}
SECRET = b"nobody asked for this file"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A backup with a sealed and an open epoch."""
    folder = tmp_path_factory.mktemp("sound")
    desk = Desk(str(folder / "store.sqlite"), folder)
    desk.create()
    desk.send(fresh(5))
    desk.clock.advance(3 * 86_400)
    desk.keep()
    desk.send(fresh(4))
    backup(desk.address, folder / "segments", folder / "copy")
    desk.close()
    return folder / "copy"


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    """The backup, deep in a folder of its own, so that what leaves it can be seen."""
    place = tmp_path / "a" / "b" / "c" / "d" / "copy"
    shutil.copytree(sound, place)
    return place


@pytest.fixture(params=["sqlite", "postgres"])
def target(request, tmp_path) -> str:
    """Where no store is yet, of either kind."""
    if request.param == "sqlite":
        return str(tmp_path / "a" / "b" / "c" / "new" / "store.sqlite")
    return request.getfixturevalue("postgres").database()


def tampering(work: Callable[[Path], None]) -> Callable[[Path], None]:
    TAMPERINGS[work.__name__] = work
    return work


def sign(copy: Path) -> None:
    """Let the manifest of the backup state the store's hash, as whoever made it up would."""
    facts = json.loads((copy / "backup.json").read_text())
    facts["sha256"] = hashlib.sha256((copy / "store.sqlite").read_bytes()).hexdigest()
    (copy / "backup.json").write_text(json.dumps(facts))


def change(copy: Path, *statements: str, values: tuple = ()) -> None:
    """Change the store of a backup by SQL."""
    connection = apsw.Connection(str(copy / "store.sqlite"))
    for statement in statements:
        connection.execute(statement, values if "?" in statement else ())
    connection.close()
    sign(copy)


def epoch_folder(copy: Path) -> Path:
    return max((copy / "segments").rglob("part-0001.parquet")).parent


def set_manifest(copy: Path, manifest: object) -> None:
    """A manifest in the store and beside the segments, alike."""
    text = json.dumps(manifest)
    (epoch_folder(copy) / "manifest.json").write_text(text)
    change(copy, "update sealed set manifest = ?", values=(text,))


def manifest_of(copy: Path) -> dict:
    return json.loads((epoch_folder(copy) / "manifest.json").read_text())


def add_file(copy: Path, name: str) -> None:
    """One more file in a manifest, with its right size and hash."""
    path = epoch_folder(copy) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(SECRET)
    stamp = {"bytes": len(SECRET), "sha256": hashlib.sha256(SECRET).hexdigest()}
    manifest = manifest_of(copy)
    manifest["files"].append({"name": name, "reports": 0, **stamp})
    set_manifest(copy, manifest)


# -- paths -----------------------------------------------------------------------------------------


@tampering
def name_that_leads_up(copy):
    add_file(copy, "../../../../../evil.conf")


@tampering
def name_of_another_epoch(copy):
    add_file(copy, "../epoch-0000000001/part-0001.parquet")  # below the folder of the segments


@tampering
def absolute_name(copy):
    add_file(copy, str(copy.parent / "evil.conf"))


@tampering
def name_in_a_folder(copy):
    add_file(copy, "below/part-0001.parquet")


@tampering
def another_name(copy):
    add_file(copy, ".bashrc")


@tampering
def collection_that_leads_up(copy):
    change(copy, "update collections set name = '../../out'")
    old = epoch_folder(copy).parents[1]
    new = copy / "segments" / "../../out.1"
    new.parent.resolve().mkdir(parents=True, exist_ok=True)
    shutil.copytree(old, new.resolve())


@tampering
def collection_with_an_absolute_name(copy):
    change(copy, "update collections set name = ?", values=(str(copy.parent / "out"),))


@tampering
def epoch_that_is_text(copy):
    change(copy, "update sealed set epoch = '../../out'")


@tampering
def round_that_is_text(copy):
    change(copy, "update rounds set number = '../../out'")


@tampering
def key_that_leads_up(copy):
    change(copy, "update id_keys set name = '../../../evil'")


# -- links -----------------------------------------------------------------------------------------


def link(path: Path) -> None:
    """What is at a path, moved out of the backup and linked to."""
    outside = path.parents[path.parts[::-1].index("copy")] / f"outside-{path.name}"
    shutil.move(path, outside)
    path.symlink_to(outside)


@tampering
def linked_file(copy):
    link(epoch_folder(copy) / "part-0001.parquet")


@tampering
def linked_folder(copy):
    link(epoch_folder(copy))


@tampering
def linked_segments(copy):
    link(copy / "segments")


@tampering
def linked_store(copy):
    link(copy / "store.sqlite")


@tampering
def linked_manifest(copy):
    link(copy / "backup.json")


@tampering
def linked_key(copy):
    link(next((copy / "segments" / "keys").iterdir()))


@tampering
def pipe(copy):
    path = epoch_folder(copy) / "part-0001.parquet"
    path.unlink()
    os.mkfifo(path)


# -- SQL -------------------------------------------------------------------------------------------


@tampering
def trigger(copy):
    change(
        copy,
        "create trigger t after insert on segments begin update tokens set revoked = 0; end",
    )


@tampering
def view(copy):
    change(copy, "create view v as select ids from segments")


@tampering
def table_with_another_column(copy):
    change(copy, "alter table tokens add column more text default 'x'")


@tampering
def table_that_is_a_view(copy):
    change(copy, "alter table imports rename to i", "create view imports as select * from i")


@tampering
def table_without_constraints(copy):
    change(
        copy,
        "create table c as select * from collections",
        "drop table collections",
        "alter table c rename to collections",
    )


@tampering
def no_table(copy):
    change(copy, "drop table refusals")


@tampering
def version_of_tomorrow(copy):
    change(copy, "pragma user_version = 99")


@tampering
def version_of_nobody(copy):
    change(copy, "pragma user_version = 0")


@tampering
def no_database(copy):
    (copy / "store.sqlite").write_bytes(SECRET * 500)
    sign(copy)


@tampering
def torn_database(copy):
    content = (copy / "store.sqlite").read_bytes()
    (copy / "store.sqlite").write_bytes(content[:4096] + os.urandom(len(content) - 4096))
    sign(copy)


# -- documents -------------------------------------------------------------------------------------


@tampering
def manifest_without_files(copy):
    manifest = manifest_of(copy)
    del manifest["files"]
    set_manifest(copy, manifest)


@tampering
def manifest_that_is_a_list(copy):
    set_manifest(copy, [1, 2, 3])


@tampering
def files_that_are_numbers(copy):
    set_manifest(copy, {**manifest_of(copy), "files": [1, 2]})


@tampering
def file_without_a_size(copy):
    manifest = manifest_of(copy)
    del manifest["files"][0]["bytes"]
    set_manifest(copy, manifest)


@tampering
def manifest_that_is_no_json(copy):
    change(copy, "update sealed set manifest = '{'")


@tampering
def backup_without_a_hash(copy):
    (copy / "backup.json").write_text('{"format": "keyveil/backup/1", "files": 1}')


@tampering
def backup_without_end(copy):
    (copy / "backup.json").write_text("[" * 100_000)


@tampering
def terms_that_are_none(copy):
    change(copy, "update collections set terms = '{\"epoch\": 0}'")


@tampering
def state_that_is_none(copy):
    change(copy, "update collections set state = 'ajar'")


@tampering
def plan_of_another_hash(copy):
    change(copy, "update rounds set plan = ?", values=("0" * 64,))


@tampering
def round_of_no_collection(copy):
    change(copy, "update rounds set collection = 7")


@tampering
def round_that_its_index_does_not_name(copy):
    """Who reads rounds in order, by the index, sees one; who copies the table takes two."""
    connection = apsw.Connection(str(copy / "store.sqlite"))
    connection.execute("create table other (collection, number, unique (collection, number))")
    connection.execute("insert into other select collection, number from rounds order by id")
    connection.execute("insert into rounds values (2, 1, 2, 'no hash', 0, 'no plan')")
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.pragma("writable_schema", 1)
    mine, others = "sqlite_autoindex_rounds_1", "sqlite_autoindex_other_1"
    pages = dict(connection.execute("select name, rootpage from sqlite_master where type = 'index'"))
    for name, page in ((mine, pages[others]), (others, pages[mine])):
        connection.execute("update sqlite_master set rootpage = ? where name = ?", (page, name))
    connection.close()
    sign(copy)


@tampering
def text_that_is_none(copy):
    change(copy, "update collections set terms = cast(x'ff00fe' as text)")


# -- what must happen ------------------------------------------------------------------------------


def everything_below(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if not path.is_fifo()
    }


def restored(copy: Path, target: str):
    segments = copy.parents[1] / "new" / "segments"
    segments.parent.mkdir(exist_ok=True)
    done = keyveil("restore", str(copy), "--store", target, "--segments", str(segments), check=False)
    return done, segments


@pytest.mark.parametrize("name", TAMPERINGS)
def test_a_made_up_backup_is_refused_whole(copy, target, tmp_path, name):
    TAMPERINGS[name](copy)
    (copy.parents[1] / "new").mkdir()
    before = everything_below(tmp_path)
    done, _ = restored(copy, target)
    assert done.returncode == 1, name
    assert done.stderr.startswith("keyveil: ")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "internal" not in done.stderr
    assert everything_below(tmp_path) == before
    if target.startswith("postgres"):
        with pytest.raises(Exception, match="keyveil migrate"):
            store_at(target).open(serving=False)


def test_a_sound_backup_is_restored(copy, target):
    """The other half: what is refused above is refused for what was changed."""
    done, segments = restored(copy, target)
    assert (done.returncode, done.stderr) == (0, "")
    store = store_at(target)
    store.open(serving=False)
    (verdict,) = verify(store, segments)
    assert (verdict.findings, verdict.reports) == ([], 9)
    assert store.control.named("menu").round.plan == PLAN.hash
    store.close()


def test_only_our_own_tables_are_taken_over(copy, target):
    change(copy, "create table stranger (x)", "insert into stranger values (1)")
    change(copy, "create index other on tokens (label)", "analyze")
    change(copy, "insert into sqlite_sequence values ('pg_class', 5), ('stranger', 9)")
    done, _ = restored(copy, target)
    assert (done.returncode, done.stderr) == (0, "")
    store = store_at(target)
    store.open(serving=False)
    with store.reading() as session:
        if store.kind == "sqlite":
            names = {row[0] for row in session.rows("select name from sqlite_master")}
            assert not names & {"stranger", "other", "sqlite_stat1"}
            assert session.rows("select count(*) from sqlite_sequence where name = 'stranger'") == [(0,)]
        else:
            assert session.rows("select to_regclass('stranger')") == [(None,)]
    store.close()
