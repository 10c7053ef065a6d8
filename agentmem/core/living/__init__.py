"""Living memory, decided by rules: what to take from a text, merge, shorten, link and forget."""
