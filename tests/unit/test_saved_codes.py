"""What is saved beside a store: made once, opened at once, and not believed when it is damaged."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import pytest

import agentmem
from agentmem.search import local as search_module
from agentmem.search.indexes import files
from agentmem.search.indexes.vector import APPROXIMATE_FROM, Slots
from agentmem.testing import HashEmbedder
from tests.local_search import local
from tests.properties.index_models import no_vectors


def test_a_store_that_is_opened_again_has_its_codes(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=embedder) as memory:
        texts = [f"note {number}" for number in range(APPROXIMATE_FROM + 10)]
        memory.add([{"role": "user", "content": text} for text in texts])
        memory.search("note 7")
    with agentmem.open(path, embedder=embedder) as memory:
        memory.search("note 7")
        index = local(memory).vectors(embedder.id)
        assert not index.unfinished
        assert index._slots.codes


def test_a_large_ingest_is_indexed_before_anybody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "MANY_ROWS", 50)
    embedder = HashEmbedder()
    with agentmem.open(tmp_path / "memory.db", embedder=embedder) as memory:
        memory.add([{"role": "user", "content": f"note {number}"} for number in range(49)])
        local(memory).intake.wait()
        assert len(local(memory).words) == 0
        memory.add([{"role": "user", "content": "one more note"}])
        local(memory).intake.wait()
        assert len(local(memory).words) == 50
        assert len(local(memory).vectors(embedder.id)) == 50
        memory.add([{"role": "user", "content": "the rest of it"}])
        local(memory).intake.wait()
        assert len(local(memory).words) == 51


@pytest.mark.parametrize("suffix", [".words", ".vectors-*"])
def test_damage_in_a_large_file_is_noticed_while_it_is_in_use(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "CHECKED_AT_ONCE", 0)
    monkeypatch.setattr(search_module, "CHECKED_AFTER_SECONDS", 0.0)
    embedder = HashEmbedder()
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=embedder) as memory:
        memory.add([{"role": "user", "content": f"note {number}"} for number in range(300)])
        expected = [hit.memory.id for hit in memory.search("note 7")]
    (file,) = tmp_path.glob(f"memory.db{suffix}")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING), agentmem.open(path, embedder=embedder) as memory:
        memory.search("note 7")
        local(memory).checks.wait()
        assert [hit.memory.id for hit in memory.search("note 7")] == expected
        assert local(memory).rebuilds == 1
    assert "built anew" in caplog.text
    caplog.clear()
    with agentmem.open(path, embedder=embedder) as memory:
        memory.search("note 7")
        local(memory).checks.wait()
        assert [hit.memory.id for hit in memory.search("note 7")] == expected
        assert local(memory).rebuilds == 0
    assert not caplog.text


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_few_vectors_of_a_large_saved_index_take_little_memory() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    size, wanted = 200_000, np.arange(0, 200_000, 5_000)
    slots = Slots(384, no_vectors, np.arange(1, size + 1, dtype=np.int32))
    before = resident_bytes()
    vectors = np.ones((len(wanted), 384), dtype=np.int8)
    slots.put(wanted, vectors, np.full(len(wanted), 0.5, dtype=np.float32))
    assert resident_bytes() - before < size * 384 // 10
    assert (slots.take(wanted) == 0.5).all()
    assert len(slots.missing(np.arange(size))) == size - len(wanted)
