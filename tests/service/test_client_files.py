"""The collector serves the client for web pages, from a checkout and from an installed package."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
from hatchling.builders.wheel import WheelBuilder
from process import user_environment

from keyveil.service.collector.http.client_files import client_files
from keyveil.service.collector.http.dashboard_route import dashboard_files

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "clients" / "js" / "src"


def test_every_module_is_served_to_any_origin(file_desk):
    for file in SOURCES.glob("*.js"):
        answer = file_desk.get(f"/client/{file.name}")
        assert answer.status_code == 200
        assert answer.content == file.read_bytes()
        assert answer.headers["content-type"].startswith("text/javascript")
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers
        assert "set-cookie" not in answer.headers
        for imported in re.findall(r'(?:from |import\()"\./(\w+)\.js"', file.read_text()):
            assert imported in client_files()


def test_the_entry_has_two_names(file_desk):
    assert file_desk.get("/client/keyveil.js").content == file_desk.get("/client/index.js").content


def test_a_browser_that_has_the_file_gets_no_second_copy(file_desk):
    tag = file_desk.get("/client/keyveil.js").headers["etag"]
    again = file_desk.get("/client/keyveil.js", headers={"if-none-match": tag})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["etag"] == tag
    assert file_desk.get("/client/keyveil.js", headers={"if-none-match": '"0"'}).status_code == 200


def test_nothing_else_is_served(file_desk):
    for path in ("nothing.js", "index.d.ts", "..%2Fpackage.js", "%2e%2e/package.json"):
        assert file_desk.get(f"/client/{path}").status_code == 404


def fetched(address: str) -> bytes:
    """The content at an address."""
    return httpx.get(address, timeout=60).raise_for_status().content


def test_an_installed_package_serves_its_own_files(tmp_path):
    """``keyveil demo`` of a wheel, unpacked far from the repository: client, dashboard and page."""
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as files:
        files.extractall(installed)
    collector = Path("keyveil", "service", "collector")
    copies = installed / collector / "client_js"
    assert {file.name for file in SOURCES.iterdir()} == {file.name for file in copies.iterdir()}
    (copies / "installed.js").write_text("// not in the repository")
    demo = subprocess.Popen(
        [sys.executable, "-m", "keyveil", "demo", "--visitors", "0.1"],
        cwd=tmp_path,
        env=user_environment(PYTHONPATH=str(installed), TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+", demo.stdout.readline())[0]
        assert fetched(f"{url}/client/installed.js") == b"// not in the repository"
        for source in SOURCES.glob("*.js"):
            assert fetched(f"{url}/client/{source.name}") == source.read_bytes()
        assert fetched(f"{url}/client/keyveil.js") == (SOURCES / "index.js").read_bytes()
        for page, folder in (("/", "dashboard"), ("/demo", "demo")):
            checked_out = ROOT / "src" / collector / folder
            assert fetched(url + page) == (checked_out / "index.html").read_bytes()
            for name, file in dashboard_files(checked_out).items():
                assert fetched(f"{url}/{folder}/{name}") == file.read_bytes()
    finally:
        demo.terminate()
        demo.communicate(timeout=60)
