"""Hypothesis profiles, the switch for long tests, and no way out to a network."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,  # machines are noisy; nothing here asserts a time
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("dev", max_examples=100, derandomize=True, **_COMMON)  # type: ignore[arg-type]  # mixed dict
settings.register_profile("deep", max_examples=1000, **_COMMON)  # type: ignore[arg-type]  # mixed dict
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="also run tests marked deep")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--deep"):
        return
    # Not `item.keywords`, which hold the names of folders too: a clone may lie in one called deep.
    deep = [item for item in items if item.get_closest_marker("deep")]
    if deep:
        config.hook.pytest_deselected(items=deep)
        items[:] = [item for item in items if not item.get_closest_marker("deep")]


@pytest.fixture(scope="session", autouse=True)
def offline() -> Iterator[None]:
    """Refuse every connection that would leave this machine."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        loopback = ("127.", "::1", "localhost")
        if isinstance(address, tuple) and not str(address[0]).startswith(loopback):
            raise OSError(f"a test tried to reach {address}")
        real(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_server_left() -> Iterator[None]:
    """End the database server that tests may have started; without its driver none has."""
    yield
    started = sys.modules.get("tests.servers.postgres")
    if started is not None:
        started.stop_shared()
