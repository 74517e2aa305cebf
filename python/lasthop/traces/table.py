"""The table into which every measurement file is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Values of the column `direction`. Downlink is towards the mobile station.
DOWN, UP, ROUND_TRIP = 0, 1, 2
#: Names of the two directions, by their value.
DIRECTIONS = ("down", "up")
#: Format of packet captures.
CAPTURE = "capture"
#: Line numbers that a reason for skipping rows names.
NAMED_LINES = 5


@dataclass
class Skipped:
    """Rows of a file that are not in the table, for one reason."""

    reason: str
    rows: int = 0
    #: The first of them, counted from 1.
    lines: list[int] = field(default_factory=list)
    #: What is counted: "line", or "packet" of a capture.
    unit: str = "line"

    def add(self, *lines: int) -> None:
        """Count the rows on these lines."""
        self.rows += len(lines)
        self.lines += lines[: NAMED_LINES - len(self.lines)]


@dataclass(frozen=True)
class Messages:
    """What one end of a TCP connection sent before the other one sent data again, one row each, in
    order of time; all columns have the same length.
    """

    #: Number of the connection.
    connection: Integers
    #: DOWN or UP.
    direction: Integers
    #: First and last segment, seconds from the first row.
    start_s: Floats
    end_s: Floats
    #: Payload, retransmissions included.
    bytes: Floats


@dataclass(frozen=True)
class Measurement:
    """What files measured, one row per interval or packet, in order of time within a source.

    All columns have the same length; NaN is what a row does not measure.
    """

    #: Formats of the files, such as "iperf3 JSON".
    format: str
    #: Start of the row, seconds from the first row.
    time_s: Floats
    #: Length of the interval that the row describes, seconds.
    span_s: Floats
    #: DOWN, UP or ROUND_TRIP.
    direction: Integers
    #: Bytes that crossed the link in the interval.
    bytes: Floats
    #: Round-trip time, seconds: of a packet, or the mean of the interval.
    rtt_s: Floats
    #: Packets sent, and how many of them were lost.
    sent: Floats
    lost: Floats
    #: One-way delay, seconds, in the row's direction.
    delay_s: Floats
    #: Index into `sources`.
    source: Integers
    #: Files, and how exact the times of each one are.
    sources: tuple[str, ...]
    clocks: tuple[str, ...]
    skipped: tuple[Skipped, ...] = ()
    #: What a reader assumed or changed, one sentence each.
    notes: tuple[str, ...] = ()
    #: Unix time of the first row, if the file has it.
    epoch_s: float | None = None
    #: Segments that arrived out of order; `None` where a file does not tell.
    reordered: int | None = None
    #: Whether most bytes count when they left the capturing end, not when they arrived.
    is_sender_side: bool = False
    #: Window that the receiver of the data advertised, bytes; `None` where it is not known, or
    #: changes.
    window_bytes: float | None = None
    #: Rate that most packets which arrived one after the other show, bit/s; `None` where it is not
    #: known, or none is frequent.
    pair_rate_bps: float | None = None
    #: Step in which the clock of a capture counts, seconds; 0 below a millisecond.
    clock_step_s: float = 0.0
    #: Factor from the bytes of the rows to those of IP packets.
    ip_factor: float = 1.0
    #: Messages of TCP connections; `None` where a file does not tell.
    messages: Messages | None = None

    def select(self, rows: NDArray[np.bool_]) -> Measurement:
        """The measurement with these rows only."""
        return replace(self, **{name: getattr(self, name)[rows] for name in COLUMNS})

    def rates(self, direction: int) -> Measurement:
        """The rows that measure bytes in this direction."""
        return self.select((self.direction == direction) & ~np.isnan(self.bytes))

    def swapped(self) -> Measurement:
        """The measurement with downlink and uplink exchanged."""
        direction = np.where(self.direction == ROUND_TRIP, ROUND_TRIP, 1 - self.direction)
        messages = self.messages
        if messages is not None:
            messages = replace(messages, direction=1 - messages.direction)
        return replace(self, direction=direction, messages=messages)


#: The columns of the table.
COLUMNS = (
    *("time_s", "span_s", "direction", "bytes", "rtt_s", "sent", "lost", "delay_s"),
    "source",
)
# Numbers of a row of `Rows`.
_WIDTH = 8


class Rows:
    """Collects the rows of one file."""

    def __init__(self, unit: str = "line") -> None:
        self._unit = unit
        self._rows: list[tuple[float, ...]] = []
        self._blocks: list[Floats] = []
        self._skipped: dict[str, Skipped] = {}

    def __len__(self) -> int:
        return len(self._rows) + sum(map(len, self._blocks))

    def add(
        self,
        time_s: float,
        span_s: float,
        direction: int,
        *,
        size: float = np.nan,
        rtt_s: float = np.nan,
        sent: float = np.nan,
        lost: float = np.nan,
        delay_s: float = np.nan,
    ) -> None:
        """Add a row; `size` in bytes."""
        self._rows.append((time_s, span_s, direction, size, rtt_s, sent, lost, delay_s))

    def add_all(self, time_s: Floats, span_s: Floats, direction: int, **columns: Floats) -> None:
        """Add rows of one direction; `columns` as the optional ones of `add`."""
        block = np.full((len(time_s), _WIDTH), np.nan)
        block[:, 0], block[:, 1], block[:, 2] = time_s, span_s, direction
        for place, name in enumerate(("size", "rtt_s", "sent", "lost", "delay_s"), 3):
            if name in columns:
                block[:, place] = columns[name]
        self._blocks.append(block)

    def skip(self, line: int, reason: str) -> None:
        """Count a row that is left out."""
        self._skipped.setdefault(reason, Skipped(reason, unit=self._unit)).add(line)

    def skip_all(self, lines: Integers, reason: str) -> None:
        """Count rows that are left out."""
        if len(lines):
            self._skipped.setdefault(reason, Skipped(reason, unit=self._unit)).add(*lines.tolist())

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The rows left out, by reason."""
        return tuple(self._skipped.values())

    def measurement(
        self,
        kind: str,
        source: str,
        clock: str,
        *,
        notes: Sequence[str] = (),
        zero_s: float | None = None,
    ) -> Measurement:
        """The table, in order of time and starting at 0.

        `zero_s` is the Unix time of the zero of the times, if it is known.
        """
        rows = np.array(self._rows, dtype=float).reshape(-1, _WIDTH)
        columns = np.concatenate([rows, *self._blocks])
        columns = columns[np.argsort(columns[:, 0], kind="stable")]
        time, span, direction, size, rtt, sent, lost, delay = columns.T
        first = float(time[0]) if len(time) else 0.0
        return Measurement(
            kind,
            time - first,
            span,
            direction.astype(np.int64),
            size,
            rtt,
            sent,
            lost,
            delay,
            np.zeros(len(time), dtype=np.int64),
            (source,),
            (clock,),
            self.skipped,
            tuple(notes),
            None if zero_s is None else zero_s + first,
        )


def joined(parts: Sequence[Measurement]) -> Measurement:
    """One measurement of several files.

    Files with Unix times keep their distance in time; if one has none, all start at 0.
    """
    if len(parts) == 1:
        return parts[0]
    epochs = [p.epoch_s for p in parts]
    known = [e for e in epochs if e is not None]
    aligned = len(known) == len(parts)
    first = min(known) if aligned else None
    notes = [note for p in parts for note in p.notes]
    captures = [p for p in parts if p.format == CAPTURE]
    capture = captures[0] if len(captures) == 1 else None
    if len(captures) > 1:
        notes.append(
            "The captures are added up: packets that several of them contain count several times."
        )
    if not aligned:
        notes.append("Not all files have absolute times, so each file starts at 0 s.")
    columns: dict[str, list[NDArray[np.generic]]] = {name: [] for name in COLUMNS}
    for i, part in enumerate(parts):
        for name in COLUMNS:
            values = getattr(part, name)
            if name == "source":
                values = values + i
            elif name == "time_s" and first is not None and part.epoch_s is not None:
                values = values + (part.epoch_s - first)
            columns[name].append(values)
    whole = {name: np.concatenate(values) for name, values in columns.items()}
    formats = list(dict.fromkeys(p.format for p in parts))
    return Measurement(
        " + ".join(formats),
        **whole,
        sources=tuple(s for p in parts for s in p.sources),
        clocks=tuple(c for p in parts for c in p.clocks),
        skipped=tuple(s for p in parts for s in p.skipped),
        notes=tuple(notes),
        epoch_s=first,
        is_sender_side=any(p.is_sender_side for p in parts),
        clock_step_s=max(p.clock_step_s for p in parts),
        ip_factor=max(p.ip_factor for p in parts),
        window_bytes=None if capture is None else capture.window_bytes,
        pair_rate_bps=None if capture is None else capture.pair_rate_bps,
        messages=None if capture is None else capture.messages,
        reordered=sum(counted) if (counted := _counted(parts)) else None,
    )


def _counted(parts: Sequence[Measurement]) -> list[int]:
    return [p.reordered for p in parts if p.reordered is not None]
