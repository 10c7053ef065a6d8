"""The search of a store in PostgreSQL: candidates in SQL, nothing kept in this process.

Words come from a table of postings keyed by owner and term, so that a reader's statistics
touch nobody else's rows (P24). Vectors are compared exactly over the rows of the owners that
the reader may see while those are few; past that, a graph over shared vectors brings in more
than is asked for and each is scored again from its stored numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from agentmem.base.filters import ALWAYS, Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.protocol import (
    RANKED_BY,
    Asked,
    Candidates,
    IndexState,
    Leg,
    brought_in,
    gather,
)
from agentmem.search.rank import HOPS
from agentmem.stores.postgres.store import PostgresStore
from agentmem.stores.postgres.tables import in_sql
from agentmem.stores.postgres.transaction import Transaction, embedder_number, told_of
from agentmem.stores.tables import Row, seen_condition
from agentmem.stores.values import (
    COLD,
    COUNT_LIMIT,
    DELETED,
    FORGOTTEN,
    NO_SCOPE,
    SUPERSEDED,
    IndexRows,
    name_id,
    to_index_rows,
)
from agentmem.text.terms import K1, B, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]

EXACT_ROWS = 20_000
"""So many vectors are sooner compared one by one than looked up in a graph."""
MORE = 4
"""Times as many rows as are asked for come out of the graph, to be scored exactly."""
_LONGEST = (1 << 24) - 1
# What a search needs before its question is read: whom its reader may see and how many rows they
# have, who speaks in those it asks, and whether anything was put away at all.
_READER = f"""
WITH seen AS MATERIALIZED (
    SELECT o.owner, o.visibility FROM owners AS o WHERE o.tenant = %(tenant)s AND {{condition}})
SELECT seen.owner, seen.visibility, s.flags, s.rows, s.length, NULL
FROM seen LEFT JOIN scopes AS s ON s.tenant = %(tenant)s AND s.owner = seen.owner
UNION ALL (SELECT DISTINCT NULL::integer, NULL, NULL::integer, NULL::bigint, NULL::bigint, p.speaker
    FROM speakers AS p JOIN seen ON seen.owner = p.owner WHERE p.tenant = %(tenant)s
    AND p.flags & {DELETED | COLD} = %(wanted)s AND p.rows > 0)
UNION ALL (SELECT NULL, NULL, NULL, s.rows, NULL, NULL FROM scopes AS s
    WHERE s.tenant = %(tenant)s AND s.flags & {COLD} <> 0 AND s.rows > 0 LIMIT 1)
"""  # noqa: S608 # our own names
# One line a word, with its rows as numbers of eight bytes: row, length and count. They are scored
# here: a sum over many rows takes the server three times as long as handing them over.
_WORDS = f"""
SELECT asked.n, count(*), string_agg(
    int8send((p.row << 32) | (least(p.length, {_LONGEST}) << 8) | p.count), '')
FROM unnest(%(terms)s::bigint[]) WITH ORDINALITY AS asked(term, n)
JOIN postings AS p ON p.tenant = %(tenant)s AND p.owner = ANY(%(owners)s)
    AND p.term = asked.term AND {{seen}}
GROUP BY asked.n
"""  # noqa: S608 # our own numbers
_SCOPE = """
SELECT count(*), coalesce(sum(m.length), 0) FROM memories AS m
WHERE m.tenant = %(tenant)s AND m.owner = ANY(%(owners)s) AND {seen}
"""
# As the vectors are kept, rounded, so that every search scores them alike.
_COSINE = "-({half}::vector <#> {asked})"
_NEAR = f"""
WITH asked AS MATERIALIZED (SELECT %(vector)s::vector AS whole, %(vector)s::halfvec AS half)
(SELECT near.row, {_COSINE.format(half="near.half", asked="(SELECT whole FROM asked)")}, NULL::bytea
FROM (
    SELECT e.row, e.half FROM embeddings AS e
    WHERE e.tenant = %(tenant)s AND e.embedder = %(embedder)s AND e.owner = ANY(%(owners)s)
    AND {{seen}} ORDER BY e.half <#> (SELECT half FROM asked), e.row LIMIT %(most)s) AS near
    WHERE near.half IS NOT NULL)
UNION ALL (SELECT e.row, NULL, e.wide FROM embeddings AS e
    WHERE e.tenant = %(tenant)s AND e.embedder = %(embedder)s AND e.owner = ANY(%(owners)s)
    AND {{seen}} AND e.half IS NULL)
"""  # noqa: S608 # our own names
_GRAPH = f"""
SELECT near.row, {_COSINE.format(half="near.half", asked="%(vector)s::vector")}, NULL::bytea FROM (
    SELECT e.row, e.half FROM embeddings AS e WHERE e.tenant = %(tenant)s
    AND e.embedder = {{number}} AND e.shared AND e.owner = ANY(%(shared)s) AND {{seen}}
    ORDER BY e.half::halfvec({{size}}) <=> %(vector)s::halfvec({{size}}) LIMIT %(most)s) AS near
"""  # noqa: S608 # our own names
_COSINES = f"""
SELECT e.row, {_COSINE.format(half="e.half", asked="%(vector)s::vector")}, e.wide
FROM embeddings AS e
WHERE e.tenant = %(tenant)s AND e.embedder = %(embedder)s AND e.row = ANY(%(rows)s)
"""  # noqa: S608 # our own names
_INDEXED = """
SELECT row, indexed FROM memories WHERE tenant = %(tenant)s AND row = ANY(%(rows)s) ORDER BY row
"""
_AROUND = f"""
SELECT here.row, near.side, near.row, near.seen
FROM unnest(%(rows)s::bigint[]) AS asked(row)
JOIN memories AS here ON here.tenant = %(tenant)s AND here.row = asked.row
    AND here.kind = 'message' AND here.strand IS NOT NULL
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
        self._begun = threading.local()

    @property
    def seq(self) -> int:
        return self._store.feed.seq()

    def speakers(self, reader: Scope, *, cold: bool = False) -> Collection[int]:
        """Who speaks in any row that `reader` may see, of the hot ones or the cold.

        A search begins with this: what else it needs of its reader comes along, for this
        thread's next `candidates` and `has_cold`.
        """
        found = self._read_reader(reader, cold=cold)
        self._begun.reader, self._begun.found = reader, found
        return found.speakers

    def _read_reader(self, reader: Scope, *, cold: bool = False) -> _Reader:
        condition, values = in_sql(*seen_condition(reader))
        values["wanted"] = COLD if cold else 0
        statement = _READER.format(condition=condition)
        found = self._database.read(lambda t: t.only(statement, **values))
        whose = [one for one in found if one[0] is not None]
        others = [one[-1] for one in found if one[0] is None]
        return _Reader(
            owners={owner: visibility for owner, visibility, *_ in whose},
            states=[
                (owner, flags, rows, int(size))
                for owner, _, flags, rows, size, _ in whose
                if flags is not None
            ],
            speakers={name_id(speaker) for speaker in others if speaker is not None},
            cold=None in others,
        )

    def candidates(self, asked: Asked) -> Candidates | None:
        """What both legs bring in and what surrounds it, all from one state of the database."""
        reader = asked.selection.reader
        known = self._begun.__dict__.pop("found", None)
        if known is None or self._begun.__dict__.pop("reader", None) != reader:
            known = self._read_reader(reader)
        self._begun.cold = known.cold
        return self._database.read(lambda t: _Question(self, t, asked, known).candidates())

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
        cold = self._begun.__dict__.pop("cold", None)
        return self._read_reader(NO_SCOPE).cold if cold is None else cold

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


class _Reader(NamedTuple):
    """Whom a reader may see, how many rows they have in each state and how long these are
    together, who speaks in those that are asked, and whether anything was put away."""

    owners: dict[int, str]
    states: list[tuple[int, int, int, int]]
    speakers: set[int]
    cold: bool


class _Question:
    """One question inside one transaction."""

    def __init__(
        self, search: PostgresSearch, transaction: Transaction, asked: Asked, reader: _Reader
    ) -> None:
        self._search = search
        self._transaction = transaction
        self._asked = asked
        selection = asked.selection
        if asked.unfiltered:
            selection = Selection(reader=selection.reader, superseded=True, forgotten=True)
        self._mask = COLD | (0 if selection.deleted else DELETED)
        if selection.as_of is None:
            self._mask |= 0 if selection.superseded else SUPERSEDED
            self._mask |= 0 if selection.forgotten else FORGOTTEN
        self._wanted = COLD if asked.cold else 0
        self._values: dict[str, Any] = {}
        self._narrowed = ""
        if _is_narrowed(selection):
            conditions = told_of(selection)
            self._values = conditions.values
            self._narrowed = conditions.sql
            if not conditions.exact:
                self._values = {"seen": transaction.select_rows(selection)}
                self._narrowed = "m.row = ANY(%(seen)s)"
        told = {o: seen for o, seen in reader.owners.items() if seen in selection.visibilities}
        self._owners = list(told)
        self._values["owners"] = self._owners
        self._values["shared"] = [owner for owner, seen in told.items() if seen != "private"]
        sizes = [
            (rows, length)
            for owner, flags, rows, length in reader.states
            if owner in told and flags & self._mask == self._wanted
        ]
        self._rows = sum(rows for rows, _ in sizes)
        self._length = sum(length for _, length in sizes)

    def _seen(self, alias: str) -> str:
        """SQL for "this row is one of those asked for", over a table with an owner and flags."""
        flags = f"{alias}.flags & {self._mask} = {self._wanted}"
        if not self._narrowed:
            return flags
        if alias == "m":
            return f"{flags} AND {self._narrowed}"
        return (
            f"{flags} AND {alias}.row IN (SELECT m.row FROM memories AS m "  # noqa: S608 # our own names
            f"WHERE m.tenant = %(tenant)s AND {self._narrowed})"
        )

    def candidates(self) -> Candidates | None:
        asked, transaction = self._asked, self._transaction
        if not self._owners:
            return None
        terms = asked.question.hashes().astype(np.int64).tolist()
        counted = None
        if self._narrowed:
            counted = transaction.later(_SCOPE.format(seen=self._seen("m")), **self._values)
        near = None if asked.vector is None else self._ask_near(*asked.vector)
        words = transaction.all(_WORDS.format(seen=self._seen("p")), terms=terms, **self._values)
        if counted is not None:
            self._rows, self._length = (int(number) for number in counted()[0])
        mean = self._length / self._rows if self._rows else 0.0
        holders, lexical = self._score(words, mean)
        told: dict[int, float] = {}
        vector = Leg()
        if near is not None and asked.vector is not None:
            told = _cosines(near(), asked.vector[1])
            vector = _best(list(told), list(told.values()), asked.most)
        if not lexical.places and not vector.places:
            return None
        rows = brought_in(lexical, vector)
        beside = self._beside(rows)
        everything = list({*rows.tolist(), *beside[0], *beside[1]})
        others = [row for row in everything if row not in told]
        more = None
        if asked.vector is not None and others:
            space, vector_text = embedder_number(asked.vector[0]), _written(asked.vector[1])
            more = transaction.later(_COSINES, embedder=space, rows=others, vector=vector_text)
        known = transaction.only(_INDEXED, rows=everything)
        keys = [row for row, _ in known]
        indexed = to_index_rows(keys, [bytes(data) for _, data in known], previous=[0] * len(keys))
        if more is not None and asked.vector is not None:
            told |= _cosines(more(), asked.vector[1])

        def columns_of(of: Rows) -> dict[str, NDArray[Any]]:
            at = np.searchsorted(indexed.rows, of)
            return {name: getattr(indexed, name)[at] for name in RANKED_BY}

        def neighbours(of: Rows) -> tuple[Rows, Rows]:
            before, after = ([side.get(row, 0) for row in of.tolist()] for side in beside)
            return np.array(before, np.int64), np.array(after, np.int64)

        def cosines_of(of: Rows) -> NDArray[np.float32]:
            return np.array([told.get(row, np.nan) for row in of.tolist()], np.float32)

        return gather(
            asked,
            lexical,
            vector,
            rows[np.isin(rows, indexed.rows)],
            columns_of=columns_of,
            neighbours=neighbours,
            counts_of=lambda of: _counts(indexed, np.searchsorted(indexed.rows, of), terms),
            cosines_of=None if asked.vector is None else cosines_of,
            row_frequencies=holders,
            rows_in_scope=self._rows,
            mean_length=mean,
        )

    def _score(self, words: Sequence[Row], mean: float) -> tuple[NDArray[np.int64], Leg]:
        """In how many rows each word is, and the best rows by BM25."""
        question = self._asked.question
        holders = np.zeros(len(question.term_weights), np.int64)
        parts: list[tuple[NDArray[Any], float]] = []
        for number, count, data in words:
            holders[number - 1] = count
            worth = float(question.term_weights[number - 1]) * idf(count, self._rows)
            parts.append((np.frombuffer(data, ">i8"), worth))
        if not parts or not self._asked.words:
            return holders, Leg()
        packed = np.concatenate([part for part, _ in parts]).astype(np.int64)
        worth_of = np.repeat([worth for _, worth in parts], [len(part) for part, _ in parts])
        counts, lengths = packed & 0xFF, packed >> 8 & _LONGEST
        saturated = counts + K1 * (1 - B) + lengths * (K1 * B / (mean or 1.0))
        rows, inverse = np.unique(packed >> 32, return_inverse=True)
        scores = np.bincount(inverse, worth_of * counts * (K1 + 1) / saturated)
        good = scores > 0
        return holders, _best(rows[good], scores[good], self._asked.most)

    def _ask_near(
        self, embedder: EmbedderId, wanted: NDArray[np.float32]
    ) -> Callable[[], list[Row]]:
        """Ask for the rows whose vectors are nearest to the question's, with their cosines."""
        most, number, size = self._asked.most, embedder_number(embedder), embedder.dimensions
        values = {**self._values, "embedder": number, "vector": _written(wanted)}
        later, near = self._transaction.later, _NEAR.format(seen=self._seen("e"))
        if self._search.exactly(self._rows):
            return later(near, **{**values, "most": most + most // 2})
        # The server takes the flags for rarer than they are, and would rather sort every row.
        later(
            "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), "
            f"set_config('hnsw.ef_search', '{min(1000, MORE * most)}', true), "
            "set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true)"
        )
        values["most"] = MORE * most
        graph = later(_GRAPH.format(seen=self._seen("e"), number=number, size=size), **values)
        later(
            "SELECT set_config('enable_sort', 'on', true), set_config('enable_seqscan', 'on', true)"
        )
        private = list(set(self._owners) - set(values["shared"]))
        if not private:
            return graph
        own = later(near, **{**values, "owners": private})
        return lambda: [*graph(), *own()]

    def _beside(self, rows: Rows) -> tuple[dict[int, int], dict[int, int]]:
        """What stands before and after each row near those that were spoken, 0 if not seen."""
        beside: tuple[dict[int, int], dict[int, int]] = ({}, {})
        chains: dict[tuple[int, int], list[tuple[int, bool]]] = {}
        for row, side, near, seen in self._transaction.all(
            _AROUND.format(seen=self._seen("m")), rows=rows.tolist(), **self._values
        ):
            chains.setdefault((row, side), []).append((near, seen))
        for (row, side), chain in chains.items():
            here, sees = row, True
            for near, seen in chain:
                beside[side][here] = near if seen else 0
                beside[1 - side].setdefault(near, here if sees else 0)
                here, sees = near, seen
        return beside


def _best(rows: Any, scores: Any, most: int) -> Leg:
    """The rows with the highest scores, the best first, ties by row."""
    keys, values = np.asarray(rows, np.int64), np.asarray(scores, np.float64)
    if len(keys) > most:
        least = np.partition(values, len(values) - most)[len(values) - most]
        keys, values = keys[values >= least], values[values >= least]
    order = np.lexsort((keys, -values))[:most]
    return Leg(keys[order], values[order])


def _cosines(found: Sequence[Row], wanted: NDArray[np.float32]) -> dict[int, float]:
    """The cosine of each row; of one in single precision it is worked out here.

    Rounding makes some vectors a little longer than one: no cosine is more than that.
    """
    told = {
        row: cosine if wide is None else float(np.frombuffer(wide, "<f4") @ wanted)
        for row, cosine, wide in found
    }
    return {row: max(-1.0, min(1.0, cosine)) for row, cosine in told.items()}


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
