"""LanceDB: its own hybrid of full text and vectors, both indexed as it proposes, on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lancedb
from common import Peer, Vectors, Work, run


def build(work: Work) -> Peer:
    base = lancedb.connect(work.folder)
    made: dict[str, Any] = {}

    def rows(start: int, texts: Sequence[str], vectors: Vectors) -> list[dict[str, Any]]:
        return [
            {"id": start + i, "text": text, "vector": vector}
            for i, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]

    def load(texts: Sequence[str], vectors: Vectors) -> None:
        made["table"] = base.create_table("memory", rows(0, texts, vectors))
        made["table"].create_fts_index("text", stem=True, remove_stop_words=True)
        made["table"].create_index(metric="cosine", vector_column_name="vector")

    def ask(query: str, vector: Vectors) -> object:
        words = " ".join(word for word in query.split() if word.isalnum())
        search = made["table"].search(query_type="hybrid").vector(vector).text(words)
        return search.limit(10).to_list()

    return Peer(
        load=load,
        ask=ask,
        add=lambda i, text, vector: made["table"].add(rows(i, [text], vector[None, :])),
    )


run("LanceDB (hybrid)", lancedb.__version__, build)
