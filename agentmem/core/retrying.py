"""How long to wait before failed work is tried again."""

from __future__ import annotations

from agentmem.core.checks import require_count, require_number


def retry_delay(
    attempts: int,
    *,
    first_seconds: float = 2.0,
    longest_seconds: float = 300.0,
    most_attempts: int = 5,
) -> float | None:
    """Seconds until the next try after `attempts` failures, or None when it is time to give up.

    Each wait is twice the one before it, up to `longest_seconds`.
    """
    require_count(attempts, "attempts", least=1)
    require_number(first_seconds, "first_seconds", low=0)
    require_number(longest_seconds, "longest_seconds", low=0)
    if attempts >= require_count(most_attempts, "most_attempts", least=1):
        return None
    doublings = min(attempts - 1, 1_000)  # a float holds no more
    return float(min(longest_seconds, first_seconds * 2.0**doublings))
