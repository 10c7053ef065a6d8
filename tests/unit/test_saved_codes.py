"""Codes are made once for a store, not once for each process that opens it."""

from __future__ import annotations

from pathlib import Path

import agentmem
from agentmem.indexes.vector import APPROXIMATE_FROM
from agentmem.testing import HashEmbedder


def test_a_store_that_is_opened_again_has_its_codes(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=embedder) as memory:
        texts = [f"note {number}" for number in range(APPROXIMATE_FROM + 10)]
        memory.add([{"role": "user", "content": text} for text in texts])
        memory.search("note 7")
    with agentmem.open(path, embedder=embedder) as memory:
        memory.search("note 7")
        index = memory.index.vectors(embedder.id)
        assert not index.unfinished
        assert index.approximate
