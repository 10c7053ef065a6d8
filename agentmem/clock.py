"""The machine's clock, for those who are not given another."""

from __future__ import annotations

from datetime import UTC, datetime


class SystemClock:
    """What time it is now."""

    def now(self) -> datetime:
        return datetime.now(UTC)
