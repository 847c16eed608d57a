"""The files of deploy/: linted, and tried as far as processes and ports go."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import httpx
import psycopg
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from desk import fresh
from process import Process, keyveil

from keyveil import Client, KeyveilError, Plan, Schema
from keyveil.cli.serve_command import serve
from keyveil.service.client.client_core import ClientError
from keyveil.service.collector.process.supervisor import Supervisor
from keyveil.service.collector.store import StoreUnready

DEPLOY = Path(__file__).parents[2] / "deploy"
TOOLS = Path(sys.executable).parent


# -- lint ------------------------------------------------------------------------------------------


def test_the_unit_is_one_that_systemd_understands(tmp_path):
    unit = (DEPLOY / "systemd/keyveil@.service").read_text()
    (tmp_path / "keyveil@8750.service").write_text(
        unit.replace("/opt/keyveil/bin/keyveil", sys.executable)
    )
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "keyveil@8750.service")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    assert "keyveil@8750.service" not in done.stderr


def test_the_containerfile_and_the_compose_file_have_no_findings():
    subprocess.run([TOOLS / "hadolint", DEPLOY / "Containerfile"], check=True)
    schema = ["--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml"]
    subprocess.run([TOOLS / "check-jsonschema", *schema], check=True)


def test_the_image_is_built_from_all_that_the_package_needs(tmp_path):
    """What the first stage copies, and no more, makes a wheel with the client for web pages in it."""
    stage = (DEPLOY / "Containerfile").read_text().split("\nFROM ")[1]
    for line in re.findall(r"^COPY (.*)$", stage, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            path = DEPLOY.parent / source
            copy = shutil.copytree if path.is_dir() else shutil.copy
            place = tmp_path / target / ("" if path.is_dir() else path.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            copy(path, place)
            assert f"!{source}" in (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "wheels"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "keyveil/service/collector/client_js/index.js" in names
    assert "keyveil/cli/__init__.py" in names


def test_every_file_that_compose_mounts_is_here():
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    own = {"./tls"}  # made by the operator
    mounted = [v.split(":")[0] for s in services.values() for v in s.get("volumes", [])]
    files = [path for path in mounted if path.startswith("./") and path not in own]
    assert files
    assert all((DEPLOY / path).exists() for path in files)


def test_commands_in_units_and_containers_exist():
    text = "".join(
        (DEPLOY / name).read_text()
        for name in ("compose.yaml", "systemd/keyveil@.service", "Containerfile")
    )
    verbs = set(re.findall(r"keyveil (migrate|serve|token create|token list)\b", text))
    assert {"serve", "migrate", "token create", "token list"} <= verbs
    for verb in verbs:
        assert keyveil(*verb.split(), "--help").stdout.startswith("Usage")


@pytest.mark.parametrize("name", ["systemd/collector.env", "compose.yaml"])
def test_every_setting_of_the_environment_is_one_of_serve(name):
    settings = {option.envvar for option in serve.params}
    given = re.findall(r"^ *(KEYVEIL_\w+)[=:]", (DEPLOY / name).read_text(), re.MULTILINE)
    assert set(given) <= settings
    assert "KEYVEIL_MAX_PER_ADDRESS" in given, "all devices come from the proxy's address"


# -- the service manager ---------------------------------------------------------------------------


@pytest.fixture
def manager(tmp_path):
    """A service manager's socket, and the environment that it gives to its processes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(10)
        yield receiver, {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}


def test_a_collector_tells_its_manager_that_it_is_ready_alive_and_ending(manager, tmp_path, monkeypatch):
    receiver, environment = manager
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    process = Process(str(tmp_path / "store.sqlite"), tmp_path)
    states = [receiver.recv(100) for _ in range(3)]
    assert process.end() == 0
    receiver.setblocking(False)
    while states[-1] != b"STOPPING=1":
        states.append(receiver.recv(100))
    assert states[:3] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]


def test_an_unhealthy_process_sends_no_sign_of_life(manager):
    receiver, environment = manager
    healthy = iter([True, False, False, True])

    async def watched():
        with pytest.raises(RuntimeError):  # the iterator ends inside a coroutine
            await Supervisor({**environment, "WATCHDOG_USEC": "3000"}).watch(lambda: next(healthy))

    asyncio.run(watched())
    receiver.setblocking(False)
    assert [receiver.recv(100) for _ in range(2)] == [b"WATCHDOG=1"] * 2
    with pytest.raises(BlockingIOError):
        receiver.recv(100)


@pytest.mark.parametrize(
    "environment",
    [{}, {"WATCHDOG_USEC": "1000"}, {"NOTIFY_SOCKET": "/absent", "WATCHDOG_USEC": "x"}],
    ids=["none", "no_socket", "no_number"],
)
def test_without_a_manager_nothing_is_sent_and_nothing_fails(environment):
    supervisor = Supervisor(environment)
    supervisor.tell("READY=1")
    assert supervisor.seconds is None


def test_a_watchdog_of_another_process_is_not_ours(manager):
    assert Supervisor({**manager[1], "WATCHDOG_PID": str(os.getpid() + 1)}).seconds is None


# -- the proxy -------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def certificate(folder):
    """A certificate for collector.example, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "collector.example")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("collector.example"), x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    (folder / "fullchain.pem").write_bytes(certificate.public_bytes(form))
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(key.private_bytes(form, *plain))


@pytest.fixture
def proxy(tmp_path):
    """nginx with the files of deploy/nginx on ports of its own; yields its port and the collectors'."""
    ports = {443: free_port(), 8750: free_port(), 8751: free_port()}
    certificate(tmp_path)
    text = "".join(
        (DEPLOY / "nginx" / name).read_text() for name in ("upstream-host.conf", "keyveil.conf")
    )
    for port, free in ports.items():
        text = re.sub(rf"\b{port}\b", f"127.0.0.1:{free}" if port == 443 else str(free), text)
    text = text.replace("/etc/keyveil/tls", str(tmp_path)).replace("/var/log/nginx", str(tmp_path))
    text = text.replace("rate=20r/s", "rate=10000r/s")  # one address sends everything here
    temporary = "".join(
        f"{kind}_temp_path {kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid nginx.pid; worker_processes 1; error_log {tmp_path}/nginx.log;"
        f"events {{}} http {{ {temporary} {text} }}"
    )
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    assert nginx, "the test needs nginx"
    process = subprocess.Popen([nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "nginx.log"])
    try:
        while True:
            assert process.poll() is None, (tmp_path / "nginx.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", ports[443]), 1).close()
                break
            except OSError:
                time.sleep(0.02)
        yield ports[443], ports[8750], ports[8751]
    finally:
        process.terminate()
        process.wait(10)


def test_a_rolling_restart_behind_the_proxy_refuses_no_report(proxy, database, tmp_path):
    port, *ports = proxy
    plan = Plan.of(Schema.of(["tea", "coffee"]), "kvue", 1)
    (tmp_path / "plan.json").write_text(plan.dumps())
    keyveil("migrate", "--store", database)
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", database)
    token = keyveil("token", "create", "--role", "admin", "--store", database).stdout.strip()
    collectors = [Process(database, tmp_path, "--port", str(number)) for number in ports]
    trust = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
    headers = {"host": "collector.example"}
    more = {"sni_hostname": "collector.example"}
    statuses, done = [], threading.Event()

    def send():
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, headers=headers) as client:
            assert client.get("/metrics", extensions=more).status_code == 404  # for operators only
            about = client.get("/v1/collections/menu", extensions=more).json()
            while not done.is_set():
                report = {"id": secrets.token_hex(16), "cells": list(plan.report({"tea": 1}).cells)}
                body = {"plan": plan.hash, "epoch": about["epoch"]["now"], "reports": [report]}
                answer = client.post("/v1/collections/menu/reports", json=body, extensions=more)
                statuses.append(answer.status_code)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        for place, number in enumerate(ports):
            before = len(statuses)
            assert collectors[place].end() == 0
            collectors[place] = Process(database, tmp_path, "--port", str(number))
            while len(statuses) < before + 20 and sender.is_alive():
                time.sleep(0.01)
    finally:
        done.set()
        sender.join(30)
        with httpx.Client(base_url=collectors[0].url) as client:
            bearer = {"authorization": f"Bearer {token}"}
            reports = client.get("/v1/collections/menu/estimates", headers=bearer).json()["reports"]
        for collector in collectors:
            collector.end()
    assert set(statuses) == {200}
    assert reports == len(statuses) >= 40


def test_a_device_trusts_an_authority_of_its_own_only_when_told(proxy, tmp_path):
    port, first, _ = proxy
    store = str(tmp_path / "store.sqlite")
    plan = Plan.of(Schema.of(["tea", "coffee"]), "kvue", 1)
    (tmp_path / "plan.json").write_text(plan.dumps())
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", store)
    token = keyveil("token", "create", "--role", "admin", "--store", store).stdout.strip()
    authority, url = tmp_path / "fullchain.pem", f"https://localhost:{port}"
    collector = Process(store, tmp_path, "--port", str(first))
    arguments = ["collection", "answers", "menu", "--url", url, "--token", token]
    try:
        with (
            Client(url, tmp_path / "one", cap=2) as stranger,
            pytest.raises(
                ClientError, match=r"a certificate that is not trusted here .*nothing was sent"
            ),
        ):
            stranger.answer("menu", {"tea": 1})
        refused = keyveil(*arguments, check=False).stderr
        assert "a certificate that is not trusted here" in refused
        assert refused.endswith("name the authority's file: --certificates)\n")
        with Client(url, tmp_path / "two", cap=2, certificates=authority) as friend:
            assert friend.answer("menu", {"tea": 1}).counted
        assert "1 report" in keyveil(*arguments, "--certificates", str(authority)).stdout
    finally:
        collector.end()
    with pytest.raises(KeyveilError, match="not a file of certificates"):
        Client(url, tmp_path / "three", cap=2, certificates=tmp_path / "plan.json")


# -- what operators watch ---------------------------------------------------------------------------


PROMISED = (
    *("requests_total", "request_seconds", "queue_requests", "queue_reports", "oldest_waiting_seconds"),
    *("commit_seconds", "store_errors_total", "reconnects_total", "lock_wait_seconds", "epochs"),
    *("clock_offset_seconds", "store_bytes", "disk_free_bytes", "collectors", "build_info"),
)
"""What operators expect to find."""


def test_every_metric_and_label_of_rules_and_dashboard_exists(file_desk, monkeypatch):
    """They are compared with a collector that has counted, refused, failed and answered something."""
    file_desk.create()
    with monkeypatch.context() as patch:
        patch.setattr(
            file_desk.store, "append", Mock(side_effect=StoreUnready("the disk is full", "full"))
        )
        assert file_desk.send(fresh(3)).status_code == 503
    file_desk.send(fresh(3))
    file_desk.send([{"id": "0" * 32, "cells": [0, 0]}])
    file_desk.get("/v1/collections/menu/estimates")
    text = file_desk.get("/metrics").text
    assert 'keyveil_commit_seconds_bucket{le="30.0"}' in text
    labels = {line.split()[2]: set() for line in text.splitlines() if line.startswith("# TYPE")}
    assert {f"keyveil_{name}" for name in PROMISED} | {"process_cpu_seconds_total"} <= set(labels)
    for name, inside in re.findall(r"^(\w+)\{(.*)\} ", text, re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    board = json.loads((DEPLOY / "grafana/keyveil.json").read_text())
    queries = [rule["expr"] for rule in rules]
    queries += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    named = set(re.findall(r"\b(?:keyveil|process)_[a-z_]+", " ".join(queries)))
    assert len(named) > 20
    assert not named - set(labels)
    for query in queries:
        for name, used in used_labels(query):
            assert used - {"job", "instance"} <= labels[name], query


def test_the_metrics_of_alerts_are_there_while_the_store_cannot_be_written(file_desk, monkeypatch):
    """Only what the store alone knows is left out: how many collectors there are."""
    file_desk.create()
    monkeypatch.setattr(
        file_desk.store, "append", Mock(side_effect=StoreUnready("the disk is full", "full"))
    )
    assert file_desk.send(fresh(3)).status_code == 503
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    named = set(re.findall(r"\bkeyveil_[a-z_]+", " ".join(rule["expr"] for rule in rules)))
    text = file_desk.get("/metrics").text
    lines = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if line[0] != "#"]
    counters = {name for name in named if name.endswith("_total")}  # with a first refusal, or answer
    assert named - set(lines) <= {"keyveil_collectors"} | counters
    assert "keyveil_disk_free_bytes" in lines
    assert 'keyveil_store_errors_total{kind="full"} 1' in text


def used_labels(query):
    """Each metric of a query with the labels that are compared, and with those that it is summed by."""
    metric = r"\b(?:keyveil|process)_[a-z_]+"
    for name, inside in re.findall(rf"({metric})(?:\{{(.*?)\}})?", query):
        yield name, set(re.findall(r"(\w+)=", re.sub(r'"[^"]*"', "", inside)))
    for grouped in re.finditer(r"by \((.*?)\) \(", query):
        depth, end = 1, grouped.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(query[end], 0)
            end += 1
        for name in re.findall(metric, query[grouped.end() : end]):
            yield name, set(re.findall(r"\w+", grouped[1]))


def test_the_runbook_explains_every_alert():
    page = (DEPLOY.parent / "docs/operate.md").read_text()
    rules = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"][0]["rules"]
    pages = page[page.index("## What each alert means") : page.index("have the severity `page`")]
    for rule in rules:
        (row,) = re.findall(rf"^\| `{rule['alert']}` \|(.*)\|$", page, re.MULTILINE)
        assert len(row.split(" | ")) == 3, "when, what it means, what to do"
        (limit,) = re.findall(r"(?:[<>]=?|==) ([\d.e]+)(?: and .*)?$", rule["expr"]) or ["0"]
        when = row.split(" | ")[0].replace("5 %", "0.05").replace("2 GB", "2e9")
        assert limit in ("0", "1") or limit in when, rule["alert"]
        assert (f"`{rule['alert']}`" in pages) == (rule["labels"]["severity"] == "page")
        assert re.search(r"\{\{ \$(labels\.(instance|collection)|value)", rule["annotations"]["summary"])


def test_each_panel_has_one_unit():
    """Seconds and numbers on one axis would hide each other."""
    board = json.loads((DEPLOY / "grafana/keyveil.json").read_text())
    for panel in board["panels"]:
        names = " ".join(re.findall(r"\bkeyveil_\w+|\bprocess_\w+", str(panel["targets"])))
        units = {unit for unit in ("seconds", "bytes") if unit in names}
        assert units <= {
            {"s": "seconds", "bytes": "bytes"}.get(panel["fieldConfig"]["defaults"]["unit"])
        }
        assert "%" not in panel["title"]


def test_requests_are_counted_by_route_and_never_by_what_was_sent(file_desk):
    file_desk.create()
    file_desk.send(fresh(1))
    file_desk.get("/v1/collections/menu")
    file_desk.get("/v1/collections/secret-name")
    text = file_desk.get("/metrics").text
    reports = 'route="/v1/collections/{name}/reports",method="POST"'
    assert f'keyveil_requests_total{{{reports},status="200"}} 1' in text
    assert f"keyveil_request_seconds_count{{{reports}}} 1" in text
    assert 'route="/v1/collections/{name}",method="GET",status="404"} 1' in text
    assert "secret-name" not in text


def test_a_collector_needs_only_the_rights_of_the_runbook(postgres, tmp_path):
    """The statements of the page, on a database of their own; then a report from start to seal."""
    page = (DEPLOY.parent / "docs/operate.md").read_text()
    sql = re.search(r"```sql\n(.*?)```", page, re.DOTALL)[1]
    postgres.ask("create database rights")
    host = f"host={postgres.folder}"
    with psycopg.connect(f"dbname=rights user=keyveil {host}", autocommit=True) as connection:
        connection.execute(sql)
    address = {
        role: f"postgresql://{role}@/rights?{host}" for role in ("keyveil_owner", "keyveil_serve")
    }
    keyveil("migrate", "--store", address["keyveil_owner"])
    store = address["keyveil_serve"]
    plan = Plan.of(Schema.of(["tea", "coffee"]), "kvue", 1)
    (tmp_path / "plan.json").write_text(plan.dumps())
    keyveil("collection", "create", "menu", str(tmp_path / "plan.json"), "--store", store)
    process = Process(store, tmp_path)
    try:
        about = process.client.get("/v1/collections/menu").json()
        report = {"id": secrets.token_hex(16), "cells": list(plan.report({"tea": 1}).cells)}
        body = {"plan": plan.hash, "epoch": about["epoch"]["now"], "reports": [report]}
        assert process.client.post("/v1/collections/menu/reports", json=body).status_code == 200
        assert process.client.get("/v1/collections/menu/estimates").json()["reports"] == 1
    finally:
        assert process.end() == 0
    with psycopg.connect(store) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("create table keyveil.more (a int)")
