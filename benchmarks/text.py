"""Cutting and chunking: how fast, against a plain loop and another splitter.

    python benchmarks/text.py [--megabytes 1] [--limit 2000] [--json]

The baseline for cutting counts the text from its start again for each sentence.
`semantic-text-splitter` takes part when it is installed. Times are CPU seconds,
the best of three runs.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentmem.base.types import Document, TextFormat  # noqa: E402
from agentmem.text.chunks import chunk  # noqa: E402  # found through the line above
from agentmem.text.sentences import sentences, truncate_at_sentence  # noqa: E402

_WORDS = (
    "the lamp stands on a desk near window and its cable is old so we measured 1.5 ohms with Dr. "
    "Smith who said e.g. that U.S. plugs differ see https://example.com/a.b?c=d or setup.py"
)


def make_prose(characters: int, seed: int = 7) -> str:
    """Paragraphs of sentences with numbers, abbreviations and addresses in them."""
    draw = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < characters:
        sentence = " ".join(draw.choices(_WORDS.split(), k=draw.randint(4, 24))).capitalize() + "."
        parts.append(sentence + ("\n\n" if draw.random() < 0.2 else " "))
        size += len(parts[-1])
    return "".join(parts)[:characters]


def make_markdown(characters: int, seed: int = 7) -> str:
    """Sections with paragraphs, lists, fences and tables."""
    draw = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < characters:
        prose = make_prose(draw.randint(200, 1500), draw.randint(0, 10**6))
        first = len(parts)
        parts.append(f"{'#' * draw.randint(1, 4)} Part {len(parts)}\n\n{prose}\n\n")
        parts.append(
            "\n".join(f"- {make_prose(80, n)}" for n in range(draw.randint(0, 6))) + "\n\n"
        )
        if draw.random() < 0.3:
            parts.append("```python\n" + "x = call(1)\n" * draw.randint(2, 30) + "```\n\n")
        if draw.random() < 0.1:
            parts.append("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * draw.randint(2, 9) + "\n")
        size += sum(map(len, parts[first:]))
    return "".join(parts)[:characters]


def make_chat(characters: int, seed: int = 7) -> str:
    """Turns of two speakers with dates."""
    draw = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < characters:
        said = make_prose(draw.randint(20, 400), draw.randint(0, 10**6)).replace("\n", " ")
        parts.append(
            f"[2024-05-{draw.randint(1, 28):02} 10:00] {draw.choice(('Al', 'Bo'))}: {said}\n"
        )
        size += len(parts[-1])
    return "".join(parts)[:characters]


def tokenizer() -> Callable[[str], int]:
    """tiktoken's cl100k_base from the files that litellm carries."""
    spec = importlib.util.find_spec("litellm")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(folder))
    import tiktoken

    encoding = tiktoken.get_encoding("cl100k_base")
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def count_each_sentence(text: str, limit_tokens: int, count: Callable[[str], int]) -> str:
    """The baseline: one sentence more, counted from the start, until it no longer fits."""
    best = ""
    for _, end in sentences(text):
        if count(text[:end]) > limit_tokens:
            break
        best = text[:end]
    return best


def cpu_seconds(work: Callable[[], object], runs: int = 3) -> float:
    best = float("inf")
    for _ in range(runs):
        before = time.process_time()
        work()
        best = min(best, time.process_time() - before)
    return best


def measure(megabytes: float, limit_tokens: int, progress: Callable[[str], None]) -> dict[str, Any]:
    size = int(megabytes * 1_000_000)
    count = tokenizer()
    prose = make_prose(size)
    rows: list[dict[str, Any]] = []
    progress("cutting, baseline")
    slow = cpu_seconds(lambda: count_each_sentence(prose, limit_tokens, count), runs=1)
    hard = {
        "prose": prose,
        "no sentence end": "word " * (size // 5),
        "dots": "." * size,
        "one sentence": "word " * (size // 5) + ".",
        "tiny sentences": "Ok! " * (size // 4),
    }
    for name, text in hard.items():
        progress(f"cutting, {name}")
        row: dict[str, Any] = {
            "what": f"cut to {limit_tokens} tokens: {name}",
            "seconds": cpu_seconds(partial(truncate_at_sentence, text, limit_tokens, count)),
        }
        if name == "prose":
            row |= {"baseline_seconds": slow, "times_faster": slow / row["seconds"]}
        rows.append(row)
    documents: tuple[tuple[TextFormat, str], ...] = (
        ("markdown", make_markdown(size)),
        ("text", prose),
        ("code", (ROOT / "agentmem" / "types.py").read_text(encoding="utf-8") * (size // 6000)),
        ("chat", make_chat(size)),
        ("text", "a" * size),
    )
    splitter = _other_splitter()
    for text_format, text in documents:
        name = "one word" if text[:9] == "a" * 9 else text_format
        progress(f"chunking, {name}")
        document = Document(text=text, format=text_format)
        seconds = cpu_seconds(partial(chunk, document, count=count), runs=1)
        row = {
            "what": f"chunks: {name}",
            "seconds": seconds,
            "megabytes_a_second": len(text) / 1e6 / seconds,
            "counting_once_seconds": cpu_seconds(partial(_count_lines, text, count), runs=1),
        }
        if splitter is not None and text_format in ("markdown", "text") and name != "one word":
            progress(f"chunking, {name}, semantic-text-splitter")
            other = cpu_seconds(partial(splitter, text, text_format, count), runs=1)
            row |= {"semantic_text_splitter_seconds": other, "times_faster": other / seconds}
        rows.append(row)
    return {"megabytes": megabytes, "limit_tokens": limit_tokens, "rows": rows}


def _count_lines(text: str, count: Callable[[str], int]) -> int:
    return sum(count(text[at : at + 1000]) for at in range(0, len(text), 1000))


def _other_splitter() -> Callable[[str, str, Callable[[str], int]], object] | None:
    if importlib.util.find_spec("semantic_text_splitter") is None:
        return None
    module = importlib.import_module("semantic_text_splitter")

    def split(text: str, text_format: str, count: Callable[[str], int]) -> object:
        kind = module.MarkdownSplitter if text_format == "markdown" else module.TextSplitter
        return kind.from_callback(count, 250).chunk_indices(text)

    return split


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--megabytes", type=float, default=1.0, help="size of each text")
    parser.add_argument("--limit", type=int, default=2000, help="tokens to cut to")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    shown = sys.stderr.isatty() and not options.json
    report = measure(
        options.megabytes,
        options.limit,
        lambda step: print(f"\r{step:<60}", end="", file=sys.stderr) if shown else None,
    )
    if shown:
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    if options.json:
        print(json.dumps(report, indent=2))
        return
    for row in report["rows"]:
        extra = ", ".join(
            f"{name.replace('_', ' ')} {value:,.3g}"
            for name, value in row.items()
            if name not in ("what", "seconds")
        )
        print(f"{row['what']:<42}{row['seconds'] * 1000:>9,.1f} ms  {extra}")


if __name__ == "__main__":
    main()
