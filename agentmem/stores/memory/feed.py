"""What indexes are built from, and the upkeep of a store without files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.core.checks import require_count
from agentmem.core.marks import is_cold
from agentmem.core.scope import visible
from agentmem.errors import (
    StoreError,
)
from agentmem.protocols import EmbedderId
from agentmem.stores import packing
from agentmem.stores.entries import pack_vector, require_file_name
from agentmem.stores.memory.state import State, job_counts, may_see
from agentmem.stores.values import (
    Changes,
    EmbedderCoverage,
    IndexFile,
    IndexRows,
    Source,
    StoreStats,
    VerifyReport,
)
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.stores.memory import MemoryStore


class MemoryFeed:
    """`Feed` over dictionaries."""

    def __init__(self, state: State) -> None:
        self._state = state

    def seq(self) -> int:
        with self._state as state:
            return len(state.changes)

    def data_version(self) -> int:
        with self._state as state:
            return state.writes

    def changes(self, since_seq: int, /) -> Changes:
        require_count(since_seq, "since_seq")
        with self._state as state:
            return Changes(
                seq=len(state.changes),
                complete=since_seq <= len(state.changes),
                items=tuple(state.changes[since_seq:]),
            )

    def index_rows(
        self,
        *,
        after_row: int = 0,
        limit: int | None = None,
        rows: Collection[int] | None = None,
    ) -> IndexRows:
        with self._state as state:
            wanted = sorted(row for row in state.entries if row > after_row)[:limit]
            if rows is not None:
                wanted = sorted({int(row) for row in rows} & set(state.entries))
            previous = state.previous_rows()
            blobs = [
                packing.pack(
                    state.entries[row],
                    owner=state.owner_number(state.entries[row].memory),
                    strand=state.strand_number(state.entries[row].memory),
                )
                for row in wanted
            ]
        return packing.to_index_rows(wanted, blobs, previous=[previous.get(r, 0) for r in wanted])

    def vectors(
        self,
        embedder: EmbedderId,
        *,
        after_row: int = 0,
        limit: int | None = None,
        rows: Collection[int] | None = None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        import numpy as np

        with self._state as state:
            found = state.vectors.get(embedder, {})
            wanted = sorted(row for row in found if row > after_row)[:limit]
            if rows is not None:
                wanted = sorted({int(row) for row in rows} & set(found))
            data = b"".join(found[row] for row in wanted)
        matrix = np.frombuffer(data, "<f4").reshape(len(wanted), embedder.dimensions)
        return np.asarray(wanted, dtype=np.int64), matrix.astype(np.float32)

    def put_vectors(
        self,
        embedder: EmbedderId,
        rows: Sequence[int],
        vectors: NDArray[np.float32],
        *,
        seq: int | None = None,
    ) -> int:
        packed = {
            int(row): pack_vector(embedder, vector)
            for row, vector in zip(rows, vectors, strict=True)
        }
        with self._state as state:
            later = state.changes[seq:] if seq is not None else []
            stale = {change.first for change in later if change.operation == "update"}
            known = state.vectors.setdefault(embedder, {})
            new = [r for r in packed if r in state.entries and r not in known and r not in stale]
            known.update((row, packed[row]) for row in new)
            if new:
                state.log("vectors", new)
            return len(new)

    def missing_vectors(self, embedder: EmbedderId, *, limit: int = 256) -> tuple[int, ...]:
        with self._state as state:
            known = state.vectors.get(embedder, {})
            missing = [
                row
                for row, entry in sorted(state.entries.items())
                if row not in known and entry.memory.deleted_at is None
            ]
        return tuple(missing[: require_count(limit, "limit")])

    def texts(self, rows: Collection[int], /) -> Mapping[int, Memory]:
        with self._state as state:
            return {int(r): state.entries[int(r)].memory for r in rows if int(r) in state.entries}

    def readable_rows(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        import numpy as np

        with self._state as state:
            return np.array(sorted(state.entries), np.int64), ()

    def taken(self, ids: Collection[str], /) -> set[str]:
        with self._state as state:
            return {memory_id for memory_id in ids if memory_id in state.row_of}

    def cold_count(self) -> int:
        with self._state as state:
            return sum(is_cold(e.memory) and bool(e.memory.text) for e in state.entries.values())

    def drop_vectors(self, embedder: EmbedderId, /) -> int:
        with self._state as state:
            gone = state.vectors.pop(embedder, {})
            if gone:
                state.log("vectors", gone)
            return len(gone)

    def embedders(self) -> tuple[EmbedderId, ...]:
        with self._state as state:
            return tuple(state.vectors)

    def index_file(self, name: str, /) -> IndexFile | None:
        with self._state as state:
            return state.index_files.get(name)

    def keep_index_file(self, file: IndexFile, /) -> bool:
        require_file_name(file.name)
        with self._state as state:
            if file.seq < state.erased_seq:
                return False
            state.index_files[file.name] = file
            return True

    def drop_index_file(self, name: str, /) -> None:
        with self._state as state:
            state.index_files.pop(name, None)


class MemoryUpkeep:
    """`Upkeep` over dictionaries; there are no files to look after."""

    def __init__(self, state: State, store: MemoryStore) -> None:
        self._state = state
        self._store = store

    def stats(self, scope: Scope | None = None) -> StoreStats:
        with self._state as state:
            seen = {
                row: entry.memory
                for row, entry in state.entries.items()
                if scope is None or visible(entry.memory, scope)
            }
            kinds: dict[str, int] = {}
            for memory in seen.values():
                if memory.deleted_at is None and memory.superseded_by is None:
                    kinds[memory.kind] = kinds.get(memory.kind, 0) + 1
            live = [row for row, memory in seen.items() if memory.deleted_at is None]
            return StoreStats(
                documents=len(self.sources(scope)),
                chunks=sum(kinds.values()),
                kinds=kinds,
                deleted=len(seen) - len(live),
                superseded=len(live) - sum(kinds.values()),
                bytes=sum(len(memory.text.encode()) for memory in seen.values()),
                last_sync=state.last_sync,
                embedders=tuple(
                    EmbedderCoverage(
                        embedder=embedder,
                        vectors=sum(row in vectors for row in live),
                        missing=sum(row not in vectors for row in live),
                    )
                    for embedder, vectors in state.vectors.items()
                ),
                jobs=job_counts(state, scope),
                seq=len(state.changes),
                schema_version=0,
                location="memory",
            )

    def verify(self) -> VerifyReport:
        with self._state as state:
            return VerifyReport(problems=(), counts={"memories": len(state.entries)})

    def vacuum(self) -> None:
        with self._state:
            pass

    def sync(self, *, at: datetime) -> None:
        with self._state as state:
            state.last_sync = at

    def backup(self, path: Path, /) -> None:
        raise StoreError(
            "A store in memory has no file to copy.", remedy="Export it as JSONL instead."
        )

    def purge(self, *, deleted_before: datetime) -> int:
        return self._store.purge(deleted_before=deleted_before)

    def owners(self) -> tuple[Scope, ...]:
        with self._state as state:
            scopes = (entry.memory.scope for entry in state.entries.values())
            return tuple(dict.fromkeys(scopes))

    def sources(self, scope: Scope | None = None) -> tuple[Source, ...]:
        with self._state as state:
            return tuple(
                source
                for source in state.sources.values()
                if scope is None or may_see(source.visibility, source.scope, scope)
            )
