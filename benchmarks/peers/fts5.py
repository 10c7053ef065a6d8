"""SQLite's FTS5 with porter stemming and our stop words: words only, one durable add each."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from common import Peer, Vectors, Work, run


def build(work: Work) -> Peer:
    base = sqlite3.connect(work.folder + "/fts.db", isolation_level=None)
    base.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize='porter unicode61');"
    )

    def load(texts: Sequence[str], vectors: Vectors) -> None:
        base.execute("BEGIN")
        base.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
        base.execute("COMMIT")

    def ask(query: str, vector: Vectors) -> object:
        asked = re.findall(r"\w+", query.lower())
        words = " OR ".join(
            f'"{w}"' for w in [w for w in asked if w not in work.stop_words] or asked
        )
        return base.execute(
            "SELECT rowid, text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10", (words,)
        ).fetchall()

    return Peer(
        load=load,
        ask=ask,
        add=lambda i, text, _: base.execute(
            "INSERT INTO texts(rowid, text) VALUES (?, ?)", (i, text)
        ),
    )


run("SQLite FTS5 (words)", sqlite3.sqlite_version, build)
