"""A value that is made when somebody first asks for it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Lazy(Generic[T]):
    """Made once, by whoever asks first; others wait for it, in whatever thread they are.

    `make` may use only what does not change, and is let go of when it is done.
    Where it fails, the next one who asks makes it again. `characters` is about
    how much the value, or what it is made of, keeps in memory; `write` gives
    it as JSON values where it has to be put into a file.
    """

    __slots__ = ("_lock", "_made", "_make", "_write", "characters")

    def __init__(
        self,
        make: Callable[[], T],
        *,
        characters: int = 0,
        write: Callable[[T], Any] | None = None,
    ) -> None:
        self._make: Callable[[], T] | None = make
        self._write = write
        self._made: list[T] = []
        # A lock of its own: with one for several, threads that ask for different values would
        # wait for each other. It is reentrant, so that a value that asks for itself fails.
        self._lock = threading.RLock()
        self.characters = characters

    @property
    def value(self) -> T:
        made = self._made
        if made:
            return made[0]
        with self._lock:
            if not self._made and self._make is not None:
                value = self._make()
                self._made = [value]
                self._make = None
            return self._made[0]

    @property
    def written(self) -> Any:
        """The value as it is put into a file."""
        return self.value if self._write is None else self._write(self.value)


def made(value: Any) -> Any:
    """A value, one that was put off included."""
    return value.value if isinstance(value, Lazy) else value


# ----------------------------------------------------------------------------
# Regular expressions that are compiled when they are first used.
#
# A few hundred rules take a third of a second to compile, which nobody should
# pay for an import.


class LazyPattern:
    """What stands for a `re.Pattern` and compiles it when something of it is first used.

    From then on what was used is the compiled pattern's own, at its own speed.
    """

    def __init__(self, source: str, flags: int) -> None:
        self.pattern = source
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        # Asked for what is not there yet; two threads at once compile it twice and agree.
        if name.startswith("_"):
            raise AttributeError(f"LazyPattern has no attribute {name!r}")
        found = self.__dict__[name] = getattr(re.compile(self.pattern, self.flags), name)
        return found


def compile_late(source: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile` put off until the pattern is used; what is wrong with it shows then."""
    return cast("re.Pattern[str]", LazyPattern(source, flags))
