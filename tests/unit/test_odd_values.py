"""Values that broke something once, and what is said of them now."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentmem
from agentmem.base.errors import InvalidInput, InvalidMessage
from agentmem.testing import HashEmbedder


def test_an_embedder_whose_id_is_a_text_is_refused_with_what_to_write() -> None:
    class Mine(HashEmbedder):
        id = "mine"  # type: ignore[assignment]  # the point of the test

        def __init__(self) -> None:
            pass

    with pytest.raises(InvalidInput, match="EmbedderId"):
        agentmem.open(":memory:", embedder=Mine())  # type: ignore[arg-type]  # the same


def test_vectors_of_another_length_find_what_unit_vectors_find() -> None:
    class Long(HashEmbedder):
        def embed_documents(self, texts: Any, /) -> Any:
            return 7 * super().embed_documents(texts)

        def embed_query(self, text: str, /) -> Any:
            return np.float32(7) * super().embed_query(text)

    found = []
    for embedder in (HashEmbedder(), Long()):
        with agentmem.open(":memory:", embedder=embedder) as memory:
            memory.add("The harbour is small.", user_id="ana")
            memory.flush(10)
            hits = memory.search("a small harbour", user_id="ana", mode="vector")
            found.append([(hit.memory.text, round(hit.score, 3)) for hit in hits])
    assert found[0]
    assert found[0] == found[1]


def test_a_descriptor_is_no_path_and_stays_open(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"results": [{"id": "1", "memory": "Ana rows."}]}))
    descriptor = os.open(path, os.O_RDONLY)
    with agentmem.open(":memory:", embedder=None) as memory, pytest.raises(InvalidInput):
        memory.upkeep.import_from(descriptor)  # type: ignore[arg-type]  # the point of the test
    os.close(descriptor)


def test_a_message_nested_too_deeply_is_refused_by_name() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5 * sys.getrecursionlimit()):
        inner["a"] = {}
        inner = inner["a"]
    with agentmem.open(":memory:", embedder=None) as memory:
        with pytest.raises(InvalidMessage, match="nested"):
            memory.add([{"role": "user", "content": [deep]}], user_id="ana")
        with pytest.raises(InvalidInput, match="cannot be shown"):
            memory.search(deep)  # type: ignore[arg-type]  # the point of the test
