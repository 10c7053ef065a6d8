"""The indexes in memory: words, vectors, rows."""
