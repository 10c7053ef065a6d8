"""New memories in the dictionaries, for every call that adds some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from agentmem.errors import DuplicateRecord
from agentmem.stores.entries import write_json
from agentmem.stores.memory.state import State, newer_than, normalised
from agentmem.stores.rules import refuse_cycles, supersession_edges
from agentmem.stores.values import Entry
from agentmem.types import Memory


def check_new(state: State, entries: Sequence[Entry]) -> None:
    """Refuse entries that cannot be added, before anything is changed."""
    for entry in entries:
        if entry.memory.id in state.row_of:
            raise DuplicateRecord(entry.memory.id)
        check_storable(entry.memory)
    edges = [edge for entry in entries for edge in supersession_edges(entry.memory)]
    refuse_cycles(edges, lambda memory_id: newer_than(state, memory_id))


def rows_to_be(state: State, entries: Sequence[Entry]) -> dict[str, int]:
    """The row that each entry gets when it is added next, by its memory's id."""
    return {entry.memory.id: state.last_row + n for n, entry in enumerate(entries, 1)}


def add(state: State, entries: Sequence[Entry]) -> tuple[int, ...]:
    """Store entries under new rows."""
    check_new(state, entries)
    before = state.previous_rows()
    rows = []
    for entry in entries:
        state.last_row += 1
        rows.append(state.last_row)
        state.row_of[entry.memory.id] = state.last_row
        state.owner_number(entry.memory)
        set_entry(state, state.last_row, entry)
    state.log("put", rows)
    state.log_moved(before)
    return tuple(rows)


def set_entry(state: State, row: int, entry: Entry) -> None:
    """Let `entry` be what stands in `row`, with its versions and vectors."""
    state.entries[row] = replace(entry, memory=normalised(entry.memory), vectors=(), versions=())
    if entry.versions:
        state.history[row] = list(entry.versions)
    for embedder, vector in entry.vectors:
        state.vectors.setdefault(embedder, {})[row] = vector


def hide(state: State, rows: Sequence[int], at: datetime | None) -> int:
    """Mark rows as deleted at `at`, or as there again (None)."""
    before = state.previous_rows()
    for row in rows:
        memory = replace(state.entries[row].memory, deleted_at=at)
        state.entries[row] = replace(state.entries[row], memory=memory)
    state.log("delete" if at is not None else "update", rows)
    state.log_moved(before)
    state.forget_empty_sources(rows)
    return len(rows)


def check_storable(memory: Memory) -> None:
    """Refuse what a file could not hold, so that both stores refuse the same."""
    write_json(memory.metadata, "metadata")
    normalised(memory)
