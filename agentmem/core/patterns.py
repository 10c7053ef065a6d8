"""Regular expressions that are compiled when they are first used.

A few hundred rules take a third of a second to compile, which nobody should
pay for an import.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class LazyPattern:
    """A pattern with the methods of `re.Pattern`, compiled when the first of them is used.

    From then on the methods are the compiled pattern's own, at their own speed.
    """

    __slots__ = ("_compiled", "flags", "pattern", *_METHODS)

    if TYPE_CHECKING:

        def match(self, text: str, start: int = ..., end: int = ..., /) -> re.Match[str] | None: ...
        def search(
            self, text: str, start: int = ..., end: int = ..., /
        ) -> re.Match[str] | None: ...
        def finditer(
            self, text: str, start: int = ..., end: int = ..., /
        ) -> Iterator[re.Match[str]]: ...

    def __init__(self, source: str, flags: int = 0) -> None:
        self.pattern = source
        self.flags = flags
        self._compiled: re.Pattern[str] | None = None

    def __getattr__(self, name: str) -> Any:
        # Called while a method's slot is empty; two threads at once compile it twice and agree.
        if name not in _METHODS:
            raise AttributeError(f"LazyPattern has no attribute {name!r}")
        compiled = self.compiled()
        for method in _METHODS:
            object.__setattr__(self, method, getattr(compiled, method))
        return getattr(compiled, name)

    def compiled(self) -> re.Pattern[str]:
        """The pattern itself."""
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self.flags)
        return self._compiled


def compile_late(source: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile` put off until the pattern is used; what is wrong with it shows then."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
