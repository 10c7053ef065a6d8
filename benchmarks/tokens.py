"""How fast counting is, and how far the estimate is from the real encodings.

    python benchmarks/tokens.py [--corpus FOLDER_OR_FILE ...] [--json] [--no-litellm]

Times are per message, as ratios to bare tiktoken. Estimates are compared per
document; "low" counts the documents that came out more than 5 % too small.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentmem.tokens.counter import Tokenizer  # noqa: E402
from agentmem.tokens.encodings import estimate_tokens, tiktoken_counter  # noqa: E402
from agentmem.tokens.litellm import import_litellm  # noqa: E402
from agentmem.tokens.models import EncodingName  # noqa: E402

ENCODINGS: tuple[EncodingName, ...] = ("o200k_base", "cl100k_base", "p50k_base")
DEFAULT_CORPUS = ROOT.parent / "shared" / "bench" / "data"
TEXT_KEYS = ("text", "content", "a", "b", "question", "preference")


def documents(path: Path) -> dict[str, list[str]]:
    """Texts by file: fields of JSON lines, whole files otherwise."""
    found: dict[str, list[str]] = {}
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix == ".jsonl":
            lines = file.read_text("utf-8").splitlines()
            texts = [t for line in lines for t in fields(json.loads(line))]
        elif file.suffix in (".txt", ".md", ".rst", ".py", ".js", ".c", ".html"):
            texts = [file.read_text("utf-8", errors="replace")]
        else:
            continue
        if texts:
            found[str(file.relative_to(path) if path.is_dir() else file.name)] = texts
    return found


def fields(row: dict[str, Any]) -> Iterator[str]:
    yield from (row[key] for key in TEXT_KEYS if isinstance(row.get(key), str) and row[key])


def built_in() -> dict[str, list[str]]:
    from tests.token_texts import TEXTS

    sources = [p.read_text("utf-8") for p in sorted((ROOT / "agentmem").rglob("*.py"))]
    return {"samples in 30 languages": list(TEXTS.values()), "our own source": sources}


def fallback_table(corpora: dict[str, list[str]]) -> list[dict[str, Any]]:
    rows = []
    for corpus, texts in corpora.items():
        for name in ENCODINGS:
            counter = tiktoken_counter(name)
            if counter is None:
                continue
            real = [counter(text) for text in texts]
            guessed = [estimate_tokens(text, encoding=name) for text in texts]
            ratios = [g / r for g, r in zip(guessed, real, strict=True) if r]
            rows.append(
                {
                    "corpus": corpus,
                    "encoding": name,
                    "documents": len(ratios),
                    "low": sum(ratio < 0.95 for ratio in ratios),
                    "lowest": round(min(ratios), 3),
                    "median": round(statistics.median(ratios), 3),
                    "total": round(sum(guessed) / sum(real), 3),
                }
            )
    return rows


def seconds_for(count: Callable[[dict[str, Any]], Any], messages: list[dict[str, Any]]) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for message in messages:
            count(message)
        best = min(best, time.perf_counter() - start)
    return best / len(messages)


def speed_table(texts: list[str], *, with_litellm: bool) -> list[dict[str, Any]]:
    import tiktoken

    messages = [{"role": "user", "content": text} for text in texts]
    warm = Tokenizer("gpt-4o")
    encoding = tiktoken.get_encoding("o200k_base")
    bare = seconds_for(lambda m: len(encoding.encode_ordinary(m["content"])), messages)

    def uncached(message: dict[str, Any]) -> int:
        counter = tiktoken_counter("o200k_base")
        assert counter is not None
        return counter(message["content"])

    ways: dict[str, Callable[[dict[str, Any]], Any]] = {
        "Tokenizer, text not seen before": uncached,
        "Tokenizer, text seen before": warm.count_message,
        "estimate_tokens": lambda m: estimate_tokens(m["content"], encoding="o200k_base"),
    }
    if with_litellm:
        litellm = import_litellm()
        ways["litellm.token_counter"] = lambda m: litellm.token_counter(
            model="gpt-4o", messages=[m]
        )
    rows = [{"way": "bare tiktoken", "microseconds": round(bare * 1e6, 1), "ratio": 1.0}]
    for name, way in ways.items():
        spent = seconds_for(way, messages)
        ratio = round(spent / bare, 3)
        rows.append({"way": name, "microseconds": round(spent * 1e6, 1), "ratio": ratio})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, action="append", help="file or folder of texts")
    parser.add_argument("--messages", type=int, default=500, help="how many to time")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--no-litellm", action="store_true", help="skip litellm (3 to 5 s)")
    options = parser.parse_args()
    corpora = built_in()
    for path in options.corpus or [DEFAULT_CORPUS]:
        if path.exists():
            corpora |= documents(path)
    timed = sorted({text for texts in corpora.values() for text in texts}, key=len)
    timed = timed[:: max(1, len(timed) // options.messages)]
    result = {
        "estimate": fallback_table(corpora),
        "speed": speed_table(timed, with_litellm=not options.no_litellm),
    }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print_table(
        "estimate / real count", result["estimate"],
        ("corpus", "encoding", "documents", "low", "lowest", "median", "total"),
    )  # fmt: skip
    print_table("per message", result["speed"], ("way", "microseconds", "ratio"))


def print_table(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    print(f"\n{title}")
    cells = [list(columns), *([str(row[column])[-38:] for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        print("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
