"""Explain every token: what was looked at, what went in, what it cost, and how the store is.

Each function gives a value; `rendering` writes values as text, `schemas` as
JSON. All of it reads snapshots and stored memories; nothing is recomputed to
please.
"""
