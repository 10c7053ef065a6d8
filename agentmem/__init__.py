"""The memory layer for the agent loop you already have."""

__version__ = "0.1.0"
