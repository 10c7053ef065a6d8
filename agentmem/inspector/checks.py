"""What the doctor looked at, as values."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from agentmem.core.values import dataclass

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at: its state, what was found, and what to do about it."""

    name: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorReport:
    """All checks, in the order they were made."""

    at: datetime
    checks: tuple[Check, ...]

    @property
    def state(self) -> State:
        """The worst of all."""
        states = {check.state for check in self.checks}
        return "fail" if "fail" in states else "warn" if "warn" in states else "ok"

    @property
    def exit_code(self) -> int:
        """1 when something failed; warnings are no failure."""
        return int(self.state == "fail")
