"""cwnd per round trip of every end-to-end scheme in tests/goldens/lossy.toml, with a plot.

    python tools/goldens.py [NAME...]      write tests/goldens/NAME.txt and NAME.svg (default: all)

A fixture has one sentence that describes cwnd, lines `set KEY=VALUE` with the scenario settings
that the scheme needs (such as a marking queue), and cwnd in packets, one number per round trip. The
sentence of an existing fixture is kept; for a new scheme it is written by hand from the plot.

A round trip begins when the sender sends a segment and ends when the ACK caused by its arrival is
back; lost transmissions are skipped. The number is cwnd at the end of the round trip, before that
ACK changes it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lasthop import catalogue
from lasthop.analysis import series
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.experiments.store import write_whole
from lasthop.plotting import plots

FOLDER = Path(__file__).parents[1] / "tests" / "goldens"
SCENARIO = FOLDER / "lossy.toml"
ROUNDS = 72
PER_LINE = 8
PACKET = 1000  # bytes of payload
INITIAL_WINDOW = 2.0  # packets, as lossy.toml says: cwnd is an event only when it changes
KINDS = [
    "data_sent",
    "data_received",
    "lost_on_air",
    "dropped_at_queue",
    "ack_sent",
    "ack_received",
    "cwnd",
    "ssthresh",
    "timeout",
    "fast_retransmit",
]


@dataclass(frozen=True)
class Golden:
    """A fixture."""

    sentence: str
    settings: tuple[tuple[str, str], ...]
    numbers: tuple[str, ...]

    def text(self) -> str:
        """The fixture in the format of its file."""
        rows = [self.numbers[i : i + PER_LINE] for i in range(0, len(self.numbers), PER_LINE)]
        lines = [
            self.sentence,
            *(f"set {k}={v}" for k, v in self.settings),
            *("".join(f"{n:>8}" for n in row) for row in rows),
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class LossyRun:
    """The standard lossy run of one scheme."""

    name: str
    events: series.Events
    #: Per round trip: its end in seconds, and cwnd in packets.
    ends: Sequence[float]
    windows: Sequence[float]

    @property
    def numbers(self) -> tuple[str, ...]:
        """cwnd per round trip in the format of the fixture."""
        return tuple(f"{w:.2f}" for w in self.windows[:ROUNDS])

    def rounds_of(self, kind: str) -> list[int]:
        """Numbers (from 1) of the round trips with events of this kind."""
        at = [int(np.searchsorted(self.ends, t, side="left")) + 1 for t in self.events.only(kind).t]
        return [r for r in at if r <= ROUNDS]


def names() -> list[str]:
    """The schemes with a fixture: all end-to-end schemes."""
    return [e["name"] for e in catalogue.entries() if e["family"] == "end-to-end"]


def path(name: str) -> Path:
    """Path of the fixture of a scheme."""
    return FOLDER / f"{name}.txt"


def read(name: str) -> Golden:
    """Read the fixture of a scheme; empty if there is none."""
    if not path(name).exists():
        return Golden("", (), ())
    first, *lines = path(name).read_text(encoding="utf-8").splitlines() or [""]
    settings = [
        line.removeprefix("set ").partition("=") for line in lines if line.startswith("set ")
    ]
    numbers = [n for line in lines if not line.startswith("set ") for n in line.split()]
    return Golden(
        first.strip(), tuple((k.strip(), v.strip()) for k, _, v in settings), tuple(numbers)
    )


@cache
def run(name: str, settings: tuple[tuple[str, str], ...] = ()) -> LossyRun:
    """Do the standard lossy run of a scheme."""
    try:
        scenario: Any = plan.load(plan.source(SCENARIO, settings=settings), name)
    except InputError as error:
        raise InputError(
            f"{error}\n(scenario settings that {name} needs go into {path(name)}, as lines `set"
            " KEY=VALUE` below the sentence)"
        ) from None
    _, columns = scenario.run_series(1, KINDS)
    events = series.Events.of(KINDS, columns)
    ends = round_trips(events)
    cwnd = events.only("cwnd")
    before = np.searchsorted(cwnd.t, ends, side="left") - 1
    windows = [float(cwnd.value[i]) / PACKET if i >= 0 else INITIAL_WINDOW for i in before]
    return LossyRun(name, events, ends, windows)


def round_trips(events: series.Events) -> list[float]:
    """The ends of the round trips, in seconds.

    Valid only for scenarios without reordering and ACK loss, such as this one.
    """
    data = events._where(events.len > 0)
    sent = data.only("data_sent")
    # Per segment, for each transmission in order: time of arrival, or NaN if lost.
    arrivals: dict[int, list[float]] = defaultdict(list)
    outcomes = data.only("data_received", "lost_on_air", "dropped_at_queue")
    arrived = events.kinds.index("data_received")
    for t, kind, seq in zip(
        outcomes.t.tolist(), outcomes.kind.tolist(), outcomes.seq.tolist(), strict=True
    ):
        arrivals[seq].append(t if kind == arrived else np.nan)
    acks = [x._where(x.ack > 0).t for x in (events.only("ack_sent"), events.only("ack_received"))]

    ends: list[float] = []
    copies: dict[int, int] = defaultdict(int)
    for begin, seq in zip(sent.t.tolist(), sent.seq.tolist(), strict=True):
        copy = copies[seq]
        copies[seq] += 1
        if (
            (ends and begin < ends[-1])
            or copy >= len(arrivals[seq])
            or np.isnan(arrivals[seq][copy])
        ):
            continue
        caused = int(np.searchsorted(acks[0], arrivals[seq][copy], side="left"))
        if caused >= len(acks[1]):
            break
        ends.append(float(acks[1][caused]))
    return ends


def draw(golden: LossyRun, reno: LossyRun, file: Path) -> None:
    """Plot cwnd per round trip with Reno's in grey, and mark timeouts."""
    lines = [plots.Line("reno", *_points(reno), muted=True)] if reno.name != golden.name else []
    lines.append(plots.Line(golden.name, *_points(golden)))
    marks = [(float(r), "timeout") for r in golden.rounds_of("timeout")]
    panel = plots.Panel(
        "cwnd (packets)", lines, x_label="round trip", x_range=(0.0, ROUNDS + 1.0), marks=marks
    )
    plots.save(plots.panels([panel], f"{golden.name}: cwnd per round trip", height=1.9), [file])


def _points(golden: LossyRun) -> tuple[Any, Any]:
    windows = np.array(golden.windows[:ROUNDS])
    return np.arange(1.0, len(windows) + 1), windows


def write(name: str) -> str:
    """Write fixture and plot of a scheme; return the round trips of losses, as text."""
    old = read(name)
    found = run(name, old.settings)
    write_whole(path(name), Golden(old.sentence, old.settings, found.numbers).text())
    draw(found, run("reno", read("reno").settings), path(name).with_suffix(".svg"))
    seen = "; ".join(
        f"{k.replace('_', ' ')} in {found.rounds_of(k)}"
        for k in ("fast_retransmit", "timeout", "lost_on_air", "dropped_at_queue")
    )
    return f"{name}: {seen}" + (
        "" if old.sentence else f"\n  {path(name)} has no sentence yet; write one from the plot"
    )


if __name__ == "__main__":
    for chosen in sys.argv[1:] or names():
        print(write(chosen))
