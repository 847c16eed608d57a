"""The collector serves the client for web pages, from a checkout and from an installed package."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from keyveil.service.collector.http.client_files import client_files

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
        for imported in re.findall(r'from "\./(\w+)\.js"', file.read_text()):
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


def test_an_installed_package_has_the_modules(tmp_path):
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as files:
        folder = "keyveil/service/collector/client_js/"
        packed = {name.removeprefix(folder) for name in files.namelist() if name.startswith(folder)}
        assert {file.name for file in SOURCES.iterdir()} == packed
        assert files.read(f"{folder}index.js") == (SOURCES / "index.js").read_bytes()
