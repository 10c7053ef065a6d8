"""The tools a model gets for its own memory: read a result, search, save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentmem.core.cleaning import clean_line
from agentmem.errors import AgentMemError
from agentmem.tools import Tool
from agentmem.types import Hit, Scope, utc

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager
    from agentmem.working import WorkingMemory

MOST_HITS = 20
MOST_LOOKED_AT = 200
SHARE_WORDS = "Nothing in memory clearly answers that. These share words with it:"
_HIT_CHARACTERS = 500
_SAVED_KINDS = ("fact", "episode", "task", "workflow")

_READ = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "The id of a stored result or memory."},
        "range": {"type": "string", "description": 'Characters "0-500", "500-", or "-200" (last).'},
        "lines": {"type": "string", "description": 'Lines "10-20", "10", or "-5" (last five).'},
        "grep": {"type": "string", "description": "Lines that match a pattern or hold a text."},
        "json_path": {"type": "string", "description": 'Values in JSON: "$.items[0].name".'},
        "offset": {"type": "integer", "minimum": 0, "description": "Where the next page begins."},
    },
    "required": ["id"],
    "additionalProperties": False,
}  # fmt: skip
_SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look for, in plain words."},
        "top_k": {"type": "integer", "minimum": 1, "maximum": MOST_HITS},
    },
    "required": ["query"],
    "additionalProperties": False,
}  # fmt: skip
_SAVE = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "One fact in one or two sentences."},
        "kind": {"type": "string", "enum": list(_SAVED_KINDS), "description": "fact if left out."},
    },
    "required": ["text"],
    "additionalProperties": False,
}  # fmt: skip


def memory_tools(
    manager: MemoryManager, working: WorkingMemory, *, save: bool = False
) -> tuple[Tool, ...]:
    """`memory_read`, `memory_search` and, with `save`, `memory_save`; none of them raises."""

    def read(id: str, **asked: Any) -> str:  # noqa: A002 - the model's word for it
        try:
            return working.read(id, **asked).content
        except AgentMemError as error:
            return f"The result cannot be read: {error}"

    def search(query: str, top_k: int = 5) -> str:
        whose: dict[str, Any] = {n: getattr(working.scope, n) for n in Scope.__slots__}
        most = min(max(top_k, 1), MOST_HITS)
        try:
            hits = list(manager.search(query, top_k=most, **whose))
            if hits:
                return _listed(hits, working)
            # A few keywords seldom reach the threshold; the model can judge what shares them.
            near = manager.search(query, top_k=MOST_LOOKED_AT, threshold=0.0, **whose)
            sharing = [hit for hit in near if hit.lexical is not None]
            hits = sorted(sharing, key=lambda hit: -(hit.lexical or 0.0))[:most]
        except AgentMemError as error:
            return f"Memory cannot be searched: {error}"
        listed = _listed(hits, working)
        return f"{SHARE_WORDS}\n{listed}" if hits else listed

    def remember(text: str, kind: str = "fact") -> str:
        try:
            memory, new = working.save(text, kind=kind)
        except AgentMemError as error:
            return f"Nothing was saved: {error}"
        return f"Saved as {memory.id}." if new else f"Already known as {memory.id}."

    found = [
        Tool(
            name="memory_read",
            description="Read a stored result by id: whole, or by range, lines, grep or json_path "
            "(one of them). Long answers come in pages.",
            parameters=_READ, call=read, read_only=True, keep=False,
        ),
        Tool(
            name="memory_search",
            description="Search memory: earlier conversations, pages, facts and tool results.",
            parameters=_SEARCH, call=search, read_only=True, keep=False,
        ),
    ]  # fmt: skip
    if save:
        found.append(
            Tool(
                name="memory_save",
                description="Keep a fact for later conversations. Not for secrets or for what the "
                "user prefers.",
                parameters=_SAVE, call=remember, keep=False,
            )
        )  # fmt: skip
    return tuple(found)


def _listed(hits: list[Hit], working: WorkingMemory) -> str:
    """The hits best first, shortened until they fit the limit of a read."""
    if not hits:
        return "Nothing in memory answers that."
    for length in (_HIT_CHARACTERS, 250, 120, 60):
        lines = [_line(hit, length) for hit in hits]
        text = "\n".join(lines)
        if working.count(text) <= working.read_limit_tokens:
            return text
    while len(lines) > 1 and working.count("\n".join(lines)) > working.read_limit_tokens:
        lines.pop()
    text = "\n".join(lines)
    while text and working.count(text) > working.read_limit_tokens:
        text = text[: len(text) * 3 // 4]
    return text


def _line(hit: Hit, length: int) -> str:
    memory = hit.memory
    where = clean_line(memory.title or memory.source_url, limit_characters=min(length, 100))
    facts = [memory.kind, f"{utc(memory.created_at).date()}", where]
    if memory.origin != "user":
        facts.insert(1, f"from {memory.origin}")
    text = clean_line(memory.text, limit_characters=length)
    return f"{memory.id} ({', '.join(fact for fact in facts if fact)}): {text}"
