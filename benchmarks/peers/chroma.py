"""Chroma: vectors only, on disk."""

from __future__ import annotations

from collections.abc import Sequence

import chromadb
from common import Peer, Vectors, Work, run


def build(work: Work) -> Peer:
    client = chromadb.PersistentClient(
        path=work.folder, settings=chromadb.Settings(anonymized_telemetry=False)
    )
    table = client.create_collection("memory", metadata={"hnsw:space": "cosine"})

    def load(texts: Sequence[str], vectors: Vectors) -> None:
        for start in range(0, len(texts), 5000):
            part = range(start, min(start + 5000, len(texts)))
            table.add(
                ids=[str(i) for i in part],
                embeddings=vectors[part.start : part.stop],
                documents=list(texts[part.start : part.stop]),
            )

    return Peer(
        load=load,
        ask=lambda _, vector: table.query(query_embeddings=[vector], n_results=10),
        add=lambda i, text, vector: table.add(ids=[str(i)], embeddings=[vector], documents=[text]),
    )


run("Chroma (vectors)", chromadb.__version__, build)
