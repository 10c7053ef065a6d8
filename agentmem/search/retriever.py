"""Ask a `Search` about one question, and let `rank` judge what it brought in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.config import SearchMode
from agentmem.base.errors import EmbedderError
from agentmem.base.filters import ALWAYS, Selection, selected
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Hit, Memory, is_forgotten
from agentmem.prompt.build import is_own_question
from agentmem.search.embedding import Embedding
from agentmem.search.gate import gate_of, own_world, search_scores, settle_echoes
from agentmem.search.protocol import Asked, Candidates, Search
from agentmem.search.question import Question, names_in, read_question
from agentmem.search.rank import (
    ASKS,
    CHAT_ROLES,
    FEATURES,
    LEG_FEATURES,
    Evidence,
    Ranked,
    model_for,
    rank,
)
from agentmem.search.results import Candidate, SearchResults
from agentmem.stores.base import Store
from agentmem.stores.values import name_id
from agentmem.text.terms import mentions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# What is asked of a search, what its legs bring in, and what is made of two of them.


Reranker = Callable[[str, Sequence[Memory]], Sequence[float]]
"""Gives each memory a score from 0 to 1 for the question; any callable will do."""

READ_CHARACTERS = 1_000
WEAK = 0.5
"""A best score below this may mean that what was asked for has been put away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One search: the question, who asks, and what narrows it.

    `cold` says whether memories that were put away are searched too; left
    out, they are when the others do not answer well. With `questions` what a
    user only asked is found as well. With `by_question` the score also says
    whether the question asks for what the memories tell; a turn judges that by itself.
    """

    query: str
    selection: Selection
    top_k: int = 5
    threshold: float = 0.0
    mode: SearchMode = "hybrid"
    explain: bool = False
    cold: bool | None = None
    questions: bool = False
    by_question: bool = False
    now: datetime | None = None

    def __post_init__(self) -> None:
        require_text(self.query, "query")
        require_count(self.top_k, "top_k")
        require_unit(self.threshold, "threshold")
        require_choice(self.mode, get_args(SearchMode), "mode")


def still_there(memory: Memory, selection: Selection) -> bool:
    """Whether a memory was not deleted or replaced while it was searched for."""
    if memory.deleted_at is not None and not selection.deleted:
        return False
    told_apart = selection.superseded or selection.as_of is not None
    return memory.superseded_by is None or told_apart


def is_thin(request: Request, found: SearchResults, best: float) -> bool:
    """Whether a search left so much to be wished that it is worth asking the cold memories.

    It found little, or nothing that the ranking calls good (`best`), or nothing with a
    name that was asked for.
    """
    if 2 * len(found) < request.top_k or best < WEAK:
        return True
    names = [name for name in names_in(request.query[:READ_CHARACTERS]) if name[2:]]
    said = [f"{hit.memory.speaker} {hit.memory.title} {hit.memory.text}" for hit in found]
    return not all(any(mentions(text, name) for text in said) for name in names)


def joined(request: Request, found: SearchResults, more: SearchResults) -> SearchResults:
    """What both searches found, the best first."""
    hits = sorted((*found.hits, *more.hits), key=lambda hit: (-hit.score, hit.memory.id))
    return SearchResults(
        hits=tuple(hits[: request.top_k]),
        own_world=max(found.own_world, more.own_world),
        degradations=tuple(dict.fromkeys((*found.degradations, *more.degradations))),
        candidates=(*found.candidates, *more.candidates),
    )


def reranked(
    rerank: Reranker, request: Request, hits: list[Hit], degradations: list[str]
) -> list[Hit]:
    try:
        scores = [
            require_unit(float(score), "score")
            for score in rerank(request.query, [hit.memory for hit in hits])
        ]
        pairs = list(zip(hits, scores, strict=True))
    except Exception as error:  # noqa: BLE001 - somebody else's model must not break a search
        degradations.append(f"re-ranker: {error}; its order was not used")
        return hits
    again = [replace(hit, score=score) for hit, score in pairs if score >= request.threshold]
    return sorted(again, key=lambda hit: (-hit.score, hit.memory.id))


# ----------------------------------------------------------------------------
# What a search looked at and what became of each candidate.


_NARROWING = ("where", "kinds", "source_url", "session", "since", "until", "as_of")


def removed_by(request: Request, memory: Memory) -> str:
    """The first part of the selection that this memory does not pass."""
    bare = Selection(reader=request.selection.reader)
    if not selected(bare, memory):
        if is_forgotten(memory):
            return "forgotten"
        return "superseded" if memory.superseded_by is not None else "not current"
    for name in _NARROWING:
        value = getattr(request.selection, name)
        if value not in (None, ALWAYS) and not selected(replace(bare, **{name: value}), memory):
            return "filters" if name == "where" else name
    return "visibility"


LEG = 50
"""How many rows each leg brings in, and more for who asks for many: twice what is asked for."""
RERANKED = 50
NAMING_WORDS = 200
"""So many words of a question are looked at for somebody's name."""
LATELY = 50
"""Among so many of the newest memories are those who speak in a conversation."""
_ROLES = frozenset(name_id(role) for role in CHAT_ROLES)


class Retriever:
    """Hybrid search over one store; decides nothing that `rank` can decide."""

    def __init__(
        self,
        store: Store,
        index: Search,
        embedding: Embedding,
        *,
        rerank: Reranker | None = None,
    ) -> None:
        self._store = store
        self._index = index
        self._embedding = embedding
        self._rerank = rerank

    def search(self, request: Request) -> SearchResults:
        """The best `top_k` memories at or above the threshold, best first (P1)."""
        self._index.catch_up()  # also for nothing: a store that cannot be read says so
        if request.top_k == 0 or not request.query.strip():
            return SearchResults()
        found, best = self._search(request)
        if request.cold is False or not self._index.has_cold():
            return found
        if request.cold or request.selection.as_of is not None or is_thin(request, found, best):
            return joined(request, found, self._search(request, cold=True)[0])
        return found

    def _search(self, request: Request, *, cold: bool = False) -> tuple[SearchResults, float]:
        """What is found, and the best score that the ranking alone gave."""
        degradations: list[str] = []
        found = self.find(request, degradations, cold=cold)
        hits: list[Hit] = []
        looked_at: list[tuple[Candidates, Ranked]] = []
        world = best = 0.0
        if found is not None:
            world = self._own_world(request, found)
            ranked = self._rank(found)
            best = float(ranked.scores.max(initial=0.0))
            if request.by_question:
                ranked = search_scores(ranked, found.evidence, world)
            hits = self._hits(request, found, ranked, degradations)
            looked_at.append((found, ranked))
        candidates: tuple[Candidate, ...] = ()
        if request.explain:
            # The same question among all that the reader may see: what a filter kept away.
            everything = self.find(request, [], cold=cold, unfiltered=True)
            if everything is not None:
                looked_at.append((everything, self._rank(everything)))
            candidates = self._explained(request, looked_at, hits)
        results = SearchResults(
            hits=tuple(hits),
            own_world=world,
            degradations=tuple(degradations),
            candidates=candidates,
        )
        return results, best

    def _own_world(self, request: Request, found: Candidates) -> float:
        asked = found.asked
        served = self._embedding.serving_id if asked.vector is not None else None
        read = None if served is None else self._embedding.reading(asked.question.vector_text)
        return own_world(
            request.query,
            asked.question,
            found.evidence,
            read,
            gate=gate_of("none" if served is None or read is None else served.name),
        )

    def _rank(self, found: Candidates) -> Ranked:
        model = model_for(None)
        if found.evidence.cosine is not None:
            embedding = self._embedding
            model = model_for(embedding.serving_id, background=embedding.background)
        return rank(found.evidence, found.asked.question, model=model)

    def _explained(
        self,
        request: Request,
        looked_at: Sequence[tuple[Candidates, Ranked]],
        hits: Sequence[Hit],
    ) -> tuple[Candidate, ...]:
        """The candidates of both legs and the neighbours that were ranked, best first, then those
        that a filter kept away; each with what became of it."""
        returned = {hit.memory.id for hit in hits}
        made: dict[str, Candidate] = {}
        for found, ranked in looked_at:
            memories = self._store.get_rows(request.selection.reader, found.rows.tolist())
            for at in ranked.order.tolist():
                row, score = int(found.rows[at]), float(ranked.scores[at])
                memory = memories.get(row)
                if memory is None or memory.id in made:
                    continue
                if memory.id in returned:
                    fate = "returned"
                elif not found.asked.unfiltered:
                    passed = score >= request.threshold
                    fate = "over top_k" if passed else f"below threshold {request.threshold:g}"
                elif selected(request.selection, memory):
                    continue
                else:
                    fate = f"filtered: {removed_by(request, memory)}"
                lexical_rank, lexical_raw = found.lexical.of(row)
                vector_rank, vector_raw = found.vector.of(row)
                boosts = zip(
                    FEATURES[LEG_FEATURES:], ranked.features[at, LEG_FEATURES:], strict=True
                )
                made[memory.id] = Candidate(
                    id=memory.id,
                    score=score,
                    lexical_raw=lexical_raw,
                    vector_raw=vector_raw,
                    lexical=float(ranked.lexical[at]),
                    vector=None if ranked.vector is None else float(ranked.vector[at]),
                    lexical_rank=lexical_rank,
                    vector_rank=vector_rank,
                    boosts={name: round(float(value), 4) for name, value in boosts if value},
                    fate=fate,
                )
        return tuple(made.values())

    # -- asking both legs ---------------------------------------------------------------

    def find(
        self,
        request: Request,
        degradations: list[str],
        *,
        cold: bool = False,
        unfiltered: bool = False,
    ) -> Candidates | None:
        """What is to be ranked, as of the last `catch_up`; None when neither leg finds anything."""
        speakers = set(self._index.speakers(request.selection.reader, cold=cold)) - _ROLES
        named = self._named_in(request, speakers)
        question = read_question(request.query, named, now=request.now)
        asked = Asked(
            question=question,
            selection=request.selection,
            vector=self._ask_embedder(request, question, degradations),
            most=max(LEG, 2 * request.top_k),
            words=request.mode != "vector",
            cold=cold,
            unfiltered=unfiltered,
            dialogue=bool(speakers),
        )
        return self._index.candidates(asked)

    def _named_in(self, request: Request, speakers: Collection[int]) -> tuple[str, ...]:
        """Those whom the question may name: speakers of the scope that its words spell, or else
        those who spoke last and have one of its words in their name."""
        if not speakers:
            return ()
        spelled = [n for n in name_candidates(request.query) if name_id(n) in speakers]
        words = {w for w in name_candidates(request.query, longest=1) if w in request.query}
        words = {word for word in words if word[:1].isupper()}
        if spelled or not words:
            return tuple(spelled)
        lately = self._store.recent(Selection(reader=request.selection.reader), limit=LATELY)
        people = dict.fromkeys(memory.speaker for memory in lately)
        return tuple(name for name in people if words.intersection(name.split()))

    def _ask_embedder(
        self, request: Request, question: Question, degradations: list[str]
    ) -> tuple[EmbedderId, NDArray[np.float32]] | None:
        if request.mode == "fulltext":
            return None
        try:
            asked = self._embedding.query(question.vector_text)
        except EmbedderError as error:
            degradations.append(f"embedder: {error}; words alone were searched")
            return None
        if asked is None:
            if self._embedding.error:
                degradations.append(f"embedder: {self._embedding.error}; words alone were searched")
            return None
        missing = self._embedding.unembedded
        if missing:
            degradations.append(f"embedder: {missing}; without vectors, words alone were searched")
        if self._index.take_gaps(asked[0]):
            self._embedding.look_for_gaps()
        return asked

    # -- the answer ---------------------------------------------------------------------

    def _hits(
        self, request: Request, found: Candidates, ranked: Ranked, degradations: list[str]
    ) -> list[Hit]:
        scores = ranked.scores
        wanted = request.top_k if self._rerank is None else max(RERANKED, request.top_k)
        passed = ranked.order[scores[ranked.order] >= request.threshold]
        reach = _reach(found.evidence, passed, wanted)
        hits = self._read(request, found, scores, passed[:reach])
        while len(hits) < wanted and reach < len(passed):
            reach *= 2  # some said again what others say
            hits = self._read(request, found, scores, passed[:reach])
        if self._rerank is not None and hits:
            hits = reranked(self._rerank, request, hits, degradations)
        return hits[: request.top_k]

    def _read(
        self,
        request: Request,
        found: Candidates,
        scores: NDArray[np.float64],
        places: NDArray[np.intp],
    ) -> list[Hit]:
        """The memories in these places that are there and not said by others of them."""
        rows = found.rows[places].tolist()
        memories = self._store.get_rows(request.selection.reader, rows)
        hits: list[Hit] = []
        for score, row in zip(scores[places].tolist(), rows, strict=True):
            memory = memories.get(row)
            if memory is None or not still_there(memory, request.selection):
                continue
            if request.questions or not is_own_question(memory):
                lexical_rank, lexical = found.lexical.of(row)
                vector_rank, vector = found.vector.of(row)
                hits.append(
                    Hit(
                        memory=memory,
                        score=min(1.0, max(0.0, score)),
                        lexical=lexical,
                        vector=vector,
                        lexical_rank=lexical_rank,
                        vector_rank=vector_rank,
                    )
                )
        return settle_echoes(without_heard(hits))


def without_heard(hits: list[Hit]) -> list[Hit]:
    """`hits` without lines of the profile whose words stand in another one."""
    lines = [hit for hit in hits if hit.memory.kind == "preference"]
    if not lines or len(lines) == len(hits):
        return hits
    said = "\n".join(_told(hit) for hit in hits if hit.memory.kind != "preference")
    return [hit for hit in hits if hit.memory.kind != "preference" or _told(hit) not in said]


def _told(hit: Hit) -> str:
    """The words, without the `I` that a line of the profile has of another clause."""
    return " ".join(hit.memory.text.casefold().split()).removeprefix("i ").rstrip(".!")


def _reach(evidence: Evidence, passed: NDArray[np.intp], wanted: int) -> int:
    """How many of the best to look at, so that `wanted` remain without questions and answers."""
    import numpy as np

    unsure = evidence.flags[passed] & ASKS != 0
    if evidence.echo is not None:
        unsure |= evidence.echo[passed]
    return int(np.searchsorted(np.cumsum(~unsure), wanted)) + 1


def name_candidates(query: str, *, longest: int = 3) -> tuple[str, ...]:
    """Runs of up to `longest` words of a question that could be somebody's name."""
    words = [word.strip("?!.,;:\"'()[]") for word in query.split()[:NAMING_WORDS]]
    words = [word.removesuffix("'s").removesuffix("’s") for word in words]
    runs = (
        " ".join(words[start : start + size])
        for size in range(1, longest + 1)
        for start in range(len(words) - size + 1)
    )
    spelled = (form for run in runs if run for form in (run, run.title()))
    return tuple(dict.fromkeys(spelled))
