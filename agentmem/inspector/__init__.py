"""Explain: traces, stats, replay, audit, doctor, and how they are shown."""
