"""Stalls of a connection: intervals without in-order delivery, and their causes.

A gap is an interval longer than the threshold in which the receiver's next expected byte does not
advance although the sender has unacknowledged data, or waits for its SYN to be answered. The
threshold is twice the smallest round-trip time sample, at least 100 ms. Gaps that follow one
another within the threshold are one stall. Causes are computed from the copies of the missing byte
and from the sender's state; where they do not decide, the cause is "undecided".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lasthop.inspection import record as rec
from lasthop.inspection import sentences
from lasthop.inspection.gap import Gap, Transmission
from lasthop.inspection.record import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Smallest threshold for a gap, seconds.
MIN_GAP_S: Final = 0.1
#: Threshold in units of the smallest round-trip time sample.
MIN_GAP_RTTS: Final = 2.0
#: Causes of a gap, as in `Stall.cause` and in the JSON.
CAUSES: Final = {
    "timeout": "the missing byte was retransmitted after a retransmission timeout (RFC 6298)",
    "fast-recovery": "the missing byte was retransmitted by fast retransmit or loss recovery",
    "tail-loss-probe": "the missing byte was retransmitted by a tail loss probe (RFC 8985)",
    "link-layer-notice": "the missing byte was retransmitted after a notice of the link layer",
    "agent": "the missing byte was retransmitted by an agent on the path",
    "ack-loss": "nothing was missing; the sender waited for ACKs that were lost",
    "link-outage": "the link held the missing byte during an outage",
    "link-retransmission": "the link layer retransmitted the missing byte",
    "link-delay": "the missing byte was in a queue or on a link, and was not lost",
    "receive-window": "the receive window held back the missing byte",
    "application": "the sender had no more data to send",
    "pacing": "the pacing rate held back the missing byte",
    "cwnd": "the congestion window held back the missing byte",
    "handshake": "the handshake was not complete",
    "frozen": "a notice of a link outage had frozen the sender",
    "not-repaired": "the missing byte was lost and not delivered before the end of the run",
    "undecided": "the events do not decide the cause",
}
#: Causes of a gap before the first transmission of the missing byte, by what limits the sender.
LIMIT_CAUSES: Final = {
    "application": "application",
    "handshake": "handshake",
    "cwnd": "cwnd",
    "pacing": "pacing",
    "receive_window": "receive-window",
    "send_buffer": "application",
    "outage": "frozen",
    "relay_buffer": "receive-window",
    "agent_cache": "cwnd",
}


@dataclass(frozen=True)
class Stall:
    """One or more gaps that follow one another. `cause` is that of the gaps with most time."""

    start_s: float
    end_s: float
    cause: str
    #: The cause in a sentence, in terms of the RFCs.
    sentence: str
    gaps: tuple[Gap, ...]

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end_s - self.start_s

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON of `lasthop inspect`."""
        gaps = [asdict(g) for g in self.gaps]
        return {
            "start_s": self.start_s,
            "end_s": self.end_s,
            "duration_s": self.duration_s,
            "cause": self.cause,
            "sentence": self.sentence,
            "gaps": gaps,
        }


def threshold(connection: Connection) -> float:
    """The shortest gap that counts, seconds."""
    return max(MIN_GAP_S, MIN_GAP_RTTS * (connection.min_rtt or 0.0))


def find(connection: Connection, shortest_s: float | None = None) -> list[Stall]:
    """The stalls of a connection in order of time; `shortest_s` replaces the threshold."""
    limit = threshold(connection) if shortest_s is None else shortest_s
    stalls: list[Stall] = []
    groups: list[list[Gap]] = []
    for gap in _gaps(connection, limit):
        if groups and gap.start_s - groups[-1][-1].end_s <= limit:
            groups[-1].append(gap)
        else:
            groups.append([gap])
    for gaps in groups:
        weight: Counter[str] = Counter()
        for gap in gaps:
            weight[gap.cause] += round((gap.end_s - gap.start_s) * 1e9)
        cause = weight.most_common(1)[0][0]
        sentence = sentences.of_stall(gaps, cause, connection)
        stalls.append(Stall(gaps[0].start_s, gaps[-1].end_s, cause, sentence, tuple(gaps)))
    return stalls


def _gaps(connection: Connection, limit: float) -> list[Gap]:
    """Gaps longer than `limit` seconds, in order of time."""
    states = connection.states
    if not len(states.t):
        return []
    times, ends = connection.in_order
    begin = float(states.t[0])
    stop = connection.record.duration_s
    # Points at which the next expected byte is set, with the end of the run as the last.
    t = np.concatenate([[begin], times, [stop]])
    expected = np.concatenate([[0], ends])
    gaps = []
    for i in np.flatnonzero(np.diff(t) > limit).tolist():
        start = _waiting_since(connection, float(t[i]), float(t[i + 1]), int(expected[i]))
        end = float(t[i + 1])
        if start is not None and end - start > limit:
            gaps.append(_explain(connection, start, end, int(expected[i]), i == len(t) - 2))
    return gaps


def _waiting_since(connection: Connection, start: float, end: float, offset: int) -> float | None:
    """When the receiver begins to wait for data in a gap; `None` if there are none.

    While all bytes that the application has written were delivered, there is nothing to wait for.
    """
    states = connection.states
    idle = connection.record.limits.index("application")
    sent = connection.copies.of_byte(offset)
    first = float(connection.copies.t[sent[0]]) if len(sent) else np.inf
    if first <= start:
        return start
    i = max(states.at(start), 0)
    waiting = np.flatnonzero(states.limit[i:] != idle)
    since = float(states.t[i + waiting[0]]) if len(waiting) else np.inf
    since = max(start, min(since, first))
    return since if since < end else None


def _explain(connection: Connection, start: float, end: float, offset: int, last: bool) -> Gap:
    copies = connection.copies
    mine = copies.of_byte(offset)
    mine = mine[copies.t[mine] <= end]
    facts = _facts(connection, mine, start, end, offset)
    arrived = (copies.fate[mine] == rec.ARRIVED).any()
    if last and copies.missed[mine].any() and not arrived:
        cause: str = "not-repaired"
        extra: dict[str, Any] = {}
    elif not len(mine) or copies.t[mine[0]] > start:
        cause, extra = _before_first_copy(connection, mine, start, end)
    else:
        cause, extra = _after_first_copy(connection, mine, start, end)
    return Gap(start, end, offset, cause, **(facts | extra), open=last)


def _facts(
    connection: Connection, mine: rec.Ints, start: float, end: float, offset: int
) -> dict[str, Any]:
    """What the record says about the gap, whatever its cause."""
    record, copies, states = connection.record, connection.copies, connection.states
    since = float(copies.t[mine[0]]) if len(mine) else start
    since = min(since, start)
    again = copies.t[mine[1]] if len(mine) > 1 else end
    flight = np.flatnonzero(copies.missed & (copies.t >= since) & (copies.t <= end))
    fates = Counter(copies.fate[flight].tolist())
    dropped = flight[copies.fate[flight] == rec.QUEUE]
    acks = connection.acks
    acks = acks[(record.t[acks] > since) & (record.t[acks] <= again)]
    repeated, duplicates = _duplicate_acks(connection, acks, offset)
    lost_acks = record.t[connection.lost_acks]
    timeouts = connection.timeouts()
    i = max(states.at(start), 0)
    by_timer = np.flatnonzero(copies.sent_as("timeout") & (copies.t >= start) & (copies.t <= end))
    got = connection.arrivals
    got = got[(record.t[got] > start) & (record.t[got] < end)]
    duplicates_received = int(
        (record.column("offset")[got] + record.column("len")[got] <= offset).sum()
    )
    overlap = next((o for o in record.outages if o.start_s < end and o.end_s > start), None)
    return {
        "transmissions": tuple(_transmission(connection, i) for i in mine.tolist()),
        "losses": {rec.FATES[f]: n for f, n in sorted(fates.items())},
        "slow_start_drops": int(copies.slow_start[dropped].sum()),
        "queues": tuple(record.link_name(x) for x in np.unique(copies.link[dropped]).tolist()),
        "repeated_acks": repeated,
        "duplicate_acks": duplicates,
        "covered_by_reduction_s": _covering_reduction(connection, float(again), offset),
        "lost_acks": int(((lost_acks >= since) & (lost_acks <= again)).sum()),
        "timeouts": int(((timeouts >= start) & (timeouts <= end)).sum()),
        "timeout_retransmissions": tuple(_transmission(connection, i) for i in by_timer.tolist()),
        "timeout_repeats": int((copies.end[by_timer] <= offset).sum()),
        "duplicates_received": duplicates_received,
        "beyond_received": len(got) - duplicates_received,
        "srtt_s": float(states.srtt[i]) if np.isfinite(states.srtt[i]) else None,
        "outage": None
        if overlap is None
        else (record.link_name(overlap.link), overlap.start_s, overlap.end_s),
        "limits": _limits(connection, start, end),
    }


def _duplicate_acks(connection: Connection, acks: rec.Ints, offset: int) -> tuple[int, int]:
    """Number of `acks` that repeat an ACK of `offset`, and of those that are duplicate ACKs."""
    record = connection.record
    mine = acks[record.column("offset")[acks] == offset]
    windows = record.column("window")[mine]
    # The first of them may be the ACK that advanced the number, before the span.
    all_of = connection.acks
    first = all_of[record.column("offset")[all_of] == offset]
    is_repeat = np.isin(mine, first[1:])
    before = np.searchsorted(all_of, mine) - 1
    same = windows == record.column("window")[all_of[np.maximum(before, 0)]]
    with_sack = np.isin(record.column("t_ns")[mine], record.column("sack")["t_ns"])
    return int(is_repeat.sum()), int((is_repeat & (same | with_sack)).sum())


def _covering_reduction(connection: Connection, before: float, offset: int) -> float | None:
    """Time of the last timeout or fast retransmit before a time, if `offset` was sent by then."""
    times = np.concatenate([connection.timeouts(), connection.fast_retransmits()])
    times = times[times < before]
    if not len(times):
        return None
    last = float(times.max())
    # The recovery point is the highest byte sent; the segment at it is the first not covered,
    # but an ACK must cover more than that point.
    sent = connection.copies.end[connection.copies.t <= last]
    return last if len(sent) and int(sent.max()) >= offset else None


def _transmission(connection: Connection, row: int) -> Transmission:
    copies, record = connection.copies, connection.record
    at, link = float(copies.fate_t[row]), int(copies.link[row])
    return Transmission(
        float(copies.t[row]),
        copies.reason_of(row),
        rec.FATES[int(copies.fate[row])],
        at if np.isfinite(at) else None,
        record.link_name(link) if link >= 0 else None,
    )


def _limits(connection: Connection, start: float, end: float) -> dict[str, float]:
    """Shares of a span by what limited the sender; they add up to 1."""
    states = connection.states
    inside = np.flatnonzero((states.t > start) & (states.t < end))
    first = states.at(start)
    points = np.concatenate([[start], states.t[inside], [end]])
    codes = np.concatenate([[states.limit[max(first, 0)]], states.limit[inside]])
    shares: dict[str, float] = {}
    for name_code in np.unique(codes).tolist():
        spent = float(np.diff(points)[codes == name_code].sum())
        if spent > 0:
            shares[connection.record.limits[name_code]] = spent / (end - start)
    return shares


def _before_first_copy(
    connection: Connection, mine: rec.Ints, start: float, end: float
) -> tuple[str, dict[str, Any]]:
    """The cause of a gap that begins before the missing byte is sent."""
    copies, record = connection.copies, connection.record
    sent = float(copies.t[mine[0]]) if len(mine) else end
    if len(mine) and sent - start < (end - start) / 2:
        # The byte was sent early in the gap; the rest of the gap is longer.
        return _after_first_copy(connection, mine, start, end)
    limits = _limits(connection, start, sent) if sent > start else {}
    main = max(limits, key=lambda k: limits[k]) if limits else ""
    lost = record.t[connection.lost_acks]
    timeouts = connection.timeouts()
    timed_out = ((timeouts >= start) & (timeouts <= end)).any()
    acked = record.t[connection.acks]
    silent = not ((acked > start) & (acked < sent)).any() or timed_out
    since = start - (connection.min_rtt or 0.0)
    if main in ("cwnd", "receive_window", "application") and silent:
        if ((lost >= since) & (lost <= sent)).any() and timed_out:
            return "ack-loss", {}
        if main == "cwnd" and timed_out:
            return "timeout", {}
    return LIMIT_CAUSES.get(main, "undecided"), {}


#: Causes by the reason of the copy that filled the gap.
REASON_CAUSES: Final = {
    "fast retransmit": "fast-recovery",
    "recovery": "fast-recovery",
    "timeout": "timeout",
    "tail loss probe": "tail-loss-probe",
    "eln": "link-layer-notice",
    "agent": "agent",
}


def _after_first_copy(
    connection: Connection, mine: rec.Ints, start: float, end: float
) -> tuple[str, dict[str, Any]]:
    """The cause of a gap in which the missing byte is under way or lost."""
    copies = connection.copies
    filled = mine[(copies.fate[mine] == rec.ARRIVED) & (np.abs(copies.fate_t[mine] - end) < 1e-9)]
    if not len(filled):
        under_way = mine[copies.fate[mine] == rec.IN_FLIGHT]
        if len(under_way):
            return _at_a_link(connection, int(under_way[0]), start, end)
        return "undecided", {}
    row = int(filled[0])
    at_link, extra = _at_a_link(connection, row, start, end)
    held = end - max(start, float(copies.t[row]))
    lost_before = copies.missed[mine[mine < row]].any()
    if not lost_before or (at_link == "link-outage" and held > (end - start) / 2):
        return at_link, extra
    cause = REASON_CAUSES.get(copies.reason_of(row))
    first = float(copies.t[mine[0]])
    if cause == "fast-recovery" and _after_timeout(connection, start, first, float(copies.t[row])):
        # After a timeout, further segments are sent again as the window opens.
        return "timeout", extra
    return (cause, extra) if cause else ("undecided", {})


def _after_timeout(connection: Connection, start: float, first: float, sent: float) -> bool:
    """True if the copy sent at `sent` follows a timeout in the gap, or one since the first copy
    after which no fast retransmit was made.
    """
    timeouts, fast = connection.timeouts(), connection.fast_retransmits()
    if ((timeouts >= start) & (timeouts <= sent)).any():
        return True
    timeouts = timeouts[(timeouts >= first) & (timeouts <= sent)]
    return bool(len(timeouts)) and not ((fast > timeouts[-1]) & (fast <= sent)).any()


def _at_a_link(
    connection: Connection, row: int, start: float, end: float
) -> tuple[str, dict[str, Any]]:
    """Where a copy spent the gap."""
    record = connection.record
    entered: dict[int, float] = {}
    spent: dict[int, float] = {}
    packet, hops = int(connection.copies.id[row]), record.column("hops")
    for e in record.hops_of(packet).tolist():
        link, t = int(hops["link"][e]), float(hops["t_ns"][e] * 1e-9)
        if not hops["arrived"][e]:
            entered[link] = t
        elif link in entered:
            spent[link] = min(end, t) - max(start, entered[link])
    for link in entered.keys() - spent.keys():
        spent[link] = end - max(start, entered[link])
    if not spent:
        return "undecided", {}
    link = max(spent, key=lambda k: spent[k])
    extra = {"link": record.link_name(link), "link_s": spent[link]}
    for outage in record.outages:
        covered = min(outage.end_s, end) - max(outage.start_s, start)
        if outage.link == link and outage.frames == "held" and covered > (end - start) / 2:
            where = (record.link_name(link), outage.start_s, outage.end_s)
            return "link-outage", extra | {"outage": where}
    return ("link-retransmission" if record.failed_attempts(packet, link) else "link-delay"), extra


def to_dicts(stalls: Sequence[Stall]) -> list[dict[str, Any]]:
    """The stalls as in the JSON of `lasthop inspect`."""
    return [s.to_dict() for s in stalls]


__all__ = ["CAUSES", "Gap", "Stall", "Transmission", "find", "threshold", "to_dicts"]
