"""Other memory layers and vector stores doing the same work, each in an environment of its own.

A peer is one script, `python NAME.py FOLDER [--adds N]`. FOLDER holds `texts.json`, `vectors.npy`,
`queries.json` and `query_vectors.npy`; the script loads the texts in bulk, asks every query for ten
results, adds N more texts one by one, and prints one line of JSON: the figures in milliseconds.
"""
