"""Open a memory: names become objects here and nowhere below."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from agentmem.base.checks import require_path
from agentmem.base.config import (
    BudgetConfig,
    Durability,
    LearnConfig,
    MemorySettings,
    RecallConfig,
    ResultsConfig,
    default_path,
)
from agentmem.base.errors import InvalidInput
from agentmem.base.protocols import Clock, Embedder, EmbedderId
from agentmem.memory.manager import MemoryManager
from agentmem.search.embedders.base import DEFAULT, load_embedder
from agentmem.search.retriever import Reranker
from agentmem.stores.values import Restored, is_dsn

_USUAL = MemorySettings()


def open(  # noqa: A001 - `agentmem.open` is what users type
    path: str | os.PathLike[str] | None = None,
    *,
    embedder: str | Embedder | None = DEFAULT,
    clock: Clock | None = None,
    rerank: str | Reranker | None = None,
    read_dsn: str | None = None,
    recall: RecallConfig = _USUAL.recall,
    budget: BudgetConfig = _USUAL.budget,
    learn: LearnConfig = _USUAL.learn,
    results: ResultsConfig = _USUAL.results,
    durability: Durability = _USUAL.durability,
    chunk_tokens: int = _USUAL.chunk_tokens,
    chunk_limit_tokens: int = _USUAL.chunk_limit_tokens,
    save_indexes: bool = _USUAL.save_indexes,
    embed_in_background: bool = _USUAL.embed_in_background,
    judge_new: bool = _USUAL.judge_new,
    keep_contexts_days: float | None = _USUAL.keep_contexts_days,
    keep_contexts_bytes: int | None = _USUAL.keep_contexts_bytes,
    strict_scope: bool = _USUAL.strict_scope,
) -> MemoryManager:
    """The memory at `path`, or the one in the user's data folder.

    Nothing is created before the first write. `":memory:"` keeps everything in
    this process, `"postgresql://user@host/database?tenant=acme"` in a database
    server, whose replica at `read_dsn` is read where it is up to date.
    `embedder` is a name ("pair", "minilm", "wordllama", "litellm:MODEL", …),
    an object with the `Embedder` protocol, or None for search by words alone.
    `rerank` is "cross-encoder:FOLDER" or any callable that scores memories from 0 to 1
    for a question. `recall`, `budget`, `learn` and `results` say what searches and turns
    do unless they are told otherwise; the rest is explained at `Settings`.
    """
    checked = MemorySettings(
        recall=recall,
        budget=budget,
        learn=learn,
        results=results,
        durability=durability,
        chunk_tokens=chunk_tokens,
        chunk_limit_tokens=chunk_limit_tokens,
        save_indexes=save_indexes,
        embed_in_background=embed_in_background,
        judge_new=judge_new,
        keep_contexts_days=keep_contexts_days,
        keep_contexts_bytes=keep_contexts_bytes,
        strict_scope=strict_scope,
    )
    chosen = load_embedder(embedder) if isinstance(embedder, str) else _usable(embedder)
    if isinstance(rerank, str):
        from agentmem.search.rerank import load_reranker

        rerank = load_reranker(rerank)
    elif rerank is not None and not callable(rerank):
        raise InvalidInput(
            "rerank", rerank, "cannot be called", remedy="Pass a name or a callable."
        )
    shared: dict[str, Any] = {
        "embedder": chosen, "clock": clock, "settings": checked, "rerank": rerank,
        "load_embedder": load_embedder,
    }  # fmt: skip
    if is_dsn(path):
        from agentmem.search.postgres import PostgresSearch
        from agentmem.stores.postgres.store import PostgresStore

        store = PostgresStore(str(path), read_dsn=read_dsn, durability=checked.durability)
        return MemoryManager(store, search=PostgresSearch(store), **shared)
    if read_dsn is not None:
        raise InvalidInput(
            "read_dsn", read_dsn, "goes with a database only", remedy="Leave it out for a file."
        )
    from agentmem.stores.sqlite.store import IN_MEMORY, SqliteStore

    file = None
    if path != IN_MEMORY:
        file = default_path() if path is None else Path(require_path(path))
        if not file.name:
            raise InvalidInput(
                "path", str(path), "names no file", remedy="Name the store's own file."
            )
    kept = SqliteStore(file or IN_MEMORY, durability=checked.durability)
    return MemoryManager(kept, path=file, **shared)


def restore(backup: str | os.PathLike[str], path: str | os.PathLike[str] | None = None) -> Restored:
    """Put a backup in the place of the store at `path`, or of the one in the user's data folder.

    The backup is read and checked first. `StoreBusy` while anybody has the store
    open. What stood there is set aside under another name, its log included, and
    the backup itself stays as it is.
    """
    from agentmem.stores.sqlite.store import restore as put_in_place

    file = default_path() if path is None else Path(require_path(path))
    return put_in_place(Path(require_path(backup)), file)


def _usable(embedder: Embedder | None) -> Embedder | None:
    """`embedder`, if it can be asked; its model is not loaded to find out."""
    asked = ("embed_documents", "embed_query")
    if embedder is not None and not all(callable(getattr(embedder, a, None)) for a in asked):
        remedy = f"Pass a name, or an object with id, {' and '.join(asked)}."
        raise InvalidInput("embedder", embedder, "is no embedder", remedy=remedy)
    named = getattr(embedder, "id", None)
    if embedder is not None and not isinstance(named, EmbedderId):
        remedy = 'Write id = EmbedderId(name="mine", version="1", dimensions=384).'
        raise InvalidInput("embedder.id", named, "is no EmbedderId", remedy=remedy)
    return embedder
