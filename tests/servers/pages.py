"""A web server on loopback that behaves as badly as real ones do.

    with PageServer() as server:
        server.url("/page")

| path              | what comes                                                        |
|-------------------|-------------------------------------------------------------------|
| /page             | a small HTML page (`server.pages` may hold others by path)        |
| /redirect?to=URL  | 302 to that address; `&code=` another status                      |
| /loop             | 302 to itself                                                     |
| /huge?bytes=N     | N bytes of text without a Content-Length                          |
| /claims?bytes=N   | a Content-Length of N, and little else                            |
| /bomb?bytes=N     | N zero bytes, gzip-packed                                         |
| /gzip, /deflate   | the page, packed                                                  |
| /slow-headers     | a header line every 50 ms, without end                            |
| /slow-body        | a byte every 50 ms, without end                                   |
| /silent           | nothing at all                                                    |
| /cut              | half of what the Content-Length says                              |
| /charset?name=X&header=Y | a page in charset X, declared as Y                         |
| /status?code=N    | that status (429 and 503 with Retry-After)                        |
| /type?name=X      | the page with that Content-Type                                   |
| /cookie           | sets a cookie; `server.requests` shows whether it came back       |
| /robots.txt       | `server.robots`, or 404                                           |
| /nonsense         | not HTTP                                                          |
"""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

PAGE = (
    "<!doctype html><html lang='en'><head><title>The harbour</title></head><body>"
    "<nav><a href='/'>Home</a></nav><main><h1>The harbour</h1>"
    "<p>The harbour of Porto Vecchio opens at six and closes at nine in the evening.</p>"
    "<p>Boats longer than twelve metres need a permit from the office.</p></main></body></html>"
)
CHARSET_TEXT = "Grüße aus Köln: der Käse schmeckt schön, über allen Gipfeln ist Ruh. "


@dataclass
class Seen:
    """A request that arrived."""

    path: str
    headers: dict[str, str]


@dataclass
class State:
    """What the handlers of one server share."""

    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    robots: str | None = None
    requests: list[Seen] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class PageServer:
    """The server, on a free port of 127.0.0.1, in a thread of its own."""

    def __init__(self) -> None:
        self.state = State()
        state = self.state

        class Handler(_Handler):
            shared = state

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def requests(self) -> list[Seen]:
        return self.state.requests

    def url(self, path: str = "/page") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def put(self, path: str, content: str | bytes, content_type: str = "text/html") -> str:
        """Serve `content` at `path`; its address."""
        data = content.encode() if isinstance(content, str) else content
        self.state.pages[path] = (content_type, data)
        return self.url(path)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.state.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    shared: State
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is theirs
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.shared.requests.append(Seen(path=self.path, headers=dict(self.headers)))
        self.close_connection = True
        try:
            if parts.path in self.shared.pages:
                content_type, data = self.shared.pages[parts.path]
                self._answer(data, content_type=content_type)
            else:
                _ANSWERS.get(parts.path, _missing)(self, query)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client had enough

    def _answer(
        self,
        data: bytes,
        *,
        status: int = 200,
        content_type: str = "text/html; charset=utf-8",
        **headers: str,
    ) -> None:
        self.send_response(status)
        if content_type:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def _begin(self, *lines: str) -> None:
        """A head without Content-Length: the body ends with the connection."""
        head = ("HTTP/1.1 200 OK", "Content-Type: text/html", "Connection: close", *lines)
        self.wfile.write("\r\n".join((*head, "", "")).encode())

    def _drip(self, piece: bytes) -> None:
        until = time.monotonic() + 60
        while not self.shared.over.wait(0.05) and time.monotonic() < until:
            self.wfile.write(piece)
            self.wfile.flush()


Query = dict[str, str]


def _missing(handler: _Handler, query: Query) -> None:
    handler._answer(b"not here", status=404, content_type="text/plain")


def _page(handler: _Handler, query: Query) -> None:
    handler._answer(PAGE.encode())


def _redirect(handler: _Handler, query: Query) -> None:
    handler._answer(b"", status=int(query.get("code", "302")), Location=query["to"])


def _loop(handler: _Handler, query: Query) -> None:
    handler._answer(b"", status=302, Location="/loop")


def _huge(handler: _Handler, query: Query) -> None:
    handler._begin()
    left = int(query["bytes"])
    while left > 0:
        handler.wfile.write(b"word " * min(10_000, left // 5 + 1))
        left -= 50_000


def _claims(handler: _Handler, query: Query) -> None:
    handler._begin(f"Content-Length: {query['bytes']}")


def _bomb(handler: _Handler, query: Query) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    handler._begin("Content-Encoding: gzip")
    for _ in range(int(query["bytes"]) // 1_000_000):
        handler.wfile.write(packer.compress(bytes(1_000_000)))
    handler.wfile.write(packer.flush())


def _gzip(handler: _Handler, query: Query) -> None:
    handler._answer(gzip.compress(PAGE.encode()), Content_Encoding="gzip")


def _deflate(handler: _Handler, query: Query) -> None:
    bare = zlib.compress(PAGE.encode())[2:-4] if query.get("bare") else zlib.compress(PAGE.encode())
    handler._answer(bare, Content_Encoding="deflate")


def _packed_oddly(handler: _Handler, query: Query) -> None:
    handler._answer(b"\x00\x01", Content_Encoding=query.get("name", "br"))


def _slow_headers(handler: _Handler, query: Query) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    handler._drip(b"X-More: yes\r\n")


def _slow_body(handler: _Handler, query: Query) -> None:
    handler._begin()
    handler._drip(b"a")


def _silent(handler: _Handler, query: Query) -> None:
    handler.shared.over.wait(60)


def _cut(handler: _Handler, query: Query) -> None:
    handler._begin(f"Content-Length: {2 * len(PAGE)}")
    handler.wfile.write(PAGE.encode())


def _charset(handler: _Handler, query: Query) -> None:
    meta = f"<meta charset='{query['meta']}'>" if "meta" in query else ""
    page = f"<html><head>{meta}<title>Köln</title></head><body><p>{CHARSET_TEXT * 3}</p></body>"
    header = f"; charset={query['header']}" if "header" in query else ""
    handler._answer(page.encode(query["name"]), content_type=f"text/html{header}")


def _status(handler: _Handler, query: Query) -> None:
    code = int(query["code"])
    wait = {"Retry_After": "30"} if code in (429, 503) else {}
    handler._answer(b"no" if code not in (204, 304) else b"", status=code, **wait)


def _type(handler: _Handler, query: Query) -> None:
    handler._answer(PAGE.encode(), content_type=query.get("name", ""))


def _cookie(handler: _Handler, query: Query) -> None:
    handler._answer(b"", status=302, Location="/page", Set_Cookie="session=secret; Path=/")


def _robots(handler: _Handler, query: Query) -> None:
    if handler.shared.robots is None:
        _missing(handler, query)
    else:
        handler._answer(handler.shared.robots.encode(), content_type="text/plain")


def _nonsense(handler: _Handler, query: Query) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n\x00\x01\x02")


_ANSWERS: dict[str, Callable[[_Handler, Query], None]] = {
    "/page": _page,
    "/redirect": _redirect,
    "/loop": _loop,
    "/huge": _huge,
    "/claims": _claims,
    "/bomb": _bomb,
    "/gzip": _gzip,
    "/deflate": _deflate,
    "/packed": _packed_oddly,
    "/slow-headers": _slow_headers,
    "/slow-body": _slow_body,
    "/silent": _silent,
    "/cut": _cut,
    "/charset": _charset,
    "/status": _status,
    "/type": _type,
    "/cookie": _cookie,
    "/robots.txt": _robots,
    "/nonsense": _nonsense,
}
