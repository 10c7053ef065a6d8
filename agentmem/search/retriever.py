"""Ask both indexes about one question, and let the core rank what they found."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.config import SearchMode
from agentmem.base.errors import EmbedderError
from agentmem.base.filters import ALL_VISIBILITIES, ALWAYS, Selection, selected
from agentmem.base.types import Hit, Memory, Scope, is_forgotten
from agentmem.prompt.build import is_own_question
from agentmem.search.embedding import Embedding
from agentmem.search.gate import gate_of, own_world, settle_echoes
from agentmem.search.indexes.live import LiveIndex
from agentmem.search.indexes.match import Match
from agentmem.search.indexes.rows import RowScope, distinct
from agentmem.search.indexes.vector import VectorIndex
from agentmem.search.intake import TEXT_KINDS
from agentmem.search.question import Question, names_in, read_question
from agentmem.search.rank import (
    ASKS,
    CHAT_ROLES,
    FEATURES,
    HOPS,
    LEG_FEATURES,
    Evidence,
    Ranked,
    match_speakers,
    model_for,
    rank,
)
from agentmem.search.results import Candidate, SearchResults
from agentmem.stores.protocol import Store
from agentmem.stores.values import FORGOTTEN, SUPERSEDED, TEXT_FLAGS_SHIFT, name_id, to_microseconds
from agentmem.text.terms import K1, B, mentions

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
    user only asked is found as well.
    """

    query: str
    selection: Selection
    top_k: int = 5
    threshold: float = 0.0
    mode: SearchMode = "hybrid"
    explain: bool = False
    cold: bool | None = None
    questions: bool = False
    now: datetime | None = None

    def __post_init__(self) -> None:
        require_text(self.query, "query")
        require_count(self.top_k, "top_k")
        require_unit(self.threshold, "threshold")
        require_choice(self.mode, get_args(SearchMode), "mode")


class Leg:
    """What one leg brought in: row to its rank (from 1), and the raw scores in that order."""

    __slots__ = ("_scores", "places")

    def __init__(
        self, rows: NDArray[np.int64] | None = None, scores: NDArray[Any] | None = None
    ) -> None:
        self._scores = scores
        self.places = {} if rows is None else dict(zip(rows.tolist(), count(1), strict=False))

    def of(self, row: int) -> tuple[int | None, float | None]:
        """The rank and raw score of a row; None for one that another leg brought in."""
        place = self.places.get(row)
        if place is None or self._scores is None:
            return None, None
        return place, float(self._scores[place - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What both legs brought in, before ranking; `asked` is the question's vector."""

    question: Question
    asked: NDArray[np.float32] | None
    rows: NDArray[np.int64]
    lexical: Leg
    vector: Leg
    evidence: Evidence


def still_there(memory: Memory, selection: Selection) -> bool:
    """Whether a memory was not deleted or replaced while it was searched for."""
    if memory.deleted_at is not None and not selection.deleted:
        return False
    told_apart = selection.superseded or selection.as_of is not None
    return memory.superseded_by is None or told_apart


def is_thin(request: Request, found: SearchResults) -> bool:
    """Whether a search left so much to be wished that it is worth asking the cold memories.

    It found little, or nothing good, or nothing with a name that was asked for.
    """
    if 2 * len(found) < request.top_k or found[0].score < WEAK:
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


def explain(
    store: Store, request: Request, found: Found, ranked: Ranked, hits: Sequence[Hit]
) -> tuple[Candidate, ...]:
    """Every candidate of both legs and every neighbour that was ranked, best first."""
    returned = {hit.memory.id for hit in hits}
    return tuple(
        _candidate(memory, found, ranked, at, fate=_fate(memory.id in returned, score, request))
        for memory, at, score in _memories(store, request, found, ranked)
    )


def explain_filtered(
    store: Store, request: Request, found: Found, ranked: Ranked, known: Collection[str]
) -> tuple[Candidate, ...]:
    """Those that a filter kept from being candidates, and which filter it was."""
    return tuple(
        _candidate(memory, found, ranked, at, fate=f"filtered: {removed_by(request, memory)}")
        for memory, at, _ in _memories(store, request, found, ranked)
        if memory.id not in known and not selected(request.selection, memory)
    )


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


def _memories(
    store: Store, request: Request, found: Found, ranked: Ranked
) -> Iterator[tuple[Memory, int, float]]:
    memories = store.get_rows(request.selection.reader, found.rows.tolist())
    for at in ranked.order.tolist():
        memory = memories.get(int(found.rows[at]))
        if memory is not None:
            yield memory, at, float(ranked.scores[at])


def _candidate(memory: Memory, found: Found, ranked: Ranked, at: int, *, fate: str) -> Candidate:
    row = int(found.rows[at])
    lexical_rank, lexical_raw = found.lexical.of(row)
    vector_rank, vector_raw = found.vector.of(row)
    boosts = zip(FEATURES[LEG_FEATURES:], ranked.features[at, LEG_FEATURES:], strict=True)
    return Candidate(
        id=memory.id,
        score=float(ranked.scores[at]),
        lexical_raw=lexical_raw,
        vector_raw=vector_raw,
        lexical=float(ranked.lexical[at]),
        vector=None if ranked.vector is None else float(ranked.vector[at]),
        lexical_rank=lexical_rank,
        vector_rank=vector_rank,
        boosts={name: round(float(value), 4) for name, value in boosts if value},
        fate=fate,
    )


def _fate(returned: bool, score: float, request: Request) -> str:
    if returned:
        return "returned"
    return "over top_k" if score >= request.threshold else f"below threshold {request.threshold:g}"


Columns = dict[str, "NDArray[Any]"]
LEG = 50
"""How many rows each leg brings in, and more for who asks for many: twice what is asked for."""
RERANKED = 50
_MESSAGE = name_id("message")
_TEXTS = tuple(name_id(kind) for kind in TEXT_KINDS)
"""Pages and tool results; everything else is a statement, judged as a turn of a conversation is."""
_USER = name_id("user")
_ASSISTANT = name_id("assistant")
_ROLES = frozenset(name_id(role) for role in CHAT_ROLES)
_RANKED_BY = ("strand", "length", "speaker", "flags", "created_at", "kind")
_KEPT_OWNERS = 64


class Retriever:
    """Hybrid search over one store; decides nothing that the core can decide."""

    def __init__(
        self,
        store: Store,
        index: LiveIndex,
        embedding: Embedding,
        *,
        rerank: Reranker | None = None,
        leg: int = LEG,
        cold: Callable[[], Retriever] | None = None,
    ) -> None:
        self._store = store
        self.index = index
        self._embedding = embedding
        self._rerank = rerank
        self._leg = require_count(leg, "leg", least=1)
        self._cold = cold
        self._owners: OrderedDict[Scope, tuple[int, frozenset[int]]] = OrderedDict()
        self._put_away: tuple[int, int] | None = None

    def search(self, request: Request) -> SearchResults:
        """The best `top_k` memories at or above the threshold, best first (P1)."""
        if request.top_k == 0 or not request.query.strip():
            self.index.catch_up()  # a store that cannot be read is one for such a query too
            return SearchResults()
        found = self._search(request)
        if self._cold is None or request.cold is False or not self._cold_count():
            return found
        if request.cold or request.selection.as_of is not None or is_thin(request, found):
            return joined(request, found, self._cold().search(replace(request, cold=False)))
        return found

    def keep_up(self) -> None:
        """Work out beforehand what the next search by one who searched lately would have to."""
        self.index.keep_up()
        if self._owners:
            self._cold_count()
        for reader in tuple(self._owners):
            self._visible_owners(reader)

    def _cold_count(self) -> int:
        """How many memories are put away, as of the write that the index knows of."""
        seq = self.index.seq
        if self._put_away is None or self._put_away[0] != seq:
            self._put_away = (seq, self._store.feed.cold_count())
        return self._put_away[1]

    def _search(self, request: Request) -> SearchResults:
        self.index.catch_up()
        degradations: list[str] = []
        found = self._find(request, self._row_scope(request.selection), degradations)
        hits: list[Hit] = []
        candidates: tuple[Candidate, ...] = ()
        world = 0.0
        if found is not None:
            world = self._own_world(request, found)
            ranked = self._rank(found, all_features=request.explain)
            hits = self._hits(request, found, ranked, degradations)
            if request.explain:
                candidates = explain(self._store, request, found, ranked, hits)
        if request.explain:
            candidates += self._filtered(request, {candidate.id for candidate in candidates})
        return SearchResults(
            hits=tuple(hits),
            own_world=world,
            degradations=tuple(degradations),
            candidates=candidates,
        )

    def _own_world(self, request: Request, found: Found) -> float:
        served = self._embedding.serving_id if found.asked is not None else None
        return own_world(
            request.query,
            found.question,
            found.evidence,
            found.asked,
            gate=gate_of("none" if served is None else served.name),
        )

    def _rank(self, found: Found, *, all_features: bool = True) -> Ranked:
        model = model_for(None)
        if found.evidence.cosine is not None:
            embedding = self._embedding
            model = model_for(embedding.serving_id, background=embedding.background)
        return rank(found.evidence, found.question, model=model, all_features=all_features)

    def _filtered(self, request: Request, known: Collection[str]) -> tuple[Candidate, ...]:
        """What the same question would have found among all that the reader may see."""
        whole = RowScope(owners=self._visible_owners(request.selection.reader))
        found = self._find(request, whole, [])
        if found is None:
            return ()
        return explain_filtered(self._store, request, found, self._rank(found), known)

    # -- what may be seen ---------------------------------------------------------------

    def _row_scope(self, selection: Selection) -> RowScope:
        """The selection as the indexes understand it; the rest of it becomes a list of rows."""
        owners = self._visible_owners(selection.reader)
        listed = (
            selection.where != ALWAYS
            or selection.source_url is not None
            or selection.session is not None
            or selection.as_of is not None
            or selection.superseded
            or selection.forgotten
            or selection.visibilities != ALL_VISIBILITIES
        )
        return RowScope(
            owners=owners,
            rows=self._store.select_rows(selection) if listed else None,
            kinds=None
            if selection.kinds is None
            else frozenset(name_id(kind) for kind in selection.kinds),
            created_from_us=_microseconds(selection.since),
            created_before_us=_microseconds(selection.until),
            without_flags=0 if listed else SUPERSEDED | FORGOTTEN,
        )

    def _visible_owners(self, reader: Scope) -> frozenset[int]:
        """The owners as of the write that the index knows of; who came since has no row in it."""
        seq = self.index.seq
        kept = self._owners.get(reader)
        if kept is not None and kept[0] == seq:
            return kept[1]
        owners = frozenset(self._store.visible_owners(reader).tolist())
        self._owners[reader] = (seq, owners)
        if len(self._owners) > _KEPT_OWNERS:
            self._owners.popitem(last=False)
        return owners

    # -- asking both legs ---------------------------------------------------------------

    def _find(self, request: Request, scope: RowScope, degradations: list[str]) -> Found | None:
        import numpy as np

        speakers = self.index.table.speakers(scope) - _ROLES
        question = read_question(request.query, _named_in(request.query, speakers), now=request.now)
        asked = self._ask_embedder(request, question, degradations)
        leg = max(self._leg, 2 * request.top_k)
        near = asked[0].begin(asked[1], leg, scope=scope) if asked else None
        match = self.index.words.match(
            question.hashes(), question.term_weights, scope=scope, k1=K1, b=B
        )
        lexical = Leg(*match.top(leg)) if request.mode != "vector" else Leg()
        vector = Leg(*near()) if near is not None else Leg()
        if not lexical.places and not vector.places:
            return None
        candidates = np.fromiter({**lexical.places, **vector.places}, dtype=np.int64)
        around = self._expand(candidates, scope)
        evidence = self._evidence(
            request, question, match=match, around=around, asked=asked, dialogue=bool(speakers)
        )
        return Found(
            question=question,
            asked=asked[1] if asked else None,
            rows=around[0]["rows"],
            lexical=lexical,
            vector=vector,
            evidence=evidence,
        )

    def _ask_embedder(
        self, request: Request, question: Question, degradations: list[str]
    ) -> tuple[VectorIndex, NDArray[np.float32]] | None:
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
        if self.index.take_gaps(asked[0]):
            self._embedding.look_for_gaps()
        return self.index.vectors(asked[0]), asked[1]

    def _expand(
        self, candidates: NDArray[np.int64], scope: RowScope
    ) -> tuple[Columns, NDArray[np.int32], NDArray[np.int32]]:
        """What is known of the candidates and of what stands around them, with neighbours as
        positions among them."""
        import numpy as np

        table = self.index.table
        columns = table.columns_of(candidates, _RANKED_BY)
        spoken = columns["kind"] == _MESSAGE
        columns["rows"] = candidates
        if not spoken.any():  # only turns of a conversation are judged by what surrounds them
            alone = np.full(len(candidates), -1, dtype=np.int32)
            return columns, alone, alone
        rows = frontier = candidates[spoken]
        known: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for hop in range(HOPS + 1):
            known.append(table.neighbours(frontier, scope))
            if hop < HOPS:
                near = distinct(np.concatenate(known[-1]))
                frontier = near[(near > 0) & ~np.isin(near, rows, assume_unique=True)]
                rows = np.concatenate((rows, frontier))
        order = np.argsort(rows)
        ordered = rows[order]
        alone = np.full(len(candidates) - int(np.count_nonzero(spoken)), -1, dtype=np.int32)

        def positions(side: int) -> NDArray[np.int32]:
            wanted = np.concatenate([pair[side] for pair in known])
            at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
            there = (wanted > 0) & (ordered[at] == wanted)
            found = np.where(there, order[at], -1).astype(np.int32)
            return np.concatenate((found, alone))

        everything = np.concatenate((rows, candidates[~spoken]))
        columns = table.columns_of(everything, _RANKED_BY)
        columns["rows"] = everything
        return columns, *_unanswered(columns, positions(0), positions(1))

    def _evidence(
        self,
        request: Request,
        question: Question,
        *,
        match: Match,
        around: tuple[Columns, NDArray[np.int32], NDArray[np.int32]],
        asked: tuple[VectorIndex, NDArray[np.float32]] | None,
        dialogue: bool,
    ) -> Evidence:
        import numpy as np

        columns, previous, after = around
        rows, strand, kind = columns["rows"], columns["strand"], columns["kind"]
        frequencies = match.counts_of(rows).astype(np.float32)
        if request.mode == "vector":
            frequencies[:] = 0
        statement = kind != _TEXTS[0]
        for other in _TEXTS[1:]:
            statement &= kind != other
        speaker = np.zeros(len(rows), dtype=np.int8)
        if question.named:
            speaker = match_speakers(
                np.where(columns["speaker"] == 0, -1, columns["speaker"]),
                {name_id(name) for name in question.named},
            )
        return Evidence(
            frequencies=frequencies,
            lengths=columns["length"].astype(np.float32),
            document_frequencies=match.row_frequencies.astype(np.float32),
            rows_in_scope=match.row_count,
            mean_length=match.mean_length,
            cosine=asked[0].cosines_of(asked[1], rows) if asked else None,
            previous=previous,
            next=after,
            session=np.where(strand == 0, -1, strand),
            speaker=speaker,
            flags=((columns["flags"] >> TEXT_FLAGS_SHIFT) & 0xFF).astype(np.uint8),
            created=columns["created_at"] / 1e6,
            conversation=statement,
            echo=columns["speaker"] == _ASSISTANT,
            dialogue=dialogue,
        )

    # -- the answer ---------------------------------------------------------------------

    def _hits(
        self, request: Request, found: Found, ranked: Ranked, degradations: list[str]
    ) -> list[Hit]:
        scores = ranked.scores
        wanted = request.top_k if self._rerank is None else max(RERANKED, request.top_k)
        passed = ranked.order[scores[ranked.order] >= request.threshold]
        passed = passed[: _reach(found.evidence, passed, wanted)]
        rows = found.rows[passed].tolist()
        memories = self._store.get_rows(request.selection.reader, rows)
        hits: list[Hit] = []
        for score, row in zip(scores[passed].tolist(), rows, strict=True):
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
        hits = settle_echoes(hits)
        if self._rerank is not None and hits:
            hits = reranked(self._rerank, request, hits, degradations)
        return hits[: request.top_k]


def _reach(evidence: Evidence, passed: NDArray[np.intp], wanted: int) -> int:
    """How many of the best to look at, so that `wanted` remain without questions and answers."""
    import numpy as np

    unsure = evidence.flags[passed] & ASKS != 0
    if evidence.echo is not None:
        unsure |= evidence.echo[passed]
    return int(np.searchsorted(np.cumsum(~unsure), wanted)) + 1


def _unanswered(
    columns: Columns, previous: NDArray[np.int32], after: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Neighbours without those who follow a question that nobody answered: when a user asks and
    then says something else, the second is no answer to the first."""
    import numpy as np

    user = columns["speaker"] == _USER
    asked = user & ((columns["flags"] >> TEXT_FLAGS_SHIFT) & ASKS != 0)
    if not asked.any():
        return previous, after
    return (
        np.where(user & (previous >= 0) & asked[previous], np.int32(-1), previous),
        np.where(asked & (after >= 0) & user[after], np.int32(-1), after),
    )


def _named_in(query: str, speakers: Collection[int]) -> tuple[str, ...]:
    """Those whom the question may name: speakers of the scope that its words spell."""
    if not speakers:
        return ()
    return tuple(name for name in name_candidates(query) if name_id(name) in speakers)


def name_candidates(query: str, *, longest: int = 3, words_read: int = 200) -> tuple[str, ...]:
    """Runs of up to `longest` words of a question that could be somebody's name."""
    words = [word.strip("?!.,;:\"'()[]") for word in query.split()[:words_read]]
    words = [word.removesuffix("'s").removesuffix("’s") for word in words]
    runs = (
        " ".join(words[start : start + size])
        for size in range(1, longest + 1)
        for start in range(len(words) - size + 1)
    )
    spelled = (form for run in runs if run for form in (run, run.title()))
    return tuple(dict.fromkeys(spelled))


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else to_microseconds(moment)
