"""Doors for other programs: HTTP, a proxy in front of a model, other memories' clients, a page."""
