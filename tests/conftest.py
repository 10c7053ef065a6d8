"""Hypothesis profiles and the switch for long tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,  # machines are noisy; nothing here asserts a time
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("dev", max_examples=100, **_COMMON)  # type: ignore[arg-type]  # mixed dict
settings.register_profile("deep", max_examples=1000, **_COMMON)  # type: ignore[arg-type]  # mixed dict
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also run tests marked deep")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--deep"):
        return
    deep = [item for item in items if "deep" in item.keywords]
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if "deep" not in item.keywords]
