"""The client for web pages: its JavaScript modules, served to pages of any origin.

They are public, the same for everyone, and set no cookies. A browser keeps them, and asks with their
ETag whether they have changed.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from ..engine.service import Service
from ..process.problems import Problem
from ..store.collection import Collection
from .routes import operation

JAVASCRIPT = "text/javascript"
_INSTALLED = Path(__file__).parents[1] / "client_js"
_CHECKED_OUT = Path(__file__).parents[5] / "clients" / "js" / "src"
_ENTRY = "index"
_HEADERS = {
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
    "cache-control": "public, no-cache",
    "content-security-policy": "default-src 'none'",
}


@cache
def client_files() -> dict[str, tuple[bytes, str]]:
    """The modules by name without ``.js``, each with its ETag; ``keyveil`` is the entry.

    An installed package has a copy of them; a checked-out repository has the modules themselves.
    """
    folder = _INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT
    contents = {file.stem: file.read_bytes() for file in sorted(folder.glob("*.js"))}
    if _ENTRY in contents:
        contents["keyveil"] = contents[_ENTRY]
    return {
        name: (content, f'"{hashlib.sha256(content).hexdigest()}"') for name, content in contents.items()
    }


@operation(
    "GET", "/client/{file}.js", "The client for web pages: its modules, the entry is keyveil.js", None,
    kind=JAVASCRIPT, etag="the file is the one named by If-None-Match",
)  # fmt: skip
async def client_file(service: Service, request: Request, _: Collection) -> Response:
    file = client_files().get(request.path_params["file"])
    if file is None:
        raise Problem("unknown", "the client has no such file; its entry is keyveil.js")
    content, tag = file
    headers = {**_HEADERS, "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, 200, headers, JAVASCRIPT)
