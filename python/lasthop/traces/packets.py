"""Headers of captured packets as columns: link layer, IP and TCP.

Link types are those of https://www.tcpdump.org/linktypes.html; the timestamps option is that of
RFC 7323, section 3.2.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lasthop.traces.pcap import Batch, Bytes, windows
from lasthop.traces.pcap import fields as numbers_at
from lasthop.traces.table import Integers

Flags = NDArray[np.bool_]

FIN, SYN, RST, ACK = 1, 2, 4, 16
_TCP = 6
_IP4, _IP6, _PPPOE = 0x0800, 0x86DD, 0x8864
_VLANS = (0x8100, 0x88A8, 0x9100)
# Extension headers of IPv6 with a length field; a fragment header has 8 bytes.
_EXTENSIONS, _FRAGMENT = (0, 43, 60), 44
# Link types that consist of a header of fixed size and IP: size of the header.
_FIXED = {0: 4, 12: 0, 101: 0, 108: 4, 228: 0, 229: 0}
_ETHERNET, _SLL, _SLL2 = 1, 113, 276
# IP header without options or extensions, and the largest TCP header.
_IP_BYTES, _TCP_BYTES = 40, 60
_NOP, _END, _WINDOW_SCALE, _TIMESTAMPS = 1, 0, 3, 8


@dataclass
class Packets:
    """IP packets; all columns have the same length."""

    number: Integers
    time_ns: Integers
    #: Indices of the addresses in `Addresses`.
    source: Integers
    target: Integers
    #: Length of the IP packet.
    size: Integers
    ttl: Integers
    is_tcp: Flags
    #: Of TCP, otherwise 0. Ports also of UDP.
    source_port: Integers
    target_port: Integers
    seq: Integers
    ack: Integers
    flags: Integers
    #: The window field, not scaled, and the scale that a SYN offers (-1: none, or no SYN).
    window: Integers
    scale: Integers
    payload: Integers
    #: Value and echo of the timestamps option; -1 without it.
    tsval: Integers
    tsecr: Integers

    def identity(self) -> NDArray[np.uint64]:
        """A hash of what a TCP segment keeps on its way, also behind address translation."""
        keys = np.zeros(len(self.seq), dtype=np.uint64)
        for column in (self.seq, self.ack, self.payload, self.flags, self.tsval, self.tsecr):
            keys = keys * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)
        return keys

    def connections(self) -> tuple[NDArray[np.uint64], Flags]:
        """A hash of the connection of each packet, equal in both directions, and its direction."""
        a = self.source << 16 | self.source_port
        b = self.target << 16 | self.target_port
        low, high = np.minimum(a, b).astype(np.uint64), np.maximum(a, b).astype(np.uint64)
        return low * np.uint64(0x9E3779B97F4A7C15) ^ high * np.uint64(0xC2B2AE3D27D4EB4F), a > b

    def select(self, rows: Flags | Integers) -> Packets:
        """These packets."""
        return Packets(*(getattr(self, f.name)[rows] for f in fields(self)))


class Addresses:
    """Numbers the IP addresses of a capture."""

    def __init__(self) -> None:
        self._index: dict[int, int] = {}
        self.texts: list[str] = []
        self.versions: list[int] = []

    def index(self, keys: Integers, text: Callable[[int], str], version: int) -> Integers:
        """Indices of addresses by a hash; `text` makes the address of a row readable."""
        unique, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        found = np.empty(len(unique), dtype=np.int64)
        for i, (key, row) in enumerate(zip(unique.tolist(), first.tolist(), strict=True)):
            if key not in self._index:
                self._index[key] = len(self.texts)
                self.texts.append(text(row))
                self.versions.append(version)
            found[i] = self._index[key]
        result: Integers = found[inverse]
        return result


def parse(batch: Batch, addresses: Addresses, skip: Callable[[Integers, str], None]) -> Packets:
    """The IP packets of a batch; `skip` gets the numbers of the others, with the reason."""
    place, kind = _network_layer(batch, skip)
    end = batch.start + batch.captured
    is_ip = (kind == _IP4) | (kind == _IP6)
    skip(batch.number[~is_ip & (kind != _UNSUPPORTED)], "no IP packet, such as ARP")
    whole = place + np.where(kind == _IP4, 20, 40) <= end
    skip(batch.number[is_ip & ~whole], "captured without its IP header")
    keep = is_ip & whole
    place, end, kind = place[keep], end[keep], kind[keep]
    number, time, length = batch.number[keep], batch.time_ns[keep], batch.length[keep]
    header = windows(batch.buffer, place, _IP_BYTES)
    # What is on the link after the headers before IP; offloaded packets have no length of IP.
    rest = length - (place - batch.start[keep])
    size, protocol, transport = _internet(batch.buffer, header, kind, place, rest)
    is_4 = kind == _IP4
    source, target = np.zeros_like(size), np.zeros_like(size)
    for version, own, at, width in ((4, is_4, 12, 4), (6, ~is_4, 8, 16)):
        if own.any():
            part = header[own]
            source[own] = _addresses(part[:, at : at + width], addresses, version)
            target[own] = _addresses(part[:, at + width : at + 2 * width], addresses, version)
    ttl = np.where(is_4, header[:, 8], header[:, 7]).astype(np.int64)
    is_tcp, columns = _transport(batch.buffer, transport, end, protocol, place + size)
    return Packets(number, time, source, target, size, ttl, is_tcp, *columns)


_UNSUPPORTED = -1


def _network_layer(
    batch: Batch, skip: Callable[[Integers, str], None]
) -> tuple[Integers, Integers]:
    """Place of the network header of each packet, and its EtherType."""
    place, kind = batch.start.copy(), np.full(len(batch.start), _UNSUPPORTED)
    buffer = batch.buffer
    for link in np.unique(batch.link).tolist():
        own = batch.link == link
        start = batch.start[own]
        if link == _ETHERNET:
            place[own], kind[own] = _tagged(
                buffer, start + 14, numbers_at(buffer, start + 12, ">u2")
            )
        elif link == _SLL:
            place[own], kind[own] = _tagged(
                buffer, start + 16, numbers_at(buffer, start + 14, ">u2")
            )
        elif link == _SLL2:
            place[own], kind[own] = _tagged(buffer, start + 20, numbers_at(buffer, start, ">u2"))
        elif link in _FIXED:
            place[own] = start + _FIXED[link]
            version = buffer[place[own]] >> 4
            kind[own] = np.where(version == 4, _IP4, np.where(version == 6, _IP6, 0))
        else:
            skip(batch.number[own], f"link type {link}, which is not supported")
    # An EtherType of IP before a packet of another version is damage.
    version = buffer[np.minimum(place, len(buffer) - 1)] >> 4
    wrong = ((kind == _IP4) & (version != 4)) | ((kind == _IP6) & (version != 6))
    kind[wrong] = 0
    return place, kind


def _tagged(buffer: Bytes, place: Integers, kind: Integers) -> tuple[Integers, Integers]:
    """Skips VLAN tags and PPPoE."""
    for _ in range(3):
        tagged = np.isin(kind, _VLANS)
        if not tagged.any():
            break
        kind[tagged] = numbers_at(buffer, place[tagged] + 2, ">u2")
        place[tagged] += 4
    session = kind == _PPPOE
    if session.any():
        inner = numbers_at(buffer, place[session] + 6, ">u2")
        kind[session] = np.where(inner == 0x0021, _IP4, np.where(inner == 0x0057, _IP6, 0))
        place[session] += 8
    return place, kind


def _internet(
    buffer: Bytes, header: Bytes, kind: Integers, place: Integers, rest: Integers
) -> tuple[Integers, Integers, Integers]:
    """Size of each IP packet, its protocol, and the place of the header of that; -1 without one."""
    wide = header.astype(np.int64)
    is_4 = kind == _IP4
    size = np.where(is_4, wide[:, 2] << 8 | wide[:, 3], 40 + (wide[:, 4] << 8 | wide[:, 5]))
    size = np.where(size <= np.where(is_4, 0, 40), rest, size)
    protocol = np.where(is_4, wide[:, 9], wide[:, 6])
    transport = place + np.where(is_4, 4 * (wide[:, 0] & 15), 40)
    is_part = is_4 & (((wide[:, 6] & 0x1F) << 8 | wide[:, 7]) > 0)
    for _ in range(4):
        extended = ~is_4 & np.isin(protocol, (*_EXTENSIONS, _FRAGMENT))
        if not extended.any():
            break
        at = np.minimum(transport[extended], len(buffer) - 8)
        head = windows(buffer, at, 8).astype(np.int64)
        is_fragment = protocol[extended] == _FRAGMENT
        is_part[extended] |= is_fragment & ((head[:, 2] << 8 | head[:, 3]) >> 3 > 0)
        protocol[extended] = head[:, 0]
        transport[extended] = at + np.where(is_fragment, 8, 8 * (head[:, 1] + 1))
    return size, protocol, np.where(is_part, -1, transport)


def _addresses(rows: Bytes, addresses: Addresses, version: int) -> Integers:
    rows = np.ascontiguousarray(rows)
    if version == 4:
        keys = rows.view(">u4")[:, 0].astype(np.int64)
        return addresses.index(keys, lambda i: str(ipaddress.IPv4Address(rows[i].tobytes())), 4)
    halves = rows.view(">u8").astype(np.uint64)
    mixed = halves[:, 0] * np.uint64(0x9E3779B97F4A7C15) ^ halves[:, 1]
    # Numbers below 0 cannot be those of IPv4.
    keys = (mixed | np.uint64(1 << 63)).view(np.int64)
    return addresses.index(keys, lambda i: str(ipaddress.IPv6Address(rows[i].tobytes())), 6)


def _transport(
    buffer: Bytes, place: Integers, end: Integers, protocol: Integers, stop: Integers
) -> tuple[Flags, list[Integers]]:
    """Which packets are TCP, and the other columns; `stop` is where the IP packet ends."""
    count = len(place)
    is_tcp = (protocol == _TCP) & (place >= 0) & (place + 20 <= end)
    has_ports = (place >= 0) & (place + 4 <= end) & np.isin(protocol, (_TCP, 17))
    columns = {
        name: np.zeros(count, dtype=np.int64)
        for name in ("sp", "tp", "seq", "ack", "flags", "window", "scale")
    }
    payload, value, echo = (np.full(count, n, dtype=np.int64) for n in (0, -1, -1))
    ports = windows(buffer, place[has_ports], 4).view(">u2").astype(np.int64)
    columns["sp"][has_ports], columns["tp"][has_ports] = ports.T
    header = windows(buffer, place[is_tcp], _TCP_BYTES)
    four = header.view(">u4")
    columns["seq"][is_tcp], columns["ack"][is_tcp] = four[:, 1], four[:, 2]
    columns["flags"][is_tcp] = header[:, 13]
    columns["window"][is_tcp] = header[:, 14].astype(np.int64) << 8 | header[:, 15]
    length = 4 * (header[:, 12] >> 4).astype(np.int64)
    payload[is_tcp] = np.maximum(stop[is_tcp] - place[is_tcp] - length, 0)
    available = np.minimum(length, end[is_tcp] - place[is_tcp])
    value[is_tcp], echo[is_tcp] = _timestamps(header, available)
    columns["scale"][is_tcp] = _window_scales(header, available)
    return is_tcp, [*columns.values(), payload, value, echo]


def _window_scales(header: Bytes, length: Integers) -> Integers:
    """The window scale option of SYNs with this length (RFC 7323, section 2); -1 without it."""
    scale = np.full(len(header), -1, dtype=np.int64)
    for row in np.flatnonzero((header[:, 13] & SYN) > 0).tolist():
        options = header[row, 20 : int(length[row])].tobytes()
        while len(options) > 2 and options[0] != _END:
            if options[0] == _WINDOW_SCALE:
                scale[row] = min(options[2], 14)
                break
            options = options[1 if options[0] == _NOP else max(options[1], 1) :]
    return scale


def _timestamps(header: Bytes, length: Integers) -> tuple[Integers, Integers]:
    """Value and echo of the timestamps option of TCP headers with this length; -1 without it."""
    value, echo = (np.full(len(header), -1, dtype=np.int64) for _ in range(2))
    place = np.full(len(header), 20, dtype=np.int64)
    # Most stacks write two NOPs and the option first.
    usual = (length >= 32) & (header[:, 20:24] == (_NOP, _NOP, _TIMESTAMPS, 10)).all(axis=1)
    words = header.view(">u4")
    value[usual], echo[usual] = words[usual, 6], words[usual, 7]
    open_ = np.flatnonzero(~usual & (length > 20))
    while len(open_):
        kind = header[open_, place[open_]]
        size = header[open_, np.minimum(place[open_] + 1, _TCP_BYTES - 1)].astype(np.int64)
        size = np.where(kind == _NOP, 1, size)
        found = (kind == _TIMESTAMPS) & (size == 10) & (place[open_] + 10 <= length[open_])
        if found.any():
            rows = open_[found]
            at = place[rows][:, None] + np.arange(2, 10)
            pair = np.ascontiguousarray(header[rows[:, None], at]).view(">u4")
            value[rows], echo[rows] = pair[:, 0], pair[:, 1]
        place[open_] += size
        stays = ~found & (kind != _END) & (size > 0) & (place[open_] + 1 < length[open_])
        open_ = open_[stays]
    return value, echo


__all__ = ["ACK", "Addresses", "Packets", "parse"]
