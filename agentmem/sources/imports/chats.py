"""Read the conversations people download from ChatGPT and Claude."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.sources.imports.values import (
    ExportedItem,
    Items,
    LeftOut,
    list_in,
    mapping_in,
    moment_in,
    named,
    text_in,
    text_of_parts,
)
from agentmem.text.decode import sound

_SAID = ("text", "multimodal_text")
_SENDERS = {"human": "user", "user": "user", "assistant": "assistant"}


def is_chatgpt(value: Mapping[str, Any]) -> bool:
    """Whether it is one conversation of a ChatGPT export."""
    return isinstance(value.get("mapping"), Mapping)


def is_claude(value: Mapping[str, Any]) -> bool:
    """Whether it is one conversation of a Claude export."""
    return isinstance(value.get("chat_messages"), list)


def read_chatgpt(value: Any) -> Items:
    """`conversations.json`: what was said on the path that is shown, one by one.

    Edited questions leave other branches behind; those are left out. So are
    system messages, tool calls and their output, thoughts, and what is hidden.
    """
    for conversation in _conversations(value):
        if not isinstance(conversation, Mapping) or not is_chatgpt(conversation):
            yield LeftOut(reason="not a conversation")
            continue
        nodes = {
            str(key): node
            for key, node in conversation["mapping"].items()
            if isinstance(node, Mapping)
        }
        path = _shown_path(nodes, text_in(conversation, "current_node"))
        shown = set(path)
        session = text_in(conversation, "conversation_id", "id") or text_in(conversation, "title")
        title = text_in(conversation, "title")
        began = moment_in(conversation, "create_time", "update_time")
        position = 0
        for key in path:
            message = nodes[key].get("message")
            if not isinstance(message, Mapping):
                continue
            reason = _why_not(message)
            if reason:
                yield LeftOut(reason=reason)
                continue
            role = text_in(mapping_in(message, "author"), "role")
            yield ExportedItem(
                text=_chatgpt_text(message),
                kind="message",
                key=named(text_in(message, "id"), "message"),
                origin="user" if role == "user" else "assistant",
                title=title,
                speaker=text_in(mapping_in(message, "author"), "name") or role,
                session=session,
                position=position,
                created_at=moment_in(message, "create_time", "update_time") or began,
            )
            position += 1
        for key, node in nodes.items():
            if key not in shown and isinstance(node.get("message"), Mapping):
                yield LeftOut(reason="another branch of the conversation")


def _conversations(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    inner = list_in(value, "conversations", "items")
    return inner or [value]


def _shown_path(nodes: Mapping[str, Mapping[str, Any]], current: str) -> list[str]:
    """The ids from the root to the message that is shown last.

    Without a usable `current_node`, to the newest message that has no answer.
    """
    last = current if current in nodes else _newest_leaf(nodes)
    path: list[str] = []
    seen: set[str] = set()
    while last in nodes and last not in seen:
        seen.add(last)
        path.append(last)
        last = str(nodes[last].get("parent") or "")
    return path[::-1]


def _newest_leaf(nodes: Mapping[str, Mapping[str, Any]]) -> str:
    parents = {str(node.get("parent") or "") for node in nodes.values()}
    leaves = [key for key in nodes if key not in parents] or list(nodes)

    def written(key: str) -> tuple[float, str]:
        moment = moment_in(nodes[key].get("message"), "create_time", "update_time")
        return (moment.timestamp() if moment else 0.0, key)

    return max(leaves, key=written, default="")


def _why_not(message: Mapping[str, Any]) -> str:
    """Why a message is left out; "" when it is not."""
    role = text_in(mapping_in(message, "author"), "role")
    if role not in ("user", "assistant"):
        return f"a {role or 'nameless'} message"
    metadata = mapping_in(message, "metadata")
    if metadata.get("is_visually_hidden_from_conversation") or message.get("weight") == 0:
        return "hidden in the conversation"
    kind = text_in(mapping_in(message, "content"), "content_type") or "text"
    if kind == "user_editable_context":
        return "custom instructions"
    recipient = text_in(message, "recipient")
    if (recipient and recipient != "all") or kind in ("code", "execution_output"):
        return "a tool call"
    if kind not in _SAID:
        return kind.replace("_", " ")
    return "" if _chatgpt_text(message).strip() else "no text"


def _chatgpt_text(message: Mapping[str, Any]) -> str:
    content = mapping_in(message, "content")
    said = []
    for part in list_in(content, "parts"):
        if isinstance(part, str):
            said.append(sound(part))
        elif isinstance(part, Mapping):
            said.append(text_in(part, "text"))
    return "\n\n".join(part for part in said if part.strip()) or text_in(content, "text")


def read_claude(value: Any) -> Items:
    """`conversations.json`: every message, and the documents of projects.

    Attachments and thinking are left out.
    """
    for conversation in _conversations(value):
        if isinstance(conversation, Mapping) and not is_claude(conversation):
            yield from _claude_project(conversation)
            continue
        if not isinstance(conversation, Mapping):
            yield LeftOut(reason="not a conversation")
            continue
        session = text_in(conversation, "uuid", "id") or text_in(conversation, "name")
        title = text_in(conversation, "name", "title")
        began = moment_in(conversation, "created_at", "updated_at")
        for position, message in enumerate(conversation["chat_messages"]):
            role = _SENDERS.get(text_in(message, "sender", "role"), "")
            if not role:
                yield LeftOut(reason="a nameless message")
                continue
            text = text_of_parts(message.get("content")) or text_in(message, "text")
            for _ in (*list_in(message, "attachments"), *list_in(message, "files", "files_v2")):
                yield LeftOut(reason="an attachment")
            if not text.strip():
                yield LeftOut(reason="no text")
                continue
            yield ExportedItem(
                text=text,
                kind="message",
                key=named(text_in(message, "uuid", "id"), "message"),
                origin="user" if role == "user" else "assistant",
                title=title,
                speaker=role,
                session=session,
                position=position,
                created_at=moment_in(message, "created_at", "updated_at") or began,
            )


def _claude_project(value: Mapping[str, Any]) -> Items:
    """The documents of a project, or what the program noted about its user."""
    documents = list_in(value, "docs")
    name = text_in(value, "name")
    noted = {"": text_in(value, "conversations_memory")}
    projects = mapping_in(value, "project_memories")
    noted |= {str(project): text_in(projects, project) for project in projects}
    for project, text in noted.items():
        if text:
            yield ExportedItem(text=text, key=f"noted {project}", title="What Claude noted")
    for document in documents:
        text = text_in(document, "content")
        if not text:
            yield LeftOut(reason="no text")
            continue
        yield ExportedItem(
            text=text,
            kind="page",
            key=f"document {text_in(document, 'uuid') or text_in(document, 'filename')}",
            title=text_in(document, "filename") or name,
            created_at=moment_in(document, "created_at") or moment_in(value, "created_at"),
            metadata={"project": name} if name else {},
        )
    if not documents and not any(noted.values()):
        yield LeftOut(reason="not a conversation")
