"""A memory made ready for the store: its terms, its flags and its vectors."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.core.lexical import pack_terms
from agentmem.core.ranking import embedded_text, indexed_text, row_flags
from agentmem.protocols import EmbedderId
from agentmem.stores.values import Entry
from agentmem.types import Memory

TEXT_KINDS = ("page", "tool_result")
"""Whole texts; every other kind is a statement, ranked as a turn of a conversation is."""
WORDS = "indexed_words"
"""Metadata with words that a memory is found by and that its text does not show."""


Terms = tuple[bytes, bytes, int]
"""A text's terms and how often each occurs, as they are written, and its length."""

Packed = tuple[tuple[EmbedderId, bytes], ...]
"""A memory's vectors as they are written, each with the embedder it is of."""


def prepare(memory: Memory, vectors: Packed = ()) -> Entry:
    """The entry of a memory whose vectors were made and packed."""
    (entry,) = prepare_all([memory], [vectors])
    return entry


def prepare_all(memories: Sequence[Memory], vectors: Sequence[Packed]) -> list[Entry]:
    """The entries of memories whose vectors were made and packed, in their order."""
    found = pack_terms([text_to_index(memory) for memory in memories])
    return [
        Entry(
            memory=memory,
            terms=terms,
            frequencies=frequencies,
            length=length,
            text_flags=0 if memory.kind in TEXT_KINDS else row_flags(memory.text),
            vectors=packed,
        )
        for memory, packed, (terms, frequencies, length) in zip(
            memories, vectors, map(_with_words, memories, found), strict=True
        )
    ]


def _with_words(memory: Memory, found: Terms) -> Terms:
    """The terms with those of the words that are not shown; they make the row no longer.

    A list of different words says nothing often: counted with it, a long
    result would be outranked by every short row that shares a word.
    """
    words = memory.metadata.get(WORDS) if memory.metadata else None
    if not words:
        return found
    ((terms, frequencies, _),) = pack_terms([f"{text_to_index(memory)}\n{words}"])
    return terms, frequencies, found[2]


def text_to_index(memory: Memory) -> str:
    """What a memory is found by: its text with title, headings and caption."""
    if not (memory.title or memory.heading_path or memory.metadata) and memory.text:
        return memory.text
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
    return str(memory.metadata.get("caption") or "") if memory.metadata else ""
