"""Whatever a file holds, an import takes what it can, counts the rest, and can be done again."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.errors import FileRefused
from agentmem.memory.manager import MemoryManager
from agentmem.sources.imports.formats import READERS, ExportedItem, Foreign, detect_source
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock
from tests.properties.strategies import texts

NAMES = (
    "id", "uuid", "memory", "text", "content", "fact", "results", "history", "event", "memory_id",
    "new_memory", "old_memory", "agents", "blocks", "core_memory", "label", "value", "messages",
    "role", "tool_calls", "edges", "nodes", "episodes", "name", "summary", "valid_at",
    "invalid_at", "source_node_uuid", "created_at", "mapping", "message", "parent", "author",
    "parts", "current_node", "content_type", "chat_messages", "sender", "docs", "metadata",
    "user_id", "relations", "source", "target", "relationship", "passages", "create_time",
)  # fmt: skip
said = st.one_of(
    texts(max_size=20),
    st.sampled_from(
        ("user", "assistant", "human", "ADD", "UPDATE", "DELETE", "a", "2024-01-01T00:00:00Z")
    ),
)
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**18), 10**18), st.floats(allow_nan=False), said
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(NAMES), texts(max_size=5)), inner, max_size=5),
    ),
    max_leaves=25,
)
sources: st.SearchStrategy[Foreign] = st.sampled_from(("mem0", "letta", "zep", "chatgpt", "claude"))


few = st.sampled_from(("a", "b", "c"))
good: dict[Foreign, st.SearchStrategy[Any]] = {
    "mem0": st.fixed_dictionaries({"id": few, "memory": said}),
    "letta": st.fixed_dictionaries({"id": few, "role": few, "content": said, "value": said}),
    "zep": st.fixed_dictionaries({"uuid": few, "fact": said, "invalid_at": said}),
    "chatgpt": st.fixed_dictionaries(
        {
            "id": few,
            "author": st.just({"role": "user"}),
            "content": st.fixed_dictionaries({"parts": st.lists(said, max_size=2)}),
        }
    ),
    "claude": st.fixed_dictionaries({"uuid": few, "sender": st.just("human"), "text": said}),
}


@st.composite
def exports(draw: st.DrawFn) -> tuple[Foreign, Any]:
    """Something like an export: the outer shape is right, all else is anything."""
    source = draw(sources)
    odd: Any = draw(values)
    row = st.fixed_dictionaries(
        {}, optional={name: st.one_of(said, values) for name in draw(st.sets(st.sampled_from(NAMES), max_size=8))}
    )  # fmt: skip
    rows = [*draw(st.lists(st.one_of(good[source], row), max_size=4)), odd]
    shaped: dict[Foreign, Any] = {
        "mem0": {"results": rows, "history": rows},
        "letta": {"agents": [{"messages": rows, "core_memory": rows}], "blocks": rows},
        "zep": {"edges": rows, "nodes": rows, "episodes": rows},
        "chatgpt": [{"mapping": {str(n): {"message": r, "parent": str(n - 1)} for n, r in enumerate(rows)}}],
        "claude": [{"uuid": "c", "chat_messages": rows}],
    }  # fmt: skip
    return source, draw(st.sampled_from((shaped[source], odd)))


@given(export=exports())
def test_every_export_is_counted_and_taken_once(export: tuple[Foreign, Any]) -> None:
    """H4 Counted imports. An import refuses a file only if nothing in it is of such an export; what was found is taken, there already or left out with a reason, and a second import takes nothing."""
    source, value = export
    detect_source(value)
    items = list(READERS[source](value))
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryManager(
            SqliteStore(":memory:"), embedder=HashEmbedder(), clock=ManualClock()
        ) as memory,
    ):
        path = Path(folder, "export.json")
        path.write_text(json.dumps(value), encoding="utf-8")
        try:
            dry = memory.upkeep.import_from(path, source, dry_run=True, user_id="ana")
        except FileRefused:
            assert not any(isinstance(item, ExportedItem) for item in items)
            assert detect_source(value) != source
            return
        assert memory.get_all(user_id="ana", superseded=True) == ()
        first = memory.upkeep.import_from(path, source, user_id="ana")
        assert first.found == first.taken + first.already + sum(first.left_out.values())
        assert (first.taken, first.left_out) == (dry.taken, dry.left_out)
        assert all(reason for reason in first.left_out)
        kept = memory.get_all(user_id="ana", superseded=True, limit=1_000)
        assert all(m.origin in ("import", "user", "assistant") for m in kept)
        assert all(m.kind != "preference" for m in kept)
        again = memory.upkeep.import_from(path, source, user_id="ana")
        assert (again.taken, again.already) == (0, first.taken + first.already)
        assert memory.get_all(user_id="ana", superseded=True, limit=1_000) == kept
