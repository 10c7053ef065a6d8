"""The retrieval benchmark reads any folder of its form, however oddly it is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n", encoding="utf-8")


def test_numbers_and_nulls_where_texts_are_usual_are_read(tmp_path: Path) -> None:
    said = {"group": 7, "speaker": "Ana", "session": 1}
    write_lines(
        tmp_path / "corpus.jsonl",
        [
            {"_id": 1, "text": "Wing lift at supersonic speed", "group": None, "title": None},
            {"_id": 2, "text": None},
            {**said, "_id": 3, "text": "I adopted a cat named Miso", "pos": 0, "date": None},
            {**said, "_id": 4, "text": None, "pos": 1, "caption": "a red bicycle"},
        ],
    )
    write_lines(
        tmp_path / "queries.jsonl",
        [
            {"_id": 1, "text": "supersonic lift"},
            {"_id": 2, "text": "Ana's cat", "group": 7, "category": 1},
            {"_id": 3, "text": "red bicycle", "group": "7", "category": "5"},
            {"_id": 4, "text": None, "group": ""},
        ],
    )
    gold = "1\t1\t1\n1\t2\t0\n2\t3\t1\n3\t4\t1\n\n"
    (tmp_path / "qrels.tsv").write_text(gold, encoding="utf-8")
    options = ("--data", str(tmp_path), "--embedder", "none", "--json")
    run = subprocess.run(
        [sys.executable, "benchmarks/retrieval.py", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    scores = json.loads(run.stdout)["scores"]
    assert {name: (s["n"], s["recall@5"]) for name, s in scores.items()} == {
        "all": (2, 1.0),
        "category 1": (1, 1.0),
        "category 5": (1, 1.0),
    }
