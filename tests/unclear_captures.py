"""Captures that do not tell what would help, of eight kinds."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from captures import ACK, SYN, Record, ethernet, ip, pcap, tcp, udp
from fitted_links import Link

import lasthop
from lasthop.advice.repeat import MOBILE
from lasthop.traces.fit.fit import Fit

_SERVER, _PHONE = "203.0.113.9", "192.0.2.7"
_LOSSY = Link(10e6, 0.06, 0.01, 100)


def _simulated(link: Link, duration_s: float, folder: Path) -> tuple[Path, list[Record]]:
    """A capture at the phone, and its packets on Ethernet."""
    file = folder / "run.pcapng"
    lasthop.run(text=link.toml(duration_s), pcap=file)
    content, place, names = file.read_bytes(), 0, []
    records: list[Record] = []
    while place < len(content):
        kind, size = struct.unpack_from("<II", content, place)
        if kind == 1:
            names.append(MOBILE.encode() in content[place : place + size])
        elif kind == 6:
            interface, high, low, kept = struct.unpack_from("<IIII", content, place + 8)
            if names[interface]:
                packet = content[place + 28 : place + 28 + kept]
                records.append((high << 32 | low, ethernet(packet)))
        place += size
    return file, records


def _fit(folder: Path, records: Sequence[Record]) -> Fit:
    file = folder / "capture.pcap"
    file.write_bytes(pcap(records, nanoseconds=True))
    return lasthop.fit(file, mobile=_mobile(records))


def _mobile(records: Sequence[Record]) -> str:
    """The receiver of the largest packet."""
    target = max((r[1] for r in records), key=len)[30:34]
    return ".".join(map(str, target))


def limited_by_its_application(folder: Path) -> Fit:
    """A program writes 24 kB to a connection each 200 ms: 1 Mbit/s over a link of 10 Mbit/s."""
    ports, seq, echo = (443, 50_000), 1, 1
    rng = np.random.default_rng(1)
    opens = tcp(ports[::-1], 0, 0, SYN, 0, (1, 0)), tcp(ports, 0, 1, SYN | ACK, 0, (1, 1))
    records = [
        (0, ethernet(ip(_PHONE, _SERVER, 6, opens[0]))),
        (60_000_000, ethernet(ip(_SERVER, _PHONE, 6, opens[1], ttl=50))),
    ]
    for write in range(1, 50):
        start = write * 200_000_000 + int(rng.integers(1_000_000))
        for i in range(17):
            time = start + i * 1_200_000
            # The ACKs of this write are still on their way.
            data = tcp(ports, seq, 1, ACK, 1448, (time // 10**6, echo))
            records.append((time, ethernet(ip(_SERVER, _PHONE, 6, data, ttl=50))))
            seq += 1448
            ack = tcp(ports[::-1], 1, seq, ACK, 0, (time // 10**6, time // 10**6))
            records.append((time + 20_000, ethernet(ip(_PHONE, _SERVER, 6, ack))))
        echo = time // 10**6
    return _fit(folder, records)


def datagrams(folder: Path) -> Fit:
    """Video of 1 Mbit/s by UDP over a link of 10 Mbit/s."""
    app = 'app = { kind = "media", rate = "1 Mbps", every = "40 ms", deadline = "150 ms" }'
    _, records = _simulated(Link(10e6, 0.06, 0.0, 100, app=app), 10, folder)
    return _fit(folder, records)


def too_short(folder: Path) -> Fit:
    """A second of a transfer."""
    _, records = _simulated(_LOSSY, 1, folder)
    return _fit(folder, records)


def tiny_transfer(folder: Path) -> Fit:
    """A page of 30 kB: it ends before the congestion window is as large as the path."""
    app = 'app = { kind = "transfer", size = "30 kB" }'
    _, records = _simulated(Link(10e6, 0.06, 0.01, 100, app=app), 5, folder)
    return _fit(folder, records)


def encrypted(folder: Path) -> Fit:
    """A download by QUIC that fills a link of 10 Mbit/s."""
    down = ethernet(ip(_SERVER, _PHONE, 17, udp((443, 50_000), 1200)))
    up = ethernet(ip(_PHONE, _SERVER, 17, udp((50_000, 443), 40)))
    records = [(i * 1_000_000, down) for i in range(10_000)]
    records += [(i * 2_000_000 + 1000, up) for i in range(5_000)]
    return _fit(folder, sorted(records))


def one_direction(folder: Path) -> Fit:
    """The capture has what the server sent, and no ACK."""
    _, records = _simulated(_LOSSY, 10, folder)
    target = max((r[1] for r in records), key=len)[30:34]
    return _fit(folder, [r for r in records if r[1][30:34] == target])


def whole_seconds(folder: Path) -> Fit:
    """A clock that only counts seconds."""
    _, records = _simulated(_LOSSY, 10, folder)
    return _fit(folder, [(time // 10**9 * 10**9, packet) for time, packet in records])


def idle(folder: Path) -> Fit:
    """Keep-alives of 60 bytes each second."""
    one = ethernet(ip(_SERVER, _PHONE, 17, udp((5000, 5000), 32)))
    other = ethernet(ip(_PHONE, _SERVER, 17, udp((5000, 5000), 31)))
    records = [(i * 1_000_000_137, one) for i in range(60)]
    records += [(i * 1_000_000_137 + 40_000_071, other) for i in range(60)]
    return _fit(folder, sorted(records))


#: What makes the fit of each kind, by its name.
KINDS: dict[str, Callable[[Path], Fit]] = {
    f.__name__.replace("_", " "): f
    for f in (
        *(limited_by_its_application, datagrams, too_short, tiny_transfer, encrypted),
        *(one_direction, whole_seconds, idle),
    )
}
