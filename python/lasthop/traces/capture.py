"""Packet captures (pcap and pcapng) of one end: bytes by direction, round-trip times, losses.

The capture is read as a stream, so that its size is no limit. The end that captured is the mobile
one unless `--mobile` names another; `ends` says how it is found. Bytes are those of IP packets.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import numpy as np

from lasthop.errors import InputError
from lasthop.traces import both_ends, pcap
from lasthop.traces import ends as ends_of
from lasthop.traces.intervals import SHORTEST_NS, Intervals
from lasthop.traces.messages import MessageCollector
from lasthop.traces.packets import Addresses, Flags, Packets, parse
from lasthop.traces.pair_rates import PairRates
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import CAPTURE, ROUND_TRIP, Integers, Measurement, Rows
from lasthop.traces.tcp_flows import Flows, Segments

NAME = CAPTURE

# Share of the packets of an interface that another one may have by chance.
_REPEATED = 0.2

# Step of a clock from which it is named, nanoseconds.
_COARSE_NS = 1_000_000
# Packets whose times have such a common step by their clock, not by chance.
_LEAST_PACKETS = 20

# `lasthop run --pcap` captures frames where they arrive, those that are lost on the hop included.
_HOP_NOTE = (
    "The capture is of a hop of lasthop run, with packets of both directions where they arrive: its"
    " round-trip times and losses are those of one end only if the hop has no delay and no losses"
    " (docs/traces.md, Captures of simulations)."
)

matches = pcap.matches


class _Reader:
    """Adds up a capture."""

    def __init__(self, source: Source, mobile: str | None) -> None:
        self.where = source.name
        self.mobile = mobile
        self.hop: tuple[str, ...] = ()
        self.rows = Rows("packet")
        self.addresses = Addresses()
        self.flows = Flows()
        self.pairs, self.ack_pairs = PairRates(), PairRates()
        self.ends: ends_of.Ends | None = None
        self.intervals: Intervals | None = None
        self.messages: MessageCollector | None = None
        self.origin_ns = 0
        #: Largest step of which all times are multiples.
        self.step_ns = self.packets = 0
        self.samples: list[tuple[Integers, Integers]] = []
        self.has_tcp = False
        self.sent_bytes = self.arrived_bytes = 0
        self.collector: both_ends.Collector | None = None

    def collect(self, packets: Packets) -> None:
        """Keep the packets for the comparison with those of the other end."""
        if self.collector is None:
            self.collector = both_ends.Collector(self.addresses, self.where, self.ends)
        self.collector.add(packets)

    def add(self, packets: Packets) -> None:
        """Add the next packets."""
        if self.ends is None:
            self.ends = ends_of.find(packets, self.addresses, self.mobile, self.where, self.hop)
        up, passes = self.ends.of(packets)
        self.rows.skip_all(packets.number[~passes], "between hosts of the same end")
        if not passes.any():
            return
        packets, up = packets.select(passes), up[passes]
        if self.intervals is None:
            self.origin_ns = int(packets.time_ns[0])
            self.intervals = Intervals(self.origin_ns)
            self.messages = MessageCollector(self.origin_ns)
        steps = np.gcd.reduce(packets.time_ns - self.origin_ns)
        self.step_ns = math.gcd(self.step_ns, int(steps))
        self.packets += len(up)
        columns = np.zeros((3, len(up)))
        columns[0] = packets.size
        is_sent = self.ends.is_sent(up)
        self.sent_bytes += int(packets.size[is_sent].sum())
        self.arrived_bytes += int(packets.size[~is_sent].sum())
        tcp = packets.is_tcp
        if tcp.any():
            self.has_tcp = True
            self.pairs.add(packets, tcp & ~is_sent)
            self.ack_pairs.add_acks(packets, tcp & ~is_sent)
            found: Segments = self.flows.analyse(packets.select(tcp), is_sent[tcp])
            columns[:2, tcp] = found.new_bytes, found.segments
            self.samples.append((found.sent_ns - self.origin_ns, found.rtt_ns))
            self._add_losses(found, up[tcp], is_sent[tcp])
        assert self.messages is not None
        self.messages.add(packets, up)
        self.intervals.add(packets.time_ns, up, columns)

    def _add_losses(self, found: Segments, up: Flags, is_sent: Flags) -> None:
        """Count losses when the lost segments left, or would have arrived."""
        assert self.intervals is not None
        is_lost = found.lost > 0
        if is_lost.any():
            columns = np.zeros((3, int(is_lost.sum())))
            columns[2] = found.lost[is_lost]
            columns[1] = np.where(is_sent[is_lost], 0.0, columns[2])
            self.intervals.add(found.missing_ns[is_lost], up[is_lost], columns)

    def measurement(self, capture: pcap.Capture) -> Measurement:
        """What was added up."""
        if self.intervals is None:
            raise InputError(f"{self.where}: {self._why_empty()}")
        self.rows.skip_all(np.array(capture.untimed, dtype=np.int64), "without a time")
        self.intervals.write(self.rows)
        sent_ns = np.concatenate([s for s, _ in self.samples] or [np.empty(0, dtype=np.int64)])
        rtt_ns = np.concatenate([r for _, r in self.samples] or [np.empty(0, dtype=np.int64)])
        if len(sent_ns):
            order = np.argsort(sent_ns, kind="stable")
            time = sent_ns[order] * 1e-9
            span = np.diff(time, append=time[-1])
            span[-1] = span[:-1].mean() if len(span) > 1 else 0.001
            self.rows.add_all(time, span, ROUND_TRIP, rtt_s=rtt_ns[order] * 1e-9)
        clock = "times of the capture"
        if self.intervals.length_ns > SHORTEST_NS:
            clock += f", bytes by {self.intervals.length_ns / 1e6:g} ms"
        notes = [*self._notes(), *capture.notes]
        zero = self.origin_ns * 1e-9
        found = self.rows.measurement(NAME, self.where, clock, notes=notes, zero_s=zero)
        is_sender_side = self.sent_bytes > self.arrived_bytes
        return replace(
            found,
            reordered=self.flows.reordered if self.has_tcp else None,
            is_sender_side=is_sender_side,
            window_bytes=self.flows.window_bytes() if self.has_tcp else None,
            messages=self.messages.messages() if self.messages else None,
            clock_step_s=self.step_ns * 1e-9 if self._is_coarse() else 0.0,
            pair_rate_bps=(self.ack_pairs if is_sender_side else self.pairs).mode_bps(),
        )

    def _is_coarse(self) -> bool:
        return self.step_ns >= _COARSE_NS and self.packets >= _LEAST_PACKETS

    def _why_empty(self) -> str:
        if not self.rows.skipped:
            return "the capture has no packets"
        reason = max(self.rows.skipped, key=lambda s: s.rows)
        return f"no packet can be used; {reason.rows} of them: {reason.reason}"

    def _notes(self) -> list[str]:
        ends, flows = self.ends, self.flows
        assert ends is not None
        notes = []
        if self._is_coarse():
            notes.append(
                f"The clock of the capture counts in steps of {self.step_ns * 1e-9:g} s, so"
                " round-trip times and pauses are not more exact."
            )
        if ends.mobile is None:
            near = ", ".join(ends.addresses.texts[i] for i in sorted(ends.near))
            notes.append(
                f"The capture was taken at {near}, which is taken as the mobile end; with --swap"
                " as the other one (or --mobile ADDRESS)."
            )
        if not self.has_tcp:
            notes.append("There is no TCP in the capture, so it has no round-trip times or losses.")
            return notes
        notes.append(
            "What the capturing end sent counts when it left, each byte of a connection once; its"
            " losses are its retransmissions, and those of the other end are holes that were"
            " filled later than reordering explains."
        )
        if flows.reordered or flows.repeated:
            notes.append(
                f"Not counted as lost: {flows.reordered} segments that arrived out of order,"
                f" {flows.repeated} that arrived twice."
            )
        if flows.offloaded:
            notes.append(
                f"{flows.offloaded} packets are longer than 1500 bytes (segmentation offload); they"
                " count as segments of 1448 bytes."
            )
        if flows.one_sided:
            notes.append(
                "Connections that mostly receive are timed by the other end's echoes of their ACKs,"
                " which its pauses lengthen."
            )
        return notes


def read(source: Source, options: ReadOptions) -> Measurement:
    """The packets of a capture, with those of the other end if there is a capture of it.

    Raises `InputError` if there are none that can be used.
    """
    capture = pcap.Capture(source)
    reader = _Reader(source, options.mobile)
    for batch in capture.batches():
        chosen = _of_interface(batch, capture, options.interface)
        packets = parse(chosen, reader.addresses, reader.rows.skip_all)
        if len(packets.seq):
            if options.interface is None:
                _refuse_repetition(chosen, packets, capture)
            if options.interface is not None:
                reader.hop = capture.hops.get(int(chosen.interface[0]), ())
            reader.add(packets)
            if options.far is not None:
                reader.collect(packets)
    if capture.hops:
        capture.notes.append(_HOP_NOTE)
    found = reader.measurement(capture)
    return found if options.far is None else _with_far(found, reader, capture, options.far)


def _with_far(found: Measurement, reader: _Reader, near: pcap.Capture, far: str) -> Measurement:
    """The measurement of both ends; `far` is another file, or an interface of the same one."""
    is_interface = far in near.interfaces
    name = near.source.name if is_interface else far
    with contextlib.closing(Source(name)) as source:
        if not pcap.matches(source.start):
            raise InputError(f"--far {far}: this is no capture (pcap, pcapng)")
        capture = pcap.Capture(source)
        collector = both_ends.Collector(reader.addresses, far, reader.ends)
        for batch in capture.batches():
            batch = _of_interface(batch, capture, far if is_interface else None)
            packets = parse(batch, reader.addresses, lambda *_: None)
            if len(packets.seq):
                collector.add(packets)
    mobile = reader.collector
    assert mobile is not None
    return both_ends.measurement(found, mobile.seen(), collector.seen(), far, is_interface)


def _of_interface(batch: pcap.Batch, capture: pcap.Capture, wanted: str | None) -> pcap.Batch:
    """The packets of the interface that was chosen. Raises `InputError` if there is none such."""
    if wanted is None:
        return batch
    names = capture.interfaces or [""]
    places = [i for i, name in enumerate(names) if wanted in (name, str(i))]
    if not places:
        raise InputError(
            f"{capture.source.name}: --interface {wanted}: no such interface; the capture has"
            f" {_listed(names)}"
        )
    return batch.select(np.isin(batch.interface, places))


def _refuse_repetition(batch: pcap.Batch, packets: Packets, capture: pcap.Capture) -> None:
    """Raise `InputError` if an interface has the packets of another one: both count them."""
    used = np.unique(batch.interface)
    if len(used) < 2:
        return
    at = batch.interface[np.searchsorted(batch.number, packets.number)]
    tcp = packets.is_tcp
    keys = packets.identity()
    first, second = (np.unique(keys[tcp & (at == i)]) for i in used[:2])
    common = len(np.intersect1d(first, second, assume_unique=True))
    if common > _REPEATED * min(len(first), len(second)):
        raise InputError(
            f"{capture.source.name}: several interfaces have the same packets; choose one with"
            f" --interface: {_listed(capture.interfaces)}"
        )


def _listed(names: list[str]) -> str:
    return ", ".join(f"{i} ({name})" if name else str(i) for i, name in enumerate(names))


__all__ = ["NAME", "matches", "read"]
