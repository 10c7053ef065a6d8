"""A strict OpenAI-compatible server on loopback that records what arrives.

    with ChatServer("Hello.", roles="anthropic") as server:
        client = OpenAI(base_url=server.url, api_key="k")
        ...
        assert server.bodies[0]["messages"] == [...]

A reply is a text, a `Calls` (tool calls), a `Fault` or a function of the
request's body that gives one of them. When the script is used up the last
reply repeats. Usage is counted in words. A request that breaks a rule gets a
400 that says which.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from tests.servers.schemas import CHAT, RESPONSES, Roles, problem_of, role_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """A reply that asks for tools: `(id, name, arguments as JSON)`, with words beside it."""

    calls: tuple[tuple[str, str, str], ...]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A failure: a status, a connection dropped at once, or dropped in the middle of a stream."""

    status: int = 500
    drop: Literal["", "at once", "in the middle"] = ""


Reply = str | Calls | Fault | Callable[[Mapping[str, Any]], "str | Calls | Fault"]


class ChatServer:
    """Runs from `with` to the end of it. `bodies` are the requests, refused ones included."""

    def __init__(self, *replies: Reply, roles: Roles = "openai") -> None:
        self._replies = replies or ("ok",)
        self._roles = roles
        self._lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.refusals: list[str] = []
        self.raws: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"chat": self})
        self._http = _Listener(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, path: str, headers: Mapping[str, str], body: Any) -> tuple[str, Reply]:
        """Record a request; gives why it is refused, or the reply to it."""
        with self._lock:
            place = len(self.bodies)
            self.bodies.append(body)
            self.paths.append(path)
            self.headers.append(dict(headers))
            problem = self._problem(path, body)
            if problem:
                self.refusals.append(problem)
                return problem, ""
            accepted = place - len(self.refusals)
        reply = self._replies[min(accepted, len(self._replies) - 1)]
        return "", reply(body) if callable(reply) else reply

    def _problem(self, path: str, body: Any) -> str:
        if path.endswith("/chat/completions"):
            return problem_of(body, CHAT) or role_problem(body["messages"], self._roles)
        if path.endswith("/responses"):
            return problem_of(body, RESPONSES) or _item_problem(body)
        return "" if path.endswith("/embeddings") else f"no such path: {path}"


def _item_problem(body: Mapping[str, Any]) -> str:
    items = body["input"] if isinstance(body["input"], list) else []
    called = {item["call_id"] for item in items if item.get("type") == "function_call"}
    earlier = "previous_response_id" in body
    for at, item in enumerate(items):
        answers = item.get("type") == "function_call_output"
        if answers and item["call_id"] not in called and not earlier:
            return f"input/{at}: No tool call found for function call output"
    return ""


def words(value: Any) -> int:
    """How many words stand in a value, wherever they are: what this server counts as tokens."""
    if isinstance(value, str):
        return len(value.split())
    if isinstance(value, Mapping):
        return sum(words(item) for key, item in value.items() if key not in ("role", "type"))
    return sum(map(words, value)) if isinstance(value, list) else 0


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    chat: ChatServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name of the base
        """Say nothing."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        self.chat.raws.append(raw)
        problem, reply = self.chat.take(self.path, dict(self.headers), body)
        if problem:
            self._send(400, {"error": {"message": problem, "type": "invalid_request_error"}})
        elif isinstance(reply, Fault) and reply.drop == "at once":
            self.close_connection = True
        elif isinstance(reply, Fault) and not reply.drop:
            self._send(reply.status, {"error": {"message": "scripted", "type": "server_error"}})
        elif self.path.endswith("/embeddings"):
            one = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            self._send(200, {"object": "list", "data": [one], "model": "e", "usage": usage})
        elif self.path.endswith("/responses"):
            self._respond(body, reply, _responses_events, _response)
        else:
            self._respond(body, reply, _chat_chunks, _completion)

    def do_GET(self) -> None:
        self.chat.paths.append(self.path)
        self.chat.headers.append(dict(self.headers))
        one = {"id": "gpt-4o", "object": "model", "created": 1, "owned_by": "loopback"}
        self._send(200, {"object": "list", "data": [one]})

    def _respond(self, body: dict[str, Any], reply: Any, stream: Any, whole: Any) -> None:
        if not body.get("stream"):
            self._send(200, whole(body, reply))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        broken = isinstance(reply, Fault)
        try:
            for at, event in enumerate(stream(body, "one two three" if broken else reply)):
                if broken and at == 2:
                    return
                name = f"event: {event['type']}\n" if "type" in event else ""
                self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # the client went away, as it may

    def _send(self, status: int, body: Mapping[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _said(reply: Any) -> tuple[str, tuple[tuple[str, str, str], ...]]:
    return (reply.text, reply.calls) if isinstance(reply, Calls) else (reply, ())


def _usage(body: Mapping[str, Any], reply: Any) -> dict[str, int]:
    prompt, answer = words(body["messages"]), words(_said(reply)[0])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer,
        "total_tokens": prompt + answer,
    }


def _tool_calls(calls: tuple[tuple[str, str, str], ...]) -> list[dict[str, Any]]:
    return [
        {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
        for i, name, arguments in calls
    ]


def _completion(body: dict[str, Any], reply: Any) -> dict[str, Any]:
    text, calls = _said(reply)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = _tool_calls(calls)
    choices = [
        {
            "index": at,
            "message": message if at == 0 else {**message, "content": f"{text} ({at})"},
            "finish_reason": "tool_calls" if calls else "stop",
            "logprobs": None,
        }
        for at in range(body.get("n") or 1)
    ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": choices,
        "usage": _usage(body, reply),
    }


def _chat_chunks(body: dict[str, Any], reply: Any) -> Iterator[dict[str, Any]]:
    text, calls = _said(reply)
    frame = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
        return {**frame, "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}

    several = body.get("n") or 1
    yield chunk({"role": "assistant", "content": ""})
    for piece in text.split(" "):
        spaced = piece if piece == text.split(" ")[0] else f" {piece}"
        for index in range(several):
            yield chunk({"content": spaced if index == 0 else spaced.upper()}, index=index)
    for at, call in enumerate(_tool_calls(calls)):
        function = call["function"]
        arguments = function["arguments"]
        yield chunk(
            {"tool_calls": [{"index": at, **call, "function": {**function, "arguments": ""}}]}
        )
        half = len(arguments) // 2
        for part in (arguments[:half], arguments[half:]):
            yield chunk({"tool_calls": [{"index": at, "function": {"arguments": part}}]})
    for index in range(several):
        yield chunk({}, "tool_calls" if calls else "stop", index=index)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {**frame, "choices": [], "usage": _usage(body, reply)}


def _response(body: dict[str, Any], reply: Any, *, status: str = "completed") -> dict[str, Any]:
    text, calls = _said(reply)
    output: list[dict[str, Any]] = []
    if text and status == "completed":
        part = {"type": "output_text", "text": text, "annotations": []}
        output.append(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    for at, (call_id, name, arguments) in enumerate(calls if status == "completed" else ()):
        output.append(
            {
                "type": "function_call", "id": f"fc_{at}", "call_id": call_id,
                "name": name, "arguments": arguments, "status": "completed",
            }
        )  # fmt: skip
    read, said = words(body["input"]), words(text)
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + said,
    }
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": body["model"],
        "output": output, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None,
        "incomplete_details": None, "instructions": body.get("instructions"), "metadata": {},
        "temperature": 1.0, "top_p": 1.0, "usage": usage if status == "completed" else None,
    }  # fmt: skip


def _responses_events(body: dict[str, Any], reply: Any) -> Iterator[dict[str, Any]]:
    whole = _response(body, reply)
    started = _response(body, reply, status="in_progress")
    yield {"type": "response.created", "sequence_number": 0, "response": started}
    number = 0
    for at, item in enumerate(whole["output"]):
        number += 1
        empty = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
        yield {
            "type": "response.output_item.added",
            "sequence_number": number,
            "output_index": at,
            "item": empty,
        }
        if item["type"] == "message":
            text = item["content"][0]["text"]
            place = {"item_id": item["id"], "output_index": at, "content_index": 0}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield {
                "type": "response.content_part.added",
                "sequence_number": number,
                "part": part,
                **place,
            }
            for word_at, piece in enumerate(text.split(" ")):
                delta = f" {piece}" if word_at else piece
                number += 1
                yield {
                    "type": "response.output_text.delta", "sequence_number": number,
                    "delta": delta, "logprobs": [], **place,
                }  # fmt: skip
            number += 1
            yield {
                "type": "response.output_text.done", "sequence_number": number,
                "text": text, "logprobs": [], **place,
            }  # fmt: skip
        yield {
            "type": "response.output_item.done",
            "sequence_number": number,
            "output_index": at,
            "item": item,
        }
    yield {"type": "response.completed", "sequence_number": number + 1, "response": whole}
