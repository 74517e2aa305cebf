"""The series of an inspection: what is drawn, from the record of a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lasthop.inspection import record as rec
from lasthop.inspection.record import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from lasthop.inspection.record import Ints, Mask

    #: Any width: products with a Python float are of the inferred type.
    Floats = NDArray[np.floating[Any]]

#: Values of ssthresh and of the receive window above this multiple of the largest window in use are
#: not drawn: they do not limit the sender.
DRAWN_UP_TO: Final = 4.0
#: Intervals of the delivery rate per run, and the shortest interval in round-trip times.
RATE_INTERVALS: Final = 300


@dataclass(frozen=True)
class Series:
    """A series of points over time. `t` in seconds, `v` in the panel's unit.

    `kind`: "step" keeps a value until the next point, "line" joins points, "dots" does neither.
    """

    key: str
    label: str
    kind: str
    t: Floats
    v: Floats
    shown: bool = True


@dataclass(frozen=True)
class Marks:
    """Marks at points of a panel. `shape` is a name that the page draws."""

    key: str
    label: str
    shape: str
    t: Floats
    v: Floats
    #: End of a vertical bar at each point, for SACK blocks.
    v_end: Floats | None = None


@dataclass(frozen=True)
class Shares:
    """Shares of each interval of time, which add up to 1: key -> label and values."""

    width_s: float
    rows: Mapping[str, tuple[str, Floats]]


@dataclass(frozen=True)
class Panel:
    """A chart: series and marks with one y axis, or shares of the time."""

    key: str
    title: str
    unit: str
    series: list[Series]
    marks: list[Marks] = field(default_factory=list)
    note: str = ""
    shares: Shares | None = None


def panels(connection: Connection) -> list[Panel]:
    """All panels of a connection."""
    return [
        _windows(connection),
        _rates(connection),
        _rtt(connection),
        *_queue(connection),
        _sequence(connection),
    ]


def bands(connection: Connection) -> list[tuple[float, float, str]]:
    """What limits the sender over time: start and end in seconds, and the key of the limit."""
    states, names = connection.states, connection.record.limits
    if not len(states.t):
        return []
    change = np.flatnonzero(np.diff(states.limit.astype(np.int64), prepend=-2))
    starts = states.t[change]
    ends = np.append(starts[1:], connection.record.duration_s)
    return [
        (float(a), float(b), names[int(states.limit[i])])
        for a, b, i in zip(starts, ends, change.tolist(), strict=True)
        if b > a
    ]


def _changes(t: Floats, v: Floats) -> tuple[Floats, Floats]:
    """The points at which a step function changes."""
    keep = np.isfinite(v)
    t, v = t[keep], v[keep]
    if not len(v):
        return t, v
    changed = np.concatenate([[True], np.diff(v) != 0])
    return t[changed], v[changed]


def step(key: str, label: str, t: Floats, v: Floats, end: float, shown: bool = True) -> Series:
    """A series that keeps each value until the next one, and the last one until `end`."""
    t, v = _changes(t, v)
    if len(t) and t[-1] < end:
        t, v = np.append(t, end), np.append(v, v[-1])
    return Series(key, label, "step", t, v, shown)


def _windows(connection: Connection) -> Panel:
    states, end = connection.states, connection.record.duration_s
    used = float(max(states.cwnd.max(), states.flight.max())) if len(states.t) else 0.0

    def drawn(values: Any) -> Floats:
        return np.where(values <= DRAWN_UP_TO * used, values * 1e-3, np.nan)

    series = [
        step("cwnd", "cwnd", states.t, states.cwnd * 1e-3, end),
        step("ssthresh", "ssthresh", states.t, drawn(states.ssthresh), end),
        step("flight", "bytes in flight", states.t, states.flight * 1e-3, end),
        step("rwnd", "receive window", states.t, drawn(states.receive_window), end, shown=False),
    ]
    if (states.pipe != states.flight).any():
        pipe = step("pipe", "pipe (RFC 6675)", states.t, states.pipe * 1e-3, end, shown=False)
        series.insert(3, pipe)
    marks = [
        _at_top("timeout", "timeout", "T", connection.timeouts(), states.t, states.cwnd),
        _at_top(
            "fast", "fast retransmit", "F", connection.fast_retransmits(), states.t, states.cwnd
        ),
        _at_top("undone", "reduction undone", "U", connection.undone(), states.t, states.cwnd),
    ]
    return Panel("windows", "Windows", "kB", _present(series), [m for m in marks if len(m.t)])


def _at_top(key: str, label: str, shape: str, at: Floats, t: Floats, v: Floats) -> Marks:
    """Marks at the value that a series had before each time."""
    place = np.clip(np.searchsorted(t, at, side="left") - 1, 0, max(len(t) - 1, 0))
    return Marks(key, label, shape, at, v[place] * 1e-3 if len(v) else np.zeros(len(at)))


def _present(series: list[Series]) -> list[Series]:
    return [s for s in series if len(s.t)]


def _rates(connection: Connection) -> Panel:
    record, states = connection.record, connection.states
    end = record.duration_s
    width = max(end / RATE_INTERVALS, 2 * (connection.min_rtt or 0.0))
    edges = np.append(np.arange(0.0, end, width), end)
    sizes = np.diff(edges)
    copies = connection.copies
    sizes_sent = (copies.end - copies.seq).astype(np.float64)

    def rate(key: str, label: str, t: Floats, bytes_of: Floats, shown: bool = True) -> Series:
        total = np.histogram(t, edges, weights=bytes_of)[0] * 8e-6 / sizes
        return Series(key, label, "step", edges, np.append(total, total[-1:]), shown)

    t, reached = connection.in_order
    in_order = np.diff(reached, prepend=0).astype(np.float64)
    series = [
        rate("delivery", "delivery rate", *_first_arrivals(connection)),
        step("pacing", "pacing rate", states.t, states.pacing * 1e-6, end),
        rate("sending", "sending rate", copies.t, sizes_sent, shown=False),
        rate("in-order", "in-order delivery", t, in_order, shown=False),
    ]
    link = bottleneck(connection)
    capacity = record.links[link]["capacity_bps"] if link is not None else None
    if capacity is not None:
        label = f"mean capacity of {record.link_name(link or 0)}"
        line = np.array([capacity * 1e-6] * 2)
        series.append(Series("capacity", label, "line", np.array([0.0, end]), line))
    note = (
        f"Payload per interval of {width * 1e3:.4g} ms. Delivery: bytes that arrive at the receiver"
        " for the first time. The capacity includes headers."
    )
    return Panel("rates", "Rates", "Mbit/s", _present(series), note=note)


def _first_arrivals(connection: Connection) -> tuple[Floats, Floats]:
    """Times and sizes of the segments that arrive at the receiver for the first time."""
    record, got = connection.record, connection.arrivals
    _, first = np.unique(record.column("offset")[got], return_index=True)
    first = got[np.sort(first)]
    return record.t[first], record.column("len")[first].astype(np.float64)


def _rtt(connection: Connection) -> Panel:
    states, end = connection.states, connection.record.duration_s
    sampled = np.isfinite(states.rtt)
    series = [
        Series("rtt", "RTT sample", "dots", states.t[sampled], states.rtt[sampled] * 1e3),
        step("srtt", "srtt", states.t, states.srtt * 1e3, end),
        step("rto", "RTO", states.t, states.rto * 1e3, end, shown=False),
    ]
    return Panel("rtt", "Round-trip time", "ms", _present(series))


def bottleneck(connection: Connection) -> int | None:
    """The link of the data path with the largest mean queueing delay; the radio link if equal."""
    record = connection.record
    path = connection.path
    if not path:
        return None

    def rank(link: int) -> tuple[float, bool]:
        delay = record.links[link].get("queue_delay_s") or {}
        return (delay.get("mean") or 0.0, bool(record.links[link]["radio"]))

    return max(path, key=rank)


def _queue(connection: Connection) -> list[Panel]:
    record, link = connection.record, bottleneck(connection)
    if link is None:
        return []
    columns, hops = record.column, record.column("hops")
    entered = record.hops(False, connection.number, link)
    left = record.hops(True, connection.number, link)
    name = record.link_name(link)
    lengths = Series(
        "queue",
        "frames waiting",
        "step",
        hops["t_ns"][entered] * 1e-9,
        hops["waiting"][entered].astype(float),
    )
    dropped = record.where("dropped_at_queue", connection.number)
    dropped = dropped[(columns("link")[dropped] == link) & columns("forward")[dropped]]
    at = np.clip(np.searchsorted(lengths.t, record.t[dropped], "right") - 1, 0, None)
    marks = [Marks("drop", "dropped", "x", record.t[dropped], lengths.v[at])] if len(at) else []
    t, delay = _transit(hops, entered, left)
    return [
        Panel(
            "queue",
            f"Queue of {name}",
            "frames",
            _present([lengths]),
            marks,
            note="Seen by each arriving segment of this flow, without the frame being sent.",
        ),
        Panel(
            "delay",
            f"Delay of {name}",
            "ms",
            _present(
                [Series("delay", "queueing, sending and propagation", "dots", t, delay * 1e3)]
            ),
            note="From entering the queue to arriving at the far end, at the time of entering.",
        ),
    ]


def _transit(hops: Mapping[str, Any], entered: Ints, left: Ints) -> tuple[Floats, Floats]:
    """Times of entering a link and durations until the arrival, for packets that arrived."""
    ids = hops["id"]
    order = np.argsort(ids[left], kind="stable")
    sorted_ids = ids[left][order]
    place = np.searchsorted(sorted_ids, ids[entered])
    known = place < len(sorted_ids)
    known[known] = sorted_ids[place[known]] == ids[entered[known]]
    arrived = left[order[place[known]]]
    start = hops["t_ns"][entered[known]] * 1e-9
    return start, hops["t_ns"][arrived] * 1e-9 - start


def _sequence(connection: Connection) -> Panel:
    record, copies = connection.record, connection.copies
    first = ~copies.retransmission
    acks = connection.acks
    ack_t, ack_v = record.t[acks], record.column("offset")[acks].astype(np.float64)
    keep = np.diff(np.maximum.accumulate(ack_v), prepend=-1.0) > 0
    series = [
        Series("sent", "sent", "dots", copies.t[first], copies.end[first] * 1e-6),
        Series("acked", "cumulative ACK", "step", ack_t[keep], ack_v[keep] * 1e-6),
    ]
    again = copies.retransmission
    marks = [
        _sack_marks(connection),
        _marks_of(copies, again & ~copies.spurious, "retransmission", "retransmission", "o"),
        _marks_of(
            copies, again & copies.spurious, "spurious", "spurious retransmission", "diamond"
        ),
        *(
            _marks_of(copies, copies.fate == fate, f"fate-{fate}", rec.FATES[fate], shape)
            for fate, shape in SHAPES.items()
        ),
        *_ack_marks(connection, connection.lost_acks, "lost-ack", "ACK lost"),
        *_ack_marks(
            connection, connection.filtered_acks, "filtered-ack", "ACK removed by a filter"
        ),
        *_ack_marks(
            connection,
            connection.suppressed_acks,
            "suppressed-ack",
            f"ACK suppressed by {connection.suppressing_agents}",
        ),
    ]
    return Panel(
        "sequence",
        "Sequence numbers",
        "MB",
        _present(series),
        [m for m in marks if len(m.t)],
        note="Losses are drawn at the time at which the lost copy was sent, lost and suppressed"
        " ACKs at the time at which that happens.",
    )


#: Shapes of losses by fate.
SHAPES: Final = {
    rec.QUEUE: "x",
    rec.AIR: "plus",
    rec.COLLISION: "star",
    rec.OUTAGE: "square",
    rec.BIT_ERRORS: "triangle",
    rec.AGENT: "down",
    rec.DISCARDED: "minus",
}


def _marks_of(copies: rec.Copies, which: Mask, key: str, label: str, shape: str) -> Marks:
    return Marks(key, label, shape, copies.t[which], copies.end[which] * 1e-6)


def _sack_marks(connection: Connection) -> Marks:
    """SACK blocks, each at its first report."""
    sack = connection.record.column("sack")
    mine = np.flatnonzero((sack["connection"] == connection.number) & ~sack["duplicate"])
    blocks = np.stack([sack["start"][mine], sack["end"][mine]], axis=1)
    _, first = np.unique(blocks, axis=0, return_index=True) if len(mine) else (None, mine)
    mine = mine[np.sort(first)]
    t, start, end = sack["t_ns"][mine] * 1e-9, sack["start"][mine], sack["end"][mine]
    # A block that grows is reported once per ACK: only what is new is drawn.
    grown: dict[int, int] = {}
    low = np.array(start)
    for i, (a, b) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        low[i] = max(a, grown.get(a, a))
        grown[a] = max(b, grown.get(a, b))
    return Marks("sack", "SACK", "bar", t, low * 1e-6, end * 1e-6)


def _ack_marks(connection: Connection, events: Ints, key: str, label: str) -> list[Marks]:
    """ACKs that do not reach the sender; `events` are the indices of their ends."""
    if not len(events):
        return []
    record = connection.record
    values = record.column("offset")[events].astype(np.float64) * 1e-6
    return [Marks(key, label, "minus", record.t[events], values)]


__all__ = ["Marks", "Panel", "Series", "Shares", "bands", "bottleneck", "panels", "step"]
