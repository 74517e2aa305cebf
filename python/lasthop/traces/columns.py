"""Which columns of a table have times, rates, round-trip times and losses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lasthop.errors import InputError
from lasthop.quantities import did_you_mean
from lasthop.traces import units
from lasthop.traces.source import ReadOptions
from lasthop.traces.table import DOWN, UP
from lasthop.traces.units import Amount

_DOWN_WORDS = {"dl", "down", "download", "downlink", "downstream", "rx", "received"}
_UP_WORDS = {"ul", "up", "upload", "uplink", "upstream", "tx", "sent"}
_RATE_WORDS = {"bitrate", "throughput", "bandwidth", "goodput", "datarate", "rate", "capacity"}
# In capitals they do not say whether they count bits or bytes.
_RATE_WORDS |= {"bps", "kbps", "mbps", "gbps"}
_TIME_WORDS = {"time", "timestamp", "datetime", "date", "epoch", "t", "elapsed"}
_RTT_WORDS = {"rtt", "ping", "latency", "pingavg"}
_LOSS_WORDS = {"loss", "lost", "pingloss"}
#: Statistics of a row that are not its mean.
_OTHER = {
    *("min", "max", "best", "worst", "stddev", "std", "mdev", "stdev", "pingmin", "pingmax"),
    *("pingstdev", "send", "count", "packets", "average_speed"),
}

#: Data sets whose columns have no unit in their names: columns that tell the set, unit of rates,
#: of round-trip times, of losses. From the descriptions of the sets (docs/traces.md).
KNOWN = (
    (("DL_bitrate", "UL_bitrate", "CellID", "NetworkMode"), "kbit/s", "ms", "%"),
    (("ping_avg", "ping_worst", "packet_loss", "packets_send"), "bit/s", "ms", "%"),
    (("Sponsor", "Server Name", "Download", "Upload"), "bit/s", "ms", "%"),
    (("abstractSignalStr", "nr_ssRsrp", "Throughput"), "Mbit/s", "ms", "%"),
    (("pop_ping_latency_ms", "pop_ping_drop_rate"), "bit/s", "ms", "share"),
)


@dataclass(frozen=True)
class Columns:
    """Indices of the columns, and the units of their numbers."""

    time: int | None
    end: int | None
    #: Column and unit by direction.
    rates: dict[int, tuple[int, Amount]]
    rtt: tuple[int, float] | None
    loss: tuple[int, float] | None
    #: Column with the number of packets sent.
    sent: int | None
    notes: tuple[str, ...] = ()


def words(name: str) -> set[str]:
    """The words of a name: "DL_bitrate" and "downloadMbps" have two each."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return {part.lower() for part in parts} | {name.strip().lower()}


def find(names: list[str], options: ReadOptions, where: str) -> Columns:
    """The columns of a table with these names.

    Raises `InputError`, with the option to use, if a column or a unit is not certain.
    """
    finder = _Finder(names, options, where)
    time, end = finder.times()
    rates = finder.rates()
    needed = not rates
    rtt = finder.one(_RTT_WORDS, "rtt", needed)
    loss = finder.one(_LOSS_WORDS, "loss", needed and rtt is None)
    if not rates and rtt is None and loss is None:
        raise InputError(
            f"{where}: no column is a rate, a round-trip time or a loss; name one with --column,"
            f" --rtt-column or --loss-column; the columns are {_listed(names)}"
        )
    sent = next((i for i, n in enumerate(names) if n in ("packets_send", "packets_sent")), None)
    return Columns(time, end, rates, rtt, loss, sent, tuple(finder.notes))


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:30])
    return shown + (f" and {len(names) - 30} more" if len(names) > 30 else "")


class _Finder:
    def __init__(self, names: list[str], options: ReadOptions, where: str) -> None:
        self.names = names
        self.words = [words(name) for name in names]
        self.options = options
        self.where = where
        self.notes: list[str] = []
        self.known = next((k for k in KNOWN if set(k[0]) <= set(names)), None)

    def named(self, wanted: str, option: str) -> int:
        """The column that an option names, by name or by number from 1."""
        if wanted in self.names:
            return self.names.index(wanted)
        folded = [name.lower() for name in self.names]
        if wanted.lower() in folded:
            return folded.index(wanted.lower())
        if wanted.isdigit() and 1 <= int(wanted) <= len(self.names):
            return int(wanted) - 1
        raise InputError(
            f"{self.where}: {option} {wanted}: no such column"
            f"{did_you_mean(wanted, self.names)}; the columns are {_listed(self.names)}"
        )

    def times(self) -> tuple[int | None, int | None]:
        """Columns with the start and the end of each row."""
        if self.options.time_column is not None:
            return self.named(self.options.time_column, "--time-column"), None
        found = [i for i, w in enumerate(self.words) if w & _TIME_WORDS or "start" in w]
        found = [i for i in found if not self.words[i] & (_RATE_WORDS | _RTT_WORDS | _LOSS_WORDS)]
        ends = [i for i in found if "end" in self.words[i]]
        found = [i for i in found if i not in ends]
        ends += [i for i, w in enumerate(self.words) if "end" in w and i not in ends]
        if not found:
            return None, None
        starts = [i for i in found if "start" in self.words[i]]
        best = [i for i in found if self.names[i].lower() in ("timestamp", "time", "t")]
        start = (starts or best or found)[0]
        return start, ends[0] if starts and ends else None

    def rates(self) -> dict[int, tuple[int, Amount]]:
        """The rate of each direction."""
        found = {}
        for direction, wanted, option in (
            (DOWN, self.options.column, "--column"),
            (UP, self.options.up_column, "--up-column"),
        ):
            if wanted is not None:
                found[direction] = self.with_unit(self.named(wanted, option))
        if found:
            return found
        for direction, own, other in ((DOWN, _DOWN_WORDS, _UP_WORDS), (UP, _UP_WORDS, _DOWN_WORDS)):
            column = self.rate_column(own, other)
            if column is not None:
                found[direction] = self.with_unit(column)
        if not found:
            column = self.rate_column(set(), _DOWN_WORDS | _UP_WORDS)
            if column is not None:
                self.notes.append(
                    f"Column `{self.names[column]}` does not say its direction; it is taken as the"
                    " downlink, with --swap as the uplink."
                )
                found[DOWN] = self.with_unit(column)
        return found

    def rate_column(self, own: set[str], other: set[str]) -> int | None:
        """The column of a direction; `own` is empty for columns without direction."""
        excluded = other | _TIME_WORDS | _RTT_WORDS | _LOSS_WORDS | _OTHER | {"start", "end"}
        found = []
        for i, w in enumerate(self.words):
            has_unit = units.amount_of_name(self.names[i]) is not None
            if not has_unit and units.duration_of_name(self.names[i]) is not None:
                continue  # such as a one-way delay: downlink_ms
            if not w & excluded and (w & own if own else w & _RATE_WORDS or has_unit):
                found.append(i)
        for preferred in (
            [i for i in found if units.amount_of_name(self.names[i]) is not None],
            [i for i in found if self.words[i] & _RATE_WORDS],
        ):
            found = preferred or found
        rates = [
            i for i in found if (a := units.amount_of_name(self.names[i])) is None or a.is_rate
        ]
        found = rates or found
        if len(found) > 1:
            listed = _listed([self.names[i] for i in found])
            raise InputError(
                f"{self.where}: several columns may be the rate: {listed}; choose with --column"
                " (downlink) and --up-column (uplink)"
            )
        return found[0] if found else None

    def with_unit(self, column: int) -> tuple[int, Amount]:
        """The column with the unit of its numbers."""
        name = self.names[column]
        if self.options.unit is not None:
            return column, units.amount(self.options.unit)
        if (found := units.amount_of_name(name)) is not None:
            return column, found
        if self.known is not None and name in self.known[0]:
            return column, units.amount(self.known[1])
        raise InputError(
            f"{self.where}: the unit of column `{name}` is not certain; say what its numbers are,"
            " such as --unit kbit/s (bit/s, Mbit/s, B/s, kB/s, MB/s; per row: bytes, kB, MB)"
        )

    def one(self, about: set[str], word: str, needed: bool) -> tuple[int, float] | None:
        """The column of round-trip times or losses; without a certain unit only if it is needed."""
        wanted = getattr(self.options, f"{word}_column")
        unit = getattr(self.options, f"{word}_unit")
        if wanted is not None:
            found = [self.named(wanted, f"--{word}-column")]
        else:
            found = [i for i, w in enumerate(self.words) if w & about and not w & (_OTHER - about)]
            means = [i for i in found if self.words[i] & {"avg", "mean", "pingavg"}]
            found = means or found
        if not found:
            return None
        name = self.names[found[0]]
        if unit is not None:
            return found[0], units.duration(unit, "--rtt-unit") if word == "rtt" else units.loss(
                unit
            )
        factor = units.duration_of_name(name) if word == "rtt" else units.loss_of_name(name)
        if factor is None and self.known is not None:
            factor = (
                units.duration(self.known[2], "") if word == "rtt" else units.loss(self.known[3])
            )
        if factor is not None:
            return found[0], factor
        allowed = "ms, s, us or ns" if word == "rtt" else "% or share"
        message = (
            f"the unit of column `{name}` is not certain; say it with --{word}-unit: {allowed}"
        )
        if needed or wanted is not None:
            raise InputError(f"{self.where}: {message}")
        self.notes.append(f"Column `{name}` is left out: {message}.")
        return None
