"""The dashboard and the demo: files of the package, served under a strict content-security policy.

The files are read once, when the application is made. A path that names none of them is unknown, so no
path can lead elsewhere.
"""

from __future__ import annotations

import hashlib
import mimetypes
from functools import partial
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..process.problems import Problem
from .web import Host, guarded

FOLDER = Path(__file__).parents[1] / "dashboard"
DEMO = Path(__file__).parents[1] / "demo"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
PLOT_STYLE = "sha256-jSYQUrW7J0b3jPqhZP9C2Xh1PyJKHKXd4s0fpGGKrww="
"""Hash of the style element that Observable Plot puts into each figure."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' '{PLOT_STYLE}'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def dashboard_files(folder: Path = FOLDER) -> dict[str, Path]:
    """The files of the dashboard, or of another folder, by their path below it."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (path.suffix in KINDS or path.name == "LICENSE")
    }


class _File:
    """The content of a file with its type and its tag."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        self.kind = KINDS.get(path.suffix) or mimetypes.types_map[".txt"]
        self.tag = f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def response(self, request: Request) -> Response:
        """The file, or 304 if the browser has it."""
        headers = {**HEADERS, "etag": self.tag}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, 200, headers, self.kind)


def dashboard_routes(host: Host) -> list[Route]:
    """The page at ``/`` and its files below ``/dashboard/``."""
    return _routes(host, FOLDER, "/", "/dashboard")


def demo_routes(host: Host) -> list[Route]:
    """The page of ``keyveil demo`` that asks visitors."""
    return _routes(host, DEMO, "/demo", "/demo")


def _routes(host: Host, folder: Path, page: str, below: str) -> list[Route]:
    files = {name: _File(path) for name, path in dashboard_files(folder).items()}

    async def serve(name: str | None, request: Request) -> Response:
        file = files.get(request.path_params["file"] if name is None else name)
        if file is None:
            raise Problem("unknown")
        return file.response(request)

    return [
        Route(page, guarded(host, partial(serve, "index.html"))),
        Route(below + "/{file:path}", guarded(host, partial(serve, None))),
    ]
