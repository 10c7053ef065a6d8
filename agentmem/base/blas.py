"""Small matrices are multiplied by the thread that asks, not by all cores."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any


class _OneThread:
    """While this is entered, matrices are multiplied by one thread; what was set comes back.

    A sentence is too small to be divided, and OpenBLAS lets the threads it woke for it spin on a
    core of their own for some 30 ms afterwards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    @cached_property
    def _libraries(self) -> list[Any]:
        import numpy as np  # noqa: F401 # only what is loaded is found
        from threadpoolctl import ThreadpoolController

        found = ThreadpoolController().select(user_api="blas").lib_controllers
        # OpenMP has a number for each thread, which another one could not set back.
        return [one for one in found if getattr(one, "threading_layer", "") != "openmp"]

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [library.num_threads for library in self._libraries]
                self._set([1] * len(self._before))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._set(self._before)

    def _set(self, threads: Sequence[int]) -> None:
        for library, number in zip(self._libraries, threads, strict=True):
            # From 3.7 on only the thread that sets a number first may set another one, and here
            # whoever leaves last sets it back.
            let_go = getattr(library, "clear_controlling_thread", None)
            if let_go is not None:
                let_go(force=True)
            library.set_num_threads(number)
            if let_go is not None:
                let_go(force=True)


one_thread = _OneThread()
