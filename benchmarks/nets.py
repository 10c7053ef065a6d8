"""A net with one layer of units, fitted on numpy: what the gate and the clauses are told with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BATCH = 256
IDLE = 0.3
"""The share of the units that are left out at random, each time."""

Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a net is fitted: `unseen` is the share of a row that is left out at random."""

    units: int
    passes: int
    pace: float
    decay: float
    unseen: float
    nets: int = 2


@dataclass(frozen=True, slots=True)
class Net:
    """`counts @ max(0, units @ row + start) + offset`, a column an outcome."""

    units: NDArray[np.float64]
    start: NDArray[np.float64]
    counts: NDArray[np.float64]
    offset: NDArray[np.float64]


def fit(values: NDArray[Any], truly: Rows, weights: Rows, plan: Plan, *, alike: int) -> Net:
    """The mean of several nets, which is one with more units. From the column `alike` on all
    numbers are of one measure, so that small ones stay small."""
    mean, spread = values.mean(axis=0), values.std(axis=0)
    spread[spread < 1e-6] = 1.0
    if values.shape[1] > alike:
        spread[alike:] = values[:, alike:].std()
    rows = ((values - mean) / spread).astype(np.float32)
    nets = [_train(rows, truly, weights, plan, seed) for seed in range(plan.nets)]
    units = np.hstack([net[0] for net in nets]) / spread[:, None]
    return Net(
        units,
        np.concatenate([net[1] for net in nets]) - mean @ units,
        np.vstack([net[2] for net in nets]) / plan.nets,
        np.asarray(sum(net[3] for net in nets) / plan.nets, dtype=np.float64),
    )


def _train(rows: Rows, truly: Rows, weights: Rows, plan: Plan, seed: int) -> list[Rows]:
    """One net by Adam: weights of the units, where each starts, what each counts, the offset."""
    draw = np.random.default_rng(seed)
    size, outcomes = rows.shape[1], truly.shape[1]
    parts = [
        draw.normal(0, size**-0.5, (size, plan.units)),
        np.zeros(plan.units),
        draw.normal(0, plan.units**-0.5, (plan.units, outcomes)),
        np.zeros(outcomes),
    ]
    net = [part.astype(np.float32) for part in parts]
    slow, fast = ([np.zeros_like(part) for part in net] for _ in range(2))
    step = 0
    for number in range(plan.passes):
        order, pace = draw.permutation(len(rows)), plan.pace * (1 - number / plan.passes)
        for at in range(0, len(rows), BATCH):
            chosen = order[at : at + BATCH]
            seen = rows[chosen] * _some_of(draw, (len(chosen), size), plan.unseen)
            sums = seen @ net[0] + net[1]
            awake = _some_of(draw, sums.shape, IDLE) * (sums > 0)
            heard = sums * awake
            told = chances(heard @ net[2] + net[3])
            missed = (told - truly[chosen]) * weights[chosen, None] / np.float32(len(chosen))
            back = (missed @ net[2].T) * awake
            slopes = [seen.T @ back, back.sum(axis=0), heard.T @ missed, missed.sum(axis=0)]
            step += 1
            for k, slope in enumerate(slopes):
                slow[k] = 0.9 * slow[k] + 0.1 * slope
                fast[k] = 0.999 * fast[k] + 0.001 * slope**2
                move = slow[k] / (1 - 0.9**step) / (np.sqrt(fast[k] / (1 - 0.999**step)) + 1e-8)
                shrink = plan.decay * net[k] if k in (0, 2) else 0.0
                net[k] = np.asarray(net[k] - pace * (move + shrink), dtype=np.float32)
    return net


def chances(sums: NDArray[Any]) -> NDArray[Any]:
    """How likely each outcome is: of one column yes, of several which of them."""
    if sums.shape[1] == 1:
        return np.asarray(1 / (1 + np.exp(-np.clip(sums, -30, 30))))
    raised = np.exp(sums - sums.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def _some_of(draw: np.random.Generator, shape: tuple[int, ...], left_out: float) -> Any:
    return (draw.random(shape, np.float32) > left_out) * np.float32(1 / (1 - left_out))
