"""The example page of ``examples/web`` on an origin of its own, under a strict policy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "examples" / "web"
CLIENT = ROOT / "clients" / "js"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
DEFAULT = "http://127.0.0.1:8750"
BLANK = "<!doctype html><html lang=en><title>blank</title>"


class Server(ThreadingHTTPServer):
    """A server that refuses no connection of a page with many modules."""

    request_queue_size = 128


class Site:
    """A web server for the page and the client's modules. Its content can be changed by tests."""

    def __init__(self, collector: str) -> None:
        self.collector = collector
        self.collection = "menu"
        self.pages = {"/blank": BLANK}
        """Pages that tests add, by path."""
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content, kind = site.file(self.path.partition("?")[0])
                self.send_response(200 if kind else 404)
                self.send_header("content-type", kind or "text/plain")
                self.send_header("content-security-policy", site.policy)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @property
    def policy(self) -> str:
        """Own scripts and styles only, no inline code, connections to the collector only."""
        return (
            f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src {self.collector}; "
            "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
            "require-trusted-types-for 'script'"
        )

    def file(self, path: str) -> tuple[bytes, str]:
        """A file and its type; an empty type if there is none."""
        if path in self.pages:
            return self.pages[path].encode(), "text/html"
        if path == "/favicon.ico":
            return b"", "image/x-icon"
        if path == "/":
            return self._page().encode(), "text/html"
        parts = path.strip("/").split("/")
        folders = {"keyveil": CLIENT / "src", "src": CLIENT / "src", "testing": CLIENT / "testing"}
        folder = folders.get(parts[0], PAGE) if len(parts) == 2 else PAGE
        file = folder / parts[-1]
        if file.suffix not in KINDS or not file.is_file():
            return b"nothing here", ""
        return file.read_bytes(), KINDS[file.suffix]

    def _page(self) -> str:
        page = (PAGE / "index.html").read_text()
        assert DEFAULT in page
        assert 'content="menu"' in page
        page = page.replace(DEFAULT, self.collector)
        return page.replace('content="menu"', f'content="{self.collection}"')


@contextmanager
def serving(collector: str) -> Iterator[Site]:
    """The site, as long as the block runs."""
    site = Site(collector)
    thread = threading.Thread(target=site.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield site
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()
