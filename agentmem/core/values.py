"""Values: the standard library's `dataclass`."""

from dataclasses import dataclass

__all__ = ["dataclass"]
