"""The record of one flow: its events, the states of its senders, and what became of each copy."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
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
    "discarded by the receiver",
)
(IN_FLIGHT, ARRIVED, QUEUE, AIR, COLLISION, OUTAGE, BIT_ERRORS, AGENT, DISCARDED) = range(
    len(FATES)
)


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

    Times in seconds, `seq` and `end` in bytes. `reason` says why the copy was sent, as an index in
    `reasons` ("new", "fast retransmit", "timeout", …; "agent" for one that an agent sent). `fate`
    is an index in `FATES`, `fate_t` the time of it (NaN while in flight), `link` the link where it
    was lost or -1.
    """

    id: Ints
    t: Floats
    seq: Ints
    end: Ints
    attempt: Ints
    reason: NDArray[np.signedinteger[Any]]
    fate: NDArray[np.signedinteger[Any]]
    fate_t: Floats
    link: NDArray[np.signedinteger[Any]]
    spurious: Mask
    slow_start: Mask
    reasons: Sequence[str]

    def sent_as(self, reason: str) -> Mask:
        """Copies that were sent for a reason."""
        return np.isin(self.reason, [i for i, name in enumerate(self.reasons) if name == reason])

    def reason_of(self, row: int) -> str:
        """Why a copy was sent."""
        return str(self.reasons[self.reason[row]])

    @cached_property
    def retransmission(self) -> Mask:
        """Copies of bytes that had been sent before."""
        return ~self.sent_as("new")

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


def _results_of_links(
    ends: Sequence[tuple[str, str]], results: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The results of all links by number; those of a cell that carried nothing have only ends."""
    left = list(results)
    found: list[Mapping[str, Any]] = []
    for start, end in ends:
        if left and (left[0]["from"], left[0]["to"]) == (start, end):
            found.append(left.pop(0))
        else:
            found.append({"from": start, "to": end, "radio": True, "capacity_bps": None})
    return found


class Record:
    """What one run recorded of one flow. Times are seconds from the start of the run."""

    def __init__(self, run: Mapping[str, Any], columns: Mapping[str, Any], flow: int) -> None:
        self.run = run
        self.flow: Mapping[str, Any] = run["flows"][flow]
        self.nodes: Sequence[str] = columns["nodes"]
        self.links = _results_of_links(columns["links"], run["links"])
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

    def hops(self, arrived: bool, connection: int, link: int | None = None) -> Ints:
        """Indices of the frames of data that were offered to a link, or arrived at its far end, in
        the columns `hops`; of one link if given.
        """
        hops = self._columns["hops"]
        mask = (hops["arrived"] == arrived) & (hops["connection"] == connection)
        if link is not None:
            mask &= hops["link"] == link
        return np.flatnonzero(mask)

    @cached_property
    def _hops_by_id(self) -> Ints:
        return np.argsort(self._columns["hops"]["id"], kind="stable")

    def hops_of(self, packet: int) -> Ints:
        """The same for a packet, in order of time."""
        ids, order = self._columns["hops"]["id"], self._hops_by_id
        low, high = np.searchsorted(ids, np.array([packet, packet + 1], ids.dtype), sorter=order)
        return order[low:high]

    def failed_attempts(self, packet: int, link: int) -> int:
        """Attempts of the link layer of a link to send a packet that failed."""
        found = self.where("attempt_failed")
        mine = (self._columns["id"][found] == packet) & (self._columns["link"][found] == link)
        return int(mine.sum())

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


class Records:
    """The records of several runs, of which one is in memory at a time: a record has hundreds of
    bytes per segment. The run of another one is repeated when it is needed.
    """

    def __init__(self) -> None:
        self._makers: list[Callable[[], Record]] = []
        self._current: tuple[int, dict[int, Connection]] = (-1, {})

    def append(self, record: Record, make: Callable[[], Record]) -> int:
        """Add a record, which becomes the one in memory; `make` repeats its run. Returns the number
        of the run.
        """
        self._makers.append(make)
        return self._keep(len(self._makers) - 1, record)

    def _keep(self, run: int, record: Record) -> int:
        self._current = (run, {n: Connection(record, n) for n in record.connections})
        return run

    def release(self) -> None:
        """Forget the record in memory."""
        self._current = (-1, {})

    def __len__(self) -> int:
        return len(self._makers)

    def __getstate__(self) -> list[Record]:
        # Runs cannot be repeated elsewhere: all records go with the object.
        return [self._record(run) for run in range(len(self))]

    def __setstate__(self, records: list[Record]) -> None:
        self.__init__()  # type: ignore[misc]
        self._makers += [partial(_given, record) for record in records]

    def _record(self, run: int) -> Record:
        connections = self._current[1] if run == self._current[0] else {}
        return next(iter(connections.values())).record if connections else self._makers[run]()

    def connection(self, run: int, number: int) -> Connection:
        """A connection of a run."""
        if run != self._current[0]:
            self.release()
            self._keep(run, self._makers[run]())
        return self._current[1][number]


def _given(record: Record) -> Record:
    return record


class Connection:
    """One TCP connection of a record."""

    def __init__(self, record: Record, number: int) -> None:
        self.record, self.number = record, number

    @cached_property
    def states(self) -> States:
        """States of the sender."""
        s = self.record.column("states")
        # A slice of an array needs no memory; a split connection has states of two senders.
        whole = len(self.record.connections) == 1
        mine = slice(None) if whole else np.flatnonzero(s["connection"] == self.number)
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
    def filtered_acks(self) -> Ints:
        """Indices of the events at which a queue removes an ACK as redundant."""
        filtered = self._losses("filtered")
        return np.asarray(filtered[~self.record.column("forward")[filtered]])

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
        used = self.record.hops(False, self.number)
        links, first = np.unique(self.record.column("hops")["link"][used], return_index=True)
        return [int(x) for x in links[np.argsort(first)]]

    @cached_property
    def copies(self) -> Copies:
        """Every copy of a data segment."""
        record, sent = self.record, self.sent
        ids: Ints = record.column("id")[sent]
        fate = np.zeros(len(sent), dtype=np.int8)
        fate_t = np.full(len(sent), np.nan)
        link = np.full(len(sent), -1, dtype=np.int32)
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
                fate[rows] = [self._fate_of_loss(kind, e) for e in events.tolist()]
        reasons = [*record.column("reasons"), "agent"]
        reason = record.column("reason")[sent]
        reason[reason < 0] = len(reasons) - 1
        state = np.searchsorted(self.states.t, record.t[sent], side="right") - 1
        copies = Copies(
            ids,
            record.t[sent],
            record.column("offset")[sent],
            record.column("offset")[sent] + record.column("len")[sent],
            record.column("attempt")[sent],
            reason,
            fate,
            fate_t,
            link,
            np.zeros(len(sent), dtype=bool),
            (state >= 0) & (self.states.cwnd < self.states.ssthresh)[np.maximum(state - 1, 0)],
            reasons,
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
        if kind == "discarded":
            return DISCARDED
        if record.in_outage(int(record.column("link")[event]), float(record.t[event])):
            return OUTAGE
        return COLLISION if record.reason_of(event) in ("collision", "contention") else AIR

    def _mark_spurious(self, copies: Copies) -> None:
        """Mark the retransmissions that the ground truth calls spurious.

        The simulator reports one at its sending, if the receiver has the bytes, or when an earlier
        copy arrives: then the latest copies sent until then are spurious.
        """
        record = self.record
        events = record.where("spurious", self.number)
        if not len(events):
            return
        order = np.argsort(copies.id, kind="stable")
        rows = np.searchsorted(copies.id, record.column("id")[events], "right", sorter=order) - 1
        rows_at: dict[int, list[int]] = {}
        for i in np.flatnonzero(copies.attempt > 1).tolist():
            rows_at.setdefault(int(copies.seq[i]), []).append(i)
        for event, place in zip(events.tolist(), rows.tolist(), strict=True):
            packet, seq = int(record.column("id")[event]), int(record.column("offset")[event])
            row = int(order[place])
            is_sent = place >= 0 and copies.id[row] == packet
            if int(record.column("node")[event]) == self.sender_node and is_sent:
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
        times, ends = array("d"), array("q")
        beyond: dict[int, int] = {}
        expected = 0
        for t, seq, size in in_blocks(
            record.t[got], record.column("offset")[got], record.column("len")[got]
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


def in_blocks(*columns: NDArray[Any], rows: int = 1 << 16) -> Iterator[tuple[Any, ...]]:
    """The rows of columns as Python's numbers, of which only a block is in memory at a time."""
    for start in range(0, len(columns[0]), rows):
        yield from zip(*(c[start : start + rows].tolist() for c in columns), strict=True)


#: An agent drops a packet.
SUPPRESSED: Final = "agent_dropped"

#: Events that end the way of a packet.
LOSS_EVENTS: Final = (
    "dropped_at_queue",
    "lost_on_air",
    "corrupted",
    "discarded",
    SUPPRESSED,
)


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


__all__ = ["FATES", "Connection", "Copies", "Outage", "Record", "Records", "States", "in_blocks"]
