"""Read the graphs of Zep and Graphiti: facts with when they held, entities, episodes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentmem.sources.imports.values import (
    FIRST_MOMENT,
    ExportedItem,
    Item,
    Items,
    LeftOut,
    list_in,
    mapping_in,
    moment_in,
    text_in,
)

_EDGES = ("edges", "entity_edges", "facts", "relevant_facts")
_NODES = ("nodes", "entity_nodes", "entities")
_EPISODES = ("episodes", "episodic_nodes")
_ROLES = ("user", "assistant", "ai", "system", "tool", "function")


def is_zep(value: Mapping[str, Any]) -> bool:
    """Whether it is a graph, one edge of it, or the messages of a thread."""
    if {"mapping", "chat_messages"} & set(value):
        return False
    known = {*_EDGES, *_NODES, *_EPISODES, "source_node_uuid", "fact"}
    if known & set(value):
        return True
    said = [one for one in list_in(value, "messages") if isinstance(one, Mapping)]
    return bool(said) and "uuid" in said[0] and bool({"role", "role_type"} & set(said[0]))


def is_part(item: Mapping[str, Any]) -> bool:
    """Whether it is one row of a list of edges, episodes or nodes."""
    return _is_episode(item) or _is_node(item) or item.get("fact") is not None


def _is_episode(item: Mapping[str, Any]) -> bool:
    return bool({"episode_body", "source_description"} & set(item))


def _is_node(item: Mapping[str, Any]) -> bool:
    """An entity or a community, with a summary or with what is known of it."""
    if "name" not in item or "memory" in item:
        return False
    marks = {"group_id", "labels", "name_embedding", "node_uuid"} & set(item)
    return bool(marks or "uuid" in item) and bool({"summary", "attributes", *marks} & set(item))


def read_zep(value: Any) -> Items:
    """A graph: facts with when they held, what is known of entities, and the episodes.

    A fact that was invalidated is kept as ended, in place of which the newest
    fact of the same relation stands if there is one.
    """
    edges: list[Any] = []
    nodes: list[Any] = []
    episodes: list[Any] = []
    for item in map(plain_item, value if isinstance(value, list) else [value]):
        edges += map(plain_item, list_in(item, *_EDGES))
        nodes += map(plain_item, list_in(item, *_NODES))
        episodes += map(plain_item, [*list_in(item, *_EPISODES), *list_in(item, "messages")])
        if not isinstance(item, Mapping):
            yield LeftOut(reason="not an object")
        elif item.get("fact") is not None:
            edges.append(item)
        elif _is_episode(item):
            episodes.append(item)
        elif _is_node(item) or {"name", "summary"} <= set(item):
            nodes.append(item)
        elif item.get("type") == "relationship":
            yield LeftOut(reason="a link without a fact")
        elif not {*_EDGES, *_NODES, *_EPISODES, "messages"} & set(item):
            yield LeftOut(reason="no part of a graph")
    names = {text_in(node, "uuid", "id"): text_in(node, "name") for node in nodes}
    current = _current_edges(edges)
    yield from (_zep_edge(edge, names, current) for edge in edges)
    yield from map(_zep_node, nodes)
    yield from (_zep_episode(episode, position) for position, episode in enumerate(episodes))


def plain_item(item: Any) -> Any:
    """An item as Graphiti gives it; databases wrap it in its `properties`, and those in a row
    such as `{"n": {…}}`."""
    if isinstance(item, Mapping) and len(item) == 1:
        row = next(iter(item.values()))
        item = row if mapping_in(row, "properties") or "uuid" in mapping_in(item, "n") else item
    inner = mapping_in(item, "properties")
    return {**item, **inner} if inner else item


def _relation(edge: Any) -> tuple[str, str]:
    return text_in(edge, "source_node_uuid"), text_in(edge, "name")


def _ended(edge: Any) -> datetime | None:
    return moment_in(edge, "invalid_at", "expired_at")


def _current_edges(edges: list[Any]) -> dict[tuple[str, str], str]:
    """The newest fact of each relation of an entity that still holds."""
    found: dict[tuple[str, str], tuple[datetime, str]] = {}
    for edge in edges:
        relation = _relation(edge)
        if all(relation) and _ended(edge) is None and text_in(edge, "fact"):
            since = moment_in(edge, "valid_at", "created_at") or FIRST_MOMENT
            key = text_in(edge, "uuid", "id")
            if key and (relation not in found or since > found[relation][0]):
                found[relation] = (since, key)
    return {relation: key for relation, (_, key) in found.items()}


def _zep_edge(edge: Any, names: Mapping[str, str], current: Mapping[tuple[str, str], str]) -> Item:
    text = edge if isinstance(edge, str) else text_in(edge, "fact", "content")
    if not text.strip():
        return LeftOut(reason="no fact")
    if isinstance(edge, str):
        return ExportedItem(text=text, key=f"fact {text}")
    began, ended = moment_in(edge, "valid_at"), _ended(edge)
    if began is not None and ended is not None and ended < began:
        began = None
    ends = {
        side: names.get(text_in(edge, f"{side}_node_uuid"), "") for side in ("source", "target")
    }
    return ExportedItem(
        text=text,
        key=text_in(edge, "uuid", "id"),
        created_at=moment_in(edge, "created_at", "valid_at"),
        valid_from=began,
        valid_to=ended,
        ended=ended is not None,
        replaced_by=current.get(_relation(edge), "") if ended is not None else "",
        metadata={
            **mapping_in(edge, "attributes"),
            **{side: name for side, name in ends.items() if name},
            **({"relation": edge["name"]} if text_in(edge, "name") else {}),
        },
    )


def _zep_node(node: Any) -> Item:
    name, summary = text_in(node, "name"), text_in(node, "summary")
    if not summary:  # Graphiti sums up what it has read twice; before, there are its attributes
        summary = "; ".join(
            f"{key.replace('_', ' ')} {value}"
            for key, value in mapping_in(node, "attributes").items()
            if isinstance(value, str | int | float) and str(value).strip()
        )
    if not name or not summary:
        return LeftOut(reason="an entity without a summary")
    labels = [str(label) for label in list_in(node, "labels")]
    return ExportedItem(
        text=summary if name.lower() in summary.lower() else f"{name}: {summary}",
        title=name,
        key=f"node {text_in(node, 'uuid', 'id') or name}",
        created_at=moment_in(node, "created_at"),
        metadata={**mapping_in(node, "attributes"), **({"labels": labels} if labels else {})},
    )


def _zep_episode(episode: Any, position: int) -> Item:
    text = text_in(episode, "content", "episode_body", "body")
    if not text:
        return LeftOut(reason="no text")
    role, speaker = text_in(episode, "role_type").lower(), text_in(episode, "role", "name")
    if not role and speaker.lower() in _ROLES:  # a thread of today: the role, and a name beside it
        role, speaker = speaker.lower(), text_in(episode, "name") or speaker
    source = text_in(episode, "source").lower()
    if not role and source == "message":
        said, _, rest = text.partition(":")
        if rest.strip() and len(said) <= 80 and "\n" not in said:
            speaker, text = said.strip(), rest.strip()
            role = speaker.lower()
    message = bool(role) or source == "message"
    if role in ("system", "tool", "function"):
        return LeftOut(reason=f"a {role} message")
    return ExportedItem(
        text=text,
        kind="message" if message else "episode",
        key=f"episode {text_in(episode, 'uuid', 'id') or text}",
        origin=("assistant" if role in ("assistant", "ai") else "user") if message else "import",
        title="" if message else text_in(episode, "name", "source_description"),
        speaker=speaker if message else "",
        session=text_in(episode, "session_id", "thread_id", "group_id"),
        position=position if message else None,
        created_at=moment_in(episode, "valid_at", "reference_time", "created_at"),
    )
