"""A benchmark folder as evidence for ranking: what store and indexes would say, in plain numpy."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.base.protocols import Embedder
from agentmem.search.question import Question, read_question
from agentmem.search.rank import (
    HOPS,
    Evidence,
    embedded_text,
    indexed_text,
    match_speakers,
    row_flags,
)
from agentmem.text.terms import K1, B, idf, pack_terms

TOP = 100


@dataclass
class Memory:
    """The rows one reader sees: a conversation, or a collection of pages."""

    name: str
    ids: list[str]
    conversation: bool
    speakers: list[str]
    speaker_codes: NDArray[np.int32]
    session: NDArray[np.int64]
    previous: NDArray[np.int32]
    next: NDArray[np.int32]
    flags: NDArray[np.uint8]
    created: NDArray[np.float64]
    lengths: NDArray[np.float32]
    postings: dict[int, tuple[NDArray[np.int32], NDArray[np.float32]]]
    texts: list[str]
    vectors: NDArray[np.float32] | None = None
    embedder: Embedder | None = None
    questions: list[dict[str, Any]] = field(default_factory=list)
    gold: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class Asked:
    """A question with what both legs say about the rows of one memory."""

    memory: str
    query_id: str
    category: object
    question: Question
    evidence: Evidence
    rows: NDArray[np.int64]
    relevant: NDArray[np.bool_]
    wanted: int


def read_folder(folder: Path) -> list[Memory]:
    """One memory for each group of a folder, with its questions."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").open(encoding="utf-8")]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").open(encoding="utf-8")]
    gold: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "qrels.tsv").open(encoding="utf-8"):
        query, document, *_ = line.rstrip("\n").split("\t")
        gold[query].add(document)
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in corpus:
        groups[str(line.get("group", folder.name))].append(line)
    memories = {name: _build(name, lines) for name, lines in groups.items()}
    for query in queries:
        if query["_id"] in gold:
            memory = memories[str(query.get("group", folder.name))]
            memory.questions.append(query)
            memory.gold[query["_id"]] = gold[query["_id"]]
    return list(memories.values())


def embed(
    memories: Sequence[Memory],
    embedder: Embedder | None,
    *,
    cache: Path | None,
    own: Mapping[str, Embedder] | None = None,
) -> None:
    """Give every memory its vectors, from `cache` where they were computed before.

    `own` are the embedders of single memories, which have seen nothing of them.
    """
    for memory in memories:
        memory.vectors = None
        memory.embedder = chosen = (own or {}).get(memory.name, embedder)
        if chosen is None:
            continue
        digest = hashlib.sha256(str(chosen.id).encode())
        for text in memory.texts:
            digest.update(text.encode() + b"\0")
        path = cache / f"{digest.hexdigest()[:24]}.npy" if cache else None
        if path and path.exists():
            memory.vectors = np.load(path)
            continue
        memory.vectors = chosen.embed_documents(memory.texts)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, memory.vectors)


def ask(memory: Memory, query: dict[str, Any], *, top: int = TOP) -> Asked:
    """Both legs' evidence for `query` in `memory`; gold only if it belongs there."""
    question = read_question(query["text"], memory.speakers)
    rows_in_scope = len(memory.ids)
    mean_length = float(memory.lengths.mean())
    scores = np.zeros(rows_in_scope, dtype=np.float32)
    hashes, weights = question.hashes(), question.weights()
    found = np.zeros(len(hashes), dtype=np.float32)
    for at, (term, weight) in enumerate(zip(hashes.tolist(), weights.tolist(), strict=True)):
        holding, counts = memory.postings.get(term, (_NO_ROWS, _NO_COUNTS))
        found[at] = len(holding)
        scores[holding] += bm25(
            counts,
            memory.lengths[holding],
            weight=weight * idf(len(holding), rows_in_scope),
            mean_length=mean_length,
        )
    best = np.argsort(-scores, kind="stable")[:top]
    candidates = best[scores[best] > 0]
    cosine = None
    if memory.embedder is not None and memory.vectors is not None:
        cosine = memory.vectors @ memory.embedder.embed_query(question.vector_text)
        candidates = np.concatenate([candidates, np.argsort(-cosine, kind="stable")[:top]])
    rows, previous, following = expand(candidates.astype(np.int64), memory.previous, memory.next)
    position = np.full(rows_in_scope, -1)
    position[rows] = np.arange(len(rows))
    frequencies = np.zeros((len(rows), len(hashes)), dtype=np.float32)
    for at, term in enumerate(hashes.tolist()):
        held, counts = memory.postings.get(term, (_NO_ROWS, _NO_COUNTS))
        here = position[held] >= 0
        frequencies[position[held[here]], at] = counts[here]
    named = [memory.speakers.index(name) for name in question.named]
    wanted = memory.gold.get(query["_id"], set())
    return Asked(
        memory=memory.name,
        query_id=query["_id"],
        category=query.get("category"),
        question=question,
        rows=rows,
        relevant=np.array([memory.ids[row] in wanted for row in rows.tolist()], dtype=bool),
        wanted=len(wanted),
        evidence=Evidence(
            frequencies=frequencies,
            lengths=memory.lengths[rows],
            document_frequencies=found,
            rows_in_scope=rows_in_scope,
            mean_length=mean_length,
            cosine=None if cosine is None else cosine[rows],
            previous=previous,
            next=following,
            session=memory.session[rows],
            speaker=match_speakers(memory.speaker_codes[rows], named),
            flags=memory.flags[rows],
            created=memory.created[rows],
            conversation=np.full(len(rows), memory.conversation),
        ),
    )


_NO_ROWS = np.zeros(0, dtype=np.int32)
_NO_COUNTS = np.zeros(0, dtype=np.float32)


def _build(name: str, lines: list[dict[str, Any]]) -> Memory:
    conversation = "speaker" in lines[0]
    if conversation:
        lines = sorted(lines, key=lambda line: (line["session"], line["pos"]))
    speakers = sorted({line["speaker"] for line in lines}) if conversation else []
    sessions = [line["session"] if conversation else -1 for line in lines]
    count = len(lines)
    previous = np.full(count, -1, dtype=np.int32)
    for at in range(1, count):
        if conversation and sessions[at] == sessions[at - 1]:
            previous[at] = at - 1
    following = np.full(count, -1, dtype=np.int32)
    following[previous[previous >= 0]] = np.flatnonzero(previous >= 0)
    collected: dict[int, list[tuple[int, int]]] = defaultdict(list)
    lengths = np.zeros(count, dtype=np.float32)
    for at, line in enumerate(lines):
        extra = line.get("caption") or ""
        ((packed, frequencies, _),) = pack_terms([indexed_text(line["text"], extra=extra)])
        hashes, counts = np.frombuffer(packed, "<u8"), np.frombuffer(frequencies, "<u2")
        lengths[at] = counts.sum()
        for term, frequency in zip(hashes.tolist(), counts.tolist(), strict=True):
            collected[term].append((at, frequency))
    return Memory(
        name=name,
        ids=[line["_id"] for line in lines],
        conversation=conversation,
        speakers=speakers,
        speaker_codes=np.array(
            [speakers.index(line["speaker"]) if conversation else -1 for line in lines],
            dtype=np.int32,
        ),
        session=np.array(sessions, dtype=np.int64),
        previous=previous,
        next=following,
        flags=np.array([row_flags(line["text"]) for line in lines], dtype=np.uint8),
        created=np.array([_seconds(line.get("date")) for line in lines]),
        lengths=lengths,
        postings={
            term: (
                np.array([row for row, _ in pairs], dtype=np.int32),
                np.array([frequency for _, frequency in pairs], dtype=np.float32),
            )
            for term, pairs in collected.items()
        },
        texts=[
            embedded_text(
                line["text"], speaker=line.get("speaker", ""), extra=line.get("caption") or ""
            )
            for line in lines
        ],
    )


def _seconds(date: str | None) -> float:
    """`1:56 pm on 8 May, 2023` in seconds since 1970."""
    cleaned = re.sub(r"\s+", " ", (date or "").replace(",", " ")).strip()
    try:
        return datetime.strptime(cleaned, "%I:%M %p on %d %B %Y").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return float("nan")


def bm25(
    frequencies: NDArray[np.float32],
    lengths: NDArray[np.float32],
    *,
    weight: float,
    mean_length: float,
) -> NDArray[np.float32]:
    """What one term adds to the score of each row that holds it.

    `frequencies[i]` is how often row i holds the term, `lengths[i]` how many
    terms the row has; `weight` is the term's idf times its weight in the query.
    """
    share = lengths / max(mean_length, 1e-9)
    gain = frequencies * (K1 + 1.0) / (frequencies + K1 * (1.0 - B + B * share))
    return np.asarray(weight * gain, dtype=np.float32)


def expand(
    candidates: NDArray[np.int64],
    previous_of: NDArray[np.int32],
    next_of: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The candidates and their neighbours, and each one's neighbours as positions among them.

    `previous_of[row]` and `next_of[row]` are row numbers or -1. The distinct
    candidates come first, in the order given.
    """
    _, first = np.unique(candidates, return_index=True)
    rows = candidates[np.sort(first)].astype(np.int64)
    frontier = rows
    for _ in range(HOPS):
        near = np.concatenate([previous_of[frontier], next_of[frontier]]).astype(np.int64)
        near = np.unique(near[near >= 0])
        frontier = near[~np.isin(near, rows)]
        rows = np.concatenate([rows, frontier])
    order = np.argsort(rows)
    ordered = rows[order]

    def positions(wanted: NDArray[np.int32]) -> NDArray[np.int32]:
        at = np.minimum(np.searchsorted(ordered, wanted), max(len(ordered) - 1, 0))
        found = (wanted >= 0) & (ordered[at] == wanted) if len(ordered) else wanted >= 0
        return np.where(found, order[at] if len(ordered) else -1, -1).astype(np.int32)

    return rows, positions(previous_of[rows]), positions(next_of[rows])
