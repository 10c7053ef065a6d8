"""Entries with chosen terms and vectors, for tests of what keeps them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory
from agentmem.stores.values import Entry, pack_vector
from agentmem.text.terms import pack_terms


def make_entry(
    memory: Memory,
    *,
    terms: NDArray[np.uint64] | None = None,
    frequencies: NDArray[np.uint16] | None = None,
    text_flags: int = 0,
    vectors: Mapping[EmbedderId, NDArray[np.float32]] | None = None,
) -> Entry:
    """`memory` ready to be stored; `terms` and `frequencies` as `hash_terms` gives.

    `text_flags` are eight bits about the text that ranking looks at.
    """
    if terms is None or frequencies is None:
        terms, frequencies = np.empty(0, np.uint64), np.empty(0, np.uint16)
    if terms.shape != frequencies.shape or terms.ndim != 1:
        raise ValueError("terms and frequencies differ in size")
    return Entry(
        memory=memory,
        terms=terms.astype("<u8", copy=False).tobytes(),
        frequencies=frequencies.astype("<u2", copy=False).tobytes(),
        length=int(frequencies.sum(dtype=np.int64)),
        text_flags=text_flags,
        vectors=tuple(
            (embedder, pack_vector(embedder, v)) for embedder, v in (vectors or {}).items()
        ),
    )


def hash_terms(text: str) -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """The distinct term hashes of a text, ascending, and how often each occurs."""
    ((hashes, counts, _),) = pack_terms([text])
    return (
        np.frombuffer(hashes, "<u8").astype(np.uint64),
        np.frombuffer(counts, "<u2").astype(np.uint16),
    )
