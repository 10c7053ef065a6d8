"""A search service and a few pages on this machine, as well and as badly behaved as real ones.

`POST /html/` answers like DuckDuckGo's page for browsers without scripts,
`GET /search` like SearXNG, `/pages/…` are pages. `behave` says how the next
requests go: by default all are answered.
"""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

ROWS: tuple[Mapping[str, str], ...] = (
    {
        "title": "Lamp museum opens",
        "url": "https://museum.example.org/lamps",
        "content": "The lamp museum in Oldham opened in 1987. Entry costs 4 euros.",
        "publishedDate": "2026-02-03T10:00:00",
    },
    {
        "title": "Opening hours",
        "url": "https://www.example.com/hours?utm_source=search",
        "content": "The museum is open from 9:00 to 17:00, Monday to Friday.",
    },
    {
        "title": "History of lamps",
        "url": "https://example.net/history",
        "content": "Lamps were made of clay. Nora Lindqvist founded the museum.",
    },
)

Answer = str | tuple[str, Mapping[str, str]]
"""How a request goes: a name, or a name with headers to send."""


class SearchServer:
    """`with SearchServer() as server:`; `server.requests` has what was asked."""

    def __init__(self, rows: Sequence[Mapping[str, str]] = ROWS) -> None:
        self.rows = list(rows)
        self.requests: list[dict[str, Any]] = []
        self.pages: dict[str, tuple[int, Mapping[str, str], bytes]] = {}
        self._plan: list[Answer] = []
        self._lock = threading.Lock()
        self.released = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def behave(self, *answers: Answer) -> None:
        """How the next requests go, one each; afterwards all are answered."""
        with self._lock:
            self._plan = list(answers)

    def page(
        self,
        path: str,
        body: str | bytes,
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Serve `body` under `/pages/<path>`, or at a path with a slash; gives the address."""
        written = body.encode("utf-8") if isinstance(body, str) else body
        sent = {"content-type": "text/html; charset=utf-8", **(headers or {})}
        place = path if path.startswith("/") else f"/pages/{path}"
        self.pages[place] = (status, sent, written)
        return f"{self.url}{place}"

    def next_answer(self) -> tuple[str, Mapping[str, str]]:
        with self._lock:
            answer = self._plan.pop(0) if self._plan else "ok"
        return answer if isinstance(answer, tuple) else (answer, {})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(owner: SearchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path.startswith("/pages/") or parts.path == "/robots.txt":
                status, headers, body = owner.pages.get(parts.path, (404, {}, b"no such page"))
                self._send(status, body, headers)
                return
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
            self._answer(parts.path, query, json_body)

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            form = parse_qs(self.rfile.read(length).decode("utf-8", "replace"))
            query = {name: values[-1] for name, values in form.items()}
            self._answer(urlsplit(self.path).path, query, html_body)

        def _answer(self, path: str, query: dict[str, str], write: Any) -> None:
            owner.requests.append({"path": path, "query": query, "headers": dict(self.headers)})
            name, headers = owner.next_answer()
            body = write(owner.rows)
            if name == "ok":
                self._send(200, body, headers)
            elif name == "empty":
                self._send(200, write([]), headers)
            elif name == "silent":
                owner.released.wait(30)
                self.close_connection = True
            elif name == "cut":
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) // 2])
                self.close_connection = True
            elif name == "huge":
                self._send(200, b'{"results": [' + b" " * 200_000 + b"]}", headers)
            elif name == "html":
                self._send(200, b"<html><body>Enable JSON</body></html>", headers)
            elif name == "latin-1":
                wrong = json.dumps({"results": owner.rows}, ensure_ascii=False)
                self._send(200, wrong.encode("latin-1", "replace"), headers)
            elif name.startswith("redirect "):
                self._send(302, b"", {"location": name.removeprefix("redirect "), **headers})
            else:
                self._send(int(name), b"refused", headers)

        def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


def json_body(rows: Sequence[Mapping[str, str]]) -> bytes:
    """As SearXNG writes its results."""
    answer = {"query": "q", "results": list(rows), "answers": [], "unresponsive_engines": []}
    return json.dumps(answer).encode("utf-8")


def html_body(rows: Sequence[Mapping[str, str]]) -> bytes:
    """As DuckDuckGo writes its results for browsers without scripts."""
    items = "".join(
        f"""
        <div class="result results_links results_links_deep web-result">
          <div class="links_main links_deep result__body">
            <h2 class="result__title">
              <a rel="nofollow" class="result__a" href="{html.escape(row["url"])}">{html.escape(row["title"])}</a>
            </h2>
            <a class="result__snippet" href="{html.escape(row["url"])}">{html.escape(row["content"])}</a>
          </div>
        </div>"""
        for row in rows
    )
    nothing = "" if rows else '<div class="no-results">No results.</div>'
    page = f'<!DOCTYPE html><html><head><meta charset="utf-8"></head><body class="html"><div id="links">{items}{nothing}</div></body></html>'
    return page.encode("utf-8")
