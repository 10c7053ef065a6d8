"""Adding, changing and hiding memories, inside one transaction."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentmem.base.protocols import EmbedderId
from agentmem.base.types import UNUSED, Memory, Usage
from agentmem.stores.postgres.connection import Halves
from agentmem.stores.postgres.reading import COLUMNS, find_where
from agentmem.stores.postgres.tables import (
    CONTENTS,
    EMBEDDINGS,
    SCOPES,
    SPEAKERS,
    Transaction,
    array_of,
    as_json,
    digest,
    owner_key,
)
from agentmem.stores.rules import supersession_edges
from agentmem.stores.tables import (
    MEMORIES,
    STRANDS,
    USAGE,
    Found,
    Place,
    Row,
    in_strand,
    memory_values,
    owned_by,
    usage_values,
)
from agentmem.stores.values import (
    COUNT_LIMIT,
    DELETED,
    Entry,
    flags_of,
    index_head,
    pack,
    shorten,
    unpack_terms,
)
from agentmem.stores.writing import keep_version, refuse_circles

_UPDATE = (
    "UPDATE memories SET "  # noqa: S608 # our own names
    f"{', '.join(f'{name} = %({name})s' for name in (*COLUMNS, 'flags', 'length', 'indexed'))} "
    "WHERE tenant = %(tenant)s AND row = %(row)s"
)


# ----------------------------------------------------------------------------
# Embedders by number.


def embedder_number(embedder: EmbedderId) -> int:
    """The number of a vector space, the same in every tenant, so that they share an index."""
    key = digest(embedder.name, embedder.version, str(embedder.dimensions))
    return int.from_bytes(key[:4], "little") >> 1


def make_graphs(transaction: Transaction) -> None:
    """Make the graphs over shared vectors that were left for after a large load."""
    transaction.run(
        "SELECT index_vectors(embedder, dimensions) FROM embedders WHERE tenant = %(tenant)s"
    )


# ----------------------------------------------------------------------------
# New rows.


class _Names:
    """The numbers that the rows of one transaction belong to, each looked up once."""

    def __init__(self, transaction: Transaction, memories: Iterable[Memory] = ()) -> None:
        self._transaction = transaction
        wanted = {owner_key(owner): owner for owner in set(map(owned_by, memories))}
        found = transaction.numbers("owners", list(wanted))
        self._owners = {wanted[key]: number for key, number in found.items()}
        self._strands: dict[tuple[int, str, str], int] = {}

    def owner(self, memory: Memory) -> int:
        owner = owned_by(memory)
        if owner not in self._owners:
            self._owners[owner] = self._transaction.owner_number(owner)
        return self._owners[owner]

    def of(self, memory: Memory) -> tuple[int, int | None]:
        owner = self.owner(memory)
        place = (owner, memory.source_url, memory.session)
        if not memory.source_url and not memory.session:
            return owner, None
        if place not in self._strands:
            named = dict(zip(STRANDS.columns[1:], place, strict=True))
            self._strands[place] = self._transaction.number_of("strands", STRANDS, named)
        return owner, self._strands[place]


_GIVEN = "%(given)s::json, %(terms)s::bigint[], %(counts)s::smallint[], %(term_of)s::integer[]"
_VECTORS = """%(embedders)s::integer[], %(halves)s::halfvec[], %(wides)s::bytea[],
    %(shared)s::boolean[], %(vector_of)s::integer[]"""
_ADD = f"""SELECT added, after FROM add_memories(
    %(tenant)s, {_GIVEN}, %(spaces)s::json, %(graph)s, {_VECTORS})"""  # noqa: S608 # our own names
_PUT = f"""SELECT put_memories(%(tenant)s, %(owners)s::integer[], %(kinds)s::bytea[],
    %(held)s::bytea[], %(contents)s::text[], {_GIVEN}, %(spaces)s::json, {_VECTORS})"""
_ROWS = "%(tenant)s, %(rows)s::bigint[], %(owners)s::integer[]"


def put(
    transaction: Transaction, entries: Sequence[Entry], *, unsaid: bool = False
) -> tuple[int, ...] | None:
    """Store checked entries and end the transaction, mostly in one round trip.

    None, and nothing is stored, where more is to be done than adding: an entry has a past,
    or, with `unsaid`, its owner has something of the same content.
    """
    memories = [entry.memory for entry in entries]
    if any(map(_has_past, entries)) or (unsaid and any(m.kind == "page" for m in memories)):
        return None
    names = _Names(transaction, memories)
    held = _contents(names, memories) if unsaid else []
    given = _given(transaction, _stored(entries, names), entries)
    ((rows,),) = transaction.only(
        _PUT,
        owners=array_of([owner for owner, _, _ in held]),
        kinds=[kind for _, kind, _ in held],
        held=[content for _, _, content in held],
        contents=[memory.content_hash for memory in memories],
        **given,
    )
    return None if rows is None else tuple(rows)


def _has_past(entry: Entry) -> bool:
    memory = entry.memory
    return memory.usage != UNUSED or bool(entry.versions or supersession_edges(memory))


def add(
    transaction: Transaction,
    entries: Sequence[Entry],
    *,
    last: bool = False,
    graph: bool = True,
) -> tuple[int, ...]:
    """Store checked entries under new rows, inside a transaction; `last` may end it."""
    if not entries:
        return ()
    if last and (put_rows := put(transaction, entries)) is not None:
        return put_rows
    memories = [entry.memory for entry in entries]
    refuse_circles(transaction, [edge for m in memories for edge in supersession_edges(m)])
    given = _given(transaction, _stored(entries, _Names(transaction, memories)), entries)
    ((rows, after),) = transaction.all(_ADD, graph=graph, **given)
    for row, entry in zip(rows, entries, strict=True):
        if entry.memory.usage != UNUSED:
            set_usage(transaction, row, entry.memory.usage)
        for version in entry.versions:
            keep_version(transaction, row, version.memory, version.replaced_at)
    transaction.log("put", rows)
    transaction.log("update", after)
    return tuple(rows)


def _stored(entries: Sequence[Entry], names: _Names) -> list[dict[str, Any]]:
    places = [names.of(entry.memory) for entry in entries]
    return [
        _values(entry.memory, None, owner, strand, pack(entry, owner=owner, strand=strand or 0))
        for entry, (owner, strand) in zip(entries, places, strict=True)
    ]


def _given(
    transaction: Transaction, stored: Sequence[dict[str, Any]], entries: Sequence[Entry] = ()
) -> dict[str, Any]:
    """Rows as they are sent, with their words and the vectors of the `entries` they were made of.

    Which id was taken is heard when they are sent.
    """
    transaction.added |= {one["key"]: one["id"] for one in stored}
    vectors = [
        (number, entry.memory.visibility, entry.vectors) for number, entry in enumerate(entries)
    ]
    return {"given": as_json(stored), **_terms(stored), **_vectors(vectors)}


def _values(
    memory: Memory, row: int | None, owner: int, strand: int | None, indexed: bytes
) -> dict[str, Any]:
    columns = (memory.id, owner, strand, *memory_values(memory))
    return _with_index(row, columns, indexed)


def _with_index(row: int | None, columns: Sequence[Any], indexed: bytes) -> dict[str, Any]:
    return {
        "row": row,
        "key": digest(columns[0]),
        **dict(zip(COLUMNS, columns, strict=True)),
        **index_head(indexed),
        "indexed": indexed,
    }


def _place(values: dict[str, Any]) -> Place:
    return values["owner"], values["strand"], values["place"], values["row"]


def insert_columns(
    transaction: Transaction, rows: Iterable[tuple[int, Sequence[Any], bytes]]
) -> None:
    """Store memories under rows of their own: the columns after the row, and the index blob."""
    stored = [_with_index(*row) for row in rows]
    transaction.run(_ADD, graph=False, **_given(transaction, stored))


def _terms(stored: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The words of rows, and which of the rows each is of, in the order of their index."""
    import numpy as np

    held = [unpack_terms(one["indexed"]) for one in stored]
    terms = np.frombuffer(b"".join([one["terms"] for one in held]), "<i8")
    counts = np.frombuffer(b"".join([one["frequencies"] for one in held]), "<u2")
    sizes = [len(one["terms"]) // 8 for one in held]
    of = np.repeat(np.arange(1, len(stored) + 1), sizes)
    order = np.lexsort((of, terms, np.repeat([one["owner"] for one in stored], sizes)))
    return {
        "terms": array_of(terms[order].tolist()),
        "counts": array_of(np.clip(counts, 1, COUNT_LIMIT)[order].tolist()),
        "term_of": array_of(of[order].tolist()),
    }


def remove_terms(transaction: Transaction, found: Iterable[Row]) -> None:
    """Take the words of rows out, each given with its owner and what holds its terms."""
    lines = [
        (owner, term, row)
        for row, owner, indexed in found
        for (term,) in struct.iter_unpack("<q", unpack_terms(indexed)["terms"])
    ]
    if lines:
        owners, terms, keys = map(array_of, zip(*lines, strict=True))
        transaction.run(
            """DELETE FROM postings AS p USING unnest(
                %(owners)s::integer[], %(terms)s::bigint[], %(rows)s::bigint[])
                AS gone(owner, term, row)
            WHERE p.tenant = %(tenant)s AND p.owner = gone.owner AND p.term = gone.term
            AND p.row = gone.row""",
            owners=owners,
            terms=terms,
            rows=keys,
        )


# ----------------------------------------------------------------------------
# Vectors.


def halves(vector: bytes) -> tuple[bytes | None, bytes | None]:
    """A packed vector as its two columns: in half precision where that holds it exactly."""
    short = shorten(vector)
    return (None, vector) if len(short) == len(vector) else (short, None)


def _vectors(
    found: Iterable[tuple[int, str, tuple[tuple[EmbedderId, bytes], ...]]],
) -> dict[str, Any]:
    """The vectors of rows, given with the place of the row and its visibility, and their spaces."""
    spaces: dict[EmbedderId, int] = {}
    lines: list[tuple[Any, ...]] = []
    for number, visibility, vectors in found:
        for embedder, vector in vectors:
            if embedder not in spaces:
                spaces[embedder] = embedder_number(embedder)
            shared = visibility != "private"
            lines.append((spaces[embedder], *halves(vector), shared, number + 1))
    numbers, half, wide, shared_ones, of = (
        [list(column) for column in zip(*lines, strict=True)] if lines else [[]] * 5
    )
    named = [
        {"embedder": number, "name": one.name, "version": one.version, "dimensions": one.dimensions}
        for one, number in spaces.items()
    ]
    return {
        "spaces": as_json(named),
        "embedders": array_of(numbers),
        "halves": Halves(half),
        "wides": wide,
        "shared": shared_ones,
        "vector_of": array_of(of),
    }


def add_vectors(
    transaction: Transaction,
    found: Sequence[tuple[dict[str, Any], str, tuple[tuple[EmbedderId, bytes], ...]]],
    *,
    graph: bool = True,
) -> list[int]:
    """Store the vectors of rows that have none yet, each given with its visibility; which ones.

    Without `graph` the one over a new space's shared vectors is left for later: see `make_graphs`.
    """
    if not any(vectors for _, _, vectors in found):
        return []
    stored = [one for one, _, _ in found]
    given = [(number, seen, vectors) for number, (_, seen, vectors) in enumerate(found)]
    added = transaction.all(
        f"SELECT add_vectors({_ROWS}, %(states)s::integer[], %(spaces)s::json, %(graph)s, "
        f"{_VECTORS})",
        rows=array_of([one["row"] for one in stored]),
        owners=array_of([one["owner"] for one in stored]),
        states=array_of([one["flags"] for one in stored]),
        graph=graph,
        **_vectors(given),
    )
    return [row for (row,) in added]


def rows_with_owners(
    transaction: Transaction, rows: Sequence[int], *, lock: bool = False
) -> list[tuple[dict[str, Any], str]]:
    """Those of `rows` that are there, as `add_vectors` takes them; `lock` keeps them so."""
    found = transaction.all(
        f"""SELECT m.row, m.owner, m.flags, o.visibility FROM memories AS m
        JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = m.owner
        WHERE m.tenant = %(tenant)s AND m.row = ANY(%(rows)s) ORDER BY m.row
        {"FOR SHARE OF m" if lock else ""}""",  # noqa: S608 # our own names
        rows=list(rows),
    )
    return [({"row": r, "owner": o, "flags": flags}, seen) for r, o, flags, seen in found]


def remove_vectors(
    transaction: Transaction, rows: Collection[int], embedders: Collection[int] | None = None
) -> int:
    """Remove the vectors of `rows`, in every space or in these; gives how many there were."""
    only = {} if embedders is None else {"embedder": embedders}
    return transaction.remove(EMBEDDINGS, {"row": rows, **only})


# ----------------------------------------------------------------------------
# Changes.


_FOLLOWING = f"""SELECT DISTINCT after.row FROM unnest(
        %(owners)s::integer[], %(strands)s::bigint[], %(places)s::bigint[], %(rows)s::bigint[])
        AS here(owner, strand, place, row)
    CROSS JOIN LATERAL (
        SELECT m.row FROM memories AS m WHERE m.tenant = %(tenant)s AND m.owner = here.owner
        AND m.strand = here.strand AND (m.place, m.row) > (here.place, here.row)
        AND m.flags & {DELETED} = 0 ORDER BY m.place, m.row LIMIT 1) AS after"""  # noqa: S608 # our own names


def followers(transaction: Transaction, places: Iterable[Place]) -> set[int]:
    """The rows that come right after these places, among those not deleted."""
    known = [place for place in set(places) if place[1] is not None]
    return {row for (row,) in transaction.all(_FOLLOWING, **_places(known))} if known else set()


def _places(places: Sequence[Place]) -> dict[str, list[Any]]:
    columns = [list(column) for column in zip(*places, strict=True)] or [[], [], [], []]
    return dict(zip(("owners", "strands", "places", "rows"), columns, strict=True))


def rewrite(
    transaction: Transaction,
    old: Found,
    memory: Memory,
    *,
    entry: Entry | None = None,
    relink: bool = True,
) -> dict[str, Any]:
    """Store `memory` in the place of `old`; with an entry, its terms too. Gives what is stored.

    With `relink`, the rows that follow its old and new place are logged.
    """
    owner, strand = old.owner, old.strand
    if in_strand(memory) != in_strand(old.memory):
        owner, strand = _Names(transaction).of(memory)
    ((told,),) = transaction.ask("indexed", MEMORIES, {"row": old.row})
    if entry is None:
        indexed = pack(Entry(memory=memory, **unpack_terms(told)), owner=owner, strand=strand or 0)
    else:
        indexed = pack(replace(entry, memory=memory), owner=owner, strand=strand or 0)
    values = _values(memory, old.row, owner, strand, indexed)
    hidden = (memory.deleted_at is None) != (old.memory.deleted_at is None)
    relink = relink and (hidden or _place(values) != old.place)
    after = followers(transaction, [old.place]) if relink else set()
    moved = owner != old.owner or values["flags"] != flags_of(old.memory)
    if moved or entry is not None:
        remove_terms(transaction, [(old.row, old.owner, told)])
    transaction.run(_UPDATE, **values)
    if moved or entry is not None:
        transaction.later(
            f"SELECT add_terms({_ROWS}, %(lengths)s::integer[], %(states)s::integer[], "
            "%(terms)s::bigint[], %(counts)s::smallint[], %(term_of)s::integer[])",
            rows=[old.row],
            owners=[owner],
            lengths=[values["length"]],
            states=[values["flags"]],
            **_terms([values]),
        )
    if moved:
        transaction.run(
            "UPDATE embeddings SET owner = %(owner)s, shared = %(shared)s, flags = %(flags)s "
            "WHERE tenant = %(tenant)s AND row = %(row)s",
            owner=owner,
            shared=memory.visibility != "private",
            flags=values["flags"],
            row=old.row,
        )
    if relink:
        after |= followers(transaction, [_place(values)])
        transaction.log("update", after - {old.row})
    return values


def renew(transaction: Transaction, old: Found, memory: Memory, entry: Entry) -> None:
    """Store `memory` in the place of `old` with an entry's terms and vectors.

    When the text changes, vectors that are not given anew are removed.
    """
    spaces = [embedder_number(embedder) for embedder, _ in entry.vectors]
    same = memory.text == old.memory.text
    remove_vectors(transaction, [old.row], spaces if same else None)
    stored = rewrite(transaction, old, memory, entry=entry)
    add_vectors(transaction, [(stored, memory.visibility, entry.vectors)])


def set_usage(transaction: Transaction, row: int, usage: Usage) -> None:
    """Write the counts of a row over those that stand there."""
    transaction.remove(USAGE, {"row": row})
    if usage != UNUSED:
        _add_usage(transaction, [row], usage_values(usage))


def count_usage(
    transaction: Transaction,
    found: Sequence[Found],
    *,
    retrieved: int,
    cited: int,
    ignored: int,
    at: int,
) -> None:
    """Add to the counts, in one statement; the moment never goes back."""
    _add_usage(transaction, [one.row for one in found], (retrieved, cited, ignored, at))


def _add_usage(transaction: Transaction, rows: list[int], usage: tuple[Any, ...]) -> None:
    retrieved, cited, ignored, at = usage
    transaction.run(
        """INSERT INTO usage AS u (tenant, row, retrieved, cited, ignored, last_used_at)
        SELECT %(tenant)s, row, %(retrieved)s, %(cited)s, %(ignored)s, %(at)s
        FROM unnest(%(rows)s::bigint[]) AS used(row) ORDER BY row
        ON CONFLICT (tenant, row) DO UPDATE SET
            retrieved = u.retrieved + excluded.retrieved, cited = u.cited + excluded.cited,
            ignored = u.ignored + excluded.ignored,
            last_used_at = greatest(u.last_used_at, excluded.last_used_at)""",
        rows=rows,
        retrieved=retrieved,
        cited=cited,
        ignored=ignored,
        at=at,
    )


# ----------------------------------------------------------------------------
# What is said twice.


def same_content(transaction: Transaction, entries: Sequence[Entry]) -> list[Memory]:
    """What the owners of `entries` have with the content of one of them, deleted ones left out.

    Who writes the same content at the same moment waits until this transaction ends.
    """
    memories = [entry.memory for entry in entries]
    held = _contents(_Names(transaction, memories), memories)
    # In a statement of its own: what comes after must see what those wrote who were waited for.
    transaction.later(
        """INSERT INTO contents (tenant, owner, kind, hash)
        SELECT %(tenant)s, * FROM unnest(%(owners)s::integer[], %(kinds)s::bytea[],
            %(hashes)s::bytea[])
        ON CONFLICT (tenant, owner, kind, hash) DO UPDATE SET hash = excluded.hash""",
        owners=[owner for owner, _, _ in held],
        kinds=[kind for _, kind, _ in held],
        hashes=[content for _, _, content in held],
    )
    pages = any(entry.memory.kind == "page" for entry in entries)
    found = find_where(
        transaction,
        f"m.owner IN :owners AND m.content_hash IN :hashes AND m.flags & {DELETED} = 0"
        + ("" if pages else " AND m.kind <> 'page'"),
        owners=[owner for owner, _, _ in held],
        hashes=[entry.memory.content_hash for entry in entries],
    )
    return [one.memory for one in found]


def _contents(names: _Names, memories: Sequence[Memory]) -> list[tuple[int, bytes, bytes]]:
    """Owner, kind and content of memories, in the order in which everybody waits for them."""
    return sorted({(names.owner(m), digest(m.kind), digest(m.content_hash)) for m in memories})


# ----------------------------------------------------------------------------
# Erasing.


def remove_rows(transaction: Transaction, found: Sequence[Found]) -> int:
    """Take memories out with all that is kept of them alone; gives how many vectors went."""
    rows = [one.row for one in found]
    vectors = remove_vectors(transaction, rows)
    remove_terms(transaction, transaction.ask("row, owner, indexed", MEMORIES, {"row": rows}))
    for table in (USAGE, MEMORIES):
        transaction.remove(table, {"row": rows})
    for one in found:
        said = {"kind": digest(one.memory.kind), "hash": digest(one.memory.content_hash)}
        transaction.remove(CONTENTS, {"owner": one.owner, **said})
    return vectors


def after_erasing(transaction: Transaction, owners: Collection[int]) -> None:
    """Forget who speaks no more, and what need not be told apart or counted any more."""
    transaction.remove(SPEAKERS, {"owner": owners}, "t.rows = 0")
    gone = "NOT EXISTS (SELECT 1 FROM owners AS o WHERE [o] AND o.owner = t.owner)"
    for table in (CONTENTS, SCOPES):
        transaction.remove(table, {"owner": owners}, gone)
