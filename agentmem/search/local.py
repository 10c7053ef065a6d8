"""The search of a store that has none of its own: words and vectors in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from agentmem.base.filters import ALL_VISIBILITIES, ALWAYS, Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.indexes.live import LiveIndex
from agentmem.search.indexes.rows import RowScope
from agentmem.search.protocol import (
    MESSAGE,
    RANKED_BY,
    Asked,
    Candidates,
    Leg,
    brought_in,
    evidence_of,
    surround,
)
from agentmem.stores.base import Store
from agentmem.stores.values import FORGOTTEN, SUPERSEDED, name_id, to_microseconds
from agentmem.text.terms import K1, B

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEPT_OWNERS = 64
_BLOCK_ROWS = 256


class LocalSearch(LiveIndex):
    """BM25 and FAISS over one store, as of its last committed write.

    Memories that were put away have indexes of their own, built when they are first asked.
    """

    def __init__(
        self, store: Store, *, path: Path | None, background: bool = True, cold: bool = False
    ) -> None:
        super().__init__(store, path=path, background=background, cold=cold)
        self._owners: OrderedDict[Scope, tuple[int, frozenset[int]]] = OrderedDict()
        self._put_away: tuple[int, bool] | None = None

    @cached_property
    def _of_cold(self) -> LocalSearch:
        return LocalSearch(self._store, path=None, background=self._background, cold=True)

    def candidates(self, asked: Asked) -> Candidates | None:
        """What both legs bring in and what surrounds it; None when neither finds anything."""
        if asked.cold and not self._cold:
            return self._of_cold.candidates(asked)
        scope = self._row_scope(asked.selection, unfiltered=asked.unfiltered)
        vectors = near = None
        if asked.vector is not None:
            vectors = self.vectors(asked.vector[0])
            near = vectors.begin(asked.vector[1], asked.most, scope=scope)
        question = asked.question
        match = self.words.match(question.hashes(), question.term_weights, scope=scope, k1=K1, b=B)
        lexical = Leg(*match.top(asked.most)) if asked.words else Leg()
        vector = Leg(*near()) if near is not None else Leg()
        if not lexical.places and not vector.places:
            return None
        rows = brought_in(lexical, vector)
        table = self.table
        columns = table.columns_of(rows, RANKED_BY)
        spoken = columns["kind"] == MESSAGE
        found, *around = surround(rows, spoken, partial(table.neighbours, scope=scope))
        if found is not rows:
            columns = table.columns_of(found, RANKED_BY)
        evidence = evidence_of(
            asked,
            columns,
            around=(around[0], around[1]),
            frequencies=match.counts_of(found),
            row_frequencies=match.row_frequencies,
            rows_in_scope=match.row_count,
            mean_length=match.mean_length,
            cosine=vectors.cosines_of(asked.vector[1], found) if vectors and asked.vector else None,
        )
        return Candidates(
            asked=asked, rows=found, lexical=lexical, vector=vector, evidence=evidence
        )

    def speakers(self, reader: Scope, *, cold: bool = False) -> frozenset[int]:
        """Who speaks in any row that `reader` may see, of the hot ones or the cold."""
        if cold and not self._cold:
            self._of_cold.catch_up()
            return self._of_cold.speakers(reader)
        return self.table.speakers(RowScope(owners=self._visible_owners(reader)))

    def nearest(
        self, embedder: EmbedderId, rows: Collection[int], most: int, *, among: Collection[int]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Each of `rows` that has a vector, with the rows `among` nearest to it."""
        self.catch_up()
        index = self.vectors(embedder)
        scope = RowScope(rows=np.fromiter(among, np.int64, len(among)))
        asking = list(rows)
        for start in range(0, len(asking), _BLOCK_ROWS):
            here = asking[start : start + _BLOCK_ROWS]
            keys, vectors = self._store.feed.vectors(embedder, rows=here)
            for key, vector in zip(keys.tolist(), vectors, strict=True):
                yield key, *index.search(vector, most, scope=scope)

    def has_cold(self) -> bool:
        """Whether memories are put away, as of the write that the index knows of."""
        seq = self.seq
        if self._put_away is None or self._put_away[0] != seq:
            self._put_away = (seq, self._store.feed.cold_count() > 0)
        return self._put_away[1]

    def keep_up(self) -> None:
        """Work out beforehand what the next search by one who searched lately would have to."""
        super().keep_up()
        if self._owners:
            self.has_cold()
        for reader in tuple(self._owners):
            self._visible_owners(reader)

    def forget(self) -> None:
        """Let go of everything erased, in memory too."""
        super().forget()
        if "_of_cold" in self.__dict__:
            self._of_cold.forget()

    def close(self) -> None:
        """End what runs beside the searches."""
        super().close()
        if "_of_cold" in self.__dict__:
            self._of_cold.close()

    # -- what may be seen ---------------------------------------------------------------

    def _row_scope(self, selection: Selection, *, unfiltered: bool = False) -> RowScope:
        """The selection as the indexes understand it; the rest of it becomes a list of rows."""
        owners = self._visible_owners(selection.reader)
        if unfiltered:
            return RowScope(owners=owners)
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
        seq = self.seq
        kept = self._owners.get(reader)
        if kept is not None and kept[0] == seq:
            return kept[1]
        owners = frozenset(self._store.visible_owners(reader).tolist())
        self._owners[reader] = (seq, owners)
        if len(self._owners) > _KEPT_OWNERS:
            self._owners.popitem(last=False)
        return owners


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else to_microseconds(moment)
