"""Other memory layers and vector stores doing the same work, each in an environment of its own.

A peer is one script, `python NAME.py FOLDER [--adds N]`. FOLDER holds `texts.json`, `vectors.npy`,
`queries.json`, `query_vectors.npy` and `stop_words.json`; the script loads all texts but the last N
in bulk and prints a line of JSON. Then it reads lines: `{"ask": i}` asks query i for ten results,
`{"add": i}` adds text i, and each is answered by the milliseconds it took, on the clock and of CPU.
"""
