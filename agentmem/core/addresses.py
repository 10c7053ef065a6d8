"""Which network addresses a fetch may go to: the public internet, unless more is allowed.

The ranges are those of the IANA special-purpose address registries (RFC 6890
and what was added since), and the addresses where clouds keep credentials.
"""

from __future__ import annotations

from typing import Literal

AddressClass = Literal["public", "private", "refused"]

_V4: tuple[tuple[str, int, AddressClass, str], ...] = (
    ("0.0.0.0", 8, "refused", "this network"),  # noqa: S104 - it is refused here, not bound
    ("10.0.0.0", 8, "private", "private network"),
    ("100.100.100.200", 32, "refused", "cloud metadata"),
    ("100.64.0.0", 10, "private", "carrier network"),
    ("127.0.0.0", 8, "private", "loopback"),
    ("168.63.129.16", 32, "refused", "cloud metadata"),
    ("169.254.0.0", 16, "refused", "link-local, cloud metadata"),
    ("172.16.0.0", 12, "private", "private network"),
    ("192.0.0.0", 24, "refused", "protocol assignments"),
    ("192.0.2.0", 24, "refused", "documentation"),
    ("192.31.196.0", 24, "refused", "protocol assignments"),
    ("192.52.193.0", 24, "refused", "protocol assignments"),
    ("192.88.99.0", 24, "refused", "6to4 relays"),
    ("192.168.0.0", 16, "private", "private network"),
    ("192.175.48.0", 24, "refused", "protocol assignments"),
    ("198.18.0.0", 15, "refused", "benchmarks"),
    ("198.51.100.0", 24, "refused", "documentation"),
    ("203.0.113.0", 24, "refused", "documentation"),
    ("224.0.0.0", 4, "refused", "multicast"),
    ("240.0.0.0", 4, "refused", "reserved, broadcast"),
)
# Of IPv6 only 2000::/3 is the internet; these are its exceptions, and what may be allowed outside.
_V6: tuple[tuple[int, int, AddressClass, str], ...] = (
    (1, 128, "private", "loopback"),
    (0xFD00_0EC2 << 96, 32, "refused", "cloud metadata"),
    (0xFC00 << 112, 7, "private", "private network"),
    (0xFE80 << 112, 10, "refused", "link-local"),
    (0xFF00 << 112, 8, "refused", "multicast"),
    (0x2001 << 112, 23, "refused", "protocol assignments, Teredo"),
    (0x2001_0DB8 << 96, 32, "refused", "documentation"),
    (0x2002 << 112, 16, "refused", "6to4"),
    (0x2620_004F_8000 << 80, 48, "refused", "protocol assignments"),
    (0x3FFF << 112, 20, "refused", "documentation"),
    (0x2000 << 112, 3, "public", "internet"),
)
_MAPPED = 0xFFFF
_NAT64 = 0x0064_FF9B << 64


def classify(packed: bytes) -> tuple[AddressClass, str]:
    """What an address of 4 or 16 bytes is, and the name of its range.

    `private` may be allowed by somebody who means it; `refused` never is.
    IPv4 inside IPv6 (mapped, NAT64) is judged by the IPv4 address.
    """
    if len(packed) == 4:
        return _classify_v4(int.from_bytes(packed, "big"))
    if len(packed) != 16:
        return "refused", "no address"
    number = int.from_bytes(packed, "big")
    if number >> 32 in (_MAPPED, _NAT64):
        return _classify_v4(number & 0xFFFF_FFFF)
    for base, bits, kind, name in _V6:
        if number >> (128 - bits) == base >> (128 - bits):
            return kind, name
    return "refused", "reserved"


def refusal(packed: bytes, *, allow_private: bool = False) -> str:
    """Why an address may not be reached, or "" when it may."""
    kind, name = classify(packed)
    allowed = kind == "public" or (kind == "private" and allow_private)
    return "" if allowed else name


def _classify_v4(number: int) -> tuple[AddressClass, str]:
    for base, bits, kind, name in _V4:
        if number >> (32 - bits) == _number(base) >> (32 - bits):
            return kind, name
    return "public", "internet"


def _number(dotted: str) -> int:
    return int.from_bytes(bytes(map(int, dotted.split("."))), "big")
