"""How long a service asks us to wait."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT_SECONDS = 3_600.0


def retry_after_seconds(header: object, *, now: datetime | None = None) -> float | None:
    """The seconds a Retry-After header asks for, at most an hour; `None` when it says nothing.

    It holds seconds or a date; a date needs `now`, else the machine's clock is asked.
    """
    if not isinstance(header, str) or not header.strip():
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except (ValueError, TypeError, IndexError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_WAIT_SECONDS)
