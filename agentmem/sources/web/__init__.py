"""Web search, and memory merged with it into cited answers."""
