"""The copy button of the documentation's console blocks, in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = """# A page

```console
$ keyveil plan --keys 2 -o plan.json
plan.json: kvue, 2 keys
$ keyveil audit plan.json
```

```python
price = "$ 5"
```
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A site of one page, with the scripts and the theme of the documentation."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(PAGE)
    shutil.copy(ROOT / "docs" / "copy_commands.js", folder / "docs")
    config = (ROOT / "zensical.toml").read_text()
    (folder / "zensical.toml").write_text(re.sub(r"\nnav = \[.*?\n\]\n", "\n", config, flags=re.S))
    words = [Path(sys.executable).parent / "zensical", "build", "--clean", "--strict"]
    subprocess.run(words, cwd=folder, capture_output=True, check=True)
    handler = partial(Quiet, directory=str(folder / "out" / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.mark.parametrize(
    ("language", "copied"),
    [
        ("console", "keyveil plan --keys 2 -o plan.json\nkeyveil audit plan.json"),
        ("python", 'price = "$ 5"'),
    ],
)
def test_the_copy_button_copies_commands_without_prompts_and_output(watch, address, language, copied):
    page = watch.context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    page.goto(address)
    block = page.locator(f".language-{language}")
    block.hover()
    block.locator("[data-clipboard-target]").click()
    page.get_by_text("Copied to clipboard").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").strip() == copied
