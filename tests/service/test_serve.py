"""Real processes on real sockets: started, loaded, killed, restarted, backed up, ended."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sqlite3
import sys
import threading
import time

import apsw
import httpx
import pytest
from desk import PLAN, fresh
from process import Process, keyveil

from keyveil.service.collector.http import app, batches
from keyveil.service.collector.store.sqlite import SqliteStore


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "plan.json"
    PLAN.save(path)
    return str(path)


def epoch():
    return int(time.time()) // 86_400


def batch(reports):
    return {"plan": PLAN.hash, "epoch": epoch(), "reports": reports}


def post(process, reports, **more):
    return process.client.post("/v1/collections/menu/reports", json=batch(reports), **more)


def counted(process):
    status = process.client.get("/v1/collections/menu/status").json()
    return status["rounds"][0]["reports"]


class Sender(threading.Thread):
    """A client that sends each report until it is acknowledged, whatever happens meanwhile."""

    def __init__(self, urls):
        super().__init__(daemon=True)
        self.urls, self.acknowledged, self.going = urls, 0, True

    def run(self):
        client = httpx.Client(verify=False, timeout=5)
        while self.going:
            reports = fresh(random.randint(1, 20))
            while True:
                try:
                    url = random.choice(self.urls) + "/v1/collections/menu/reports"
                    answer = client.post(url, json=batch(reports))
                    if answer.status_code == 200:
                        assert answer.json()["failed"] == []
                        self.acknowledged += len(reports)
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.02)
        client.close()


def test_killed_under_load_nothing_is_lost_and_nothing_doubled(address, tmp_path, plan_file):
    """Two collectors where the store allows it; the full harness counts many more kills."""
    keyveil("collection", "create", "menu", plan_file, "--store", address)
    several = 2 if address.startswith("postgresql") else 1
    processes = [Process(address, tmp_path) for _ in range(several)]
    urls = [process.url for process in processes]
    senders = [Sender(urls) for _ in range(4)]
    for sender in senders:
        sender.start()
    for _ in range(2):
        time.sleep(0.6)
        victim = random.randrange(several)
        processes[victim].kill()
        processes[victim] = Process(address, tmp_path)
        urls[victim] = processes[victim].url
    time.sleep(0.5)
    for sender in senders:
        sender.going = False
    for sender in senders:
        sender.join(30)
    acknowledged = sum(sender.acknowledged for sender in senders)
    assert acknowledged > 0
    assert counted(processes[0]) == acknowledged
    words = ("verify", "--store", address, "--segments", str(tmp_path / "segments"), "--json")
    verdicts = json.loads(keyveil(*words).stdout)
    assert [(v["findings"], v["reports"]) for v in verdicts] == [([], acknowledged)]
    for process in processes:
        assert process.end() == 0


def test_a_restart_over_a_million_open_ids_holds_up_nobody(tmp_path, plan_file):
    """Its epoch takes reports once all its ids are known, others do at once; nothing counts twice."""
    path = str(tmp_path / "store.sqlite")
    keyveil("collection", "create", "menu", plan_file, "--store", path)
    keyveil("collection", "create", "other", plan_file, "--store", path)
    store = SqliteStore(path)
    store.open()
    menu, other = (store.control.named(name).round for name in ("menu", "other"))
    from keyveil.service.collector.store import Parcel

    for _ in range(100):
        raw = os.urandom(160_000)
        ids = [raw[at : at + 16] for at in range(0, len(raw), 16)]
        store.append([Parcel(menu.collection, menu.id, epoch(), ids, bytes(10_000))], time.time())
    store.close()
    store = SqliteStore(path)
    store.open()
    again = Parcel(menu.collection, menu.id, epoch(), ids, bytes(10_000))
    beside = Parcel(other.collection, other.id, epoch(), ids[:5], bytes(5))
    before = Parcel(menu.collection, menu.id, epoch() - 1, ids[:5], bytes(5))
    store.append([again, beside, before], time.time())
    assert beside.refused == before.refused == {}
    while again.refused:
        assert set(again.refused.values()) == {"storage"}, "send again later"
        assert len(again.refused) == 10_000
        time.sleep(0.02)
        store.append([again], time.time())
    assert store.counts_stored(menu)[PLAN.layout.own].sum() == 1_000_005
    assert store.counts_stored(other)[PLAN.layout.own].sum() == 5
    new = Parcel(menu.collection, menu.id, epoch(), [os.urandom(16)], bytes(1))
    store.append([new, again], time.time())
    assert store.counts_stored(menu)[PLAN.layout.own].sum() == 1_000_006
    store.close()


def test_graceful_end_finishes_what_was_accepted(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    keyveil("collection", "create", "menu", plan_file, "--store", path)
    process = Process(path, tmp_path)
    body = json.dumps(batch(fresh(3))).encode()
    head = (
        f"POST /v1/collections/menu/reports HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", process.port)) as connection:
        connection.sendall(head + body[:50])
        time.sleep(0.3)
        os.kill(process.process.pid, signal.SIGTERM)
        time.sleep(0.3)
        connection.sendall(body[50:])
        answer = b""
        while part := connection.recv(4096):
            answer += part
    assert b"200 OK" in answer
    assert b'{"accepted":3,"failed":[]}' in answer
    assert process.end() == 0
    assert "stopped" in process.log.read_text()
    with sqlite3.connect(path) as file:
        assert file.execute("select sum(reports) from heads").fetchone() == (3,)
    file.close()


def test_slow_clients_are_let_go(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    keyveil("collection", "create", "menu", plan_file, "--store", path)
    process = Process(path, tmp_path, "--request-seconds", "1")
    begun = time.monotonic()
    silent = socket.create_connection(("127.0.0.1", process.port))
    dripping = socket.create_connection(("127.0.0.1", process.port))
    stuck = socket.create_connection(("127.0.0.1", process.port))
    stuck.sendall(
        b"POST /v1/collections/menu/reports HTTP/1.1\r\nhost: a\r\n"
        b"content-type: application/json\r\ncontent-length: 900\r\n\r\n{"
    )
    gone = False
    while not gone and time.monotonic() < begun + 10:
        try:
            dripping.sendall(b"G")
            time.sleep(0.2)
        except OSError:
            gone = True
    assert gone, "a drop now and then does not keep a connection"
    for connection in (silent, stuck):
        connection.settimeout(10)
        try:
            while connection.recv(1000):
                pass
        except ConnectionError:
            pass
        connection.close()
    dripping.close()
    assert time.monotonic() < begun + 12
    assert post(process, fresh(1)).status_code == 200
    assert process.end() == 0


def test_backup_while_it_serves_and_back(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    keyveil("collection", "create", "menu", plan_file, "--store", path)
    process = Process(path, tmp_path)
    first = fresh(20)
    post(process, first)
    sender = Sender([process.url])
    sender.start()
    segments = str(tmp_path / "segments")
    keyveil("backup", str(tmp_path / "copy"), "--store", path, "--segments", segments)
    sender.going = False
    sender.join(30)
    again = keyveil("backup", str(tmp_path / "copy"), "--store", path, check=False)
    assert again.returncode == 1
    assert "already" in again.stderr
    over = keyveil("restore", str(tmp_path / "copy"), "--store", path, check=False)
    assert over.returncode == 1
    assert "never overwrites" in over.stderr
    process.kill()
    new = str(tmp_path / "new" / "store.sqlite")
    (tmp_path / "new").mkdir()
    place = ("--store", new, "--segments", str(tmp_path / "new" / "segments"))
    keyveil("restore", str(tmp_path / "copy"), *place)
    assert "counts match" in keyveil("verify", *place).stdout
    process = Process(new, tmp_path / "new")
    count = counted(process)
    assert 20 <= count <= 20 + sender.acknowledged
    assert post(process, first).status_code == 200
    assert counted(process) == count, "what the backup holds is still known"
    assert process.end() == 0


def test_a_damaged_backup_is_refused(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    keyveil("collection", "create", "menu", plan_file, "--store", path)
    keyveil("backup", str(tmp_path / "copy"), "--store", path)
    copy = tmp_path / "copy" / "store.sqlite"
    copy.write_bytes(copy.read_bytes()[:-1] + b"x")
    for folder, text in ((tmp_path / "copy", "does not match"), (tmp_path, "not a backup")):
        done = keyveil("restore", str(folder), "--store", str(tmp_path / "new"), check=False)
        assert done.returncode == 1
        assert text in done.stderr
    assert not (tmp_path / "new").exists()


def test_the_cli_rules_a_running_collector(address, tmp_path, plan_file):
    def run(*words):
        return keyveil(*words, "--store", address).stdout

    run("collection", "create", "menu", plan_file, "--people", "100", "--origin", "https://a.org")
    process = Process(address, tmp_path)
    assert post(process, fresh(1)).status_code == 200
    assert "menu  open" in run("collection", "list")
    assert json.loads(run("collection", "show", "menu"))["rounds"][0]["reports"] == 1
    run("collection", "pause", "menu")
    assert post(process, fresh(1)).json()["reason"] == "paused"
    run("collection", "open", "menu")
    assert post(process, fresh(1)).status_code == 200
    changed = run("collection", "change", "menu", "people=none", "closes=2100-01-31", "token=true",
                  "origins=https://b.org,https://c.org", "rate=50", "keep=9")  # fmt: skip
    assert changed.startswith("menu: people no limit, closes 2100-01-31 00:00 UTC, token true, ")
    deadline = time.monotonic() + 10
    while post(process, fresh(1)).json().get("reason") != "token":
        assert time.monotonic() < deadline, "within a tick or two"
        time.sleep(0.1)
    assert "token false, rate no limit" in run(
        "collection", "change", "menu", "token=false", "rate=none"
    )
    token = run("token", "create", "--role", "analyst").strip()
    deadline = time.monotonic() + 10
    while process.client.get("/v1/collections").status_code != 401:
        assert time.monotonic() < deadline, "within a tick or two every admin route asks for a token"
        time.sleep(0.1)
    assert process.client.get("/v1/collections", headers={"authorization": f"Bearer {token}"}).is_success
    listed = json.loads(run("token", "list", "--json"))
    assert [row["state"] for row in listed] == ["works"]
    new = run("token", "rotate", token).strip()
    assert new != token
    assert run("token", "revoke", listed[0]["id"]) == "revoked\n"
    unsure = keyveil("collection", "delete", "menu", "--store", address, check=False)
    assert unsure.stderr == "keyveil: menu is open: close it before you delete it\n"
    unsure = keyveil("collection", "close", "menu", "--store", address, check=False)
    assert (unsure.returncode, len(unsure.stderr.splitlines())) == (1, 1)
    assert "close menu for good?" in unsure.stderr
    assert unsure.stderr.endswith(": give --yes\n")
    run("collection", "close", "menu", "--yes")
    assert post(process, fresh(1)).json()["reason"] == "closed_collection"
    assert "deleted" in run("collection", "delete", "menu", "--yes")
    time.sleep(1.5)
    assert process.client.get("/v1/collections/menu").status_code == 404
    assert process.end() == 0


def test_commands_say_what_is_wrong_in_one_line(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    taken = socket.create_server(("127.0.0.1", 0))
    for words, text in (
        (("collection", "list"), "no store"),
        (("collection", "create", "Menu", plan_file), "lower-case letters"),
        (("collection", "create", "menu", str(tmp_path / "none")), "cannot read the plan"),
        (("collection", "create", "menu", plan_file, "--opens", "soon"), "a date looks like"),
        (("collection", "create", "menu", plan_file, "--closes", "2020-01-01"), "date has passed"),
        (("collection", "pause", "menu"), "no collection"),
        (("token", "revoke", "nothing"), "no token"),
        (("collection", "create", "terms", plan_file, "--early", "60"), ""),
        (("collection", "change", "terms", "people"), "a term looks like"),
        (("collection", "change", "terms", "people=many"), "'people' must be a whole number"),
        (("collection", "change", "terms", "epoch=5"), "cannot change"),
        (("collection", "change", "terms", "poeple=5"), "'poeple' is not a term; did you mean people?"),
        (("collection", "create", "ten", plan_file, "--epoch", "10"), "epoch of at least 1429 seconds"),
        (("collection", "create", "ten", plan_file, "--origin", "b.org"), "--origin b.org: an origin"),
        (("collection", "reopen", "terms", "yesterday"), "a number, not 'yesterday'"),
        (("collection", "export", "terms", plan_file), "plan.json is a file: name a folder"),
        (("collection", "change", "terms", "origins=b.org"), "a list of origins"),
        (("serve", "--host", "0.0.0.0", "--port", "0"), f"--role admin --store {path}'"),
        (("serve", "--store", "mysql://x/y"), "postgresql://..., not mysql://..."),
        (("serve", "--store", "/nosuch/x.sqlite", "--port", "0"), "the folder /nosuch does not exist"),
        (("token", "create", "--role", "admin", "--store", f"{path}2"), f"no store at {path}2"),
        (("backup", "/proc/b"), "cannot write the backup /proc/b: "),
        (("serve", "--port", str(taken.getsockname()[1])), "cannot listen"),
        (("serve", "--port", "70000"), "a port must be"),
        (("serve", "--max-waiting", "2000"), "at least --max-body"),
        (("backup", str(tmp_path / "x"), "--segments", str(tmp_path)), ""),
    ):
        store = () if "--store" in words else ("--store", path)
        done = keyveil(*words, *store, check=False)
        assert done.returncode == (1 if text else 0), done.stderr
        assert text in done.stderr
        assert len(done.stderr.splitlines()) <= 1
        assert "Traceback" not in done.stderr
    assert not os.path.exists(f"{path}2")
    taken.close()
    nowhere = "postgresql://me:secret@127.0.0.1:1/x"
    for words in (("backup", str(tmp_path / "y")), ("restore", str(tmp_path / "x")), ("verify",)):
        done = keyveil(*words, "--store", nowhere, "--segments", str(tmp_path / "z"), check=False)
        assert done.returncode == 1
        assert "cannot reach the database: OperationalError, nobody listens at this" in done.stderr
        assert "secret" not in done.stderr
    assert not (tmp_path / "y").exists()


def test_a_public_address_works_with_a_token(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    keyveil("migrate", "--store", path)
    keyveil("token", "create", "--role", "admin", "--store", path)
    process = Process(path, tmp_path, "--host", "0.0.0.0")
    assert process.client.get("/v1/collections").status_code == 401
    assert process.client.get("/health").status_code == 200
    assert process.end() == 0


def test_two_servers_of_one_file_cannot_be(tmp_path):
    path = str(tmp_path / "store.sqlite")
    process = Process(path, tmp_path)
    done = keyveil("serve", "--store", path, "--port", "0", check=False)
    assert done.returncode == 1
    assert "served by another process" in done.stderr
    assert process.end() == 0


def test_an_old_store_asks_for_migrate(tmp_path):
    path = tmp_path / "store.sqlite"
    apsw.Connection(str(path)).execute("create table other (one integer)").close()
    done = keyveil("serve", "--store", str(path), "--port", "0", check=False)
    assert "keyveil migrate" in done.stderr
    assert "4 migrations ran" in keyveil("migrate", "--store", str(path)).stdout
    assert "nothing to do" in keyveil("migrate", "--store", str(path)).stdout


def test_binary_batches_over_a_real_socket(tmp_path, plan_file):
    path = str(tmp_path / "store.sqlite")
    keyveil("collection", "create", "menu", plan_file, "--store", path)
    process = Process(path, tmp_path)
    body = batches.encode_binary(PLAN.hash, epoch(), os.urandom(16 * 5000), bytes(5000))
    answer = process.client.post(
        "/v1/collections/menu/reports", content=body, headers={"content-type": batches.BINARY}
    )
    assert answer.json() == {"accepted": 5000, "failed": []}
    assert "server" not in answer.headers
    assert process.client.get("/v1/collections/menu/estimates").json()["reports"] == 5000
    log = process.log.read_text()
    assert process.end() == 0
    assert "127.0.0.1" not in log


def test_threads_pass_the_lock_on_quickly_while_it_serves(tmp_path, monkeypatch):
    """A commit gives Python's lock away several times, and must not wait 5 ms for it each time."""
    intervals, usual = [], sys.getswitchinterval()
    monkeypatch.setattr(app, "run", lambda *_: intervals.append(sys.getswitchinterval()))
    store = SqliteStore(tmp_path / "store.sqlite")
    store.open()
    try:
        with socket.socket() as listener:
            assert app.serve(store, tmp_path / "segments", "127.0.0.1", listener) == 0
    finally:
        store.close()
    assert intervals == [pytest.approx(app.SWITCH)]
    assert sys.getswitchinterval() == usual
