"""Worked examples of sentence ends, and bad input."""

from __future__ import annotations

import pytest

from agentmem.base.errors import InvalidNumber, InvalidText
from agentmem.text.sentences import (
    boundary_at_or_before,
    extends,
    sentence_ends,
    sentences,
    truncate_at_sentence,
)


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    "text",
    [
        "One. | Two! | Three? | Four",
        "Dr. Smith met J. R. R. Tolkien at 9 a.m. on Main St. in the U.S. Army. | Fine.",
        "It costs 1.5 or 1,000.25 in v2.3.1, pi is 3.14. | Right.",
        "See No. 5 and Fig. 3. | He said no. | Then left.",
        "Read setup.py. | Then mail a.b@example.com. | Or https://example.com/a.b?c=d. | Done.",
        "Well... maybe so. | Wait... | What?! | Yes… | Oh.",
        "So . . . it goes. | Yes.",
        '"Really?" he asked. | "Yes." | (He left.) | **Bold.** | Next.',
        "Yahoo! is a name. | Ok.",
        "i write small. | so do they! | do you? | yes",
        "A fact.[1] | Another.[12][3] | Third.",
        "« Quoi ? » | Non. | Oui !",
        "Am 3. Oktober kam z.B. Herr Prof. Meier bzw. Frau Ing. Huber. | Gut.",
        "El Sr. López vive en EE. UU. desde ayer. | ¿Sí? | ¡Claro!",
        "Он живёт на ул. Ленина. | Да.",
        "我爱你。|你好!|我是。|「はい。」と答えた。|次。|１．５です．|次",
        '他说。|“你好。”|她说："好。"|"走！"|完',
        "这是**粗体。**|**也是。**|完「好。」|终",
        "नमस्ते। | आप कैसे हैं? | ठीक॥ | हाँ",
        "مرحبا؟ | نعم. | یہ ہے۔ | ok",
        "Բարև։ | Լավ։ | ሰላም። | እሺ፧ | សួស្តី។ | မြန်မာ။",
        "1. First point. | 2. Second point. | IV. Last.",
        "a) R&D. | Vitamin-C. | Don't. | It is 5m. | Ok.",
        "He said: no. | No. | I do not. | In Proc. Natl. Acad. Sci. 5 it is. | A B.Tech. Degree.",
        "Use node.js. | Or README.md. | Then go.",
        "डॉ. सिंह आए। | د. أحمد هنا. | 그는 왔다. | 네.",
        "No space after SQL. | HTML is one.",
    ],
)
def test_sentences_are_found(text: str) -> None:
    bars = text.split("|")
    expected = [bar.strip() for bar in bars]
    joined = text.replace(" | ", " ").replace("|", "")
    assert split(joined) == expected


def test_next_item_of_a_list_may_begin_small() -> None:
    assert split("Use lemon.\n- rub it in.\n- wait.") == ["Use lemon.", "- rub it in.", "- wait."]


def test_blank_line_parts_sentences_but_is_no_end() -> None:
    text = "# A heading\n\nText goes on\r\n\r\nand ends."
    assert split(text) == ["# A heading", "Text goes on", "and ends."]
    assert list(sentence_ends(text)) == [len(text)]


def test_cut_keeps_whole_sentences() -> None:
    text = "One two. Three four. Five six."
    words = lambda t: len(t.split())  # noqa: E731  # short on purpose
    assert truncate_at_sentence(text, 6, words) == text
    assert truncate_at_sentence(text, 5, words) == "One two. Three four."
    assert truncate_at_sentence(text, 2, words) == "One two."
    assert truncate_at_sentence(text, 1, words) == ""
    assert truncate_at_sentence("", 0, words) == ""


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "." * 1_000_000,
        "a. " * 333_333,
        "A. " * 333_333,
        "。" * 1_000_000,
        ".x" * 500_000,
        ". " * 500_000,
        ".)" * 500_000,
        " " * 1_000_000 + "x",
        "\n" * 1_000_000 + "x",
        "1. " * 333_333,
        "word " * 200_000 + ".",
        "\u0301" * 1_000_000,
        "Go on" + "." * 1_000_000 + " Next.",
        "x." + "*" * 1_000_000 + "y",
    ],
    ids=lambda text: repr(text[:4]),
)
def test_a_megabyte_costs_about_the_limit(text: str) -> None:
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return len(piece) // 4

    cut = truncate_at_sentence(text, 2_000, count)
    assert len(cut) // 4 <= 2_000
    assert counted <= 60 * 8_000  # a few dozen times the limit's characters, not 1 MB squared
    assert sum(1 for _ in sentence_ends(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "position", "cut"),
    [
        ("aक्षि", 3, 1),  # a virama binds the next letter
        ("कष", 1, 1),
        ("a\r\nb", 2, 1),
        ("ae\u0301", 2, 1),
        ("🇫🇷🇩🇪", 3, 2),
        ("👩\u200d👧", 2, 2),  # nothing before it to cut at
        ("a👩\u200d👧", 3, 1),
        ("한국", 1, 1),
        ("a" + "\u1112\u1161\u11ab", 3, 1),
        ("ab", 2, 2),
    ],
)
def test_a_character_is_not_cut(text: str, position: int, cut: int) -> None:
    assert boundary_at_or_before(text, position, start=0) == cut


def test_marks_belong_to_what_stands_before_them() -> None:
    assert all(map(extends, "\u0301\u200d\ufe0f\u0e33\u093f\U0001f3fd\U000e0067\uff9e"))
    assert not any(map(extends, "aé。あ한👩"))


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidText, match="text"):
        truncate_at_sentence(None, 5, len)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidText, match="surrogate"):
        truncate_at_sentence("a\ud800. b", 5, len)
    with pytest.raises(InvalidNumber, match="limit_tokens"):
        truncate_at_sentence("a", -1, len)
    with pytest.raises(InvalidNumber, match="limit_tokens"):
        truncate_at_sentence("a", float("nan"), len)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidText):
        list(sentences(5))  # type: ignore[arg-type]  # on purpose
