"""A built context, and what can be said of it once somebody asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from agentmem.core.assembly import BuiltBlock
from agentmem.core.budget_report import Budget
from agentmem.core.choosing import citations_of
from agentmem.core.citations import Citation
from agentmem.core.packing import ContextPlan
from agentmem.core.snapshot import Snapshot
from agentmem.core.values import dataclass
from agentmem.types import Hit

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Context:
    """A built context. `messages` is what to send."""

    messages: list[dict[str, Any]]
    text: str | None = None
    """The block as it is sent; None where there is none."""
    shows_knowledge: bool = False
    hits: tuple[Hit, ...] = ()
    snapshot_id: str = ""
    message_id: str = ""
    accounts: Accounts | None = None
    resent: Budget | None = None
    """What was sent in the end, where that is not what the plan says."""

    @property
    def built(self) -> BuiltBlock:
        """The block with what became of everything offered, counted."""
        return BuiltBlock() if self.accounts is None else self.accounts.built

    @property
    def plan(self) -> ContextPlan | None:
        """The whole request, counted."""
        return None if self.accounts is None else self.accounts.plan

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self.accounts is None else self.accounts.snapshot

    @property
    def citations(self) -> tuple[Citation, ...]:
        """One for each source in the block, under the number it has there."""
        return citations_of(self.built, self.hits)

    @property
    def degradations(self) -> list[str]:
        """What did not work, in words."""
        return [] if self.accounts is None else self.accounts.degradations

    @property
    def budget(self) -> Budget | None:
        if self.resent is not None:
            return self.resent
        return None if self.plan is None else self.plan.budget

    @property
    def estimated_tokens(self) -> int:
        """What the request costs, as we count."""
        return 0 if self.budget is None else self.budget.used_tokens


class Accounts:
    """The counted block, the plan and the snapshot of a context: made once, when asked for.

    Nothing of them goes to the model, so it need not wait; the background asks
    soon enough.
    """

    def __init__(
        self,
        steps: Steps,
        build: Callable[[], BuiltBlock],
        pack: Callable[[BuiltBlock], ContextPlan | None],
        trace: Callable[[BuiltBlock, ContextPlan | None], Snapshot],
    ) -> None:
        self._steps = steps
        self._build = build
        self._pack = pack
        self._trace = trace
        self._made: dict[str, Any] = {}
        # One lock for all: a cached property brings one of its own for all of a class, and
        # two threads that ask for different ones would wait for each other.
        self._lock = threading.RLock()

    @property
    def built(self) -> BuiltBlock:
        return self._once("built", self._build)

    @property
    def plan(self) -> ContextPlan | None:
        return self._once("plan", lambda: self._pack(self.built))

    @property
    def snapshot(self) -> Snapshot | None:
        def trace() -> Snapshot | None:
            built, plan = self.built, self.plan
            return self._steps.run("trace", lambda: self._trace(built, plan), None)

        return self._once("snapshot", trace)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return cast("T", self._made[name])

    @property
    def degradations(self) -> list[str]:
        _ = self.plan  # it may be one of them
        return self._steps.degradations


class Steps:
    """Runs the steps of a build: times each, and names the one that failed."""

    def __init__(self) -> None:
        self.degradations: list[str] = []
        self.timings_ms: dict[str, float] = {}

    def run(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """What `step` gives, or `otherwise` when it fails; the failure is noted."""
        began = time.perf_counter()
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self.degradations.append(f"{name} failed: {type(error).__name__}: {error}")
            return otherwise
        finally:
            spent = 1000 * (time.perf_counter() - began)
            self.timings_ms[name] = round(self.timings_ms.get(name, 0.0) + spent, 3)
