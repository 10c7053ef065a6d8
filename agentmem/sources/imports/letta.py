"""Read what Letta gives: agent files, and lists of passages, messages and memory blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentmem.base.lazy import compile_late
from agentmem.sources.imports.values import (
    ExportedItem,
    Item,
    Items,
    LeftOut,
    list_in,
    mapping_in,
    moment_in,
    text_in,
    text_of_parts,
    unpacked,
)

_HEARTBEATS = ("heartbeat", "login", "system_alert", "user_message_packed")
_PASSAGES = ("archival_memory", "passages", "archival_passages", "archival")
_COUNTED = compile_late(r"[a-z]+-\d{1,6}", re.IGNORECASE)
"""An id such as `message-0`: agent files count their own from 0, so it names nothing outside."""


def is_letta(value: Mapping[str, Any]) -> bool:
    """Whether it is an agent, a file of agents, or one passage, message or block of a list."""
    if list_in(value, "core_memory") or "agent_type" in value or "block_ids" in value:
        return True
    agents = list_in(value, "agents")
    if agents:
        inside = (one for one in map(unpacked, agents) if isinstance(one, Mapping))
        return "blocks" in value or any(map(is_letta, inside))
    return _listed(value) is not None


def read_letta(value: Any) -> Items:
    """An agent file: memory blocks, archival passages, and what was said; or a list of these.

    System prompts, tools and their results are no memories. What the agent
    said through its `send_message` tool is what it said.
    """
    for position, file in enumerate(map(unpacked, value if isinstance(value, list) else [value])):
        if not isinstance(file, Mapping):
            yield LeftOut(reason="not an object")
        elif listed := _listed(file):
            if listed == "message":
                session = text_in(file, "agent_id", "conversation_id") or "letta"
                yield _letta_message(file, session, position, "agent")
            else:
                yield (_letta_passage if listed == "passage" else _letta_block)(file)
        elif is_letta(file):
            yield from _letta_file(file)
        else:
            yield LeftOut(reason="not an agent")


def _listed(value: Mapping[str, Any]) -> str | None:
    """Which part of an agent a row of a list is, as Letta's programming interface lists them."""
    if "message_type" in value:
        return "message"
    if "archive_id" in value or text_in(value, "id").startswith("passage-"):
        return "passage"
    if {"label", "value"} <= set(value):
        return "block"
    return None


def _letta_file(file: Mapping[str, Any]) -> Items:
    agents = list_in(file, "agents")
    if agents:
        yield from map(_letta_block, list_in(file, "blocks"))
    for agent in map(unpacked, agents or [file]):
        if isinstance(agent, Mapping):
            yield from _letta_agent(agent)
        else:
            yield LeftOut(reason="not an object")
    if agents:
        yield from map(_letta_passage, list_in(file, *_PASSAGES))
    for _ in (*list_in(file, "tools"), *list_in(file, "mcp_servers")):
        yield LeftOut(reason="a tool")
    for _ in list_in(file, "files"):
        yield LeftOut(reason="a file")


def _letta_agent(agent: Mapping[str, Any]) -> Items:
    name = text_in(agent, "name", "id") or "agent"
    yield from map(_letta_block, list_in(agent, "core_memory", "memory_blocks", "blocks"))
    yield from map(_letta_block, list_in(mapping_in(agent, "memory"), "blocks"))
    yield from map(_letta_passage, list_in(agent, *_PASSAGES))
    session = _own_id(agent) or text_in(agent, "name") or "letta"
    for position, message in enumerate(list_in(agent, "messages")):
        yield _letta_message(message, session, position, name)


def _own_id(value: Any, sort: str = "") -> str:
    """The id by which it is known everywhere, after its sort; "" when it has none.

    What has none is known by what it says.
    """
    found = text_in(value, "id")
    return "" if not found or _COUNTED.fullmatch(found) else f"{sort} {found}".strip()


def _letta_block(block: Any) -> Item:
    text = text_in(block, "value", "text")
    if not text.strip():
        return LeftOut(reason="an empty block")
    label = text_in(block, "label", "name")
    return ExportedItem(
        text=text.strip(),
        title=label,
        key=_own_id(block, "block"),
        created_at=moment_in(block, "created_at", "updated_at"),
        metadata={"label": label, "description": text_in(block, "description")},
    )


def _letta_passage(passage: Any) -> Item:
    text = passage if isinstance(passage, str) else text_in(passage, "text", "content")
    if not text.strip():
        return LeftOut(reason="no text")
    tags = list_in(passage, "tags")
    return ExportedItem(
        text=text,
        key=_own_id(passage, "passage"),
        created_at=moment_in(passage, "created_at", "timestamp"),
        metadata={
            **mapping_in(passage, "metadata"),
            **({"tags": [str(tag) for tag in tags]} if tags else {}),
        },
    )


def _letta_message(message: Any, session: str, position: int, agent: str) -> Item:
    role = text_in(message, "role")
    kind = text_in(message, "message_type")
    role = role or {"user_message": "user", "assistant_message": "assistant"}.get(kind, kind)
    if role not in ("user", "assistant"):
        return LeftOut(reason=f"a {role.replace('_message', '') or 'nameless'} message")
    text = text_of_parts(message.get("content")) or text_in(message, "text")
    if role == "user":
        text, machine = _letta_user_text(text)
        if machine:
            return LeftOut(reason="an event of the machine")
    else:
        sent = _letta_sent(message)
        if sent:
            text = sent
        elif list_in(message, "tool_calls"):
            return LeftOut(reason="a tool call")
    if not text.strip():
        return LeftOut(reason="no text")
    return ExportedItem(
        text=text,
        kind="message",
        key=_own_id(message, "message"),
        origin="user" if role == "user" else "assistant",
        speaker=text_in(message, "name") or (role if role == "user" else agent),
        session=session,
        position=position,
        created_at=moment_in(message, "created_at", "date"),
    )


def _letta_user_text(text: str) -> tuple[str, bool]:
    """What the user said, out of the JSON it is packed in; or that a machine said it."""
    packed = unpacked(text)
    if not isinstance(packed, Mapping) or "type" not in packed:
        return text, False
    if packed["type"] == "user_message":
        return text_in(packed, "message"), False
    return "", packed["type"] in _HEARTBEATS or "message" not in packed


def _letta_sent(message: Mapping[str, Any]) -> str:
    """What an agent told the user by its `send_message` tool."""
    said = []
    for call in list_in(message, "tool_calls"):
        function = mapping_in(call, "function") or (call if isinstance(call, Mapping) else {})
        if text_in(function, "name") == "send_message":
            given = function.get("arguments")
            said.append(text_in(unpacked(given), "message"))
    return "\n\n".join(part for part in said if part)
