"""Worked examples of ranking: what surrounds a turn, who speaks, what is unrelated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import agentmem
from agentmem.base.errors import InvalidInput
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.wordllama import WordLlamaEmbedder
from agentmem.search.question import read_question
from agentmem.search.rank import (
    FEATURES,
    RELATED,
    Curve,
    Evidence,
    Ranked,
    RankingModel,
    embedded_text,
    indexed_text,
    match_speakers,
    measure_background,
    model_for,
    rank,
    row_flags,
)
from agentmem.testing import HashEmbedder
from tests.entries import hash_terms

Turn = tuple[str, str]
STATIC = WordLlamaEmbedder()


def search(
    query: str,
    turns: Sequence[Turn],
    *,
    sessions: Sequence[int] | None = None,
    created: Sequence[datetime] | None = None,
    conversation: bool = True,
    vectors: bool = True,
) -> Ranked:
    """Rank all turns for `query`, as a store holding nothing else would."""
    count = len(turns)
    speakers = sorted({speaker for speaker, _ in turns if speaker})
    question = read_question(query, speakers, now=datetime(2026, 3, 15, tzinfo=UTC))
    session = np.array(sessions or range(count), dtype=np.int64)
    linked = session[1:] == session[:-1]
    hashes = [hash_terms(indexed_text(text)) for _, text in turns]
    frequencies = np.zeros((count, len(question.terms)), dtype=np.float32)
    for row, (terms, counts) in enumerate(hashes):
        held = dict(zip(terms.tolist(), counts.tolist(), strict=True))
        frequencies[row] = [held.get(term, 0) for term in question.hashes().tolist()]
    lengths = np.array([counts.sum() for _, counts in hashes], dtype=np.float32)
    cosine = None
    if vectors:
        rows = STATIC.embed_documents([embedded_text(text, speaker=who) for who, text in turns])
        cosine = rows @ STATIC.embed_query(question.vector_text)
    codes = np.array([speakers.index(who) if who else -1 for who, _ in turns], dtype=np.int32)
    evidence = Evidence(
        frequencies=frequencies,
        lengths=lengths,
        document_frequencies=(frequencies > 0).sum(axis=0).astype(np.float32),
        rows_in_scope=count,
        mean_length=float(lengths.mean()),
        cosine=cosine,
        previous=np.append(-1, np.where(linked, np.arange(count - 1), -1)).astype(np.int32),
        next=np.append(np.where(linked, np.arange(1, count), -1), -1).astype(np.int32),
        session=session,
        speaker=match_speakers(codes, [speakers.index(name) for name in question.named]),
        flags=np.array([row_flags(text) for _, text in turns], dtype=np.uint8),
        created=np.array([moment.timestamp() for moment in created])
        if created
        else np.full(count, np.nan),
        conversation=np.full(count, conversation),
    )
    return rank(evidence, question, model=model_for(STATIC.id if vectors else None))


FACTS = [
    ("user", "I love pizza with anchovies."),
    ("user", "My sister lives in Lima and works as a nurse."),
    ("user", "We deploy the billing service with Kubernetes on Fridays."),
    ("user", "The meeting with Bob was moved to Thursday at 10."),
    ("user", "My dog is called Rex and he hates thunder."),
    ("user", "Redis timeouts were fixed by raising the connection limit."),
]


@pytest.mark.parametrize("conversation", [True, False])
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("Where does my sister live?", 1),
        ("how do we deploy billing?", 2),
        ("When is the meeting with Bob?", 3),
        ("why did redis have timeouts", 5),
    ],
)
def test_what_is_known_is_found_and_is_related(
    query: str, row: int, vectors: bool, conversation: bool
) -> None:
    ranked = search(query, FACTS, conversation=conversation, vectors=vectors)
    assert ranked.order[0] == row
    assert ranked.scores[row] >= RELATED
    if vectors:  # without them a row that shares no word is no candidate in the first place
        assert ranked.scores[ranked.order[-1]] < RELATED


@pytest.mark.parametrize("conversation", [True, False])
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize(
    "query",
    [
        "What is the capital of France?",
        "Explain quantum entanglement",
        "Write a haiku about autumn leaves",
        "mitochondrial dysfunction in early neurons",
        "hello",
        "😀",
        "",
    ],
)
def test_what_is_not_known_is_not_related(query: str, vectors: bool, conversation: bool) -> None:
    ranked = search(query, FACTS, conversation=conversation, vectors=vectors)
    assert ranked.scores.max() < RELATED


def test_one_row_alone_can_be_related() -> None:
    assert search("What food do I love?", FACTS[:1]).scores[0] >= RELATED
    assert search("What is the capital of France?", FACTS[:1]).scores[0] < RELATED


def test_an_answer_rises_with_the_question_before_it() -> None:
    turns = [
        ("Ada", "Where did you camp in the mountains?"),
        ("Bob", "At the lake, it was lovely."),
        ("Ada", "I had soup for lunch, it was lovely."),
    ]
    ranked = search("Where did they camp?", turns, sessions=[0, 0, 1])
    assert ranked.scores[1] > ranked.scores[2]


def test_the_speaker_who_is_named_is_preferred() -> None:
    turns = [("Ada", "I painted a sunrise."), ("Bob", "I painted a sunrise.")]
    assert search("What did Bob paint?", turns).order[0] == 1
    assert search("What did Ada paint?", turns).order[0] == 0


def test_dates_in_the_question_narrow_softly() -> None:
    turns = [("Ada", "We went to the beach.")] * 2
    created = [datetime(2024, 5, 10, tzinfo=UTC), datetime(2025, 5, 10, tzinfo=UTC)]
    assert search("Who went to the beach in May 2024?", turns, created=created).order[0] == 0
    assert search("Who went to the beach last May?", turns, created=created).order[0] == 1


def test_when_questions_prefer_turns_that_tell_a_time() -> None:
    turns = [("Ada", "I adopted a cat, she is so sweet."), ("Ada", "I adopted a cat last Tuesday.")]
    assert search("When did Ada adopt the cat?", turns).order[0] == 1


def test_texts_to_index_and_to_embed() -> None:
    assert embedded_text("hi", speaker="Ada", extra="a photo") == "Ada: hi a photo"
    assert embedded_text("hi", title="T", heading_path=("A", "B")) == "T A B\nhi"
    assert embedded_text("hi") == indexed_text("hi") == "hi"
    assert indexed_text("hi", title="T", heading_path=("A",), extra="x") == "T\nA\nhi\nx"


def test_flags() -> None:
    assert row_flags("Really? ") & 1
    assert row_flags('He asked "why?"') & 1
    assert not row_flags("Why? Because.") & 1
    assert row_flags("last week") & 2
    assert row_flags("twice") & 4
    assert row_flags("we met Bob") & 8
    assert row_flags("") == 0
    assert row_flags("der Hund und die Katze") >> 4 == read_question("wo ist der Hund").language
    assert row_flags("the dog and the cat") >> 4 != row_flags("der Hund und die Katze") >> 4
    assert row_flags("Biscuit") >> 4 == read_question("Biscuit").language == 0


def test_speakers_only_count_when_one_is_named() -> None:
    codes = np.array([0, 1, -1], dtype=np.int32)
    assert match_speakers(codes, [1]).tolist() == [-1, 1, 0]
    assert match_speakers(codes, []).tolist() == match_speakers(codes, {0, 1}).tolist() == [0, 0, 0]


def test_nothing_to_rank_is_ranked() -> None:
    empty: Any = np.zeros(0)
    evidence = Evidence(
        frequencies=np.zeros((0, 1), dtype=np.float32),
        lengths=empty,
        document_frequencies=np.zeros(1, dtype=np.float32),
        rows_in_scope=0,
        mean_length=0.0,
        cosine=empty,
        previous=empty.astype(np.int32),
        next=empty.astype(np.int32),
        session=empty.astype(np.int32),
        speaker=empty.astype(np.int8),
        flags=empty.astype(np.uint8),
        created=empty,
        conversation=empty.astype(bool),
    )
    ranked = rank(evidence, read_question("tea"), model=model_for(None))
    assert len(ranked.scores) == len(ranked.order) == 0


def test_models_may_not_punish_a_match() -> None:
    good = model_for(None)
    bad = (-1.0,) + (0.0,) * (len(FEATURES) - 1)
    with pytest.raises(InvalidInput):
        replace(good, page=bad)
    with pytest.raises(InvalidInput):
        replace(good, cosine_spread=0.0)
    with pytest.raises(InvalidInput):
        Curve(gate=(0.0, -1.0, 0.0, 0.0, 0.0), gate_offset=0.0, slope=1.0, offset=0.0, power=1.0)


def test_other_embedders_use_their_own_background() -> None:
    other = EmbedderId(name="litellm:x", version="1", dimensions=8)
    model: RankingModel = model_for(other, background=(0.7, 0.05))
    assert (model.cosine_mean, model.cosine_spread) == (0.7, 0.05)
    assert (
        model.conversation
        == model_for(EmbedderId(name="minilm", version="2", dimensions=384)).conversation
    )


def test_background_is_measured_from_unrelated_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 64)).astype(np.float32) + 0.5
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    mean, spread = measure_background(rows)
    assert 0.1 < mean < 0.3
    assert 0.05 < spread < 0.2
    assert measure_background(rows[:3]) == (0.33, 0.14)


def test_what_a_user_says_after_a_question_is_no_answer_to_it() -> None:
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add("Backup runs at 03:15 every Sunday.")
        said = ["When does the backup run?", "hi", "what is the capital of Peru?"]
        memory.add([{"role": "user", "content": text} for text in said], session="day")
        scores = {
            hit.memory.text: hit.score
            for hit in memory.search("backup", threshold=0.0, mode="fulltext", by_question=False)
        }
        assert scores.get("hi", 0.0) < 0.7 < scores["Backup runs at 03:15 every Sunday."]
        memory.add(
            [
                {"role": "user", "content": "Where is the harbour?"},
                {"role": "assistant", "content": "Behind the hill."},
            ],
            session="another",
        )
        found = memory.search("harbour", threshold=0.0, mode="fulltext", top_k=2, questions=True)
        assert {hit.memory.text for hit in found} == {"Where is the harbour?", "Behind the hill."}


def test_a_part_of_a_speakers_name_names_them() -> None:
    said = [
        {"role": "user", "name": "Fahim Khan", "content": "I love the old bridge in Mostar."},
        {"role": "user", "name": "Muhammad Ali", "content": "I love the old bridge in Prague."},
    ]
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add(said, session="s", user_id="g")
        for asked, speaker in (
            ("Which old bridge does Fahim love?", "Fahim Khan"),
            ("Khan's old bridge, where is it?", "Fahim Khan"),
            ("Which old bridge does Ali love?", "Muhammad Ali"),
        ):
            assert memory.search(asked, user_id="g").hits[0].memory.speaker == speaker


def test_what_is_told_in_another_language_comes_after_what_is_told_in_this() -> None:
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add("el Tesla es de mi vecino", user_id="ana")
        memory.add("der Tesla ist von meinem Nachbarn", user_id="ana")
        for asked in ("wem gehört der Tesla", "de quién es el Tesla"):
            found = memory.search(asked, user_id="ana").hits
            assert len(found) == 2
            assert found[0].memory.text.startswith(asked.split()[-2])
