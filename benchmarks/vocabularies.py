"""How far our counts are from the vocabularies of Qwen and Mistral, on texts of many kinds.

    pip install mistral-common dashscope sentencepiece     (they carry the vocabularies)
    python benchmarks/vocabularies.py [--json]

"low" is the share of texts that came out more than 5 or 10 % too small.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentmem.tokens.counter import Tokenizer  # noqa: E402
from tests.token_texts import TEXTS  # noqa: E402

QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
Count = Callable[[str], int]


def folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"{package} is not installed: pip install {package.replace('_', '-')}")
    return Path(found.origin).parent


def vocabularies() -> Iterator[tuple[str, str, Count]]:
    """A model's name, its vocabulary's, and the real count."""
    import tiktoken

    lines = (folder("dashscope") / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(a): int(b) for a, b in (line.split() for line in lines if line)}
    qwen = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks=ranks, special_tokens={})
    yield "qwen2.5-72b-instruct", "Qwen", lambda text: len(qwen.encode_ordinary(text))

    data = folder("mistral_common") / "data"
    written = json.loads((data / "tekken_240911.json").read_text("utf-8"))
    config = written["config"]
    most = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(one["token_bytes"]): one["rank"] for one in written["vocab"][:most]}
    tekken = tiktoken.Encoding(
        "tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}
    )
    yield "mistral-nemo", "Mistral, tekken", lambda text: len(tekken.encode_ordinary(text))

    import sentencepiece

    small = sentencepiece.SentencePieceProcessor(
        model_file=str(data / "mistral_instruct_tokenizer_240323.model.v3")
    )
    yield "open-mixtral-8x7b", "Mistral, 32k", lambda text: len(small.encode(text))


def texts() -> dict[str, str]:
    dice = random.Random(1)
    found = dict(TEXTS)
    found["csv"] = "\n".join(
        ",".join(str(dice.randint(0, 10 ** dice.randint(1, 7))) for _ in range(6))
        for _ in range(40)
    )
    found["table"] = "\n".join(
        "| " + " | ".join(f"{dice.random() * 1000:.2f}" for _ in range(5)) + " |" for _ in range(30)
    )
    found["numbers in JSON"] = json.dumps(
        [{"id": dice.randint(1, 10**6), "value": dice.random()} for _ in range(30)]
    )
    found["log"] = "\n".join(
        f"2026-01-{dice.randint(1, 28):02d} 12:{dice.randint(0, 59):02d} INFO took "
        f"{dice.randint(1, 9999)} ms"
        for _ in range(30)
    )
    for path in sorted((ROOT / "agentmem").rglob("*.py")) + sorted((ROOT / "docs").rglob("*.md")):
        found[path.name] = path.read_text("utf-8")[:6_000]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = []
    for model, name, real in vocabularies():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = Tokenizer(model)
        ratios = sorted(ours(text) / real(text) for text in texts().values())
        rows.append(
            {
                "vocabulary": name,
                "counted with": ours.counted_with,
                "texts": len(ratios),
                "low by 5 %": round(sum(one < 0.95 for one in ratios) / len(ratios), 3),
                "low by 10 %": round(sum(one < 0.9 for one in ratios) / len(ratios), 3),
                "lowest": round(ratios[0], 2),
                "median": round(statistics.median(ratios), 2),
            }
        )
    if arguments.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        print("  ".join(f"{key}: {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
