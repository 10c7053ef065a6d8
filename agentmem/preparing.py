"""A memory made ready for the store: its terms, its flags and its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentmem.core.lexical import hash_terms
from agentmem.core.ranking import embedded_text, indexed_text, row_flags
from agentmem.protocols import EmbedderId
from agentmem.stores.entries import make_entry
from agentmem.stores.values import Entry
from agentmem.types import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TEXT_KINDS = ("page", "tool_result")
"""Whole texts; every other kind is a statement, ranked as a turn of a conversation is."""


def prepare(memory: Memory, vectors: Mapping[EmbedderId, NDArray[np.float32]]) -> Entry:
    """The entry of a memory whose vectors were made."""
    terms, frequencies = hash_terms(text_to_index(memory))
    return make_entry(
        memory,
        terms=terms,
        frequencies=frequencies,
        text_flags=0 if memory.kind in TEXT_KINDS else row_flags(memory.text),
        vectors=vectors,
    )


def text_to_index(memory: Memory) -> str:
    """What a memory is found by: its text with title, headings and caption."""
    return indexed_text(
        memory.text,
        title=memory.title,
        heading_path=memory.heading_path,
        extra=_caption(memory),
    )


def text_to_embed(memory: Memory) -> str:
    """What stands for a memory in vector space."""
    return embedded_text(
        memory.text,
        speaker=memory.speaker,
        title=memory.title,
        heading_path=memory.heading_path,
        extra=_caption(memory),
    )


def _caption(memory: Memory) -> str:
    return str(memory.metadata.get("caption") or "")
