"""Re-rankers: a cross-encoder from a folder, and what is wrong with folders."""

from __future__ import annotations

import importlib.util
from math import exp
from pathlib import Path

import pytest

import agentmem
from agentmem.base.errors import InvalidInput, InvalidText, RerankerFailed, RerankerUnavailable
from agentmem.base.types import Memory
from agentmem.search.rerank import CrossEncoder, load_reranker
from agentmem.testing import HashEmbedder, ManualClock
from tests.unit.onnx_files import WORDS, write_cross_encoder

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
NOW = ManualClock().now()


def memories(*texts: str) -> list[Memory]:
    return [Memory(id=str(n), text=text, created_at=NOW) for n, text in enumerate(texts)]


def expected(text: str) -> float:
    numbers = [WORDS.index(word) if word in WORDS else 1 for word in text.split()]
    return 1 / (1 + exp(5 - max([3, *numbers])))


TEXTS = ("tea", "green tea and cake", "", "black", "milk " * 900, "nobody knows", "cake")


@pytest.mark.parametrize("batch", [1, 2, 100])
@pytest.mark.parametrize("columns", [1, 2])
def test_every_pair_gets_its_own_score_whatever_it_is_batched_with(
    tmp_path: Path, batch: int, columns: int
) -> None:
    rerank = CrossEncoder(write_cross_encoder(tmp_path, columns=columns), batch=batch)
    scores = rerank("what black", memories(*TEXTS))
    assert scores == pytest.approx([expected(text) for text in TEXTS], abs=1e-6)
    assert all(0 <= score <= 1 for score in scores)
    assert rerank("tea", []) == []


def test_the_memory_is_cut_to_what_the_model_reads(tmp_path: Path) -> None:
    rerank = CrossEncoder(write_cross_encoder(tmp_path), max_tokens=16)
    assert rerank("what", memories("tea " * 50 + "black")) == pytest.approx([expected("tea")])
    assert len(rerank("what " * 100_000, memories("tea", "cake"))) == 2


def test_a_memory_opened_with_a_folder_is_ranked_by_it(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path / "encoder")
    for rerank, first in ((f"cross-encoder:{folder}", "black cake"), (None, "green tea")):
        with agentmem.open(":memory:", embedder=HashEmbedder(), rerank=rerank) as memory:
            memory.sources.add_document(["green tea", "black cake", "milk"], url="a", user_id="ann")
            results = memory.search("green tea cake", threshold=0, user_id="ann")
            assert results.hits[0].memory.text == first
            assert results.degradations == ()


def test_another_sort_of_model_leaves_the_order_alone_and_says_so(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path, columns=3)
    with pytest.raises(RerankerFailed, match="one or two logits"):
        CrossEncoder(folder)("tea", memories("tea", "cake"))
    with agentmem.open(
        ":memory:", embedder=HashEmbedder(), rerank=f"cross-encoder:{folder}"
    ) as memory:
        memory.add("green tea", user_id="ann")
        results = memory.search("green tea", threshold=0, user_id="ann")
        assert [hit.memory.text for hit in results.hits] == ["green tea"]
        assert "re-ranker" in results.degradations[0]


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_both_files_is_named(tmp_path: Path, missing: str) -> None:
    (write_cross_encoder(tmp_path) / missing).unlink()
    with pytest.raises(RerankerUnavailable, match=missing):
        load_reranker(f"cross-encoder:{tmp_path}")
    with pytest.raises(RerankerUnavailable, match="nowhere"):
        agentmem.open(":memory:", rerank=f"cross-encoder:{tmp_path / 'nowhere'}")


@pytest.mark.parametrize("damaged", ["model.onnx", "tokenizer.json"])
def test_a_damaged_file_is_a_typed_error(tmp_path: Path, damaged: str) -> None:
    (write_cross_encoder(tmp_path) / damaged).write_bytes(b"nothing of use")
    with pytest.raises(RerankerUnavailable, match="cannot be read"):
        CrossEncoder(tmp_path)("tea", memories("tea"))


@pytest.mark.parametrize("name", ["", "cross-encoder", "cross-encoder:", "magic:x"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="re-ranker"):
        load_reranker(name)


def test_what_cannot_be_used_is_refused(tmp_path: Path) -> None:
    folder = write_cross_encoder(tmp_path)
    with pytest.raises(InvalidInput, match="batch"):
        CrossEncoder(folder, batch=0)
    with pytest.raises(InvalidText):
        CrossEncoder(folder)(None, memories("tea"))  # type: ignore[arg-type]  # wrong on purpose


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RerankerUnavailable, match=r"onnxruntime|tokenizers"):
        CrossEncoder(write_cross_encoder(tmp_path))
