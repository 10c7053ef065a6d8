"""What a search asks of whatever holds the rows, and how the answer becomes evidence.

`Search` is the seam between the judge (`rank`, pure) and the rows: `LocalSearch` keeps indexes
in this process, a database can answer the same in SQL. Both bring in candidates, `gather`
puts them into the one order and the one shape that is judged, so equal candidates give equal
hits in equal order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from agentmem.base.filters import Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.intake import TEXT_KINDS
from agentmem.search.question import Question
from agentmem.search.rank import ASKS, HOPS, Evidence, match_speakers
from agentmem.stores.values import TEXT_FLAGS_SHIFT, name_id

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]
    Positions = NDArray[np.int32]

RANKED_BY = ("strand", "length", "speaker", "flags", "created_at", "kind")
"""The columns of `IndexRows` that rows are judged by."""
MESSAGE = name_id("message")
"""The kind whose rows are judged with what surrounds them."""
_TEXTS = tuple(name_id(kind) for kind in TEXT_KINDS)
"""Pages and tool results; everything else is a statement, judged as a turn of a conversation is."""
_USER = name_id("user")
_ASSISTANT = name_id("assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question for a `Search`: read, embedded, and narrowed to what its reader asks for.

    `vector` is the question's, with the embedder whose vectors it is compared with; None leaves
    that leg out. Without `words` the other leg is left out, and no word counts as found.
    `most` is how many rows each leg brings in. `cold` asks the memories that were put away, and
    only them. With `unfiltered` only the selection's reader counts: everything they may see,
    superseded and forgotten or not.
    """

    question: Question
    selection: Selection
    vector: tuple[EmbedderId, NDArray[np.float32]] | None
    most: int
    words: bool = True
    cold: bool = False
    unfiltered: bool = False
    dialogue: bool = False
    """Whether people with names speak in what the reader may see."""


class Leg:
    """What one leg brought in: row to its rank (from 1), and the raw scores in that order.

    The best first; equal scores by row.
    """

    __slots__ = ("_scores", "places")

    def __init__(self, rows: Rows | None = None, scores: NDArray[Any] | None = None) -> None:
        self._scores = scores
        self.places = {} if rows is None else dict(zip(rows.tolist(), count(1), strict=False))

    def of(self, row: int) -> tuple[int | None, float | None]:
        """The rank and raw score of a row; None for one that another leg brought in."""
        place = self.places.get(row)
        if place is None or self._scores is None:
            return None, None
        return place, float(self._scores[place - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What both legs brought in and what stands around it, before ranking.

    `rows` are the store's row ids, in the order of the evidence.
    """

    asked: Asked
    rows: Rows
    lexical: Leg
    vector: Leg
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexState:
    """How far an index is: how many rows it has, and the write it knows of.

    `saved_seq` is the write that a saved copy knows of; None where none is saved.
    """

    rows: int
    seq: int
    saved_seq: int | None = None


class Search(Protocol):
    """Candidates of both legs and what surrounds them, for one reader; safe to call from threads.

    Words are scored by BM25 (`K1`, `B` and `idf` of `text.terms`) with the statistics of the rows
    that are asked, nobody else's (P24). What has nothing to keep in step does nothing in
    `catch_up`, `keep_up`, `expect`, `save` and `forget`.
    """

    @property
    def seq(self) -> int:
        """The number of the last write that a search now would know of."""
        ...

    def speakers(self, reader: Scope, *, cold: bool = False) -> Collection[int]:
        """`name_id`s of all who speak in what `reader` may see, put away (`cold`) or not.

        Deleted rows do not count, superseded and forgotten ones do: which weights rank an answer
        depends on what is there, not on when it was asked.
        """
        ...

    def candidates(self, asked: Asked) -> Candidates | None:
        """What both legs bring in and what surrounds it; None when neither finds anything."""
        ...

    def nearest(
        self, embedder: EmbedderId, rows: Collection[int], most: int, *, among: Collection[int]
    ) -> Iterator[tuple[int, Rows, NDArray[np.float32]]]:
        """Each of `rows` that has a vector, with the rows `among` nearest to it and their cosines.

        At most `most`, the nearest first; the row itself may be one of them.
        """
        ...

    def has_cold(self) -> bool:
        """Whether any memory was put away."""
        ...

    def take_gaps(self, embedder: EmbedderId) -> bool:
        """Whether rows came since this was last asked that have no vector of this embedder."""
        ...

    def changes_of(self, kind: str) -> Hashable | None:
        """What differs whenever a memory of this kind came, changed or went; None if unknown."""
        ...

    def state(self) -> IndexState:
        """How far it is, after taking in what was written."""
        ...

    def catch_up(self) -> None:
        """Take in what was committed since, by any process."""
        ...

    def keep_up(self) -> None:
        """Work out beforehand what the next search by one who searched lately would have to."""
        ...

    def expect(self, rows: int, embedder: Callable[[], EmbedderId | None]) -> None:
        """Take note that so many rows were written; `embedder` says whose vectors are wanted."""
        ...

    def save(self, embedder: EmbedderId | None = None, *, if_worth: bool = False) -> None:
        """Keep what the next open would have to build; with `if_worth` unless that is little."""
        ...

    def forget(self) -> None:
        """Let go of everything erased, in memory too (P26)."""
        ...

    def close(self) -> None: ...


# ----------------------------------------------------------------------------
# From candidates to evidence, for every kind of search.


def brought_in(lexical: Leg, vector: Leg) -> Rows:
    """The rows of both legs, each once: those with the words first."""
    import numpy as np

    return np.fromiter({**lexical.places, **vector.places}, dtype=np.int64)


def surround(
    candidates: Rows, spoken: NDArray[np.bool_], neighbours: Callable[[Rows], tuple[Rows, Rows]]
) -> tuple[Rows, Positions, Positions]:
    """All rows that are judged, and where the row before and after each of them stands among them.

    Only turns of a conversation (`spoken`) are judged by what surrounds them: they come first, then
    what is up to `HOPS` turns away, then the others. `neighbours` gives the row before and the row
    after each of the rows it is asked for, 0 where there is none that may be seen; -1 stands for
    none in what is returned.
    """
    import numpy as np

    if not spoken.any():
        alone = np.full(len(candidates), -1, dtype=np.int32)
        return candidates, alone, alone
    rows = frontier = candidates[spoken]
    known: list[tuple[Rows, Rows]] = []
    for hop in range(HOPS + 1):
        known.append(neighbours(frontier))
        if hop < HOPS:
            near = np.sort(np.concatenate(known[-1]))
            near = near[np.diff(near, prepend=0) > 0]  # each once, and no 0
            frontier = near[~np.isin(near, rows, assume_unique=True)]
            rows = np.concatenate((rows, frontier))
    order = np.argsort(rows)
    ordered = rows[order]
    alone = np.full(len(candidates) - int(np.count_nonzero(spoken)), -1, dtype=np.int32)

    def positions(side: int) -> Positions:
        wanted = np.concatenate([pair[side] for pair in known])
        at = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
        there = (wanted > 0) & (ordered[at] == wanted)
        found = np.where(there, order[at], -1).astype(np.int32)
        return np.concatenate((found, alone))

    return np.concatenate((rows, candidates[~spoken])), positions(0), positions(1)


def gather(
    asked: Asked,
    lexical: Leg,
    vector: Leg,
    rows: Rows,
    *,
    columns_of: Callable[[Rows], Mapping[str, NDArray[Any]]],
    neighbours: Callable[[Rows], tuple[Rows, Rows]],
    counts_of: Callable[[Rows], NDArray[Any]],
    cosines_of: Callable[[Rows], NDArray[np.float32]] | None,
    row_frequencies: NDArray[Any],
    rows_in_scope: int,
    mean_length: float,
) -> Candidates:
    """The rows that were `brought_in` with what surrounds them, and what is known of them all.

    `columns_of` gives the columns `RANKED_BY` of some rows, `counts_of` one line a row and one
    column a word of the question (255 at most), `cosines_of` NaN for a row without a vector (None
    where no vectors are asked); `neighbours` is told at `surround`. `row_frequencies` says in how
    many rows in scope each word is; `rows_in_scope` and `mean_length` are of the same rows.
    """
    import numpy as np

    columns = columns_of(rows)
    found, *around = surround(rows, columns["kind"] == MESSAGE, neighbours)
    if found is not rows:
        columns = columns_of(found)
    strand, kind, speakers = columns["strand"], columns["kind"], columns["speaker"]
    held = counts_of(found).astype(np.float32)
    if not asked.words:
        held[:] = 0
    statement = kind != _TEXTS[0]
    for other in _TEXTS[1:]:
        statement &= kind != other
    speaker = np.zeros(len(kind), dtype=np.int8)
    if asked.question.named:
        speaker = match_speakers(
            np.where(speakers == 0, -1, speakers), {name_id(name) for name in asked.question.named}
        )
    previous, after = _unanswered(columns, *around)
    evidence = Evidence(
        frequencies=held,
        lengths=columns["length"].astype(np.float32),
        document_frequencies=row_frequencies.astype(np.float32),
        rows_in_scope=rows_in_scope,
        mean_length=mean_length,
        cosine=None if cosines_of is None else cosines_of(found).clip(-1.0, 1.0),
        previous=previous,
        next=after,
        session=np.where(strand == 0, -1, strand),
        speaker=speaker,
        flags=((columns["flags"] >> TEXT_FLAGS_SHIFT) & 0xFF).astype(np.uint8),
        created=columns["created_at"] / 1e6,
        conversation=statement,
        echo=speakers == _ASSISTANT,
        dialogue=asked.dialogue,
    )
    return Candidates(asked=asked, rows=found, lexical=lexical, vector=vector, evidence=evidence)


def _unanswered(
    columns: Mapping[str, NDArray[Any]], previous: Positions, after: Positions
) -> tuple[Positions, Positions]:
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
