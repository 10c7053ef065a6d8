"""Looking after a store as a whole, and what it tells indexes: what every store does alike."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from struct import error as StructError  # noqa: N812 - it is a class
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agentmem.base.checks import require_text
from agentmem.base.errors import StoreCorrupt
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory, Scope
from agentmem.stores.side import get_value, job_counts, seen_by, set_value
from agentmem.stores.tables import (
    ANY,
    EMBEDDERS,
    INDEX_FILES,
    MEMORIES,
    SOURCES,
    Match,
    Row,
    TableReader,
    Tables,
    TableWriter,
)
from agentmem.stores.values import (
    ALWAYS_AFTER,
    ALWAYS_BEFORE,
    Changes,
    EmbedderCoverage,
    IndexFile,
    IndexRows,
    Source,
    StoreStats,
    VerifyReport,
    from_microseconds,
    name_id,
    pack_vectors,
    read_head,
    require_file_name,
    to_microseconds,
    told_flags,
)
from agentmem.stores.writing import AT_ONCE, erase_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

R = TypeVar("R", bound=TableReader)
_LAST_SYNC = "last_sync"
_MOST_PROBLEMS = 10_000


def tells_of(terms: bytes, columns: Row) -> bool:
    """Whether the terms of a row were made from the memory that has these columns."""
    row = dict(zip(MEMORIES.columns, columns, strict=False))
    valid_from, valid_to = row["valid_from"], row["valid_to"]
    try:
        head, _, _ = read_head(terms)
        metadata = {} if row["metadata"] == "{}" else json.loads(row["metadata"])
        flags = told_flags(row["deleted_at"], row["superseded_by"], metadata)
        return head == head | {
            "owner": row["owner"],
            "flags": flags | head["flags"] & 0xFF00,
            "strand": row["strand"] or 0,
            "place": row["place"],
            "speaker": name_id(row["speaker"]),
            "kind": name_id(row["kind"]),
            "created_at": row["created_at"],
            "valid_from": ALWAYS_BEFORE if valid_from is None else valid_from,
            "valid_to": ALWAYS_AFTER if valid_to is None else valid_to,
        }
    except (ValueError, TypeError, RecursionError, StructError):
        return False


def all_embedders(read: TableReader) -> dict[int, EmbedderId]:
    """The vector spaces of a store by number, oldest first."""
    return {
        number: EmbedderId(name=name, version=version, dimensions=dimensions)
        for number, name, version, dimensions in read.find(EMBEDDERS, order=read.age)
    }


def updated_in(rows: Collection[int], lines: Iterable[Row]) -> set[int]:
    """Those of `rows` that lines of the log of changes (…, operation, first, last) updated."""
    return {
        row
        for *_, operation, first, last in lines
        if operation == "update"
        for row in rows
        if first <= row <= last
    }


class BaseFeed(ABC):
    """What indexes are built from and kept up with."""

    def __init__(self, tables: Tables[TableReader]) -> None:
        self._tables = tables

    @abstractmethod
    def seq(self) -> int:
        """The number of the last change that indexes must know of."""

    @abstractmethod
    def data_version(self) -> int:
        """Changes whenever any process committed; cheaper than `seq`."""

    @abstractmethod
    def changes(self, since_seq: int, /) -> Changes:
        """What was written after `since_seq`, oldest first."""

    @abstractmethod
    def index_rows(
        self,
        *,
        after_row: int = 0,
        limit: int | None = None,
        rows: Collection[int] | None = None,
    ) -> IndexRows:
        """Everything an index needs of all rows, of those after one, or of these."""

    @abstractmethod
    def vectors(
        self, embedder: EmbedderId, *, rows: Collection[int] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The rows that have a vector of this embedder, ascending, and the vectors."""

    @abstractmethod
    def missing_vectors(self, embedder: EmbedderId, *, limit: int = 256) -> tuple[int, ...]:
        """Rows that are not deleted and have no vector of this embedder, oldest first."""

    @abstractmethod
    def readable_rows(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """The rows of all memories that can be read, and what is wrong with the others."""

    @abstractmethod
    def cold_count(self) -> int:
        """How many memories were put away."""

    @abstractmethod
    def drop_vectors(self, embedder: EmbedderId, /) -> int:
        """Remove every vector of an embedder that is no longer used."""

    def texts(self, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of these rows, whoever owns them: for embedding, never for showing."""
        found = self._tables.read(lambda read: read.by_rows(rows, last=True))
        return {row: one.memory for row, one in found.items()}

    def taken(self, ids: Collection[str], /) -> set[str]:
        """Those of `ids` that some memory has, whoever owns it: for imports only."""
        wanted = list(ids)
        parts = [wanted[at : at + AT_ONCE] for at in range(0, len(wanted), AT_ONCE)]
        return self._tables.read(
            lambda read: {
                taken for part in parts for (taken,) in read.ask("id", MEMORIES, {"id": part})
            }
        )

    def put_vectors(
        self,
        embedder: EmbedderId,
        rows: Sequence[int],
        vectors: NDArray[np.float32],
        *,
        seq: int | None = None,
    ) -> int:
        """Store vectors of rows that are there and have none yet; gives how many were stored.

        With `seq`, the state the texts were read in, rows updated since are
        left out: their vectors would be those of another text.
        """
        given = pack_vectors(embedder, vectors)
        packed = {int(row): vector for row, vector in zip(rows, given, strict=True)}

        def apply(write: TableWriter) -> int:
            new = write.add_vectors(embedder, packed, seq=seq)
            write.log("vectors", new)
            return len(new)

        return self._tables.write(apply)

    def embedders(self) -> tuple[EmbedderId, ...]:
        """The embedders whose vectors are kept, oldest first."""
        return tuple(self._tables.read(all_embedders).values())

    def index_file(self, name: str, /) -> IndexFile | None:
        """What is known of an index file; None means it must not be used."""
        found = self._tables.read(lambda read: read.find(INDEX_FILES, {"name": name}))
        for _, known, sha256, embedder, seq in found:
            return IndexFile(name=known, sha256=sha256, embedder=embedder, seq=seq)
        return None

    def keep_index_file(self, file: IndexFile, /) -> bool:
        """Take note of a saved index file.

        False when something was erased since the state it was made from: the
        file may hold what was erased and has to be removed again.
        """
        require_file_name(file.name)

        def apply(write: TableWriter) -> bool:
            if file.seq < int(get_value(write, "erased_seq") or 0):
                return False
            known = {"sha256": file.sha256, "embedder": file.embedder, "seq": file.seq}
            write.put(INDEX_FILES, name=file.name, **known)
            return True

        return self._tables.write(apply)


class BaseUpkeep(ABC, Generic[R]):
    """Looking after the store as a whole."""

    def __init__(self, tables: Tables[R], *, location: str) -> None:
        self._tables = tables
        self._location = location

    @abstractmethod
    def _size(self, read: R) -> dict[str, Any]:
        """The bytes, the sequence number and the schema version of a store."""

    @abstractmethod
    def _covered(self, read: R, embedder: int, scope: Scope | None) -> tuple[int, int]:
        """How many rows have a vector of an embedder, and how many have none."""

    @abstractmethod
    def _problems(self, read: R) -> Iterator[str]:
        """What is wrong, one line each."""

    @abstractmethod
    def _counts(self, read: R) -> dict[str, int]:
        """How many rows each table has."""

    @abstractmethod
    def vacuum(self) -> None:
        """Give unused space back."""

    @abstractmethod
    def backup(self, path: Path, /) -> None:
        """A consistent copy at `path`, made while others read and write; never half a file."""

    def _cleaned(self) -> None:
        """What is left to do once rows were removed for good."""

    def stats(self, scope: Scope | None = None) -> StoreStats:
        """Sizes and counts, of what `scope` can see; without one, of the whole store."""

        def apply(read: R) -> StoreStats:
            counted = _counted(read, seen_by(scope))
            sync = get_value(read, _LAST_SYNC)
            ((documents,),) = read.ask("count(*)", SOURCES, seen_by(scope))
            covered = {
                embedder: self._covered(read, number, scope)
                for number, embedder in all_embedders(read).items()
            }
            return StoreStats(
                documents=documents,
                chunks=sum(counted["kinds"].values()),
                last_sync=None if sync is None else from_microseconds(int(sync)),
                embedders=tuple(
                    EmbedderCoverage(embedder=embedder, vectors=vectors, missing=missing)
                    for embedder, (vectors, missing) in covered.items()
                ),
                jobs=job_counts(read, scope),
                location=self._location,
                **counted,
                **self._size(read),
            )

        return self._tables.read(apply)

    def sources(self, scope: Scope | None = None) -> tuple[Source, ...]:
        """The sources `scope` can see, with the hash of their newest content."""

        def apply(read: R) -> tuple[Source, ...]:
            found = read.find(SOURCES, seen_by(scope), order="t.source")
            whose = read.owners([row[1] for row in found])
            return tuple(
                Source(
                    url=url,
                    title=title,
                    content_hash=content_hash,
                    synced_at=from_microseconds(synced),
                    visibility=whose[owner][0],
                    scope=whose[owner][1],
                )
                for _, owner, url, title, content_hash, synced in found
            )

        return self._tables.read(apply)

    def owners(self, memory_id: str | None = None, /) -> tuple[Scope, ...]:
        """Everybody who has a memory, or who has that one, be it deleted."""

        def apply(read: R) -> tuple[Scope, ...]:
            if memory_id is None:
                rows = self._with_rows(read)
            else:
                rows = read.ask("t.owner", MEMORIES, {"id": require_text(memory_id, "id")})
            found = [owner for (owner,) in rows]
            named = read.owners(found)
            return tuple(dict.fromkeys(named[owner][1] for owner in found))

        return self._tables.read(apply)

    def _with_rows(self, read: R) -> list[Row]:
        """The owners who have a memory; of a file, those whose own row is gone are missed then."""
        return read.ask("DISTINCT t.owner", MEMORIES)

    def users(self) -> dict[str | None, int]:
        """How many memories hold of each user, most first; `None` has those of nobody named."""
        current = "t.deleted_at IS NULL AND t.superseded_by IS NULL"

        def apply(read: R) -> Counter[str | None]:
            found = read.ask("owner, count(*)", MEMORIES, ANY, current, group="owner")
            named = read.owners([owner for owner, _ in found])
            users: Counter[str | None] = Counter()
            for owner, number in found:
                users[named[owner][1].user_id] += number
            return users

        found = self._tables.read(apply)
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0] or "")))

    def verify(self) -> VerifyReport:
        """A check of every row, checksum and cross-reference, and of the pages of a file."""

        def apply(read: R) -> VerifyReport:
            problems = tuple(islice(self._problems(read), _MOST_PROBLEMS))
            return VerifyReport(problems=problems, counts=self._counts(read))

        try:
            return self._tables.read(apply)
        except StoreCorrupt as error:
            return VerifyReport(problems=(error.message,), counts={})

    def sync(self, *, at: datetime) -> None:
        """Note the moment; everything acknowledged is safe already."""
        moment = str(to_microseconds(at, "at"))
        self._tables.write(lambda write: set_value(write, _LAST_SYNC, moment))

    def purge(self, *, deleted_before: datetime) -> int:
        """Remove for good what was deleted before a moment; gives how many rows went."""
        moment = to_microseconds(deleted_before, "deleted_before")

        def apply(write: TableWriter) -> int:
            found = write.find_where("m.deleted_at < :moment", lock=True, moment=moment)
            if found:
                erase_rows(write, found, at=deleted_before)
            return len(found)

        gone = self._tables.write(apply)
        if gone:
            self._cleaned()
        return gone


def _counted(read: TableReader, match: Match) -> dict[str, Any]:
    kinds: Counter[str] = Counter()
    deleted = superseded = 0
    for kind, is_deleted, is_superseded, count in read.ask(
        "kind, deleted_at IS NOT NULL, superseded_by IS NOT NULL, count(*)",
        MEMORIES,
        match,
        group="1, 2, 3",
    ):
        if is_deleted:
            deleted += count
        elif is_superseded:
            superseded += count
        else:
            kinds[kind] += count
    return {"kinds": dict(kinds), "deleted": deleted, "superseded": superseded}
