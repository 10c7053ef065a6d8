"""Serve a loop: the turn, the context, tools, tool results, background work."""
