"""An Anthropic-compatible server on loopback that records what arrives.

A reply is a text, or a list of content blocks (for tool calls); a number is a
status to fail with. When the script is used up the last reply repeats.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Reply = str | list[dict[str, Any]] | int


class ClaudeServer:
    """Runs from `with` to the end of it. `bodies` are the requests."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = replies or ("ok",)
        self.bodies: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), {"of": self}))
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, body: dict[str, Any]) -> Reply:
        self.bodies.append(body)
        return self._replies[min(len(self.bodies), len(self._replies)) - 1]


class _Handler(BaseHTTPRequestHandler):
    of: ClaudeServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        reply = self.of.take(body)
        if isinstance(reply, int):
            error = {"type": "error", "error": {"type": "api_error", "message": "scripted"}}
            self._send(reply, json.dumps(error).encode(), "application/json")
        elif body.get("stream"):
            events = "".join(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                for event in _events(body, _blocks(reply))
            )
            self._send(200, events.encode(), "text/event-stream")
        else:
            whole = json.dumps(_message(body, _blocks(reply))).encode()
            self._send(200, whole, "application/json")

    def _send(self, status: int, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _blocks(reply: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": reply}] if isinstance(reply, str) else reply


def _message(body: dict[str, Any], blocks: list[dict[str, Any]]) -> dict[str, Any]:
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
        "content": blocks, "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None, "usage": {"input_tokens": 12, "output_tokens": 5},
    }  # fmt: skip


def _events(body: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    start = {**_message(body, []), "stop_reason": None}
    yield {"type": "message_start", "message": start}
    for at, block in enumerate(blocks):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        if block["type"] == "text":
            for word in block["text"].split(" "):
                piece = word if word == block["text"].split(" ")[0] else f" {word}"
                delta = {"type": "text_delta", "text": piece}
                yield {"type": "content_block_delta", "index": at, "delta": delta}
        else:
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    whole = _message(body, blocks)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}
