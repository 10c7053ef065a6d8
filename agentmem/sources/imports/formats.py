"""Read the exports of other memory systems and chat programs.

Each reader takes JSON values as they were parsed and gives what it finds, one
by one. Fields may be missing and others may be there: what cannot be used is
given as left out with a reason, never raised.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, TypeVar

from agentmem.base.lazy import compile_late
from agentmem.base.types import EMPTY, Origin
from agentmem.data import read_lists
from agentmem.text.decode import sound

T = TypeVar("T")
Foreign = Literal["mem0", "letta", "zep", "chatgpt", "claude"]

_WRAPPINGS = 3
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LONGEST_SECONDS = 253_402_300_799.0
"""The last second of the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedItem:
    """One thing of an export that is worth remembering.

    `key` is what it is called there, if it has a name that no other thing has.
    `ended` says that it holds no longer, from `valid_to` on if that is known;
    `replaced_by` names what holds instead. `earlier` are texts it had before,
    each with the moment it was replaced, oldest first.
    """

    text: str
    kind: str = "fact"
    key: str = ""
    origin: Origin = "import"
    title: str = ""
    speaker: str = ""
    session: str = ""
    position: int | None = None
    created_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    ended: bool = False
    replaced_by: str = ""
    earlier: tuple[tuple[str, datetime | None], ...] = ()
    whose: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something of an export that is not remembered, and why in a few words."""

    reason: str


FOREIGN_REASONS = frozenset(
    {"not an object", "not a conversation", "not an agent", "no part of a graph"}
)
"""Why a thing is left out that is no part of such an export at all."""

Item = ExportedItem | LeftOut
Items = Iterator[Item]


def item_of(text: str, *, without: str = "no text", **said: Any) -> Item:
    """A thing to remember, or left out for being `without` words."""
    return ExportedItem(text=text, **said) if text.strip() else LeftOut(reason=without)


@cache
def _machine() -> re.Pattern[str]:
    openings = read_lists("machine_prompts.txt")["openings"]
    return re.compile(rf"\s*(?:{'|'.join(openings)})", re.IGNORECASE)


def is_machine_prompt(text: str) -> bool:
    """Whether a program wrote what stands in the user's place: a reminder, an event, a summary."""
    return _machine().match(text) is not None


def unpacked(value: Any) -> Any:
    """A value without the JSON text it is wrapped in: exports are sometimes written twice."""
    try:
        for _ in range(_WRAPPINGS):
            if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
                value = json.loads(value, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        pass
    return value


def _first(value: Any, names: Sequence[str], read: Callable[[Any], T | None]) -> T | None:
    """What `read` makes of the first of the named fields that has something for it."""
    fields = map(value.get, names) if isinstance(value, Mapping) else ()
    return next(filter(None, map(read, fields)), None)


def text_in(value: Any, *names: str) -> str:
    """The first of the named fields that holds text with something in it."""
    found = _first(value, names, lambda one: one if isinstance(one, str) and one.strip() else None)
    return sound(found) if found else ""


def mapping_in(value: Any, name: str) -> Mapping[str, Any]:
    """A field that is an object, or an empty one."""
    return _first(value, [name], lambda one: one if isinstance(one, Mapping) else None) or EMPTY


def list_in(value: Any, *names: str) -> list[Any]:
    """The first of the named fields that is a list with something in it, also one written as
    JSON into a text."""

    def read(found: Any) -> list[Any] | None:
        found = unpacked(found) if isinstance(found, str) and found.startswith("[") else found
        return found if isinstance(found, list) else None

    return _first(value, names, read) or []


def moment_in(value: Any, *names: str) -> datetime | None:
    """The first of the named fields that is a moment: ISO 8601, or seconds since 1970."""
    return _first(value, names, read_moment)


def read_moment(value: Any) -> datetime | None:
    """A moment in UTC; without a zone it is taken for UTC, and nonsense for nothing."""
    try:
        if isinstance(value, str) and value.strip():
            found = datetime.fromisoformat(value.strip())
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
            return found.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > LONGEST_SECONDS else value
            return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
    return None


def names_in(value: Any, *names: str) -> dict[str, str]:
    """Those of the named fields that are names: of a user, an agent, a run."""
    found = {name: text_in(value, name).strip() for name in names}
    return {name: text for name, text in found.items() if text}


def named(given: str, sort: str) -> str:
    """What a thing of this sort is called there; "" when nothing names it, and its words must."""
    return f"{sort} {given}" if given else ""


def text_of_parts(content: Any) -> str:
    """The text of a message's content: a text, or the text parts of a list, in their order."""
    if isinstance(content, str):
        return sound(content)
    if isinstance(content, Mapping):
        return text_in(content, "text")
    parts = content if isinstance(content, list) else []
    said = [
        sound(part) if isinstance(part, str) else text_in(part, "text")
        for part in parts
        if isinstance(part, str) or text_in(part, "type") in ("", "text", "output_text")
    ]
    return "\n\n".join(part for part in said if part.strip())


# ----------------------------------------------------------------------------
# Which system an export is of, and what reads it.


_MEM0_TEXT = ("memory", "text", "data", "content", "fact")
_MEM0_LISTS = ("results", "memories", "data", "points")
_HISTORY = {"old_memory", "new_memory", "prev_value", "new_value"}
_OWNERS = ("user_id", "agent_id", "run_id")


def detect_source(value: Any) -> Foreign | None:
    """Which system's export a JSON value looks like; `None` when it looks like none."""
    items = value if isinstance(value, list) else [value]
    first = next((item for item in items if isinstance(item, Mapping)), None)
    if first is None:
        return None
    if isinstance(first.get("mapping"), Mapping):
        return "chatgpt"
    if isinstance(first.get("chat_messages"), list):
        return "claude"
    if is_letta(first):
        return "letta"
    if isinstance(value, Mapping):
        if is_zep(value):
            return "zep"
        inner = list_in(value, *_MEM0_LISTS, "history", "conversations")
        if not inner:
            return "mem0" if isinstance(value.get("results"), list) else None
        return "mem0" if list_in(value, "history") else detect_source(inner)
    first = plain_item(first)
    if "conversations_memory" in first or {"docs", "prompt_template"} & set(first):
        return "claude"
    if is_zep(first) or is_part(first):
        return "zep"
    chat = "role" in first and not {"memory", "hash", "payload"} & set(first)
    if (_mem0_text(first) and not chat) or _HISTORY & set(first):
        return "mem0"
    return None


# ----------------------------------------------------------------------------
# mem0: memories, and their history.


def read_mem0(value: Any) -> Items:
    """Memories as `get_all` or an export gives them, with their history where it is there.

    A history alone is enough: the last value holds, the ones before it are
    kept as earlier versions, and what was deleted is left out.
    """
    memories = value if isinstance(value, list) else list_in(value, *_MEM0_LISTS)
    history: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    rows: list[Any] = []
    for item in (*memories, *list_in(value, "history")):
        if isinstance(item, Mapping) and _HISTORY & set(item) and not text_in(item, "memory"):
            history[text_in(item, "memory_id", "id")].append(item)
        else:
            rows.append(item)
    if isinstance(value, Mapping) and not memories and _mem0_text(value):
        rows.append(value)
    for steps in history.values():
        steps.sort(key=lambda step: moment_in(step, *_STEP_AT) or FIRST_MOMENT)
    known = {text_in(row, "id", "uuid") for row in rows}
    rows += [_as_it_is(key, steps) for key, steps in history.items() if key not in known]
    user = mapping_in(value, "user")  # of an OpenMemory, whose rows have its number, or nothing
    number, name = text_in(user, "id"), text_in(user, "user_id")
    users = {number: name} if number and name else {}
    owners: dict[tuple[tuple[str, str], ...], None] = {}
    for row in rows:
        item = _mem0_memory(row, history, users)
        if isinstance(item, ExportedItem):
            owners[tuple(item.whose.items())] = None
        yield item
    for relation in list_in(value, "relations"):
        said = [text_in(relation, *names) for names in _RELATION]
        if all(said):
            text = " ".join(part.replace("_", " ") for part in said)
            yield ExportedItem(
                text=text,
                key=f"relation {text}",
                whose=_relation_owner(relation, said, [dict(owner) for owner in owners]),
                metadata={"relation": said[1]},
            )
        else:
            yield LeftOut(reason="a relation without both ends")


_STEP_AT = ("updated_at", "created_at")
_RELATION = (("source",), ("relationship", "relation"), ("target", "destination"))


def _as_it_is(key: str, steps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The memory that the steps of a history, in their order, have left."""
    last = steps[-1]
    return {
        "id": key,
        "memory": text_in(last, "new_memory", "new_value"),
        "created_at": steps[0].get("created_at"),
        "updated_at": steps[0].get("updated_at"),
        "is_deleted": last.get("is_deleted") in (1, True) or _event(last) == "DELETE",
        **names_in(last, *_OWNERS),
    }


def _relation_owner(
    relation: Any, said: list[str], owners: list[dict[str, str]]
) -> Mapping[str, str]:
    """Whose a relation is: whom it names, the one of the memories beside it, or whoever of their
    owners is one of its ends, which mem0 writes as `ana_lopez`."""
    own = names_in(relation, *_OWNERS) | names_in(mapping_in(relation, "metadata"), *_OWNERS)
    if own or len(owners) == 1:
        return own or owners[0]
    ends = {said[0].lower(), said[2].lower()}
    named = [
        owner
        for owner in owners
        if any({name.lower(), name.lower().replace(" ", "_")} & ends for name in owner.values())
    ]
    return named[0] if len(named) == 1 else {}


def _mem0_text(row: Mapping[str, Any]) -> str:
    return text_in(row, *_MEM0_TEXT) or text_in(mapping_in(row, "payload"), *_MEM0_TEXT)


def _mem0_memory(row: Any, history: Mapping[str, Any], users: Mapping[str, str]) -> Item:
    if not isinstance(row, Mapping):
        return LeftOut(reason="not an object")
    payload = mapping_in(row, "payload")
    key, state = text_in(row, "id", "uuid"), text_in(row, "state").lower()
    if state == "deleted" or row.get("deleted_at") or row.get("is_deleted") in (1, True):
        return LeftOut(reason="deleted there")
    if state in ("archived", "paused"):
        return LeftOut(reason=f"{state} there")
    beside = ("categories", "app_id", "actor_id", "role", "structured_attributes")
    whose = names_in(payload, *_OWNERS) | names_in(row, *_OWNERS)
    if users:
        user = whose.get("user_id", next(iter(users)))
        whose["user_id"] = users.get(user, user)
    changed = [
        (text_in(step, "old_memory", "prev_value"), moment_in(step, *_STEP_AT))
        for step in history.get(key, ())
        if _event(step) == "UPDATE"
    ]
    return item_of(
        _mem0_text(row),
        key=key,
        created_at=moment_in(row, "created_at", "updated_at") or moment_in(payload, "created_at"),
        earlier=tuple((old, at) for old, at in changed if old),
        whose=whose,
        metadata={
            **mapping_in(row, "metadata"),
            **{name: row[name] for name in beside if row.get(name)},
        },
    )


def _event(step: Mapping[str, Any]) -> str:
    return text_in(step, "event", "action").upper()


# ----------------------------------------------------------------------------
# Zep and Graphiti: facts with when they held, entities, episodes.


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
        relation, key = _relation(edge), text_in(edge, "uuid", "id")
        if all((*relation, key)) and _ended(edge) is None and text_in(edge, "fact"):
            since = moment_in(edge, "valid_at", "created_at") or FIRST_MOMENT
            if relation not in found or since > found[relation][0]:
                found[relation] = (since, key)
    return {relation: key for relation, (_, key) in found.items()}


def _zep_edge(edge: Any, names: Mapping[str, str], current: Mapping[tuple[str, str], str]) -> Item:
    if isinstance(edge, str):
        return item_of(edge, without="no fact", key=f"fact {edge}")
    began, ended = moment_in(edge, "valid_at"), _ended(edge)
    if began is not None and ended is not None and ended < began:
        began = None
    ends = {one: names.get(text_in(edge, f"{one}_node_uuid"), "") for one in ("source", "target")}
    return item_of(
        text_in(edge, "fact", "content"),
        without="no fact",
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
    if text and role in ("system", "tool", "function"):
        return LeftOut(reason=f"a {role} message")
    return item_of(
        text,
        kind="message" if message else "episode",
        key=f"episode {text_in(episode, 'uuid', 'id') or text}",
        origin=("assistant" if role in ("assistant", "ai") else "user") if message else "import",
        title="" if message else text_in(episode, "name", "source_description"),
        speaker=speaker if message else "",
        session=text_in(episode, "session_id", "thread_id", "group_id"),
        position=position if message else None,
        created_at=moment_in(episode, "valid_at", "reference_time", "created_at"),
    )


# ----------------------------------------------------------------------------
# Letta: agent files, and lists of passages, messages and memory blocks.


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
    """What an agent has, or what the agents of a file have, together and each."""
    for agent in (file, *map(unpacked, list_in(file, "agents"))):
        if isinstance(agent, Mapping):
            yield from _letta_agent(agent)
        else:
            yield LeftOut(reason="not an object")
    for _ in (*list_in(file, "tools"), *list_in(file, "mcp_servers")):
        yield LeftOut(reason="a tool")
    for _ in list_in(file, "files"):
        yield LeftOut(reason="a file")


def _letta_agent(agent: Mapping[str, Any]) -> Items:
    name = text_in(agent, "name", "id") or "agent"
    blocks = list_in(agent, "core_memory", "memory_blocks", "blocks")
    yield from map(_letta_block, [*blocks, *list_in(mapping_in(agent, "memory"), "blocks")])
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
    label = text_in(block, "label", "name")
    return item_of(
        text_in(block, "value", "text").strip(),
        without="an empty block",
        title=label,
        key=_own_id(block, "block"),
        created_at=moment_in(block, "created_at", "updated_at"),
        metadata={"label": label, "description": text_in(block, "description")},
    )


def _letta_passage(passage: Any) -> Item:
    tags = [str(tag) for tag in list_in(passage, "tags")]
    return item_of(
        passage if isinstance(passage, str) else text_in(passage, "text", "content"),
        key=_own_id(passage, "passage"),
        created_at=moment_in(passage, "created_at", "timestamp"),
        metadata={**mapping_in(passage, "metadata"), **({"tags": tags} if tags else {})},
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
    elif sent := _letta_sent(message):
        text = sent
    elif list_in(message, "tool_calls"):
        return LeftOut(reason="a tool call")
    return item_of(
        text,
        kind="message",
        origin=role,
        key=_own_id(message, "message"),
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
    calls = [mapping_in(call, "function") or call for call in list_in(message, "tool_calls")]
    said = [
        text_in(unpacked(call.get("arguments")), "message")
        for call in calls
        if text_in(call, "name") == "send_message"
    ]
    return "\n\n".join(part for part in said if part)


# ----------------------------------------------------------------------------
# The conversations people download from ChatGPT and Claude.


_SAID = ("text", "multimodal_text")
_SENDERS = {"human": "user", "user": "user", "assistant": "assistant"}


def read_chatgpt(value: Any) -> Items:
    """`conversations.json`: what was said on the path that is shown, one by one.

    Edited questions leave other branches behind; those are left out. So are
    system messages, tool calls and their output, thoughts, and what is hidden.
    """
    for conversation in _conversations(value):
        written = conversation.get("mapping") if isinstance(conversation, Mapping) else None
        if not isinstance(written, Mapping):
            yield LeftOut(reason="not a conversation")
            continue
        nodes = {str(key): node for key, node in written.items() if isinstance(node, Mapping)}
        path = _shown_path(nodes, text_in(conversation, "current_node"))
        title = text_in(conversation, "title")
        began = moment_in(conversation, "create_time", "update_time")
        position = 0
        for key in path:
            message = nodes[key].get("message")
            if not isinstance(message, Mapping):
                continue
            if reason := _why_not(message):
                yield LeftOut(reason=reason)
                continue
            author = mapping_in(message, "author")
            role = text_in(author, "role")
            yield item_of(
                _chatgpt_text(message),
                kind="message",
                origin=role,
                key=named(text_in(message, "id"), "message"),
                title=title,
                speaker=text_in(author, "name") or role,
                session=text_in(conversation, "conversation_id", "id") or title,
                position=position,
                created_at=moment_in(message, "create_time", "update_time") or began,
            )
            position += 1
        for key in nodes.keys() - set(path):
            if isinstance(nodes[key].get("message"), Mapping):
                yield LeftOut(reason="another branch of the conversation")


def _conversations(value: Any) -> list[Any]:
    return value if isinstance(value, list) else list_in(value, "conversations", "items") or [value]


def _shown_path(nodes: Mapping[str, Mapping[str, Any]], current: str) -> list[str]:
    """The ids from the root to the message that is shown last.

    Without a usable `current_node`, to the newest message that has no answer.
    """
    last = current if current in nodes else _newest_leaf(nodes)
    path: dict[str, None] = {}
    while last in nodes and last not in path:
        path[last] = None
        last = str(nodes[last].get("parent") or "")
    return list(path)[::-1]


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
    return text_of_parts(list_in(content, "parts")) or text_in(content, "text")


def read_claude(value: Any) -> Items:
    """`conversations.json`: every message, and the documents of projects.

    Attachments and thinking are left out.
    """
    for conversation in _conversations(value):
        if not isinstance(conversation, Mapping):
            yield LeftOut(reason="not a conversation")
            continue
        messages = conversation.get("chat_messages")
        if not isinstance(messages, list):
            yield from _claude_project(conversation)
            continue
        began = moment_in(conversation, "created_at", "updated_at")
        for position, message in enumerate(messages):
            role = _SENDERS.get(text_in(message, "sender", "role"), "")
            if not role:
                yield LeftOut(reason="a nameless message")
                continue
            text = text_of_parts(message.get("content")) or text_in(message, "text")
            for _ in (*list_in(message, "attachments"), *list_in(message, "files", "files_v2")):
                yield LeftOut(reason="an attachment")
            yield item_of(
                text,
                kind="message",
                origin=role,
                key=named(text_in(message, "uuid", "id"), "message"),
                title=text_in(conversation, "name", "title"),
                speaker=role,
                session=text_in(conversation, "uuid", "id", "name"),
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
        yield item_of(
            text_in(document, "content"),
            kind="page",
            key=f"document {text_in(document, 'uuid') or text_in(document, 'filename')}",
            title=text_in(document, "filename") or name,
            created_at=moment_in(document, "created_at") or moment_in(value, "created_at"),
            metadata={"project": name} if name else {},
        )
    if not documents and not any(noted.values()):
        yield LeftOut(reason="not a conversation")


READERS: Mapping[Foreign, Callable[[Any], Items]] = {
    "mem0": read_mem0,
    "letta": read_letta,
    "zep": read_zep,
    "chatgpt": read_chatgpt,
    "claude": read_claude,
}
"""What reads the exports of each system."""
