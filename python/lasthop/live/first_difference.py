"""The first segment at which a real transfer and its simulation part, from their captures, and
what both have acknowledged.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Types of blocks of pcapng, and the bytes before the packet in the second one.
_INTERFACE, _PACKET = 1, 6
_HEAD = 28
_SYN, _ACK, _TCP = 2, 16, 6


@dataclass(frozen=True, order=True)
class Segment:
    """A data segment as it leaves the sender's node."""

    #: Stream offset of its first byte, and its payload, bytes.
    offset: int
    length: int
    #: Seconds since the SYN.
    time: float


@dataclass(frozen=True, order=True)
class Difference:
    """The first data segment that is not the same in both worlds; None where there is no more."""

    #: Its number among the data segments that the sender sends, from 1.
    ordinal: int
    real: Segment | None
    simulated: Segment | None

    def document(self) -> dict[str, Any]:
        """The difference for JSON."""

        def fields(segment: Segment | None) -> dict[str, Any] | None:
            if segment is None:
                return None
            return {"offset": segment.offset, "bytes": segment.length, "t_s": segment.time}

        return {
            "segment": self.ordinal,
            "real": fields(self.real),
            "simulated": fields(self.simulated),
        }

    def sentence(self) -> str:
        """The difference as text."""

        def text(segment: Segment | None) -> str:
            if segment is None:
                return "none"
            return f"{segment.length} B at offset {segment.offset}, after {segment.time:.4f} s"

        return (
            f"first different data segment: {self.ordinal}"
            f" (real: {text(self.real)}; simulated: {text(self.simulated)})"
        )


def find(real: Path, simulated: Path) -> Difference | None:
    """The first data segment at the sender's end in which two captures of lasthop's differ: in
    their order, offsets and sizes, not in their times.
    """
    first, second = _sent(real), _sent(simulated)
    for i in range(max(len(first), len(second))):
        here = first[i] if i < len(first) else None
        there = second[i] if i < len(second) else None
        same = here is not None and there is not None and here.offset == there.offset
        if not same or here is None or there is None or here.length != there.length:
            return Difference(i + 1, here, there)
    return None


def acknowledged(capture: Path, interface: int) -> list[tuple[float, int]]:
    """What the receiver of most data has acknowledged at an interface: seconds since the connection
    began, and bytes, of which a FIN is one.
    """
    packets = [packet for at, packet in _packets(capture.read_bytes()) if at == interface]
    payload: Counter[bytes] = Counter()
    for packet in packets:
        payload[packet[1]] += packet[3]
    sender = payload.most_common(1)[0][0]
    begin = packets[0][0]
    answers = [packet for packet in packets if packet[1] != sender and packet[5] is not None]
    first = next((p[2] for p in packets if p[1] == sender and p[4]), None)
    if first is None:
        return []
    offset = ((time, (ack - first - 1) % (1 << 32)) for time, *_, ack in answers if ack is not None)
    # An ACK of nothing is that of a SYN that the sender has not answered yet.
    return [((time - begin) / 1e9, bytes_) for time, bytes_ in offset if bytes_ < 1 << 31]


def _sent(capture: Path) -> list[Segment]:
    """The data segments of the end with most payload, at the first interface: the server's end of
    a live link, and the first link of a simulated path.
    """
    packets = [packet for interface, packet in _packets(capture.read_bytes()) if interface == 0]
    payload: Counter[bytes] = Counter()
    for _, source, _, length, _, _ in packets:
        payload[source] += length
    if not payload:
        return []
    sender = payload.most_common(1)[0][0]
    sent = [packet for packet in packets if packet[1] == sender]
    syn = next(((time, seq) for time, _, seq, _, is_syn, _ in sent if is_syn), None)
    if syn is None:
        return []
    start, isn = syn
    return [
        Segment((seq - isn - 1) % (1 << 32), length, (time - start) / 1e9)
        for time, _, seq, length, _, _ in sent
        if length > 0
    ]


#: Time (ns), address and port of the source, sequence number, payload, whether it is a SYN, and its
#: ACK number.
_Packet = tuple[int, bytes, int, int, bool, int | None]


def _packets(data: bytes) -> Iterator[tuple[int, _Packet]]:
    """The TCP packets of a capture that lasthop has written (pcapng, times in ns, raw IP)."""
    place = 0
    while place + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if kind == _PACKET:
            interface, high, low, captured = struct.unpack_from("<IIII", data, place + 8)
            packet = data[place + _HEAD : place + _HEAD + captured]
            found = _tcp(packet, high << 32 | low)
            if found is not None:
                yield interface, found
        place += max(length, 12)


def _tcp(packet: bytes, time: int) -> _Packet | None:
    if packet[0] >> 4 == 4:
        head, total, protocol = 4 * (packet[0] & 15), packet[2:4], packet[9]
        size, source = int.from_bytes(total, "big"), packet[12:16]
    else:
        head, size, protocol = 40, 40 + int.from_bytes(packet[4:6], "big"), packet[6]
        source = packet[8:24]
    if protocol != _TCP or len(packet) < head + 20:
        return None
    port, _, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", packet, head)
    payload = size - head - 4 * (offset >> 4)
    acks = ack if flags & _ACK else None
    return time, source + port.to_bytes(2, "big"), seq, payload, bool(flags & _SYN), acks
