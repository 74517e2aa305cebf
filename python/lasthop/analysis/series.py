"""Time series for figures and measures for claims, computed from the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lasthop import quantities
from lasthop.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lasthop.scenarios.experiment import Claim

if TYPE_CHECKING:
    Steps = tuple[NDArray[np.float64], NDArray[np.float64]]

POINTS = 401  # points of the time grid on which runs are averaged
RESAMPLES = 1000  # bootstrap samples for a confidence interval
QUEUE_SAMPLE_AGE_S = 0.5  # seconds for which the queue length seen by an arriving frame is used

# series -> (axis label with unit, kinds of events it is computed from)
SERIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "goodput": ("goodput since the start (kbit/s)", ("delivered",)),
    "delivered": ("delivered in order (kB)", ("delivered",)),
    "rate": ("goodput over the last second (kbit/s)", ("delivered",)),
    "sending": ("sending rate over the last second (kbit/s)", ("data_sent",)),
    "cwnd": ("congestion window (kB)", ("cwnd",)),
    "ssthresh": ("slow-start threshold (kB)", ("ssthresh",)),
    "cwnd_reductions": ("window reductions (cumulative)", ("timeout", "fast_retransmit")),
    "queue": ("queue at the radio link (frames)", ("enqueued",)),
    "rtt": ("round-trip time (ms)", ("data_sent", "ack_received")),
    "sequence": ("sequence number (kB)", ("data_sent", "ack_received")),
    "delay": ("share of the packets", ("data_sent", "data_received")),
}
#: Step functions: series that keep their value from one event to the next.
STEPS: Final = ("delivered", "cwnd", "ssthresh", "cwnd_reductions", "queue", "rtt")


@dataclass(frozen=True)
class Events:
    """Events of one run in order of time, as columns of equal length.

    `t` is in seconds; `seq`, `len` and `ack` are in bytes; the unit of `value` depends on the kind.
    """

    kinds: Sequence[str]
    t: NDArray[np.float64]
    kind: NDArray[np.int64]
    seq: NDArray[np.int64]
    len: NDArray[np.int64]
    ack: NDArray[np.int64]
    value: NDArray[np.float64]

    @classmethod
    def of(cls, kinds: Sequence[str], columns: Mapping[str, Any], flow: int = 0) -> Events:
        """Select the events of one flow (index from 0) from the recorded columns.

        Events "enqueued" are those of all flows at the radio link in the direction of the data.
        """
        wanted = columns["flow"] == flow
        if "enqueued" in kinds:
            enqueued = columns["event"] == list(kinds).index("enqueued")
            wanted = np.where(enqueued, columns["link"] == columns["data_radio"], wanted)
        mine = np.flatnonzero(wanted)
        order = mine[np.argsort(columns["t_ns"][mine], kind="stable")]
        picked = {k: columns[k][order] for k in ("t_ns", "event", "seq", "len", "ack", "value")}
        return cls(
            kinds,
            picked["t_ns"] * 1e-9,
            picked["event"],
            picked["seq"],
            picked["len"],
            picked["ack"],
            picked["value"],
        )

    def only(self, *names: str) -> Events:
        """Events of these kinds."""
        codes = [i for i, k in enumerate(self.kinds) if k in names]
        return self._where(np.isin(self.kind, codes))

    def within(self, span: tuple[float, float] | None) -> Events:
        """Events in this span of time (seconds), ends included; all without a span."""
        return self if span is None else self._where((self.t >= span[0]) & (self.t <= span[1]))

    def _where(self, mask: NDArray[np.bool_]) -> Events:
        return Events(
            self.kinds,
            self.t[mask],
            self.kind[mask],
            self.seq[mask],
            self.len[mask],
            self.ack[mask],
            self.value[mask],
        )

    @cached_property
    def count(self) -> int:
        """Number of events."""
        return len(self.t)


def steps(events: Events, name: str) -> Steps:
    """Times and values of a series of `STEPS`, in the unit of its label.

    Each value holds from its time on.
    """
    assert name in STEPS, name
    if name == "rtt":
        return _round_trips(events)
    mine = events.only(*SERIES[name][1])
    if name == "cwnd_reductions":
        return mine.t, np.arange(1.0, mine.count + 1)
    if name == "delivered":
        return mine.t, np.cumsum(mine.value) * 1e-3
    return mine.t, mine.value if name == "queue" else mine.value * 1e-3


def _round_trips(events: Events) -> Steps:
    """Times of ACKs, and the time since the newest segment that each acknowledges was sent, in ms.

    ACKs that acknowledge a retransmitted segment give no sample (Karn's rule, RFC 6298, section 3).
    """
    sent, acks = events.only("data_sent"), events.only("ack_received")
    sent = sent._where(sent.len > 0)
    first = _new_data(sent)
    numbers, times = np.unique(sent.seq, return_counts=True)
    again = numbers[times > 1]
    highest = np.maximum.accumulate(acks.ack) if acks.count else acks.ack
    before = np.concatenate([[0], highest[:-1]]) if acks.count else highest
    end = first.seq + first.len
    place = np.searchsorted(end, acks.ack)
    known = (acks.ack > before) & (place < first.count)
    known[known] &= end[place[known]] == acks.ack[known]
    retransmitted = np.searchsorted(again, acks.ack) > np.searchsorted(again, before)
    known &= ~retransmitted
    return acks.t[known], (acks.t[known] - first.t[place[known]]) * 1e3


def extend_to(drawn: Steps, end: float) -> Steps:
    """Extend a step function with its last value up to `end` (seconds)."""
    t, v = drawn
    return (np.append(t, end), np.append(v, v[-1])) if len(t) and t[-1] < end else drawn


def sample(events: Events, name: str, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sample a series on a time grid (seconds).

    Before its first event a series is 0; cwnd, ssthresh and rtt are NaN.
    """
    if name in ("sending", "rate"):
        return _last_second(events, name, grid)
    t, v = steps(events, "delivered" if name == "goodput" else name)
    before = np.nan if name in ("cwnd", "ssthresh", "rtt") else 0.0
    out: NDArray[np.float64] = np.concatenate([[before], v])[np.searchsorted(t, grid, side="right")]
    if name == "goodput":
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.where(grid > 0, out * 8 / grid, 0.0)
    if name == "queue":
        # Only arriving frames record the queue length; without arrivals it is unknown.
        last = np.concatenate([[-np.inf], t])[np.searchsorted(t, grid, side="right")]
        out = np.where(grid - last <= QUEUE_SAMPLE_AGE_S, out, np.nan)
    return out


def _last_second(events: Events, name: str, grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """kbit/s sent or delivered in the second before each time, or since the start if shorter."""
    mine = events.only(*SERIES[name][1])
    size = mine.len.astype(np.float64) if name == "sending" else mine.value
    total = np.concatenate([[0.0], np.cumsum(size) * 1e-3])
    now, then = (total[np.searchsorted(mine.t, g, side="right")] for g in (grid, grid - 1.0))
    # A packet that is sent at time 0 has no rate at that time.
    return np.where(grid > 0, (now - then) * 8 / np.clip(grid, 1e-9, 1.0), 0.0)


def band(samples: Sequence[NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """95 % confidence interval of the mean over runs at each time (percentile bootstrap).

    The interval is inside the range of the runs, so it is not negative where no run is.
    """
    stack = np.vstack(samples)
    drawn = np.random.default_rng(1).integers(len(stack), size=(RESAMPLES, len(stack)))
    weights = np.stack([np.bincount(row, minlength=len(stack)) for row in drawn]) / len(stack)
    low, high = np.percentile(weights @ stack, (2.5, 97.5), axis=0)
    return low, high


# --- measures -------------------------------------------------------------------------------------


def _first(events: Events) -> float | None:
    return float(events.t[0]) if events.count else None


def _last(events: Events) -> float | None:
    return float(events.t[-1]) if events.count else None


def _duplicates(events: Events) -> Events:
    """Duplicate ACKs at the sender: ACKs with the number of the previous one."""
    acks = events.only("ack_received")
    repeated = np.zeros(acks.count, dtype=bool)
    repeated[1:] = acks.ack[1:] == acks.ack[:-1]
    return acks._where(repeated)


def _most_repeated(events: Events, claim: Claim) -> Events:
    """The duplicate ACKs in the window whose ACK number is repeated most often there."""
    found = _duplicates(events).within(claim.window)
    if not found.count:
        return found
    numbers, counts = np.unique(found.ack, return_counts=True)
    return found._where(found.ack == numbers[int(np.argmax(counts))])


def _most_repeated_ack(events: Events, claim: Claim) -> float | None:
    found = _most_repeated(events, claim)
    return float(found.ack[0]) if found.count else None


def _recovered(events: Events, claim: Claim) -> float | None:
    """Time of the first ACK above the number repeated most often."""
    found = _most_repeated(events, claim)
    acks = events.only("ack_received")
    if not found.count:
        return None
    later = acks._where((acks.t > found.t[-1]) & (acks.ack > found.ack[0]))
    return _first(later)


def _new_data(events: Events) -> Events:
    """Segments sent for the first time."""
    sent = events.only("data_sent")
    sent = sent._where(sent.len > 0)
    end = sent.seq + sent.len
    highest = np.maximum.accumulate(np.concatenate([[0], end]))[:-1] if sent.count else end
    return sent._where(sent.seq >= highest)


def _longest_gap(events: Events, claim: Claim) -> tuple[float, float] | None:
    """Start and end of the longest time in the window in which the sender sends no new data."""
    t = _new_data(events).within(claim.window).t
    if len(t) < 2:
        return None
    i = int(np.argmax(np.diff(t)))
    return float(t[i]), float(t[i + 1])


def _longest_gap_length(events: Events, claim: Claim) -> float | None:
    found = _longest_gap(events, claim)
    return found[1] - found[0] if found else None


def _recovery(events: Events, claim: Claim) -> float | None:
    """Seconds from the start of the window to the first new data."""
    start = claim.window[0] if claim.window else 0.0
    fresh = _new_data(events)
    after = fresh.t[fresh.t >= start]
    return float(after[0]) - start if len(after) else None


def _goodput(events: Events, claim: Claim) -> float | None:
    if claim.window is None:
        return None
    delivered = events.only("delivered").within(claim.window)
    return float(delivered.value.sum()) * 8 / (claim.window[1] - claim.window[0])


def _window_after_timeout(events: Events, claim: Claim) -> float | None:
    """cwnd that the first timeout in the window sets."""
    return _value_after(events, claim, "timeout", "cwnd")


def _ssthresh(events: Events, claim: Claim) -> float | None:
    """ssthresh that the first fast retransmit in the window sets."""
    return _value_after(events, claim, "fast_retransmit", "ssthresh")


def _value_after(events: Events, claim: Claim, event: str, series: str) -> float | None:
    """The first value of a series at or after the first event of a kind in the window."""
    at = _first(events.only(event).within(claim.window))
    if at is None:
        return None
    values = events.only(series)
    after = values._where(values.t >= at)
    return float(after.value[0]) if after.count else None


def _retransmitted_segments(events: Events, claim: Claim) -> float:
    """Number of distinct segments retransmitted in the window."""
    sent = events.only("data_sent")
    sent = sent._where(sent.len > 0)
    highest = np.maximum.accumulate(np.concatenate([[0], sent.seq + sent.len]))[:-1]
    return float(len(np.unique(sent._where(sent.seq < highest).within(claim.window).seq)))


def _ack_after(events: Events, claim: Claim) -> float | None:
    """The first ACK number above the number repeated most often."""
    found = _most_repeated(events, claim)
    acks = events.only("ack_received")
    if not found.count:
        return None
    later = acks._where((acks.t > found.t[-1]) & (acks.ack > found.ack[0]))
    return float(later.ack[0]) if later.count else None


def delays(events: Events) -> NDArray[np.float64]:
    """One-way delay of each delivered segment, from its first transmission to its first arrival.

    In order of sequence numbers, seconds.
    """
    sent, got = events.only("data_sent"), events.only("data_received")
    _, first_sent = np.unique(sent.seq, return_index=True)
    numbers, first_got = np.unique(got.seq, return_index=True)
    at = dict(zip(sent.seq[first_sent].tolist(), sent.t[first_sent].tolist(), strict=True))
    return np.array(
        [
            t - at[s]
            for s, t in zip(numbers.tolist(), got.t[first_got].tolist(), strict=True)
            if s in at
        ]
    )


def _delay_share(events: Events, claim: Claim) -> float | None:
    found = delays(events)
    if not len(found) or claim.delays is None:
        return None
    low, high = claim.delays
    return float(np.mean((found >= low) & (found < high)))


def _delay_mean(events: Events, _: Claim) -> float | None:
    found = delays(events)
    return float(found.mean()) if len(found) else None


def _repair_times(events: Events) -> NDArray[np.float64]:
    """Seconds from each loss of a segment on the air to its next retransmission by the sender.

    Losses without a later retransmission are left out. Several losses of a segment before its
    retransmission count as one, the last.
    """
    lost, sent = events.only("lost_on_air"), events.only("data_sent")
    lost = lost._where(lost.len > 0)
    sendings: dict[int, list[float]] = {}
    for seq, t in zip(sent.seq.tolist(), sent.t.tolist(), strict=True):
        sendings.setdefault(seq, []).append(t)
    found: dict[tuple[int, float], float] = {}
    for seq, t in zip(lost.seq.tolist(), lost.t.tolist(), strict=True):
        times = np.array(sendings.get(seq, []))
        i = int(np.searchsorted(times, t, side="left"))
        if i < len(times):
            found[(seq, float(times[i]))] = float(times[i]) - t
    return np.array(list(found.values()))


def _repair_median(events: Events, _: Claim) -> float | None:
    found = _repair_times(events)
    return float(np.median(found)) if len(found) else None


Measure = Callable[["Events", "Claim"], "float | None"]

# measure -> (kinds of events it needs, function, meaning)
MEASURES: Final[dict[str, tuple[tuple[str, ...], Measure, str]]] = {
    "first_timeout_s": (
        ("timeout",),
        lambda e, c: _first(e.only("timeout").within(c.window)),
        "time of the first timeout",
    ),
    "last_timeout_s": (
        ("timeout",),
        lambda e, c: _last(e.only("timeout").within(c.window)),
        "time of the last timeout",
    ),
    "timeouts_within": (
        ("timeout",),
        lambda e, c: float(e.only("timeout").within(c.window).count),
        "timeouts",
    ),
    "fast_retransmits_within": (
        ("fast_retransmit",),
        lambda e, c: float(e.only("fast_retransmit").within(c.window).count),
        "fast retransmits",
    ),
    "first_ack_s": (
        ("ack_received",),
        lambda e, c: _first(e.only("ack_received").within(c.window)),
        "time of the first ACK at the sender",
    ),
    "duplicate_acks": (
        ("ack_received",),
        lambda e, c: float(_most_repeated(e, c).count),
        "most duplicates of one ACK at the sender",
    ),
    "duplicate_ack_bytes": (
        ("ack_received",),
        _most_repeated_ack,
        "the ACK number repeated most often",
    ),
    "first_duplicate_ack_s": (
        ("ack_received",),
        lambda e, c: _first(_most_repeated(e, c)),
        "time of the first of these duplicate ACKs",
    ),
    "last_duplicate_ack_s": (
        ("ack_received",),
        lambda e, c: _last(_most_repeated(e, c)),
        "time of the last of these duplicate ACKs",
    ),
    "duplicate_ack_period_s": (
        ("ack_received",),
        lambda e, c: float(np.ptp(_most_repeated(e, c).t)) if _most_repeated(e, c).count else 0.0,
        "from the first of these duplicate ACKs to the last",
    ),
    "duplicates_over_s": (
        ("ack_received",),
        _recovered,
        "time of the first ACK above the number repeated most often",
    ),
    "first_delivered_s": (
        ("delivered",),
        lambda e, c: _first(e.only("delivered").within(c.window)),
        "time of the first delivery",
    ),
    "queue_mean": (
        ("enqueued",),
        lambda e, c: _queue(e, c, np.mean),
        "queue length at the radio link, mean over time",
    ),
    "queue_least": (
        ("enqueued",),
        lambda e, c: _queue(e, c, np.min),
        "queue length at the radio link, minimum",
    ),
    "queue_most": (
        ("enqueued",),
        lambda e, c: _queue(e, c, np.max),
        "queue length at the radio link, maximum",
    ),
    "queue_sd": (
        ("enqueued",),
        lambda e, c: _queue(e, c, np.std),
        "queue length at the radio link, standard deviation over time",
    ),
    "silence_s": (("data_sent",), _longest_gap_length, "longest time without new data"),
    "silence_from_s": (
        ("data_sent",),
        lambda e, c: (_longest_gap(e, c) or (None, None))[0],
        "start of the longest time without new data",
    ),
    "silence_to_s": (
        ("data_sent",),
        lambda e, c: (_longest_gap(e, c) or (None, None))[1],
        "end of the longest time without new data",
    ),
    "recovery_s": (("data_sent",), _recovery, "time until the next new data"),
    "goodput_within_bps": (("delivered",), _goodput, "goodput"),
    "sent_within_bytes": (
        ("data_sent",),
        lambda e, c: float(e.only("data_sent").within(c.window).len.sum()),
        "payload sent, retransmissions included",
    ),
    "cwnd_after_timeout_bytes": (
        ("timeout", "cwnd"),
        _window_after_timeout,
        "cwnd after the first timeout",
    ),
    "ssthresh_after_bytes": (
        ("fast_retransmit", "ssthresh"),
        _ssthresh,
        "ssthresh set by the first fast retransmit",
    ),
    "segments_again": (("data_sent",), _retransmitted_segments, "distinct segments retransmitted"),
    "ack_after_duplicates_bytes": (
        ("ack_received",),
        _ack_after,
        "the first ACK number above the one repeated most often",
    ),
    "cwnd_mean_bytes": (("cwnd",), lambda e, c: _mean_window(e, c), "mean of cwnd over time"),
    "repair_s": (
        ("lost_on_air", "data_sent"),
        _repair_median,
        "median time from a loss on the air to the retransmission by the sender",
    ),
    "delay_share": (
        ("data_sent", "data_received"),
        _delay_share,
        "share of packets with a one-way delay in this span",
    ),
    "delay_mean_s": (("data_sent", "data_received"), _delay_mean, "mean one-way delay"),
}


def _mean_window(events: Events, claim: Claim) -> float | None:
    """Mean of cwnd over the window of time."""
    if claim.window is None or not events.only("cwnd").count:
        return None
    grid = np.linspace(*claim.window, POINTS)
    return float(np.nanmean(sample(events, "cwnd", grid))) * 1e3


def _queue(
    events: Events, claim: Claim, what: Callable[[NDArray[np.float64]], Any]
) -> float | None:
    """A statistic of the queue length in the window, over the times at which it is known."""
    if claim.window is None:
        return None
    seen = sample(events, "queue", np.linspace(*claim.window, 4 * POINTS))
    seen = seen[~np.isnan(seen)]
    return float(what(seen)) if len(seen) else None


def measure_label(column: str) -> str:
    """The head of the column of a measure, with unit and span; of other columns, their name."""
    metric, *spans = column.split("@")
    if metric not in MEASURES:
        return column
    unit = {"bps": "bit/s", "bytes": "bytes", "s": "s"}.get(metric.rsplit("_", 1)[-1])
    return ", ".join([MEASURES[metric][2] + (f" ({unit})" if unit else ""), *spans])


def events_needed(series: Sequence[str], claims: Sequence[Claim]) -> list[str]:
    """Kinds of events that these series and the measures of these claims need."""
    wanted = {k for s in series for k in SERIES[s][1]}
    wanted |= {k for c in claims if c.metric in MEASURES for k in MEASURES[c.metric][0]}
    return sorted(wanted)


def measure(events: Events, claims: Sequence[Claim]) -> dict[str, float | None]:
    """The measures of these claims: column -> value."""
    return {c.column: MEASURES[c.metric][1](events, c) for c in claims if c.metric in MEASURES}


def distribution(
    samples: Sequence[NDArray[np.float64]], points: int = POINTS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Empirical distribution of the pooled samples: values, and the share of samples up to each."""
    values = np.sort(np.concatenate(samples))
    share = np.linspace(0, 1, points)
    return np.quantile(values, share), share


def check_names(names: Sequence[str], where: str = "show") -> None:
    """Raise `InputError` for a name that is not a series; `where` names the option."""
    if isinstance(names, str):
        raise InputError(f"{where} must be a list of series such as ['cwnd'], found {names!r}")
    allowed = list(SERIES)
    if not names:
        raise InputError(f"{where} names no series; there are {', '.join(allowed)}")
    for name in names:
        if name not in allowed:
            raise InputError(
                f"{where}: no series {name!r}{quantities.did_you_mean(name, allowed)}; there are"
                f" {', '.join(allowed)}"
            )
