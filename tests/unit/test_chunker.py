"""Worked examples of chunks, and bad input."""

from __future__ import annotations

import pytest

from agentmem.base.errors import InvalidInput, InvalidNumber, InvalidText
from agentmem.base.types import Chunk, Document, TextFormat
from agentmem.text.chunks import chunk, format_of

SENTENCE = "The lamp stands on the desk near the window. "


def words(text: str) -> int:
    return len(text.split())


def cut(text: str, text_format: TextFormat = "markdown", **sizes: int) -> list[Chunk]:
    return list(chunk(Document(text=text, format=text_format), count=words, **sizes))


def test_small_document_is_one_chunk_with_its_headings() -> None:
    text = "# Guide\n\n## Install\n\nRun the command.\n"
    (only,) = cut(text)
    assert only == Chunk(
        text=text.rstrip(), start=0, end=len(text) - 1, tokens=7, heading_path=("Guide", "Install")
    )


def test_sections_become_chunks_of_their_own_heading() -> None:
    text = "".join(
        f"{'#' * level} {name}\n\n{SENTENCE * 9}\n\n"
        for level, name in ((1, "Guide"), (2, "Use `it`"), (3, "Deep ##"), (2, "[More](x.md)"))
    )
    chunks = cut(text, target_tokens=60)
    assert [part.heading_path for part in chunks] == [
        ("Guide",),
        ("Guide", "Use it"),
        ("Guide", "Use it", "Deep"),
        ("Guide", "More"),
    ]
    assert all(part.text.startswith("#") for part in chunks)


def test_tiny_sections_are_joined_under_what_they_share() -> None:
    text = "# A\n\n" + "".join(f"## Part {n}\n\nA few words.\n\n" for n in range(4))
    (only,) = cut(text, target_tokens=60)
    assert only.heading_path == ("A",)


def test_fence_stays_whole_above_the_target_and_is_cut_at_lines_above_the_limit() -> None:
    body = "\n".join(f"line number {n} of the code" for n in range(20))
    text = f"{SENTENCE}\n\n```python\n{body}\n```\n\n{SENTENCE}"
    assert any(f"```python\n{body}\n```" in part.text for part in cut(text, target_tokens=70))
    for part in cut(text, target_tokens=30):
        assert part.tokens <= 60
        assert part.text.endswith(("code", "```", "."))


def test_list_items_are_not_cut_in_the_middle() -> None:
    items = [f"- Item {n} has\n  some words and\n  - a nested point" for n in range(12)]
    text = "What to do:\n\n" + "\n".join(items)
    chunks = cut(text, target_tokens=30)
    assert len(chunks) > 3
    for item in items:
        assert any(item in part.text for part in chunks)
    assert chunks[0].text.startswith("What to do:\n\n- Item 0")


def test_code_is_cut_before_definitions() -> None:
    functions = [
        f"# about {n}\n@wrapped\ndef step_{n}(value):\n    first = value\n\n    return first + {n}"
        for n in range(6)
    ]
    text = "import os\nimport sys\n\n\n" + "\n\n\n".join(functions) + "\n"
    chunks = cut(text, "code", target_tokens=30)
    for function in functions:
        assert any(function in part.text for part in chunks)
    assert all(part.text.startswith(("import", "# about")) for part in chunks)


def test_turns_keep_speaker_and_date() -> None:
    text = (
        "Alice: hi\n"
        "[2024-05-01 10:00] Bob: hello\nhow are you?\n"
        "[2024-05-01 10:01] Bob: still there?\n"
        "Caroline (8 May 2023): I saw http://x.org: nice\n"
        "12/05/2024, 10:00 - Mary Ann: ok\n"
        "<nick> irc\n"
        "\n--- 9 May 2023 ---\n"
        "**User:** what?\n"
        "[10:05] Assistant: this\nNote: not a speaker\n"
    )
    assert [(part.speaker, part.date, part.text) for part in cut(text, "chat")] == [
        ("Alice", "", "Alice: hi"),
        (
            "Bob",
            "2024-05-01 10:00",
            "[2024-05-01 10:00] Bob: hello\nhow are you?\n[2024-05-01 10:01] Bob: still there?",
        ),
        ("Caroline", "8 May 2023", "Caroline (8 May 2023): I saw http://x.org: nice"),
        ("Mary Ann", "12/05/2024, 10:00", "12/05/2024, 10:00 - Mary Ann: ok"),
        ("nick", "", "<nick> irc"),
        ("User", "9 May 2023", "--- 9 May 2023 ---\n**User:** what?"),
        ("Assistant", "9 May 2023 10:05", "[10:05] Assistant: this\nNote: not a speaker"),
    ]


def test_long_turn_keeps_its_speaker_in_every_chunk() -> None:
    chunks = cut(f"Alice (8 May 2023): {SENTENCE * 20}\nBob: ok", "chat", target_tokens=40)
    assert len(chunks) > 3
    assert {(part.speaker, part.date) for part in chunks[:-1]} == {("Alice", "8 May 2023")}
    assert all(part.text.endswith(".") for part in chunks[:-1])


def test_one_endless_word_is_cut_between_characters() -> None:
    family = "👩\u200d👩\u200d👧"
    text = family * 5_000
    parts = chunk(Document(text=text), count=len, target_tokens=100)
    assert "".join(part.text for part in parts) == text
    assert all(part.tokens <= 200 and len(part.text) % len(family) == 0 for part in parts)
    long = chunk(Document(text="x" * 100_000), count=lambda t: len(t) // 4, target_tokens=250)
    assert len(long) == 100


def test_white_space_has_no_chunks() -> None:
    assert cut("") == cut(" \n\t\x85") == []


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("markdown", "# A title\n\nSome text.\n"),
        ("markdown", "See [this](https://x.org/y).\n\nMore text."),
        ("markdown", "```\nBob: hi\n```\ntext"),
        ("markdown", "Just a few words.\nAnd more of them."),
        ("markdown", ""),
        ("markdown", "Name: Bob\nAge: 40\n"),
        ("chat", "Alice: hi\nBob: hello\nAlice: bye\n"),
        (
            "chat",
            "[2024-05-01 10:00] Bob: hi\n[2024-05-01 10:01] Al: yes\n[2024-05-01 10:02] Bob: so\n",
        ),
        ("code", "import os\n\n\ndef f(x):\n    if x:\n        return 1\n    return os.name\n"),
        ("code", "int main() {\n  return 0;\n}\n"),
    ],
)
def test_format_is_guessed(expected: TextFormat, text: str) -> None:
    assert format_of(Document(text=text)) == expected


def test_bad_input_is_named() -> None:
    document = Document(text="x")
    with pytest.raises(InvalidInput, match="document"):
        chunk("text", count=words)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(InvalidNumber, match="target_tokens"):
        chunk(document, count=words, target_tokens=0)
    with pytest.raises(InvalidNumber, match="limit_tokens"):
        chunk(document, count=words, limit_tokens=-1)
    with pytest.raises(InvalidNumber, match="one character"):
        chunk(document, count=lambda text: 100 + len(text), limit_tokens=50)
    with pytest.raises(InvalidText):
        Document(text="\ud800")


@pytest.mark.parametrize("text_format", ["markdown", "text", "code", "chat"])
@pytest.mark.parametrize(
    "scrap",
    ["a", " ", "a ", "\n", "- ", "# ", "#", "`", "|", "> ", "1. ", "[", "**", "A: ", ".", "(", "8 May ", "\u0301", "}"],
)  # fmt: skip
def test_a_long_run_of_anything_is_read_once(scrap: str, text_format: TextFormat) -> None:
    counted = 0

    def count(text: str) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    text = "x" + scrap * (40_000 // len(scrap)) + "y"
    chunk(Document(text=text, format=text_format), count=count)
    assert counted <= 25 * len(text)
