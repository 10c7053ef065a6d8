"""The strict server refuses what real providers refuse."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.servers.chat import Calls, ChatServer, Fault
from tests.servers.schemas import Roles

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "hello"}
SYSTEM = {"role": "system", "content": "s"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "42"}


def post(server: ChatServer, body: Any, path: str = "/chat/completions") -> tuple[int, str]:
    request = urllib.request.Request(server.url + path, data=json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("roles", "messages", "reason"),
    [
        ("openai", [USER], ""),
        ("openai", [SAID, USER, USER], ""),
        ("openai", [USER, CALL, RESULT], ""),
        ("openai", [USER, CALL, USER], "stands before the results"),
        ("openai", [USER, CALL], "have no results"),
        ("openai", [USER, RESULT], "answers no tool call"),
        ("openai", [{"role": "pirate", "content": ""}], "is not valid"),
        ("openai", [{**USER, "memory": 1}], "is not valid"),
        ("openai", [], "messages"),
        ("anthropic", [SYSTEM, USER, SAID, USER], ""),
        ("anthropic", [USER, CALL, RESULT], ""),
        ("anthropic", [USER, SAID], "last message"),
        ("anthropic", [SYSTEM, SAID, USER], "first message"),
        ("anthropic", [USER, USER], "follow each other"),
        ("anthropic", [USER, CALL, RESULT, USER], "follow each other"),
        ("anthropic", [USER, SYSTEM, SAID, USER], "inside the conversation"),
        ("gemini", [SAID, USER], "first message"),
        ("gemini", [USER, SAID, USER], ""),
        ("gemini", [{"role": "user", "content": ""}], "is empty"),
    ],
)
def test_messages_are_refused_by_the_providers_rules(
    roles: Roles, messages: list[Any], reason: str
) -> None:
    with ChatServer(roles=roles) as server:
        status, text = post(server, {"model": "m", "messages": messages})
    assert (status == 400) == bool(reason), text
    assert reason in text


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"model": "m", "messages": [USER], "memory_scope": "ann"}),
        ("/chat/completions", {"messages": [USER]}),
        ("/chat/completions", {"model": "m", "messages": [USER], "temperature": "hot"}),
        ("/responses", {"model": "m", "input": "hi", "memory_off": True}),
        ("/responses", {"model": "m", "input": []}),
        ("/responses", {"model": "m", "input": [{"role": "user"}]}),
        ("/responses", {"model": "m", "input": [{"type": "function_call_output", "call_id": "x", "output": ""}]}),
        ("/elsewhere", {}),
    ],
)  # fmt: skip
def test_requests_that_fit_no_schema_are_refused(path: str, body: Any) -> None:
    with ChatServer() as server:
        assert post(server, body, path)[0] == 400
        assert len(server.refusals) == 1


def test_replies_come_in_the_order_of_the_script_and_usage_is_in_words() -> None:
    with ChatServer(Fault(status=429), Calls(calls=(("c", "f", "{}"),)), "one two") as server:
        body = {"model": "m", "messages": [{"role": "user", "content": "three words here"}]}
        assert post(server, body)[0] == 429
        assert json.loads(post(server, body)[1])["choices"][0]["finish_reason"] == "tool_calls"
        assert json.loads(post(server, body)[1])["usage"] == {
            "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
        }  # fmt: skip
        assert [b["messages"] for b in server.bodies] == [body["messages"]] * 3
