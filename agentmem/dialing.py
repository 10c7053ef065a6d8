"""Connections that go only where they may, and never longer than they may.

A name is resolved once, every address it has is checked, and the connection is
made to one of the checked addresses; a name that changes its mind in between
changes nothing. TLS still verifies the name.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

from agentmem.core.addresses import refusal
from agentmem.errors import FetchFailed, FetchRefused

Resolve = Callable[[str, int], Sequence[str]]
"""Every address of a host name, as numbers."""
Connect = Callable[[str, int, float], httpcore.NetworkStream]
"""A connection to an address that is a number already."""

MOST_ADDRESSES = 4


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses the system knows for a name; odd spellings of numbers come out plain."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


def connect(address: str, port: int, timeout_seconds: float) -> httpcore.NetworkStream:
    """A TCP connection."""
    return httpcore.SyncBackend().connect_tcp(address, port, timeout=timeout_seconds)


class Dialer(httpcore.NetworkBackend):
    """What httpcore connects through: checked addresses, one deadline for everything."""

    def __init__(
        self,
        *,
        deadline: float,
        allow_private: bool,
        resolve: Resolve = resolve,
        connect: Connect = connect,
    ) -> None:
        self._deadline = deadline
        self._allow_private = allow_private
        self._resolve = resolve
        self._connect = connect

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        last: Exception | None = None
        for address in self._checked(host, port):
            try:
                left = seconds_left(self._deadline)
                return DeadlineStream(self._connect(address, port, left), self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout, OSError) as error:
                last = error
        raise httpcore.ConnectError(str(last) or type(last).__name__)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        raise FetchRefused(path, "it is a socket of this machine")

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, seconds_left(self._deadline)))

    def _checked(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host`; one that may not be reached refuses the name."""
        addresses = self._ask(host, port)
        for address in addresses:
            reason = refusal(pack(address), allow_private=self._allow_private)
            if reason:
                raise FetchRefused(
                    host,
                    f"it leads to {address} ({reason})",
                    remedy="Addresses of this machine and its networks are refused; "
                    "allow_private=True (--allow-private) allows private ones.",
                )
        if not addresses:
            raise FetchFailed(host, "the name has no address")
        return addresses[:MOST_ADDRESSES]

    def _ask(self, host: str, port: int) -> Sequence[str]:
        """Resolve on a thread: the system's resolver knows no time limit."""
        answer: list[Sequence[str] | Exception] = []

        def ask() -> None:
            try:
                answer.append(tuple(self._resolve(host, port)))
            except (OSError, UnicodeError, ValueError) as error:
                answer.append(error)

        thread = threading.Thread(target=ask, name="agentmem-resolve", daemon=True)
        thread.start()
        thread.join(seconds_left(self._deadline))
        if not answer:
            raise httpcore.ConnectTimeout("the name was not resolved in time")
        found = answer[0]
        if isinstance(found, Exception):
            raise FetchFailed(
                host, f"the name cannot be resolved ({found})", remedy="Check the address."
            )
        return found


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every wait ends at the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: float) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, seconds_left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, seconds_left(self._deadline))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = seconds_left(self._deadline)
        inner = self._inner.start_tls(ssl_context, server_hostname, left)
        return DeadlineStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def seconds_left(deadline: float) -> float:
    """Seconds until `deadline` (of `time.monotonic`); none left is a timeout."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time is over")
    return left


def pack(address: str) -> bytes:
    """A numeric address as its bytes; b"" when it is none."""
    plain = address.split("%", maxsplit=1)[0]
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return socket.inet_pton(family, plain)
        except (OSError, ValueError):
            continue
    return b""
