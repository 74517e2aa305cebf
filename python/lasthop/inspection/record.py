"""The record of one flow: its events, the states of its senders, and what became of each copy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

#: What became of a copy of a segment; the order is that of the codes in `Copies.fate`.
FATES: Final = (
    "in flight",
    "arrived",
    "dropped at the queue",
    "lost on the air",
    "lost in a collision",
    "lost in an outage",
    "lost to bit errors",
    "suppressed by an agent",
)
IN_FLIGHT, ARRIVED, QUEUE, AIR, COLLISION, OUTAGE, BIT_ERRORS, AGENT = range(len(FATES))


@dataclass(frozen=True)
class Outage:
    """A span in which a link is down. `frames`: held, lost-at-sending or lost-at-arrival."""

    link: int
    start_s: float
    end_s: float
    frames: str


@dataclass(frozen=True)
class Copies:
    """Copies of data segments of a connection in the order of sending, as columns.

    Times in seconds, `seq` and `end` in bytes. `reason` says why the copy was sent ("new", "fast
    retransmit", "timeout", …; "agent" for one that an agent sent). `fate` is an index in `FATES`,
    `fate_t` the time of it (NaN while in flight), `link` the link where it was lost or -1.
    """

    id: Ints
    t: Floats
    seq: Ints
    end: Ints
    attempt: Ints
    reason: NDArray[np.str_]
    fate: Ints
    fate_t: Floats
    link: Ints
    drop_reason: NDArray[np.str_]
    spurious: Mask
    slow_start: Mask

    @cached_property
    def retransmission(self) -> Mask:
        """Copies of bytes that had been sent before."""
        return np.asarray(self.reason != "new")

    @cached_property
    def lost(self) -> Mask:
        """Copies that were lost anywhere; what an agent suppresses is not lost."""
        return np.asarray((self.fate >= QUEUE) & (self.fate != AGENT))

    @cached_property
    def missed(self) -> Mask:
        """Copies that did not reach the receiver: lost, or suppressed by an agent."""
        return np.asarray(self.fate >= QUEUE)

    @cached_property
    def suppressed(self) -> Mask:
        """Copies that an agent dropped."""
        return np.asarray(self.fate == AGENT)

    def of_byte(self, offset: int) -> Ints:
        """Indices of the copies that contain a byte."""
        return np.flatnonzero((self.seq <= offset) & (self.end > offset))


@dataclass(frozen=True)
class States:
    """States of a sender after each input that it processed; see `lasthop_sim::SenderState`."""

    t: Floats
    cwnd: Floats
    ssthresh: Floats
    flight: Ints
    pipe: Ints
    receive_window: Ints
    rtt: Floats
    srtt: Floats
    rto: Floats
    pacing: Floats
    limit: NDArray[np.int8]

    def at(self, t: float) -> int:
        """Index of the state in force at a time; -1 before the first."""
        return int(np.searchsorted(self.t, t, side="right")) - 1


class Record:
    """What one run recorded of one flow. Times are seconds from the start of the run."""

    def __init__(self, run: Mapping[str, Any], columns: Mapping[str, Any], flow: int) -> None:
        self.run = run
        self.flow: Mapping[str, Any] = run["flows"][flow]
        self.nodes: Sequence[str] = columns["nodes"]
        self.links: Sequence[Mapping[str, Any]] = run["links"]
        self.limits: Sequence[str] = columns["limits"]
        self._columns = columns
        self._codes = {name: i for i, name in enumerate(columns["events"])}
        self.t: Floats = columns["t_ns"] * 1e-9
        self.outages = [
            Outage(link, start * 1e-9, (start + length) * 1e-9, rule)
            for link, start, length, rule in columns["outages"]
        ]

    def column(self, name: str) -> Any:
        """A column of the events."""
        return self._columns[name]

    def where(self, kind: str, connection: int | None = None) -> Ints:
        """Indices of the events of a kind, of one connection if given."""
        mask = self._columns["event"] == self._codes[kind]
        if connection is not None:
            mask &= self._columns["connection"] == connection
        return np.flatnonzero(mask)

    @cached_property
    def _by_id(self) -> tuple[Ints, Ints]:
        order = np.argsort(self._columns["id"], kind="stable")
        return order, self._columns["id"][order]

    def of_packet(self, packet: int) -> Ints:
        """Indices of the events of a packet, in order of time."""
        order, ids = self._by_id
        low, high = np.searchsorted(ids, [packet, packet + 1])
        return order[low:high]

    def kind_of(self, index: int) -> str:
        """The kind of an event."""
        return str(self._columns["events"][self._columns["event"][index]])

    def reason_of(self, index: int) -> str:
        """The reason of an event; empty if it has none."""
        code = self._columns["reason"][index]
        return str(self._columns["reasons"][code]) if code >= 0 else ""

    @cached_property
    def connections(self) -> list[int]:
        """Numbers of the flow's TCP connections: one, or two of a split connection."""
        states = self._columns["states"]
        numbers, first = np.unique(states["connection"], return_index=True)
        halves = states["second_half"][first]
        return [int(c) for _, c in sorted(zip(halves.tolist(), numbers.tolist(), strict=True))]

    @property
    def duration_s(self) -> float:
        """Simulated time."""
        return float(self.run["duration_s"])

    @cached_property
    def recovery(self) -> str:
        """The loss recovery of the flow's sender, such as "rack+prr+f-rto"; empty if unknown."""
        found = re.search(r"\brecovery ([^\s,]+)", self.flow["slots"])
        return found[1] if found else ""

    def link_name(self, link: int) -> str:
        """FROM>TO of a link."""
        return f"{self.links[link]['from']}>{self.links[link]['to']}"

    def in_outage(self, link: int, t: float) -> Outage | None:
        """The outage of a link at a time, ends included, or `None`."""
        for outage in self.outages:
            if outage.link == link and outage.start_s <= t <= outage.end_s:
                return outage
        return None


class Connection:
    """One TCP connection of a record."""

    def __init__(self, record: Record, number: int) -> None:
        self.record, self.number = record, number

    @cached_property
    def states(self) -> States:
        """States of the sender."""
        s = self.record.column("states")
        mine = np.flatnonzero(s["connection"] == self.number)
        return States(
            s["t_ns"][mine] * 1e-9,
            s["cwnd"][mine],
            s["ssthresh"][mine],
            s["flight"][mine],
            s["pipe"][mine],
            s["receive_window"][mine],
            s["rtt_s"][mine],
            s["srtt_s"][mine],
            s["rto_s"][mine],
            s["pacing_bps"][mine],
            s["limit"][mine],
        )

    @cached_property
    def sent(self) -> Ints:
        """Indices of the events that send a copy of data: by the sender, or by an agent."""
        own = self.record.where("data_sent", self.number)
        agent = self.record.where("agent_injected", self.number)
        found = np.union1d(own, agent[self.record.column("forward")[agent]])
        return np.asarray(found[self.record.column("len")[found] > 0])

    @cached_property
    def arrivals(self) -> Ints:
        """Indices of the arrivals of data at the receiver."""
        found = self.record.where("data_received", self.number)
        return np.asarray(found[self.record.column("len")[found] > 0])

    @cached_property
    def acks(self) -> Ints:
        """Indices of the ACKs that reach the sender."""
        return self.record.where("ack_received", self.number)

    @cached_property
    def lost_acks(self) -> Ints:
        """Indices of the losses of the receiver's packets: ACKs, with or without SACK."""
        found = [self._losses(kind) for kind in LOSS_EVENTS if kind != SUPPRESSED]
        lost = np.sort(np.concatenate(found))
        return np.asarray(lost[~self.record.column("forward")[lost]])

    @cached_property
    def suppressed_acks(self) -> Ints:
        """Indices of the events at which an agent drops an ACK, as Snoop drops duplicate ACKs."""
        dropped = self._losses(SUPPRESSED)
        return np.asarray(dropped[~self.record.column("forward")[dropped]])

    @cached_property
    def suppressing_agents(self) -> str:
        """Names of the agents that dropped packets, as "agent snoop"; empty if none did."""
        at = np.unique(self.record.column("node")[self._losses(SUPPRESSED)])
        return " and ".join(f"agent {self.agent_at(node)}" for node in at.tolist())

    def agent_at(self, node: int) -> str:
        """Label of the scheme whose agent is at a node."""
        name = self.record.nodes[node]
        return ", ".join(a["scheme"] for a in self.record.run["agents"] if a["node"] == name)

    def _losses(self, kind: str) -> Ints:
        return self.record.where(kind, self.number)

    def timeouts(self) -> Floats:
        """Times of the sender's retransmission timeouts."""
        return self._at_sender("timeout")

    def fast_retransmits(self) -> Floats:
        """Times of the sender's fast retransmits."""
        return self._at_sender("fast_retransmit")

    def undone(self) -> Floats:
        """Times at which the sender reverts a reduction that was spurious."""
        return self._at_sender("undone")

    def _at_sender(self, kind: str) -> Floats:
        found = self.record.where(kind)
        return np.asarray(self.record.t[found[self._node_is(found, self.sender_node)]])

    def _node_is(self, events: Ints, node: int) -> Mask:
        return np.asarray(self.record.column("node")[events] == node)

    @cached_property
    def sender_node(self) -> int:
        """Node of the data sender."""
        own = self.record.where("data_sent", self.number)
        return int(self.record.column("node")[own[0]]) if len(own) else -1

    @cached_property
    def receiver_node(self) -> int:
        """Node of the data receiver; -1 if nothing arrived."""
        got = self.record.where("data_received", self.number)
        return int(self.record.column("node")[got[0]]) if len(got) else -1

    @cached_property
    def min_rtt(self) -> float | None:
        """Smallest round-trip time sample, seconds."""
        rtt = self.states.rtt
        return float(np.nanmin(rtt)) if np.isfinite(rtt).any() else None

    @cached_property
    def path(self) -> list[int]:
        """Links that the data used, in the order of their first use."""
        used = self.record.where("enqueued", self.number)
        links, first = np.unique(self.record.column("link")[used], return_index=True)
        return [int(x) for x in links[np.argsort(first)]]

    @cached_property
    def copies(self) -> Copies:
        """Every copy of a data segment."""
        record, sent = self.record, self.sent
        ids: Ints = record.column("id")[sent]
        fate = np.zeros(len(sent), dtype=np.int64)
        fate_t = np.full(len(sent), np.nan)
        link = np.full(len(sent), -1, dtype=np.int64)
        why = np.full(len(sent), "", dtype="U32")
        order = np.argsort(ids, kind="stable")
        for kind in ("data_received", *LOSS_EVENTS):
            events = record.where(kind, self.number)
            place = np.searchsorted(ids[order], record.column("id")[events])
            known = place < len(ids)
            known[known] = ids[order][place[known]] == record.column("id")[events[known]]
            events, rows = events[known], order[place[known]]
            # A link layer whose ACKs were all lost reports a frame as lost that has arrived.
            first = fate[rows] != ARRIVED
            events, rows = events[first], rows[first]
            fate_t[rows], link[rows] = record.t[events], record.column("link")[events]
            if kind == "data_received":
                fate[rows] = ARRIVED
            else:
                why[rows] = [record.reason_of(e) for e in events.tolist()]
                fate[rows] = [self._fate_of_loss(kind, e) for e in events.tolist()]
        reasons = np.array([*record.column("reasons"), "agent"], dtype="U32")
        reason = reasons[record.column("reason")[sent]]
        state = np.searchsorted(self.states.t, record.t[sent], side="right") - 1
        copies = Copies(
            ids,
            record.t[sent],
            record.column("seq")[sent],
            record.column("seq")[sent] + record.column("len")[sent],
            record.column("attempt")[sent].astype(np.int64),
            reason,
            fate,
            fate_t,
            link,
            why,
            np.zeros(len(sent), dtype=bool),
            (state >= 0) & (self.states.cwnd < self.states.ssthresh)[np.maximum(state - 1, 0)],
        )
        self._mark_spurious(copies)
        return copies

    def _fate_of_loss(self, kind: str, event: int) -> int:
        record = self.record
        if kind == "dropped_at_queue":
            return QUEUE
        if kind == "corrupted":
            return BIT_ERRORS
        if kind == SUPPRESSED:
            return AGENT
        if record.in_outage(int(record.column("link")[event]), float(record.t[event])):
            return OUTAGE
        return COLLISION if record.reason_of(event) in ("collision", "contention") else AIR

    def _mark_spurious(self, copies: Copies) -> None:
        """Mark the retransmissions that the ground truth calls spurious.

        The simulator reports one at its sending, if the receiver has the bytes, or when an earlier
        copy arrives: then the latest copies sent until then are spurious.
        """
        record = self.record
        row_of = {p: i for i, p in enumerate(copies.id.tolist())}
        rows_at: dict[int, list[int]] = {}
        for i in np.flatnonzero(copies.attempt > 1).tolist():
            rows_at.setdefault(int(copies.seq[i]), []).append(i)
        for event in record.where("spurious", self.number).tolist():
            packet, seq = int(record.column("id")[event]), int(record.column("seq")[event])
            row = row_of.get(packet)
            if int(record.column("node")[event]) == self.sender_node and row is not None:
                copies.spurious[row] = True
                continue
            later = [
                i
                for i in rows_at.get(seq, ())
                if copies.t[i] <= record.t[event]
                and copies.attempt[i] > record.column("attempt")[event]
                and not copies.spurious[i]
            ]
            for i in later[-int(record.column("value")[event]) :]:
                copies.spurious[i] = True

    @cached_property
    def in_order(self) -> tuple[Floats, Ints]:
        """Times at which the receiver's next expected byte advances, and that byte."""
        record, got = self.record, self.arrivals
        times: list[float] = []
        ends: list[int] = []
        beyond: dict[int, int] = {}
        expected = 0
        for t, seq, size in zip(
            record.t[got].tolist(),
            record.column("seq")[got].tolist(),
            record.column("len")[got].tolist(),
            strict=True,
        ):
            end = seq + size
            if end <= expected:
                continue
            if seq > expected:
                beyond[seq] = max(end, beyond.get(seq, 0))
                continue
            expected = end
            if beyond:
                expected = _absorb(beyond, expected)
            times.append(t)
            ends.append(expected)
        return np.array(times, dtype=np.float64), np.array(ends, dtype=np.int64)


#: An agent drops a packet.
SUPPRESSED: Final = "agent_dropped"

#: Events that end the way of a packet.
LOSS_EVENTS: Final = ("dropped_at_queue", "lost_on_air", "corrupted", SUPPRESSED)


def _absorb(beyond: dict[int, int], expected: int) -> int:
    """Advance the next expected byte over segments that arrived before; removes them."""
    while (end := beyond.pop(expected, None)) is not None:
        expected = max(end, expected)
    if not beyond:
        return expected
    # Segment boundaries may differ between copies: a copy may begin below the expected byte.
    reached = [s for s in beyond if s < expected]
    for s in reached:
        end = beyond.pop(s)
        if end > expected:
            return _absorb(beyond, end)
    return expected


__all__ = ["FATES", "Connection", "Copies", "Outage", "Record", "States"]
