"""The search of a store in PostgreSQL: candidates in SQL, nothing kept in this process.

Words come from a table of postings keyed by owner and term, so that a reader's statistics
touch nobody else's rows (P24). Vectors are compared exactly over the rows of the owners that
the reader may see while those are few; past that, a graph over shared vectors brings in more
than is asked for and each is scored again from its stored numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.base.filters import ALWAYS, Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.protocol import (
    MESSAGE,
    RANKED_BY,
    Asked,
    Candidates,
    IndexState,
    Leg,
    brought_in,
    evidence_of,
    surround,
)
from agentmem.search.rank import HOPS
from agentmem.stores.postgres.connection import Transaction
from agentmem.stores.postgres.feed import to_matrix
from agentmem.stores.postgres.reading import Conditions, select_rows, visible_owners
from agentmem.stores.postgres.store import PostgresStore
from agentmem.stores.postgres.writing import embedder_number
from agentmem.stores.values import (
    COLD,
    COUNT_LIMIT,
    DELETED,
    FORGOTTEN,
    SUPERSEDED,
    IndexRows,
    name_id,
    to_index_rows,
)
from agentmem.text.terms import K1, PRIOR_ROWS, B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

EXACT_ROWS = 20_000
"""So many vectors are sooner compared one by one than looked up in a graph."""
MORE = 4
"""Times as many rows as are asked for come out of the graph, to be scored exactly."""
_WORDS = f"""
WITH asked AS (
    SELECT * FROM unnest(%(terms)s::bigint[], %(weights)s::float8[]) AS a(term, weight)
), scope AS (
    SELECT count(*) AS rows, coalesce(avg(m.length), 0)::float8 AS mean
    FROM memories AS m WHERE m.tenant = %(tenant)s AND m.owner = ANY(%(owners)s) AND {{seen_m}}
), found AS MATERIALIZED (
    SELECT p.term, p.row, p.count, p.length FROM postings AS p
    WHERE p.tenant = %(tenant)s AND p.owner = ANY(%(owners)s) AND p.term = ANY(%(terms)s)
    AND {{seen_p}}
), worth AS (
    SELECT a.term, a.weight, n.holders, a.weight * ln(1 + (greatest(
        0, scope.rows + {PRIOR_ROWS} - n.holders) + 0.5) / (n.holders + 0.5)) AS worth
    FROM (SELECT term, count(*) AS holders FROM found GROUP BY term) AS n
    JOIN asked AS a ON a.term = n.term CROSS JOIN scope
), best AS (
    SELECT f.row, sum(w.worth * f.count * {K1 + 1.0} / (f.count + {K1} * (1.0 - {B})
        + f.length * {K1} * {B} / nullif(scope.mean, 0))) AS score
    FROM found AS f JOIN worth AS w ON w.term = f.term CROSS JOIN scope
    GROUP BY f.row HAVING sum(w.worth) > 0 ORDER BY score DESC, f.row LIMIT %(most)s
)
SELECT 0 AS sort, scope.rows AS row, scope.mean AS value FROM scope
UNION ALL SELECT 1, worth.term, worth.holders FROM worth
UNION ALL SELECT 2, best.row, best.score FROM best
"""  # noqa: S608 # our own numbers
_AROUND = f"""
SELECT here.row, near.side, near.row, near.seen
FROM unnest(%(rows)s::bigint[]) AS asked(row)
JOIN memories AS here ON here.tenant = %(tenant)s AND here.row = asked.row
CROSS JOIN LATERAL (
    (SELECT 0 AS side, m.place, m.row, ({{seen}}) AS seen FROM memories AS m
    WHERE m.tenant = %(tenant)s AND m.owner = here.owner AND m.strand = here.strand
    AND (m.place, m.row) < (here.place, here.row) AND m.flags & {DELETED} = 0
    ORDER BY m.place DESC, m.row DESC LIMIT {HOPS + 1})
    UNION ALL
    (SELECT 1, m.place, m.row, ({{seen}}) FROM memories AS m
    WHERE m.tenant = %(tenant)s AND m.owner = here.owner AND m.strand = here.strand
    AND (m.place, m.row) > (here.place, here.row) AND m.flags & {DELETED} = 0
    ORDER BY m.place, m.row LIMIT {HOPS + 1})
) AS near
ORDER BY here.row, near.side,
    CASE WHEN near.side = 0 THEN -near.place ELSE near.place END,
    CASE WHEN near.side = 0 THEN -near.row ELSE near.row END
"""  # noqa: S608 # our own names


class PostgresSearch:
    """`Search` in the database of a store: workers see each other's writes at once."""

    def __init__(self, store: PostgresStore, *, exact_rows: int = EXACT_ROWS) -> None:
        self._store = store
        self._database = store.database
        self._exact_rows = exact_rows

    @property
    def seq(self) -> int:
        return self._store.feed.seq()

    def speakers(self, reader: Scope, *, cold: bool = False) -> Collection[int]:
        """Who speaks in any row of those whom `reader` may see, put away or not."""
        found = self._database.read(
            lambda t: t.all(
                "SELECT DISTINCT speaker FROM speakers WHERE tenant = %(tenant)s "
                "AND owner = ANY(%(owners)s)",
                owners=visible_owners(t, reader),
            )
        )
        return {name_id(name) for (name,) in found}

    def candidates(self, asked: Asked) -> Candidates | None:
        """What both legs bring in and what surrounds it, all from one state of the database."""
        return self._database.read(lambda t: _Question(self, t, asked).candidates())

    def nearest(
        self, embedder: EmbedderId, rows: Collection[int], most: int, *, among: Collection[int]
    ) -> Iterator[tuple[int, Rows, NDArray[np.float32]]]:
        """Each of `rows` that has a vector, with the rows `among` nearest to it."""
        keys, vectors = self._store.feed.vectors(embedder, rows=among)
        asking, wanted = self._store.feed.vectors(embedder, rows=rows)
        for key, vector in zip(asking.tolist(), wanted, strict=True):
            cosines = vectors @ vector
            order = np.lexsort((keys, -cosines))[:most]
            yield key, keys[order], cosines[order]

    def has_cold(self) -> bool:
        # The order lets the server use the index of those rows, which is mostly empty.
        found = self._database.read(
            lambda t: t.one(
                f"SELECT owner FROM memories WHERE tenant = %(tenant)s AND flags & {COLD} <> 0 "  # noqa: S608 # our own numbers
                "ORDER BY owner LIMIT 1"
            )
        )
        return found is not None

    def take_gaps(self, embedder: EmbedderId) -> bool:
        """Whoever writes a row without a vector makes the vector: nothing is noticed here."""
        return False

    def changes_of(self, kind: str) -> Hashable | None:
        return self.seq

    def state(self) -> IndexState:
        stats = self._store.upkeep.stats()
        return IndexState(rows=stats.chunks + stats.superseded, seq=stats.seq)

    def catch_up(self) -> None: ...
    def keep_up(self) -> None: ...
    def expect(self, rows: int, embedder: Callable[[], EmbedderId | None]) -> None: ...
    def save(self, embedder: EmbedderId | None = None, *, if_worth: bool = False) -> None: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...

    def exactly(self, rows: int) -> bool:
        """Whether so many rows are each looked at."""
        return rows <= self._exact_rows or not self._database.iterative


class _Question:
    """One question inside one transaction."""

    def __init__(self, search: PostgresSearch, transaction: Transaction, asked: Asked) -> None:
        self._search = search
        self._transaction = transaction
        self._asked = asked
        selection = asked.selection
        if asked.unfiltered:
            selection = Selection(reader=selection.reader, superseded=True, forgotten=True)
        mask = COLD | (0 if selection.deleted else DELETED)
        if selection.as_of is None:
            mask |= 0 if selection.superseded else SUPERSEDED
            mask |= 0 if selection.forgotten else FORGOTTEN
        self._flags = f"{{}}.flags & {mask} = {COLD if asked.cold else 0}"
        self._values: dict[str, Any] = {}
        self._narrowed = ""
        self._told: dict[int, float] = {}  # cosines of the rows that the vector leg looked at
        if _is_narrowed(selection):
            conditions = Conditions(transaction, selection)
            self._owners = conditions.owners
            self._values = conditions.values
            self._narrowed = conditions.sql
            if not conditions.exact:
                self._values["seen"] = select_rows(transaction, selection)
                self._narrowed = "m.row = ANY(%(seen)s)"
        else:
            self._owners = visible_owners(transaction, selection.reader, selection.visibilities)
        self._values["owners"] = self._owners

    def _seen(self, alias: str) -> str:
        """SQL for "this row is one of those asked for", over a table with an owner and flags."""
        flags = self._flags.format(alias)
        if not self._narrowed:
            return flags
        if alias == "m":
            return f"{flags} AND {self._narrowed}"
        return (
            f"{flags} AND {alias}.row IN (SELECT m.row FROM memories AS m "  # noqa: S608 # our own names
            f"WHERE m.tenant = %(tenant)s AND {self._narrowed})"
        )

    def candidates(self) -> Candidates | None:
        asked = self._asked
        if not self._owners:
            return None
        terms = asked.question.hashes().astype(np.int64).tolist()
        total, mean, holders, lexical = self._words(terms)
        vector = Leg() if asked.vector is None else self._near(*asked.vector, rows=total)
        if not lexical.places and not vector.places:
            return None
        rows = brought_in(lexical, vector)
        known = {int(row): row for row in rows}
        indexed = self._indexed(list(known))
        rows = rows[np.isin(rows, indexed.rows)]
        spoken = indexed.kind[np.searchsorted(indexed.rows, rows)] == MESSAGE
        found, *around = surround(rows, spoken, self._neighbours(rows[spoken]))
        if found is not rows:
            indexed = self._indexed(found.tolist())
        at = np.searchsorted(indexed.rows, found)
        evidence = evidence_of(
            asked,
            {name: getattr(indexed, name)[at] for name in RANKED_BY},
            around=(around[0], around[1]),
            frequencies=_counts(indexed, at, terms),
            row_frequencies=np.array([holders.get(term, 0) for term in terms]),
            rows_in_scope=total,
            mean_length=mean,
            cosine=None if asked.vector is None else self._cosines(*asked.vector, found),
        )
        return Candidates(
            asked=asked, rows=found, lexical=lexical, vector=vector, evidence=evidence
        )

    def _words(self, terms: list[int]) -> tuple[int, float, dict[int, int], Leg]:
        """The statistics of the rows that are asked, and the best by BM25."""
        asked = self._asked
        found = self._transaction.all(
            _WORDS.format(seen_m=self._seen("m"), seen_p=self._seen("p")),
            terms=terms,
            weights=[float(weight) for weight in asked.question.term_weights],
            most=asked.most if asked.words else 0,
            **self._values,
        )
        total, mean = next((int(row), float(value)) for sort, row, value in found if sort == 0)
        holders = {int(row): int(value) for sort, row, value in found if sort == 1}
        best = [(row, value) for sort, row, value in found if sort == 2]
        best.sort(key=lambda one: (-one[1], one[0]))
        leg = Leg(
            np.array([row for row, _ in best], np.int64), np.array([score for _, score in best])
        )
        return total, mean, holders, leg

    def _near(self, embedder: EmbedderId, wanted: NDArray[np.float32], *, rows: int) -> Leg:
        """The rows whose vectors are nearest to the question's, scored from what is stored."""
        most = self._asked.most
        scope = (
            "e.tenant = %(tenant)s AND e.embedder = %(embedder)s AND e.owner = ANY(%(owners)s) "
            f"AND {self._seen('e')}"
        )
        number, size = embedder_number(embedder), embedder.dimensions
        values = {**self._values, "embedder": number, "vector": _written(wanted)}
        if self._search.exactly(rows):
            found = self._transaction.all(
                f"""(SELECT e.row, e.half, e.wide FROM embeddings AS e WHERE {scope}
                ORDER BY e.half <#> %(vector)s::halfvec({size}), e.row LIMIT %(most)s)
                UNION ALL (SELECT e.row, NULL, e.wide FROM embeddings AS e WHERE {scope}
                AND e.half IS NULL)""",  # noqa: S608 # our own names
                most=most + most // 2,
                **values,
            )
        else:
            self._transaction.run("SET LOCAL hnsw.iterative_scan = relaxed_order")
            self._transaction.run(f"SET LOCAL hnsw.ef_search = {min(1000, MORE * most)}")
            found = self._transaction.all(
                f"""(SELECT e.row, e.half, e.wide FROM embeddings AS e
                WHERE {scope} AND e.shared AND e.embedder = {number}
                ORDER BY e.half::halfvec({size}) <=> %(vector)s::halfvec({size}) LIMIT %(most)s)
                UNION ALL (SELECT e.row, e.half, e.wide FROM embeddings AS e
                WHERE {scope} AND NOT e.shared
                ORDER BY e.half <#> %(vector)s::halfvec({size}) LIMIT %(most)s)""",  # noqa: S608 # our own names
                most=MORE * most,
                **values,
            )
        unique = {row[0]: row for row in found}
        keys, vectors = to_matrix(list(unique.values()), size)
        cosines = vectors @ wanted
        self._told = dict(zip(keys.tolist(), cosines.tolist(), strict=True))
        order = np.lexsort((keys, -cosines))[:most]
        return Leg(keys[order], cosines[order])

    def _cosines(
        self, embedder: EmbedderId, wanted: NDArray[np.float32], rows: Rows
    ) -> NDArray[np.float32]:
        """The cosine of each row, NaN for one without a vector."""
        told = self._told
        others = [row for row in rows.tolist() if row not in told]
        if others:
            found = self._transaction.all(
                "SELECT row, half, wide FROM embeddings WHERE tenant = %(tenant)s "
                "AND embedder = %(embedder)s AND row = ANY(%(rows)s)",
                embedder=embedder_number(embedder),
                rows=others,
            )
            keys, vectors = to_matrix(found, embedder.dimensions)
            told = told | dict(zip(keys.tolist(), (vectors @ wanted).tolist(), strict=True))
        return np.array([told.get(row, np.nan) for row in rows.tolist()], np.float32)

    def _indexed(self, rows: list[int]) -> IndexRows:
        found = self._transaction.all(
            "SELECT row, indexed FROM memories WHERE tenant = %(tenant)s AND row = ANY(%(rows)s) "
            "ORDER BY row",
            rows=rows,
        )
        keys = [row for row, _ in found]
        return to_index_rows(keys, [bytes(data) for _, data in found], previous=[0] * len(keys))

    def _neighbours(self, spoken: Rows) -> Callable[[Rows], tuple[Rows, Rows]]:
        """What stands before and after each row near the ones that were spoken, read at once."""
        beside: tuple[dict[int, int], dict[int, int]] = ({}, {})
        if len(spoken):
            chains: dict[tuple[int, int], list[tuple[int, bool]]] = {}
            for row, side, near, seen in self._transaction.all(
                _AROUND.format(seen=self._seen("m")), rows=spoken.tolist(), **self._values
            ):
                chains.setdefault((row, side), []).append((near, seen))
            for (row, side), chain in chains.items():
                here, sees = row, True
                for near, seen in chain:
                    beside[side][here] = near if seen else 0
                    beside[1 - side].setdefault(near, here if sees else 0)
                    here, sees = near, seen

        def asked(rows: Rows) -> tuple[Rows, Rows]:
            return (
                np.array([beside[0].get(row, 0) for row in rows.tolist()], np.int64),
                np.array([beside[1].get(row, 0) for row in rows.tolist()], np.int64),
            )

        return asked


def _is_narrowed(selection: Selection) -> bool:
    return (
        selection.where != ALWAYS
        or selection.kinds is not None
        or selection.source_url is not None
        or selection.session is not None
        or selection.since is not None
        or selection.until is not None
        or selection.as_of is not None
    )


def _written(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(repr, vector.astype(np.float64).tolist()))}]"


def _counts(indexed: IndexRows, at: Rows, terms: list[int]) -> NDArray[np.int64]:
    """How often each word of the question stands in each row."""
    places = {term & 0xFFFF_FFFF_FFFF_FFFF: place for place, term in enumerate(terms)}
    wanted = np.array(sorted(places), np.uint64)
    columns = np.array([places[term] for term in sorted(places)], np.int64)
    lines = np.repeat(np.arange(len(indexed.rows)), np.diff(indexed.term_offsets))
    held = np.isin(indexed.terms, wanted)
    counts = np.zeros((len(indexed.rows), len(terms)), np.int64)
    spots = columns[np.searchsorted(wanted, indexed.terms[held])]
    counts[lines[held], spots] = np.minimum(indexed.frequencies[held], COUNT_LIMIT)
    return counts[at]
