"""The nearest of some slots, and how many to look at to find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from agentmem.indexes.slots import Slots

WIDEST = 65_536

Near = tuple["NDArray[np.int64]", "NDArray[np.float32]"]
Scan = tuple[bool, "NDArray[np.int64]", int]
"""Whether there are codes, what they picked, and how many slots they cover."""


def nearest(slots: Slots, among: NDArray[np.int64], query: NDArray[np.float32], n: int) -> Near:
    """The `n` nearest slots of `among`, and those as near as the last of them; their cosines."""
    products = slots.matrix.products(among, query)
    if len(among) <= n:
        return among, products
    keep = products >= np.partition(products, len(products) - n)[len(products) - n]
    return among.compress(keep), products.compress(keep)


def bounded(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosines, which rounding may have carried past 1 or -1."""
    return np.minimum(np.maximum(cosines, np.float32(-1.0)), np.float32(1.0))


def width(depth: int, in_scope: int, size: int) -> int:
    """How many slots the codes are asked for, so that about `depth` of them are in scope.

    The smaller the part of the store that is in scope, the less even it may lie.
    """
    others = max(1.0, size / max(1, in_scope))
    return min(WIDEST, int(depth * others * (1.0 + min(0.5, 4.0 * (others - 1.0)))))


class Narrow:
    """Leaves of some slots those that are live and whose rows are in the scope."""

    def __init__(
        self,
        slots: Slots,
        position_of: NDArray[np.int32],
        mask: NDArray[np.bool_] | None,
    ) -> None:
        self.slots = slots
        self._position_of = position_of
        self._mask = mask

    def __call__(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        slots, position_of, mask = self.slots, self._position_of, self._mask
        wanted = wanted.compress(slots.live.take(wanted))
        if mask is None:
            return wanted
        rows = slots.row_of.take(wanted)
        known = rows < len(position_of)
        positions = position_of.take(np.where(known, rows, 0)) - 1
        known &= (positions >= 0) & (positions < len(mask))
        if len(mask):
            known &= mask.take(np.where(known, positions, 0))
        return wanted.compress(known)
