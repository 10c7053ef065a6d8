"""A built context, and what can be said of it once somebody asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from agentmem.core.assembly import BuiltBlock
from agentmem.core.budget_report import Budget
from agentmem.core.choosing import citations_of
from agentmem.core.citations import Citation
from agentmem.core.lazy import Lazy
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
    """What nobody waits for; the background asks for it soon enough."""
    resent: Budget | None = None
    """What was sent in the end, where that is not what the plan says."""

    @property
    def built(self) -> BuiltBlock:
        """The block with what became of everything offered, counted."""
        return BuiltBlock() if self.accounts is None else self.accounts.built.value

    @property
    def plan(self) -> ContextPlan | None:
        """The whole request, counted."""
        return None if self.accounts is None else self.accounts.plan.value

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self.accounts is None else self.accounts.snapshot.value

    @property
    def citations(self) -> tuple[Citation, ...]:
        """One for each source in the block, under the number it has there."""
        return citations_of(self.built, self.hits)

    @property
    def degradations(self) -> list[str]:
        """What did not work, in words; the plan is made for it, which may be one of them."""
        if self.accounts is None:
            return []
        _ = self.plan
        return list(self.accounts.steps.degradations)

    def tell_degradations(self, tell: Callable[[str], None]) -> None:
        """Tell what did not work so far, and what comes of it later, when it comes."""
        if self.accounts is not None:
            self.accounts.steps.tell_to(tell)

    @property
    def budget(self) -> Budget | None:
        if self.resent is not None:
            return self.resent
        return None if self.plan is None else self.plan.budget

    @property
    def estimated_tokens(self) -> int:
        """What the request costs, as we count."""
        return 0 if self.budget is None else self.budget.used_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The counted block, the plan and the snapshot of a context, and what went wrong in it."""

    steps: Steps
    built: Lazy[BuiltBlock]
    plan: Lazy[ContextPlan | None]
    snapshot: Lazy[Snapshot | None]


class Steps:
    """Runs the steps of a build: times each, and names the one that failed."""

    def __init__(self) -> None:
        self.degradations: list[str] = []
        self.timings_ms: dict[str, float] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._lock = threading.Lock()

    def note(self, *problems: str) -> None:
        """Keep what did not work."""
        with self._lock:
            self.degradations += problems
            listeners = tuple(self._listeners)
        for tell in listeners:
            for problem in problems:
                tell(problem)

    def tell_to(self, tell: Callable[[str], None]) -> None:
        """Tell what was noted, and from now on whatever is."""
        with self._lock:
            known = tuple(self.degradations)
            self._listeners.append(tell)
        for problem in known:
            tell(problem)

    def run(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """What `step` gives, or `otherwise` when it fails; the failure is noted."""
        began = time.perf_counter()
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self.note(f"{name} failed: {type(error).__name__}: {error}")
            return otherwise
        finally:
            spent = 1000 * (time.perf_counter() - began)
            self.timings_ms[name] = round(self.timings_ms.get(name, 0.0) + spent, 3)
