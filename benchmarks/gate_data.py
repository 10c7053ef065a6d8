"""Questions asked of real memories, with what the gate sees of each.

Every example is a question, the memories it was asked of and whether it asks
about what those memories are about. Sources are kept apart, so that a fit can
be judged on one that it has not seen.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import agentmem
from agentmem.base.filters import Selection
from agentmem.base.protocols import Embedder, EmbedderId
from agentmem.base.types import Scope
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.query import read_queries
from agentmem.search.gate import memory_features, word_features
from agentmem.search.retriever import Request
from agentmem.text.language import GRAMS, UNSPACED, detect_language, gram_places, gram_scale

STRANGER_EVERY = 3
"""Each so many of a conversation's questions is asked of another one, which knows nothing of it."""
NEAREST, OTHERS = 2, 2
"""Of how many people who speak its language a question is asked: of those whose memories lie
nearest, where a question about the world is mistaken, and of some drawn from the rest."""


@dataclass
class Example:
    """A message asked of somebody's memories; `own` says whether it is about them."""

    source: str
    user: str
    language: str
    kind: str
    text: str
    own: bool
    words: NDArray[np.float32]
    memory: NDArray[np.float32]
    reading: NDArray[np.float32]


class Cached:
    """An embedder that keeps what it made in a folder."""

    def __init__(self, embedder: Embedder, folder: Path | None) -> None:
        self._embedder = embedder
        self._folder = folder
        self._known: dict[str, NDArray[np.float32]] = {}
        self._file = folder / f"{embedder.id.name}-{embedder.id.version}.npz" if folder else None
        if self._file and self._file.exists():
            with np.load(self._file) as file:
                for sort in ("", "r_"):
                    if f"{sort}keys" in file:
                        keys = file[f"{sort}keys"].tolist()
                        self._known |= zip(keys, file[f"{sort}vectors"], strict=True)

    @property
    def id(self) -> EmbedderId:
        return self._embedder.id

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        rows = [self._of("d", text) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(rows), self.id.dimensions)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        return self._of("q", text)

    def reading(self, text: str) -> NDArray[np.float32]:
        """What the gate reads of a question: the vector, where its models give nothing else."""
        return self._of("r" if hasattr(self._embedder, "reading") else "q", text)

    def _of(self, sort: str, text: str) -> NDArray[np.float32]:
        hashed = hashlib.sha256(f"{sort}{text}".encode("utf-8", "replace")).hexdigest()[:24]
        key = f"r{hashed}" if sort == "r" else hashed
        if key not in self._known:
            ask: Any = self._embedder
            made = {"q": ask.embed_query, "r": getattr(ask, "reading", None)}.get(sort)
            self._known[key] = made(text) if made else ask.embed_documents([text])[0]
        return self._known[key]

    def save(self) -> None:
        if self._file and self._known:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            read = {key: row for key, row in self._known.items() if key.startswith("r")}
            made = {key: row for key, row in self._known.items() if not key.startswith("r")}
            np.savez(
                self._file,
                keys=np.array(list(made)),
                vectors=np.array(list(made.values())),
                r_keys=np.array(list(read), dtype="U25"),
                r_vectors=np.array(list(read.values())),
            )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """A file of one JSON object a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def grams_of(texts: Sequence[str]) -> Any:
    """A row a text, a column a place of an n-gram. Needs scipy."""
    from scipy import sparse

    places = [gram_places(text) for text in texts]
    sizes = [len(row) for row in places]
    values = np.repeat([gram_scale(text) for text in texts], sizes)
    pointers = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(texts), GRAMS)
    return sparse.csr_matrix((values, np.concatenate(places), pointers), shape=shape)


def add_person(memory: MemoryManager, person: dict[str, Any], user_id: str) -> None:
    """What one person told, each as what it was."""
    for one in person["memories"]:
        when = f"{one['date']}T12:00:00+00:00"
        if one["by"] in ("user", "assistant"):
            said = {"role": one["by"], "content": one["text"], "created_at": when}
            memory.add([said], session=one["date"], user_id=user_id)
        elif one["by"] == "page":
            url = f"https://ex.org/{person['id']}/{one['id']}"
            memory.sources.add_document(one["text"], url=url, title="", user_id=user_id)
        else:
            memory.add(one["text"], user_id=user_id)


def add_conversations(memory: MemoryManager, folder: Path) -> list[str]:
    """The conversations of a folder in the retrieval form, each its own user's; their names."""
    sessions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in read_lines(folder / "corpus.jsonl"):
        sessions.setdefault((line["group"], str(line["session"])), []).append(line)
    for (group, session), lines in sessions.items():
        said = [
            {"role": "user", "name": c["speaker"], "content": c["text"], "position": c["pos"]}
            for c in lines
        ]
        memory.add(said, session=session, user_id=group)
    return sorted({group for group, _ in sessions})


def query_of(question: dict[str, Any]) -> list[str]:
    """The queries a turn asks for a question with what was said before it."""
    messages = []
    for before in question.get("before", []):
        messages += [
            {"role": "user", "content": before},
            {"role": "assistant", "content": "Okay."},
        ]
    return list(read_queries([*messages, {"role": "user", "content": question["q"]}]))


class Asker:
    """Asks questions of one memory and says what the gate would see."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def ask(self, text: str, user_id: str, **about: Any) -> Example | None:
        request = Request(query=text, selection=Selection(reader=Scope(user_id=user_id)), top_k=50)
        retriever = self._memory.retriever
        self._memory.index.catch_up()
        found = retriever.find(request, [])
        if found is None:
            return None
        read = None
        if found.asked.vector is not None:
            read = self._memory.embedding.reading(found.asked.question.vector_text)
        language = detect_language(text)
        return Example(
            user=user_id,
            language=language,
            text=text,
            words=word_features(text),
            memory=memory_features(
                found.asked.question, found.evidence, unspaced=language in UNSPACED
            ),
            reading=np.zeros(0, dtype=np.float32) if read is None else read,
            **about,
        )


def gather(
    *,
    people: Sequence[Path],
    questions: Sequence[Path],
    prompts: Sequence[Path],
    conversations: Sequence[Path],
    embedder: Embedder | None,
    seed: int = 7,
) -> list[Example]:
    """Every example there is: own questions of each person and conversation, written ones,
    and prompts and questions of others, asked of persons and crowds drawn at random."""
    with closing(agentmem.open(":memory:", embedder=embedder, judge_new=False)) as memory:
        found = _gather(
            memory,
            people=people,
            questions=questions,
            prompts=prompts,
            conversations=conversations,
            embedder=embedder,
            draw=random.Random(seed),
        )
        return list(found)


def _gather(
    memory: MemoryManager,
    *,
    people: Sequence[Path],
    questions: Sequence[Path],
    prompts: Sequence[Path],
    conversations: Sequence[Path],
    embedder: Embedder | None,
    draw: random.Random,
) -> Iterator[Example]:
    asker = Asker(memory)
    users: dict[str, str] = {}
    told: dict[str, list[str]] = {}
    vectors: dict[str, NDArray[np.float32]] = {}
    for path in people:
        crowd = f"{path.parent.name}-{path.stem}"
        persons = read_lines(path)
        for person in persons:
            user = f"{crowd}-{person['id']}"
            users[user] = person["lang"]
            told[user] = [one["text"] for one in person["memories"]]
            told.setdefault(crowd, []).extend(told[user])
            add_person(memory, person, user)
            add_person(memory, person, crowd)
        users[crowd] = "all"
        for person in persons:
            for question in person["questions"]:
                if question["type"] == "unanswerable":
                    continue
                for user in (f"{crowd}-{person['id']}", crowd):
                    yield from _some(
                        asker.ask(query, user, source=f"people-{crowd}",
                                  kind=question["type"], own=bool(question["gold"]))
                        for query in query_of(question)[:2][-1:]
                    )  # fmt: skip
    groups: list[str] = []
    for folder in conversations:
        mine = add_conversations(memory, folder)
        queries = [q for q in read_lines(folder / "queries.jsonl") if q.get("category") != 5]
        for number, query in enumerate(queries):
            yield from _some([asker.ask(query["text"], query["group"], source=folder.name,
                                        kind="conversation", own=True)])  # fmt: skip
            if number % STRANGER_EVERY == 0:
                other = draw.choice([g for g in mine if g != query["group"]])
                yield from _some([asker.ask(query["text"], other, source=folder.name,
                                            kind="stranger", own=False)])  # fmt: skip
        groups += mine
    places = [*users, *groups]
    if embedder is not None:
        vectors = {user: embedder.embed_documents(texts) for user, texts in told.items()}
    for path in questions:
        for line in read_lines(path):
            own = line["about"] == "own"
            same = [u for u, language in users.items() if language in (line["lang"], "all")]
            about = {"source": path.stem, "kind": line["about"], "own": own}
            chosen = _listeners(line["q"], same, vectors, embedder, draw)
            yield from _some(asker.ask(line["q"], user, **about) for user in chosen)
            if not own:
                yield from _some([asker.ask(line["q"], draw.choice(places), **about)])
    for path in prompts:
        for line in read_lines(path):
            yield from _some([asker.ask(line["text"][:4000], draw.choice(places),
                                        source=f"prompts-{path.parent.name}",
                                        kind="prompt", own=False)])  # fmt: skip


def _listeners(
    text: str,
    users: Sequence[str],
    told: Mapping[str, NDArray[np.float32]],
    embedder: Embedder | None,
    draw: random.Random,
) -> list[str]:
    """Whom a question is asked of."""
    mixed = draw.sample(users, len(users))
    if embedder is not None:
        asked = embedder.embed_query(text)
        near = {user: float((told[user] @ asked).max()) for user in mixed}
        mixed.sort(key=lambda user: -near[user])
        mixed[NEAREST:] = draw.sample(mixed[NEAREST:], len(mixed[NEAREST:]))
    return mixed[: NEAREST + OTHERS]


def _some(found: Iterable[Example | None]) -> Iterator[Example]:
    return (one for one in found if one is not None)
