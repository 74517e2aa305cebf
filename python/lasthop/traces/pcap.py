"""Records of capture files, block by block: pcap and pcapng.

Both formats are those of the drafts draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng: a pcap
file has a header of 24 bytes and records with a header of 16; a pcapng file consists of blocks
(sections, interfaces, packets) that begin with their type and length.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of

import numpy as np
from numpy.typing import NDArray

from lasthop.errors import InputError
from lasthop.traces.source import Source
from lasthop.traces.table import Integers

Bytes = NDArray[np.uint8]

#: Bytes that are read at a time.
BLOCK = 1 << 24
#: Zeros after the last packet of a batch, so that headers can be read without checks.
PADDING = 256
# A longer record is a sign of damage: libpcap captures at most 262144 bytes of a packet.
_LONGEST = 1 << 24
# First bytes of a pcap file: byte order, and nanoseconds per unit of the fraction of a second.
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_SECTION = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
# Types of blocks of pcapng.
_INTERFACE, _OLD_PACKET, _SIMPLE, _PACKET, _SECTION_TYPE = 1, 2, 3, 6, 0x0A0D0D0A
# Options of an interface.
_NAME, _DESCRIPTION, _RESOLUTION, _OFFSET = 2, 3, 9, 14
# How `lasthop run --pcap` describes the interface of a hop.
_HOP = re.compile(r": between .+ \(([\d.]+)\) and .+ \(([\d.]+)\)$")
# Most digits of the unit of times, which have 64 bits.
_DECIMAL, _BINARY = 18, 62


@dataclass
class Batch:
    """Packets that lie in one buffer."""

    buffer: Bytes
    #: Number of each packet, from 1.
    number: Integers
    #: Place of the first byte in the buffer, bytes captured, and length on the link.
    start: Integers
    captured: Integers
    length: Integers
    #: Time since 1970, nanoseconds.
    time_ns: Integers
    #: LINKTYPE_ value.
    link: Integers
    #: Index of the interface, in the order of the file.
    interface: Integers

    def select(self, rows: NDArray[np.bool_]) -> Batch:
        """These packets."""
        kept = {f.name: getattr(self, f.name)[rows] for f in fields_of(self) if f.name != "buffer"}
        return replace(self, **kept)


@dataclass
class _Interface:
    link: int
    #: Units per second are 10 ** digits, or 2 ** digits.
    digits: int = 6
    is_binary: bool = False
    offset_s: int = 0
    name: str = ""
    hop: tuple[str, ...] = ()


@dataclass
class Capture:
    """A capture file; `notes` and `untimed` are complete after the last batch."""

    source: Source
    notes: list[str] = field(default_factory=list)
    #: Numbers of packets without a time (simple packet blocks).
    untimed: list[int] = field(default_factory=list)
    #: Names of the interfaces so far, by index; empty for those without.
    interfaces: list[str] = field(default_factory=list)
    #: Interfaces that are hops of a simulation, by index: the addresses of the two nodes.
    hops: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def batches(self) -> Iterator[Batch]:
        """The packets in the order of the file. Raises `InputError` if it is no capture."""
        walk = _Pcapng(self) if self.source.start.startswith(_SECTION) else _Pcap(self)
        rest = b""
        place = 0
        for block in self.source.blocks(BLOCK):
            rest += block
            end = len(rest)
            while end:
                end, batch = walk.batch(rest)
                if batch is not None and len(batch.number):
                    yield batch
                if walk.damaged_at is not None:
                    at = place + walk.damaged_at
                    note = f"The capture is damaged at byte {at}; what follows is left out."
                    self.notes.append(note)
                    return
                place += end
                rest = rest[end:]
        if rest:
            self.notes.append("The capture is cut off in its last packet, which is left out.")


def matches(start: bytes) -> bool:
    """True if a file that begins like this is a capture."""
    return start[:4] in _PCAP or (start[:4] == _SECTION and start[8:12] in _ORDERS)


def fields(buffer: Bytes, places: Integers, kind: str) -> Integers:
    """The numbers of a type such as ">u2" at these places of the buffer."""
    width = np.dtype(kind).itemsize
    rows = windows(buffer, places, width)
    return rows.view(kind)[:, 0].astype(np.int64)


def windows(buffer: Bytes, places: Integers, width: int) -> Bytes:
    """The `width` bytes at each of the places, one row each."""
    view = np.lib.stride_tricks.sliding_window_view(buffer, width)
    return np.ascontiguousarray(view[places])


def _padded(data: bytes) -> Bytes:
    buffer = np.zeros(len(data) + PADDING, dtype=np.uint8)
    buffer[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return buffer


class _Pcap:
    """Walks a pcap file."""

    def __init__(self, capture: Capture) -> None:
        start = capture.source.start
        if len(start) < 24:
            raise InputError(f"{capture.source.name}: the capture ends in its header")
        self.order, self.unit = _PCAP[start[:4]]
        (link,) = struct.unpack_from(f"{self.order}I", start, 20)
        # The upper bits say how long the check sequence of a frame is.
        self.link = link & 0xFFFF
        self.skip = 24
        self.count = 0
        self.damaged_at: int | None = None

    def batch(self, data: bytes) -> tuple[int, Batch | None]:
        """The packets in `data`, and the bytes that they take."""
        unpack = struct.Struct(f"{self.order}I").unpack_from
        position, self.skip = self.skip, 0
        last = len(data) - 16
        places = []
        while position <= last:
            (captured,) = unpack(data, position + 8)
            following = position + 16 + captured
            if following > last + 16:
                if captured > _LONGEST:
                    self.damaged_at = position
                break
            places.append(position)
            position = following
        buffer = _padded(data)
        at = np.array(places, dtype=np.int64)
        number = self.count + 1 + np.arange(len(at))
        self.count += len(at)
        head = windows(buffer, at, 16).view(f"{self.order}u4").astype(np.int64)
        seconds, fraction, captured_bytes, length = head.T
        time = seconds * 1_000_000_000 + fraction * self.unit
        links = np.full(len(at), self.link)
        none = np.zeros(len(at), dtype=np.int64)
        found = Batch(buffer, number, at + 16, captured_bytes, length, time, links, none)
        return position, found


class _Pcapng:
    """Walks a pcapng file."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.order = "<"
        #: Interfaces of all sections; the numbers of packets count from the section's first.
        self.interfaces: list[_Interface] = []
        self.first = 0
        self.count = 0
        self.damaged_at: int | None = None

    def batch(self, data: bytes) -> tuple[int, Batch | None]:
        """The packets in `data` up to a change of section, and the bytes that they take."""
        position, end = 0, len(data)
        places: list[int] = []
        old: list[int] = []
        numbers: list[int] = []
        unpack = struct.Struct(f"{self.order}II").unpack_from
        while position + 12 <= end:
            kind, length = unpack(data, position)
            if kind == _SECTION_TYPE:
                if places or old:
                    break
                order = _ORDERS.get(data[position + 8 : position + 12])
                if order is not None:
                    self.order, self.first = order, len(self.interfaces)
                    unpack = struct.Struct(f"{order}II").unpack_from
                    _, length = unpack(data, position)
            if length < 12 or length % 4 or length > _LONGEST:
                self.damaged_at = position
                break
            following = position + length
            if following > end:
                break
            if kind == _PACKET:
                self.count += 1
                places.append(position)
                numbers.append(self.count)
            elif kind == _OLD_PACKET:
                self.count += 1
                old.append(position)
                numbers.append(self.count)
            elif kind == _SIMPLE:
                self.count += 1
                self.capture.untimed.append(self.count)
            elif kind == _INTERFACE:
                self.interfaces.append(self._interface(data, position, length))
                if hop := self.interfaces[-1].hop:
                    self.capture.hops[len(self.interfaces) - 1] = hop
                self.capture.interfaces.append(self.interfaces[-1].name)
            position = following
        batch = self._packets(_padded(data), places, old, numbers)
        return position, batch

    def _interface(self, data: bytes, position: int, length: int) -> _Interface:
        (link,) = struct.unpack_from(f"{self.order}H", data, position + 8)
        found = _Interface(link)
        place, end = position + 16, position + length - 4
        while place + 4 <= end:
            code, size = struct.unpack_from(f"{self.order}HH", data, place)
            if code == _RESOLUTION and size >= 1:
                value = data[place + 4]
                found.digits, found.is_binary = value & 0x7F, bool(value & 0x80)
            elif code == _OFFSET and size >= 8:
                (found.offset_s,) = struct.unpack_from(f"{self.order}q", data, place + 4)
            elif code == _NAME:
                text = data[place + 4 : min(place + 4 + size, end)]
                found.name = text.decode(errors="replace").rstrip("\0")
            elif code == _DESCRIPTION:
                text = data[place + 4 : min(place + 4 + size, end)]
                match = _HOP.search(text.decode(errors="replace").rstrip("\0"))
                found.hop = match.groups() if match is not None else ()
            if code == 0:
                break
            place += 4 + size + -size % 4
        if found.digits > (_BINARY if found.is_binary else _DECIMAL):
            raise InputError(
                f"{self.capture.source.name}: the unit of the times of interface"
                f" {len(self.interfaces)} is too small"
            )
        return found

    def _packets(
        self, buffer: Bytes, places: list[int], old: list[int], numbers: list[int]
    ) -> Batch | None:
        if not numbers:
            return None
        at = np.array(sorted(places + old), dtype=np.int64)
        head = windows(buffer, at, 28).view(f"{self.order}u4").astype(np.int64)
        interface = head[:, 2]
        if old:
            # The older block has the number of the interface in half of that field.
            is_old = np.isin(at, old)
            short = fields(buffer, at + 8, f"{self.order}u2")
            interface = np.where(is_old, short, interface)
        ticks = head[:, 3] << 32 | head[:, 4]
        captured, length = head[:, 5], head[:, 6]
        interface = interface + self.first
        known = interface < len(self.interfaces)
        # A packet may not be longer than its block, nor of an interface that was not described.
        size = head[:, 1]
        sound = known & (captured <= size - 32)
        if not sound.all():
            self.damaged_at = int(at[~sound][0])
        keep = sound if sound.all() else np.arange(len(at)) < int(np.argmin(sound))
        at, interface, ticks = at[keep], interface[keep], ticks[keep]
        time, link = np.zeros_like(ticks), np.zeros_like(ticks)
        for i in np.unique(interface):
            own = interface == i
            time[own] = _nanoseconds(ticks[own], self.interfaces[i])
            link[own] = self.interfaces[i].link
        number = np.array(numbers, dtype=np.int64)[keep]
        return Batch(buffer, number, at + 28, captured[keep], length[keep], time, link, interface)


def _nanoseconds(ticks: Integers, interface: _Interface) -> Integers:
    digits = interface.digits
    if interface.is_binary:
        whole, part = ticks >> digits, ticks & ((1 << digits) - 1)
        time = whole * 1_000_000_000 + (part.astype(float) * (1e9 / 2**digits)).astype(np.int64)
    elif digits <= 9:
        time = ticks * 10 ** (9 - digits)
    else:
        time = ticks // 10 ** (digits - 9)
    found: Integers = time + interface.offset_s * 1_000_000_000
    return found


__all__ = ["Batch", "Capture", "fields", "matches", "windows"]
