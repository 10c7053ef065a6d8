"""mem0 with its FAISS store and no model calls (`infer=False`), vectors handed in ready made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from common import Peer, Vectors, Work, run

os.environ["MEM0_TELEMETRY"] = "False"
os.environ.setdefault("OPENAI_API_KEY", "unused")

from mem0 import Memory


def build(work: Work) -> Peer:
    memory: Any = Memory.from_config(
        {
            "vector_store": {
                "provider": "faiss",
                "config": {
                    "collection_name": "bench",
                    "path": work.folder + "/faiss",
                    "embedding_model_dims": work.vectors.shape[1],
                },
            },
            "history_db_path": work.folder + "/history.db",
        }
    )
    places = {text: place for place, text in enumerate([*work.texts, *work.queries])}
    vectors_of = [work.vectors, work.query_vectors]

    def embed(text: str, *_: object) -> list[float]:
        place = places[text]
        later = place - len(work.texts)
        vector = vectors_of[0][place] if later < 0 else vectors_of[1][later]
        found: list[float] = vector.tolist()
        return found

    memory.embedding_model.embed = embed

    def load(texts: Sequence[str], vectors: Vectors) -> None:
        # One by one it rewrites its whole file each time, so the load goes to its store at once.
        memory.vector_store.insert(
            vectors=vectors,
            payloads=[{"data": text, "user_id": "u"} for text in texts],
            ids=[str(i) for i in range(len(texts))],
        )

    return Peer(
        load=load,
        ask=lambda query, _: memory.search(query, filters={"user_id": "u"}),
        add=lambda _, text, __: memory.add(text, user_id="u", infer=False),
    )


run("mem0 (FAISS)", version("mem0ai"), build)
