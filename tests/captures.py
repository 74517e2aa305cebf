"""Builds small packet captures: pcap and pcapng files with TCP and UDP packets."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Sequence

FIN, SYN, ACK = 1, 2, 16
#: A packet on the link: time in nanoseconds, and its bytes.
Record = tuple[int, bytes]


def ip(source: str, target: str, protocol: int, content: bytes, ttl: int = 64) -> bytes:
    """An IPv4 or IPv6 packet without checksums."""
    a, b = ipaddress.ip_address(source), ipaddress.ip_address(target)
    if a.version == 6:
        return (
            struct.pack(">IHBB", 6 << 28, len(content), protocol, ttl)
            + a.packed
            + b.packed
            + content
        )
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(content), 0, 0, ttl, protocol, 0)
    return head + a.packed + b.packed + content


def tcp(
    ports: tuple[int, int],
    seq: int,
    ack: int,
    flags: int,
    size: int,
    stamps: tuple[int, int] | None = None,
    options: bytes = b"",
) -> bytes:
    """A TCP segment with `size` bytes of payload and, after `options`, the timestamps."""
    if stamps is not None:
        options += struct.pack(">BBBBII", 1, 1, 8, 10, *stamps)
    options += b"\0" * (-len(options) % 4)
    offset = (20 + len(options)) // 4 << 4
    wrapped = (seq % 2**32, ack % 2**32)
    return (
        struct.pack(">HHIIBBHHH", *ports, *wrapped, offset, flags, 65535, 0, 0)
        + options
        + bytes(size)
    )


def udp(ports: tuple[int, int], size: int) -> bytes:
    """A UDP datagram."""
    return struct.pack(">HHHH", *ports, 8 + size, 0) + bytes(size)


def ethernet(packet: bytes, tags: Sequence[int] = ()) -> bytes:
    """A frame with VLAN tags."""
    kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return (
        bytes(12)
        + b"".join(struct.pack(">HH", 0x8100, t) for t in tags)
        + struct.pack(">H", kind)
        + packet
    )


def pcap(
    records: Sequence[Record],
    link: int = 1,
    order: str = "<",
    nanoseconds: bool = False,
    snaplen: int = 262_144,
) -> bytes:
    """A pcap file."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snaplen, link)]
    for time, packet in records:
        fraction = time % 10**9 // (1 if nanoseconds else 1000)
        kept = packet[:snaplen]
        parts.append(
            struct.pack(f"{order}IIII", time // 10**9, fraction, len(kept), len(packet)) + kept
        )
    return b"".join(parts)


def block(kind: int, content: bytes, order: str = "<") -> bytes:
    """A block of a pcapng file."""
    content += b"\0" * (-len(content) % 4)
    length = struct.pack(f"{order}I", 12 + len(content))
    return struct.pack(f"{order}I", kind) + length + content + length


def pcapng(records: Sequence[Record], link: int = 1, order: str = "<", digits: int = 9) -> bytes:
    """A pcapng file with one interface, times in units of 10 ** -digits seconds."""
    section = struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)
    options = struct.pack(f"{order}HHBxxxHH", 9, 1, digits, 0, 0)
    parts = [
        block(0x0A0D0D0A, section, order),
        block(1, struct.pack(f"{order}HHI", link, 0, 0) + options, order),
    ]
    for time, packet in records:
        ticks = time // 10 ** (9 - digits)
        head = struct.pack(f"{order}IIIII", 0, ticks >> 32, ticks % 2**32, len(packet), len(packet))
        parts.append(block(6, head + packet, order))
    return b"".join(parts)
