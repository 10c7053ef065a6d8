"""The tables, and the numbered steps that make and change them.

Steps are never edited after release: a new idea is a new step at the end. All
tables but the ledger have their key first and end with a checksum of the row,
or keep one inside their blob; see `connection.py`.
"""

from __future__ import annotations

from agentmem.stores.tables import SHARED, Table

APPLICATION_ID = 0x61676D6D  # "agmm", in the file's header
EMBEDDER_SHIFT = 40

INDEXED = Table(name="indexed", columns=("row", "data"), packed=True)
EMBEDDINGS = Table(name="embeddings", columns=("key", "data"), packed=True)
CHANGES = Table(name="changes", columns=("seq", "number", "operation", "first", "last"))
COLD = Table(name="cold", columns=("row", "data"), packed=True)

TABLES = (*SHARED, INDEXED, EMBEDDINGS, CHANGES, COLD)
STORED = {
    table.name: table.columns if table.packed else (*table.columns, "checksum") for table in TABLES
}
"""The columns of each table as they stand in the file."""
_SELECT = {name: f"SELECT {', '.join(listed)} FROM {name} AS t " for name, listed in STORED.items()}  # noqa: S608 # our own names
INSERT = {
    name: f"INSERT INTO {name} ({', '.join(listed)}) VALUES ({', '.join('?' * len(listed))})"  # noqa: S608 # our own names
    for name, listed in STORED.items()
}


def select_sql(table: Table, condition: str) -> str:
    return _SELECT[table.name] + condition


_FIRST = (
    "CREATE TABLE ledger (one INTEGER PRIMARY KEY CHECK (one = 1), data TEXT NOT NULL)",
    """CREATE TABLE owners (
        owner INTEGER PRIMARY KEY, visibility TEXT NOT NULL, user_id TEXT, project_id TEXT,
        agent_id TEXT, run_id TEXT, checksum INTEGER NOT NULL)""",
    "CREATE INDEX owners_by_user ON owners (visibility, user_id)",
    """CREATE TABLE strands (
        strand INTEGER PRIMARY KEY, owner INTEGER NOT NULL, url TEXT NOT NULL,
        session TEXT NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE INDEX strands_by_url ON strands (url, session, owner)",
    "CREATE INDEX strands_by_session ON strands (session, owner)",
    """CREATE TABLE sources (
        source INTEGER PRIMARY KEY, owner INTEGER NOT NULL, url TEXT NOT NULL,
        title TEXT NOT NULL, content_hash TEXT NOT NULL, synced_at INTEGER NOT NULL,
        checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX sources_by_url ON sources (url, owner)",
    """CREATE TABLE memories (
        row INTEGER PRIMARY KEY, id TEXT NOT NULL, owner INTEGER NOT NULL, strand INTEGER,
        place INTEGER NOT NULL, kind TEXT NOT NULL, origin TEXT NOT NULL, speaker TEXT NOT NULL,
        created_at INTEGER NOT NULL, valid_from INTEGER, valid_to INTEGER, supersedes TEXT,
        superseded_by TEXT, deleted_at INTEGER, importance REAL NOT NULL,
        content_hash TEXT NOT NULL, title TEXT NOT NULL, heading_path TEXT NOT NULL,
        metadata TEXT NOT NULL, text TEXT NOT NULL, summary TEXT, compressed TEXT,
        index_text TEXT, checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX memories_by_id ON memories (id)",
    "CREATE INDEX memories_by_place ON memories (owner, strand, place)",
    """CREATE INDEX memories_by_supersedes ON memories (supersedes)
        WHERE supersedes IS NOT NULL""",
    """CREATE INDEX memories_by_superseded ON memories (superseded_by)
        WHERE superseded_by IS NOT NULL""",
    "CREATE TABLE indexed (row INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE usage (
        row INTEGER PRIMARY KEY, retrieved INTEGER NOT NULL, cited INTEGER NOT NULL,
        ignored INTEGER NOT NULL, last_used_at INTEGER, checksum INTEGER NOT NULL)""",
    """CREATE TABLE embedders (
        embedder INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL,
        dimensions INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    # The key is embedder << 40 | row: one embedder's vectors lie together and need no index.
    "CREATE TABLE embeddings (key INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """CREATE TABLE history (
        version INTEGER PRIMARY KEY, row INTEGER NOT NULL, replaced_at INTEGER NOT NULL,
        data TEXT NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE INDEX history_by_row ON history (row)",
    """CREATE TABLE changes (
        seq INTEGER PRIMARY KEY, number INTEGER NOT NULL, operation TEXT NOT NULL,
        first INTEGER NOT NULL, last INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    """CREATE TABLE snapshots (
        snapshot INTEGER PRIMARY KEY, id TEXT NOT NULL, owner INTEGER NOT NULL,
        created_at INTEGER NOT NULL, mentions TEXT NOT NULL, data TEXT NOT NULL,
        checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX snapshots_by_id ON snapshots (id)",
    """CREATE TABLE artifacts (
        artifact INTEGER PRIMARY KEY, id TEXT NOT NULL, owner INTEGER NOT NULL,
        created_at INTEGER NOT NULL, media_type TEXT NOT NULL, metadata TEXT NOT NULL,
        data BLOB NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX artifacts_by_id ON artifacts (id)",
    """CREATE TABLE links (
        link INTEGER PRIMARY KEY, family TEXT NOT NULL, first INTEGER NOT NULL,
        second INTEGER NOT NULL, relation TEXT NOT NULL, created_at INTEGER NOT NULL,
        note TEXT NOT NULL, settled_at INTEGER, checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX links_by_first ON links (family, first, second, relation)",
    "CREATE INDEX links_by_second ON links (second)",
    """CREATE TABLE jobs (
        job INTEGER PRIMARY KEY, owner INTEGER NOT NULL, kind TEXT NOT NULL, dedupe TEXT NOT NULL,
        payload TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL,
        ready_at INTEGER NOT NULL, error TEXT NOT NULL, created_at INTEGER NOT NULL,
        checksum INTEGER NOT NULL)""",
    "CREATE INDEX jobs_by_state ON jobs (state, ready_at)",
    """CREATE TABLE settings (
        setting INTEGER PRIMARY KEY, name TEXT NOT NULL, value TEXT NOT NULL,
        checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX settings_by_name ON settings (name)",
    """CREATE TABLE index_files (
        file INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL,
        embedder TEXT NOT NULL, seq INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX index_files_by_name ON index_files (name)",
)

_HASHES = ("CREATE INDEX memories_by_hash ON memories (content_hash)",)

# Chunks of pages are told apart by their source; only what is said is looked up by its hash.
# Hashes come in no order, so each row in this index costs a page of its own to write.
_HASHES_OF_STATEMENTS = (
    "DROP INDEX memories_by_hash",
    "CREATE INDEX memories_by_hash ON memories (content_hash) WHERE kind <> 'page'",
)

# Runs that can be undone, one item a memory or relation they changed; and the texts of memories
# that nobody asked for in a long time, compressed.
_JOURNAL_AND_COLD = (
    """CREATE TABLE journal (
        entry INTEGER PRIMARY KEY, id TEXT NOT NULL, owner INTEGER NOT NULL, kind TEXT NOT NULL,
        created_at INTEGER NOT NULL, undone_at INTEGER, report TEXT NOT NULL, mark TEXT NOT NULL,
        checksum INTEGER NOT NULL)""",
    "CREATE UNIQUE INDEX journal_by_id ON journal (id)",
    """CREATE TABLE journal_items (
        item INTEGER PRIMARY KEY, entry INTEGER NOT NULL, row INTEGER NOT NULL, other INTEGER,
        relation TEXT NOT NULL, data TEXT NOT NULL, checksum INTEGER NOT NULL)""",
    "CREATE INDEX journal_items_by_entry ON journal_items (entry)",
    "CREATE INDEX journal_items_by_row ON journal_items (row)",
    "CREATE INDEX journal_items_by_other ON journal_items (other) WHERE other IS NOT NULL",
    "CREATE TABLE cold (row INTEGER PRIMARY KEY, data BLOB NOT NULL)",
)

# New vectors are kept in steps of one byte (`in_steps`), which earlier versions cannot read; those
# that are there stay as they are.
_VECTORS_IN_STEPS = ()

Step = tuple[str, ...]
MIGRATIONS: tuple[Step, ...] = (
    _FIRST, _HASHES, _HASHES_OF_STATEMENTS, _JOURNAL_AND_COLD, _VECTORS_IN_STEPS,
)  # fmt: skip
"""Step number n (from 1) brings a file from schema version n - 1 to n."""
