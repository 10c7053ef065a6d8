"""Hybrid search, through everything that a search runs through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import agentmem
from agentmem.base.protocols import EmbedderId
from agentmem.testing import ManualClock

QUESTION = "quince marmalade"
WORDS = ("quince", "marmalade", "harbour", "lantern", "pebble", "saddle")
MEANINGS = 8
"""As many directions as a text can point to; the question points to the first."""


class MeaningEmbedder:
    """A text points where it was told to point, whatever its words are."""

    def __init__(self, meanings: Mapping[str, int]) -> None:
        self.id = EmbedderId(name="meanings", version="1", dimensions=MEANINGS)
        self._meanings = meanings

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), MEANINGS), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[self._meanings.get(text, 2 + len(text) % 6)] = 1.0  # probes point anywhere
        return rows

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row


Row = tuple[str, int]
"""A text and where it points."""


def searched(rows: Sequence[Row], *, pages: bool, top_k: int) -> dict[str, float]:
    """The texts that a search finds with their scores, best first, when added in this order."""
    embedder = MeaningEmbedder({QUESTION: 0, **dict(rows)})
    with agentmem.open(
        ":memory:", embedder=embedder, clock=ManualClock(), save_indexes=False
    ) as memory:
        if pages:
            memory.sources.add_document([text for text, _ in rows], url="https://example.org")
        else:
            for text, _ in rows:
                memory.add(text)
        hits = memory.search(QUESTION, top_k=top_k, threshold=0.0)
        assert not hits.degradations
        return {hit.memory.text: hit.score for hit in hits}


@given(data=st.data(), pages=st.booleans())
def test_a_match_of_one_leg_alone_reaches_the_results(data: st.DataObject, pages: bool) -> None:
    """P27 Hybrid. What matches by words alone and what matches by meaning alone are both found before everything that matches by neither, in whatever order they were stored."""
    by_words, by_meaning = "a quince for saddle", "a pebble for lantern"
    # More unrelated rows than a leg brings in, so that neither match is there by accident.
    counts = st.integers(0, 5) | st.sampled_from((60, 130)) if pages else st.integers(0, 5)
    rows = [(f"a harbour for lantern{number}", 1) for number in range(data.draw(counts))]
    for match in ((by_words, 1), (by_meaning, 0)):
        rows.insert(data.draw(st.integers(0, len(rows))), match)
    found = searched(rows, pages=pages, top_k=2)
    assert set(found) == {by_words, by_meaning}
    assert searched(rows[::-1], pages=pages, top_k=2) == pytest.approx(found)


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join),
            st.integers(0, MEANINGS - 1),
        ),
        min_size=1,
        max_size=10,
        unique_by=lambda row: row[0],
    ),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_every_match_of_either_leg_is_in_the_answer(
    rows: list[Row], pages: bool, random: Random
) -> None:
    """S4 Both legs. With room for all, every row that shares a word or a meaning with the question is found, with one score from 0 to 1 whatever the order they were stored in."""
    found = searched(rows, pages=pages, top_k=len(rows))
    asked = set(QUESTION.split())
    assert {text for text, axis in rows if axis == 0 or asked & set(text.split())} <= set(found)
    assert all(0.0 <= score <= 1.0 for score in found.values())
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert searched(shuffled, pages=pages, top_k=len(rows)) == pytest.approx(found)
