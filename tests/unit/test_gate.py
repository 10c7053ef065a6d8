"""Whose world a question asks about, and what a turn shows for it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import agentmem
from agentmem.data import read_bytes
from agentmem.prompt.block import BlockSource, parse_context
from agentmem.prompt.build import is_only_asked
from agentmem.search.gate import WORD_FEATURES, Sort, gate_of, turn_score, word_features
from agentmem.text.language import LANGUAGES, detect_language, is_greeting

SAID = [
    ("user", "2025-03-01", "I drive a Tesla Model 3, bought it used"),
    ("user", "2025-03-08", "we rent a flat in Leith, third floor, 900 a month"),
    ("user", "2025-03-09", "which day is bin day again?"),
    ("assistant", "2025-03-10", "As you drive a Volvo, winter tyres are a must."),
    ("user", "2025-04-02", "our cat Muffin hates the vet"),
    ("user", "2025-06-11", "the landlord raised it, 950 from july"),
    ("user", "2025-07-01", "ich habe eine Laktoseintoleranz, also keine Sahne"),
]


@pytest.fixture(scope="module")
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", judge_new=False) as opened:
        for role, day, text in SAID:
            message = {"role": role, "content": text, "created_at": f"{day}T12:00:00+00:00"}
            opened.add([message], session=day, user_id="ann")
        yield opened


def block(memory: agentmem.MemoryManager, text: str) -> str:
    turn = memory.turn([{"role": "user", "content": text}], user_id="ann", dry=True)
    return turn.block_text


def knowledge(memory: agentmem.MemoryManager, text: str) -> tuple[BlockSource, ...]:
    """The sources of the block; the profile may stand."""
    shown = block(memory, text)
    return parse_context(shown).related_knowledge if shown else ()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What car do I own?", "Tesla"),
        ("how much do we pay for the apartment", "950"),
        ("Was vertrage ich nicht?", "Laktose"),
        ("what's my pet called", "Muffin"),
    ],
)
def test_what_was_told_is_found_in_other_words(
    memory: agentmem.MemoryManager, question: str, answer: str
) -> None:
    assert answer in block(memory, question)


@pytest.mark.parametrize(
    "question",
    ["why do cats purr", "what is the capital of France?", "write me a poem about cars",
     "wie hoch ist der Eiffelturm", "quién pintó las meninas", "光速是多少"],
)  # fmt: skip
def test_questions_about_the_world_at_large_bring_nothing(
    memory: agentmem.MemoryManager, question: str
) -> None:
    assert not knowledge(memory, question)


@pytest.mark.parametrize(
    "question",
    ["how long do cats live on average?", "wie alt werden katzen im durchschnitt",
     "¿por qué ronronean los gatos?", "combien de temps vit un chat ?",
     "quantos anos vive um gato", "quanto vive un gatto", "猫の平均寿命は？", "猫一般能活多少年",
     "schreib mir ein gedicht über eine katze", "cuánto cuesta un Tesla Model 3"],
)  # fmt: skip
def test_nor_do_those_about_what_somebody_has_told_of(
    memory: agentmem.MemoryManager, question: str
) -> None:
    assert not knowledge(memory, question)


def test_a_search_finds_it_in_other_words_too(memory: agentmem.MemoryManager) -> None:
    found = memory.search("what car do I own", user_id="ann")
    assert found[0].memory.text.startswith("I drive a Tesla")
    assert all(a.score >= b.score >= 0.3 for a, b in pairwise(found))
    alone = memory.search("what car do I own", user_id="ann", by_question=False, threshold=0.0)
    assert alone[0].score < found[0].score
    assert not memory.search("how far away is the moon?", user_id="ann")


def test_a_second_line_changes_nothing(memory: agentmem.MemoryManager) -> None:
    one, two = (
        memory.search(f"What car do I own?{gap}and how old is it?", user_id="ann").own_world
        for gap in (" ", "\n")
    )
    assert one == pytest.approx(two, abs=0.05)
    assert two > 0.9


@pytest.mark.parametrize(
    "text", ["Hi there!", "ok", "thank you", "Good morning!", "danke", "¡Hola!", "merci",
             "ciao", "obrigado", "ありがとう", "你好！", "ok, thanks", "Thanks so much for your help!",
             "sounds good, talk to you later", "👍", "vielen lieben Dank", "谢谢你"]
)  # fmt: skip
def test_greetings_ask_nothing(memory: agentmem.MemoryManager, text: str) -> None:
    assert is_greeting(text)
    assert not knowledge(memory, text)


@pytest.mark.parametrize(
    "text", ["ok, where do I live?", "thanks for the car", "hi Muffin", "?!x", "for you", "there"]
)
def test_what_says_more_is_no_greeting(text: str) -> None:
    assert not is_greeting(text)


def test_the_newer_value_stands_before_the_older_and_old_questions_do_not(
    memory: agentmem.MemoryManager,
) -> None:
    shown = " ".join(source.text for source in knowledge(memory, "how much rent do we pay?"))
    assert shown.index("950 from july") < shown.index("900 a month")
    assert "which day is bin day" not in shown


def test_what_the_user_said_is_preferred_to_what_the_assistant_made_of_it(
    memory: agentmem.MemoryManager,
) -> None:
    turn = memory.turn([{"role": "user", "content": "what do I drive"}], user_id="ann", dry=True)
    order = {hit.memory.text: hit.score for hit in turn.context.hits}
    assert order[SAID[0][2]] > order[SAID[3][2]]


@pytest.mark.parametrize(
    ("text", "language"),
    [("where is my car", "en"), ("wo ist mein Auto", "de"), ("dónde está mi coche", "es"),
     ("où est ma voiture", "fr"), ("onde está o meu carro", "pt"), ("dov'è la mia macchina", "it"),
     ("車はどこ", "ja"), ("我的车在哪里", "zh"), ("", "en"), ("xyzzy", "en"),
     ("was heißt warmmiete", "de"), ("qu'est-ce que la toussaint", "fr"), ("cos'è il pesto", "it"),
     ("como preencher o irs", "pt"), ("merci", "fr")],
)  # fmt: skip
def test_the_language_of_a_question_is_heard(text: str, language: str) -> None:
    assert detect_language(text) == language
    found = word_features(text)
    assert [name for name in LANGUAGES if found[WORD_FEATURES.index(name)]] == [language]


def test_a_better_match_and_a_nearer_world_are_never_worth_less() -> None:
    steps = np.linspace(0, 1, 21).tolist()
    for sort in get_args(Sort):
        for world in steps:
            scores = [turn_score(score, world, sort=sort) for score in steps]
            assert scores == sorted(scores)
            assert all(0 <= score <= 1 for score in scores)
        for score in steps:
            worlds = [turn_score(score, world, sort=sort) for world in steps]
            assert worlds == sorted(worlds)
    assert turn_score(1.0, 0.0) == 0.0
    assert turn_score(0.8, 0.0, sort="page") == 0.8


def test_an_unknown_embedder_uses_the_gate_without_vectors() -> None:
    assert len(gate_of("pair").reading) == 896
    assert len(gate_of("minilm").reading) == 384
    unknown = gate_of("somebody's")
    assert len(unknown.reading) == 0
    assert np.array_equal(unknown.words, gate_of("none").words)


def test_the_gate_was_fitted_on_the_questions_that_are_here() -> None:
    """Who changes them runs `python benchmarks/fit_gate.py` again."""
    folder = Path(__file__).parents[2] / "benchmarks" / "data" / "questions"
    read = hashlib.sha256()
    for path in sorted(folder.glob("**/*.jsonl")):
        read.update(path.name.encode() + path.read_bytes())
    with np.load(io.BytesIO(read_bytes("gates.npz"))) as weights:
        assert weights["fitted_on"].tobytes() == read.digest()


@pytest.mark.parametrize(
    "text",
    [
        "how do you get candle wax out of a tablecloth",
        "what is the difference between a hare and a rabbit",
        "comment on enlève une tache de vin sur un tapis",
        "wie lange kocht man ein weiches ei",
        "怎么煮溏心蛋",
    ],
)
def test_what_was_only_asked_is_offered_to_nobody_even_without_a_mark(text: str) -> None:
    assert is_only_asked(text)
    with agentmem.open(":memory:", judge_new=False) as memory:
        memory.add([{"role": "user", "content": text}], user_id="ann")
        assert not memory.search(text, user_id="ann").hits
        assert memory.search(text, user_id="ann", questions=True).hits


@pytest.mark.parametrize("text", [
    "my landlady said the ferret can stay, now what cage do I get",
    "how lucky we are, Noor got into the music school in Ghent",
    "Ich wohne seit Mai in Graz, was kann man da machen",
    "when I was ten we moved to Cork",
    "我下周搬到成都，有什么好吃的",
])  # fmt: skip
def test_what_tells_something_beside_a_question_is_offered(text: str) -> None:
    assert not is_only_asked(text)


ASKED = ("What car do I own?", "which car is mine?", "Tell me what I drive?", "what's my car again?",
         "Do you know my car?")  # fmt: skip
ANSWERED = ("You own a Saab.", "You drive a Tesla Model 3.", "Your car is a Volvo, I believe.",
            "You drive a Tesla Model 3.", "Yes: your car is a Saab.")  # fmt: skip


def test_asked_five_ways_the_fact_is_found_and_not_the_questions_or_their_answers() -> None:
    with agentmem.open(":memory:") as memory:
        fact = "I drive a Tesla Model 3, bought it used"
        memory.add([{"role": "user", "content": fact}], session="0", user_id="ann")
        for at, (asked, answered) in enumerate(zip(ASKED, ANSWERED, strict=True)):
            memory.add(
                [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}],
                session=f"s{at}",
                user_id="ann",
            )
        memory.flush()
        found = memory.search("What car do I own?", threshold=0.0, user_id="ann")
        texts = [hit.memory.text for hit in found]
        assert texts[0] == fact
        assert not set(texts) & {*ASKED, "You drive a Tesla Model 3."}
        everything = memory.search(
            "What car do I own?", threshold=0.0, questions=True, user_id="ann"
        )
        assert set(ASKED) & {hit.memory.text for hit in everything}
        messages = [{"role": "user", "content": "Which car is it that I have?"}]
        block = memory.turn(messages, user_id="ann", dry=True).block_text
        assert all(block.find(fact) < block.find(one) for one in ANSWERED if one in block)
        assert fact in block


def test_what_somebody_only_told_is_shown_once_and_where_their_world_is_asked_about() -> None:
    with agentmem.open(":memory:", judge_new=False) as memory:
        for text in ("I'm allergic to peanuts", "no emojis please"):
            memory.add([{"role": "user", "content": text}], user_id="ann")
        memory.preferences.add("I keep bees", user_id="ann")
        told = [{"role": "user", "content": "We found a house in Ruddington"}]
        memory.preferences.detect(told, user_id="ann")  # and the message itself is not kept

        def profile(text: str) -> set[str]:
            turn = memory.turn([{"role": "user", "content": text}], user_id="ann", dry=True)
            return set(turn.block.user_profile) if turn.block else set()

        asked_for = {"I'm allergic to peanuts", "no emojis please", "I keep bees"}
        assert profile("why do magnets attract iron?") == asked_for
        assert profile("where did we find a house?") == {
            *asked_for,
            "We found a house in Ruddington",
        }
        assert profile("hello") >= asked_for
        memory.add(told, user_id="ann")
        asking = [{"role": "user", "content": "where did we find a house?"}]
        turn = memory.turn(asking, user_id="ann", dry=True)
        assert turn.block_text.count("We found a house in Ruddington") == 1
        assert profile("where did we find a house?") == asked_for
