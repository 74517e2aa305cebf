"""Round-trip times, retransmissions and losses of the TCP connections of a capture.

Each batch of packets is computed at once; what continues into the next batch is kept by flow, which
is one direction of a connection.

* A round-trip time is the time from the first packet with a timestamp (RFC 7323) to the first one
  that echoes it, as pping measures it (https://pollere.net/pping.html). Without timestamps it is
  the time from the end of a segment to the first ACK of exactly this end, unless a retransmission
  of the flow lies between (Karn's rule, RFC 6298, section 3). What a retransmission echoes first is
  no sample, because the timer that made it leave is part of the time.
* A segment is late if it begins below the highest sequence number of its flow. A late segment that
  had been seen before is a retransmission: of a lost one at its sender, an unnecessary one at its
  receiver. Another one fills a hole: it is the retransmission of a lost segment if the hole had
  been visible for longer than a share of the round-trip time, and a reordered segment otherwise;
  Wireshark tells them apart in this way, too (its user's guide, "TCP Analysis").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lasthop.traces.advertised_windows import AdvertisedWindows
from lasthop.traces.packets import ACK, SYN, Flags, Packets
from lasthop.traces.table import Floats, Integers

# Share of the smallest round-trip time after which a hole is not due to reordering, and the time
# used while none was measured, ns.
_REORDERING_SHARE, _REORDERING_NS = 0.8, 3_000_000
# For how long packets wait for an answer in a later batch, ns, and the most that wait.
_PENDING_NS, _PENDING = 10_000_000_000, 200_000
_OLD_NS = 1 << 62
# Payload of a segment on the link, where a capture has several of them as one packet.
_SEGMENT = 1448
_LARGEST = 1500
# Sequence numbers of the flows in one sorted array.
_APART = 1 << 44


@dataclass
class Segments:
    """What a batch says about each of its packets, and its round-trip times."""

    #: Bytes of the IP packet that are not a repetition.
    new_bytes: Integers
    #: Segments of the packet, and how many of them replace lost ones; 0 without payload. The lost
    #: ones themselves are among the segments at their sender only.
    segments: Floats
    lost: Floats
    #: When the segment that a packet replaces left, or when the hole became visible; ns.
    missing_ns: Integers
    #: Times at which the packets of the samples were sent, and the samples, ns.
    sent_ns: Integers
    rtt_ns: Integers


class Flows:
    """The flows of a capture and what is known of them."""

    def __init__(self) -> None:
        self._connections: dict[int, int] = {}
        size = 64
        self._has_data = np.zeros(size, dtype=bool)
        self._last = np.zeros(size, dtype=np.int64)
        self._last_raw = np.zeros(size, dtype=np.int64)
        self._highest = np.zeros(size, dtype=np.int64)
        self._stamp = np.full(size, -1, dtype=np.int64)
        self._bytes = np.zeros(size, dtype=np.int64)
        self._pending = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._windows = AdvertisedWindows()
        self.least_rtt_ns: int | None = None
        self.repeated = self.reordered = self.offloaded = self.one_sided = 0

    def analyse(self, packets: Packets, is_sent: Flags) -> Segments:
        """The TCP packets of the next batch; `is_sent` where the capturing end sent them."""
        count = len(packets.seq)
        flow = self._flow(packets)
        self._windows.add(packets, flow)
        new = packets.size.copy()
        segments, lost = np.zeros(count), np.zeros(count)
        late = np.zeros(count, dtype=bool)
        data = np.flatnonzero(packets.payload > 0)
        self._bytes += np.bincount(
            flow[data], weights=packets.payload[data], minlength=len(self._bytes)
        ).astype(np.int64)
        hole_ns = np.zeros(count, dtype=np.int64)
        is_copy = np.zeros(count, dtype=bool)
        missing_ns = packets.time_ns.copy()
        if len(data):
            self._sequence(packets, flow, data, new, late, hole_ns, is_copy, missing_ns)
        sent_ns, rtt_ns = self._round_trips(packets, flow, is_sent, late)
        if len(rtt_ns):
            least = int(rtt_ns.min())
            self.least_rtt_ns = min(least, self.least_rtt_ns or least)
        known = self.least_rtt_ns
        limit = _REORDERING_NS if known is None else _REORDERING_SHARE * known
        is_long = packets.size > _LARGEST
        self.offloaded += int((is_long & (packets.payload > 0)).sum())
        parts = np.where(is_long, np.ceil(packets.payload / _SEGMENT), 1.0)
        replaces = late & np.where(
            is_sent, is_copy | (hole_ns > limit), ~is_copy & (hole_ns > limit)
        )
        lost[replaces] = parts[replaces]
        segments[data] = parts[data]
        self.repeated += int((late & is_copy & ~is_sent).sum())
        self.reordered += int((late & ~is_copy & ~replaces).sum())
        new_bytes = np.where(is_sent, new, packets.size)
        return Segments(new_bytes, segments, lost, missing_ns, sent_ns, rtt_ns)

    def window_bytes(self) -> float | None:
        """The window that the receiver of most data advertised, if it is known and constant."""
        return self._windows.constant(int(np.argmax(self._bytes)))

    def _flow(self, packets: Packets) -> Integers:
        """The flow of each packet; the two of a connection differ in the last bit."""
        mixed, is_second = packets.connections()
        unique, inverse = np.unique(mixed, return_inverse=True)
        for key in unique.tolist():
            self._connections.setdefault(key, len(self._connections))
        index = np.array([self._connections[k] for k in unique.tolist()], dtype=np.int64)
        wanted = 2 * len(self._connections)
        if wanted > len(self._last):
            more = max(wanted, 2 * len(self._last)) - len(self._last)
            for name in ("_has_data", "_last", "_last_raw", "_highest", "_stamp", "_bytes"):
                old = getattr(self, name)
                fill = np.full(more, -1 if name == "_stamp" else 0, dtype=old.dtype)
                setattr(self, name, np.concatenate([old, fill]))
        flow: Integers = 2 * index[inverse] + is_second
        return flow

    def _sequence(
        self,
        packets: Packets,
        flow: Integers,
        data: Integers,
        new: Integers,
        late: Flags,
        hole_ns: Integers,
        is_copy: Flags,
        missing_ns: Integers,
    ) -> None:
        """Fill in which segments are late, since when their hole was visible, and copies.

        `missing_ns` gets the time of the first copy, or else that of the hole.
        """
        data = data[np.argsort(flow[data], kind="stable")]
        own = flow[data]
        is_first = np.append(True, own[1:] != own[:-1])
        first = np.flatnonzero(is_first)
        group = np.cumsum(is_first) - 1
        prior, place = self._unwrapped(packets.seq[data], own, first, group)
        ends = place + packets.payload[data]
        base = group * _APART
        reached = np.where(is_first, np.maximum(ends, prior[group]), ends)
        highest = np.maximum.accumulate(base + reached)
        before = np.append(0, highest[:-1]) - base
        carried = np.where(self._has_data[own], self._highest[own], place)
        before = np.where(is_first, carried, before)
        behind = place < before
        late[data] = behind
        fresh = np.clip(ends - np.maximum(before, place), 0, None)
        new[data] = np.where(fresh > 0, packets.size[data] - packets.payload[data] + fresh, 0)
        hole = np.searchsorted(highest, base + place, side="right")
        hole = np.minimum(hole, np.arange(len(data)))
        age = packets.time_ns[data] - packets.time_ns[data[hole]]
        # A hole below what earlier batches reached is older than this one.
        hole_ns[data] = np.where(self._has_data[own] & (place < prior[group]), _OLD_NS, age)
        keys = base + (place - place.min())
        _, earliest, inverse = np.unique(keys, return_index=True, return_inverse=True)
        first_copy = earliest[inverse]
        is_copy[data] = behind & (first_copy < np.arange(len(data)))
        origin = np.where(is_copy[data], first_copy, hole)
        missing_ns[data] = np.where(behind, packets.time_ns[data[origin]], packets.time_ns[data])
        last = np.append(first[1:], len(data)) - 1
        who = own[last]
        self._highest[who] = highest[last] - base[last]
        self._last[who], self._last_raw[who] = place[last], packets.seq[data[last]]
        self._has_data[who] = True

    def _unwrapped(
        self, seq: Integers, own: Integers, first: Integers, group: Integers
    ) -> tuple[Integers, Integers]:
        """Highest number of each flow before the batch, and 64-bit places of the segments."""
        step = np.zeros(len(seq), dtype=np.int64)
        step[1:] = seq[1:] - seq[:-1]
        heads = own[first]
        known = self._has_data[heads]
        step[first] = np.where(known, seq[first] - self._last_raw[heads], 0)
        # Differences modulo 2 ** 32, from -2 ** 31 on.
        step = (step + (1 << 31)) % (1 << 32) - (1 << 31)
        total = np.cumsum(step)
        origin = np.where(known, self._last[heads], 1 << 32)
        place = total + (origin - (total[first] - step[first]))[group]
        return np.where(known, self._highest[heads], 0), place

    def _round_trips(
        self, packets: Packets, flow: Integers, is_sent: Flags, late: Flags
    ) -> tuple[Integers, Integers]:
        """Times at which packets of the capturing end were sent, and those until their answer."""
        is_syn = (packets.flags & SYN) > 0
        has_stamp = packets.tsval >= 0
        takes = (packets.payload > 0) | is_syn
        # The end that mostly receives is timed by its ACKs, which the other end's data echo.
        receives = self._bytes[flow] < self._bytes[flow ^ 1]
        self.one_sided += int((is_sent & receives & has_stamp & ~takes).sum())
        by_stamp = is_sent & has_stamp & (takes | receives)
        seen = self._stamp[flow]
        ahead = (packets.tsval - seen + (1 << 31)) % (1 << 32) - (1 << 31) > 0
        by_stamp &= (seen < 0) | ahead
        by_ack = is_sent & ~has_stamp & takes & ~late
        end = (packets.seq + packets.payload + is_syn) % (1 << 32)
        asked = np.concatenate(
            [(flow << 33 | packets.tsval)[by_stamp], (flow << 33 | 1 << 32 | end)[by_ack]]
        )
        asked_ns = np.concatenate([packets.time_ns[by_stamp], packets.time_ns[by_ack]])
        asked = np.concatenate([self._pending[0], asked])
        asked_ns = np.concatenate([self._pending[1], asked_ns])
        answers = ~is_sent & ((packets.flags & ACK) > 0)
        stamped = answers & (packets.tsecr >= 0)
        plain = answers & (packets.tsecr < 0)
        other = flow ^ 1
        told = np.concatenate(
            [(other << 33 | packets.tsecr)[stamped], (other << 33 | 1 << 32 | packets.ack)[plain]]
        )
        told_ns = np.concatenate([packets.time_ns[stamped], packets.time_ns[plain]])
        asked, first = np.unique(asked, return_index=True)
        asked_ns = asked_ns[first]
        told, first = np.unique(told, return_index=True)
        told_ns = told_ns[first]
        is_late = np.concatenate([late[stamped], late[plain]])[first]
        at = np.minimum(np.searchsorted(told, asked), max(len(told) - 1, 0))
        matched = told[at] == asked if len(told) else np.zeros(len(asked), dtype=bool)
        taken_ns = np.where(matched, told_ns[at] - asked_ns, 0) if len(told) else asked_ns * 0
        self._keep_pending(packets, asked, asked_ns, matched)
        np.maximum.at(self._stamp, flow[has_stamp & is_sent], packets.tsval[has_stamp & is_sent])
        valid = matched & (taken_ns > 0)
        if len(told):
            # A retransmission answers when a timer or three ACKs made it leave, not at once.
            valid &= ~is_late[at]
        valid &= ~self._disturbed(packets, flow, is_sent & late, asked, asked_ns, taken_ns)
        return asked_ns[valid], taken_ns[valid]

    def _keep_pending(
        self, packets: Packets, asked: Integers, asked_ns: Integers, matched: Flags
    ) -> None:
        latest = int(packets.time_ns.max()) if len(packets.time_ns) else 0
        waits = np.flatnonzero(~matched & (asked_ns > latest - _PENDING_NS))
        if len(waits) > _PENDING:
            waits = waits[np.argsort(asked_ns[waits], kind="stable")[-_PENDING:]]
        self._pending = asked[waits], asked_ns[waits]

    def _disturbed(
        self,
        packets: Packets,
        flow: Integers,
        again: Flags,
        asked: Integers,
        asked_ns: Integers,
        taken_ns: Integers,
    ) -> Flags:
        """True for samples by ACK numbers with a retransmission of their flow between."""
        by_ack = (asked >> 32 & 1) > 0
        if not by_ack.any() or not again.any():
            return np.zeros(len(asked), dtype=bool)
        origin = min(int(packets.time_ns.min()), int(asked_ns.min()))
        # In microseconds, so that flows times seconds fit into 64 bits.
        apart = (int(packets.time_ns.max()) + 2 * _PENDING_NS - origin) // 1000
        repeats = np.sort(flow[again] * apart + (packets.time_ns[again] - origin) // 1000)
        begin = (asked >> 33) * apart + (asked_ns - origin) // 1000
        end = begin + taken_ns // 1000
        between = np.searchsorted(repeats, end) - np.searchsorted(repeats, begin)
        return by_ack & (between > 0)


__all__ = ["Flows", "Segments"]
