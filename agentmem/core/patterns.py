"""Regular expressions that are compiled when they are first used.

A few hundred rules take a third of a second to compile, which nobody should
pay for an import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

END = 2**63 - 1  # as far as `re` can count


class LazyPattern:
    """A pattern with the methods of `re.Pattern` that are needed here."""

    __slots__ = ("_compiled", "flags", "source")

    def __init__(self, source: str, flags: int = 0) -> None:
        self.source = source
        self.flags = flags
        self._compiled: re.Pattern[str] | None = None

    def compiled(self) -> re.Pattern[str]:
        """The pattern itself; two threads at once compile it twice and agree."""
        if self._compiled is None:
            self._compiled = re.compile(self.source, self.flags)
        return self._compiled

    def match(self, text: str, start: int = 0, end: int = END) -> re.Match[str] | None:
        """As `re.Pattern.match`."""
        return self.compiled().match(text, start, end)

    def search(self, text: str, start: int = 0, end: int = END) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        return self.compiled().search(text, start, end)

    def finditer(self, text: str, start: int = 0, end: int = END) -> Iterator[re.Match[str]]:
        """As `re.Pattern.finditer`."""
        return self.compiled().finditer(text, start, end)
