"""cwnd per round trip of every end-to-end scheme over tests/goldens/lossy.toml, and its picture.

    python tools/goldens.py [NAME...]      writes tests/goldens/NAME.txt and NAME.svg anew (all schemes without a NAME)

A fixture is one sentence that says what is seen, then lines `set KEY=VALUE` with what this scheme needs of the scenario (a
marking queue, for instance), then cwnd in packets, one number per round trip. Sentences are kept; a new scheme's is written
by hand, by looking at the picture.

A round trip begins when the sender hands a segment to its node and ends when the ACK that this segment's arrival caused is
back; copies that were lost are passed over. Its number is cwnd as the round trip ends, before that ACK changes it.
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

from lasthop import catalogue, plan, plots, series
from lasthop.errors import InputError
from lasthop.store import write_whole

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
        """The fixture as it stands in its file."""
        rows = [self.numbers[i : i + PER_LINE] for i in range(0, len(self.numbers), PER_LINE)]
        lines = [self.sentence, *(f"set {k}={v}" for k, v in self.settings), *("".join(f"{n:>8}" for n in row) for row in rows)]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class LossyRun:
    """The standard lossy run of one scheme."""

    name: str
    events: series.Events
    #: Of each round trip: its end, in seconds, and cwnd, in packets.
    ends: Sequence[float]
    windows: Sequence[float]

    @property
    def numbers(self) -> tuple[str, ...]:
        """cwnd of the round trips as the fixture has them."""
        return tuple(f"{w:.2f}" for w in self.windows[:ROUNDS])

    def rounds_of(self, kind: str) -> list[int]:
        """In which round trips (from 1) something happened."""
        at = [int(np.searchsorted(self.ends, t, side="left")) + 1 for t in self.events.only(kind).t]
        return [r for r in at if r <= ROUNDS]


def names() -> list[str]:
    """The schemes that have a fixture: those whose window is the sender's."""
    return [e["name"] for e in catalogue.entries() if e["family"] == "end-to-end"]


def path(name: str) -> Path:
    """A scheme's fixture."""
    return FOLDER / f"{name}.txt"


def read(name: str) -> Golden:
    """A scheme's fixture; empty if there is none."""
    if not path(name).exists():
        return Golden("", (), ())
    first, *lines = path(name).read_text(encoding="utf-8").splitlines() or [""]
    settings = [line.removeprefix("set ").partition("=") for line in lines if line.startswith("set ")]
    numbers = [n for line in lines if not line.startswith("set ") for n in line.split()]
    return Golden(first.strip(), tuple((k.strip(), v.strip()) for k, _, v in settings), tuple(numbers))


@cache
def run(name: str, settings: tuple[tuple[str, str], ...] = ()) -> LossyRun:
    """Do the standard lossy run with a scheme."""
    try:
        scenario: Any = plan.load(plan.source(SCENARIO, settings=settings), name)
    except InputError as error:
        raise InputError(f"{error}\n(what {name} needs of the scenario goes into {path(name)}, a line `set KEY=VALUE` below the sentence)") from None
    _, columns = scenario.run_series(1, KINDS)
    events = series.Events.of(KINDS, columns)
    ends = round_trips(events)
    cwnd = events.only("cwnd")
    before = np.searchsorted(cwnd.t, ends, side="left") - 1
    windows = [float(cwnd.value[i]) / PACKET if i >= 0 else INITIAL_WINDOW for i in before]
    return LossyRun(name, events, ends, windows)


def round_trips(events: series.Events) -> list[float]:
    """The ends of the round trips, in seconds. Nothing overtakes and no ACK is lost in the scenario; both are made use of."""
    data = events._where(events.len > 0)
    sent = data.only("data_sent")
    fates: dict[int, list[float]] = defaultdict(list)  # of the copies of a segment in the order of sending: arrival, or NaN if lost
    fate = data.only("data_received", "lost_on_air", "dropped_at_queue")
    arrived = events.kinds.index("data_received")
    for t, kind, seq in zip(fate.t.tolist(), fate.kind.tolist(), fate.seq.tolist(), strict=True):
        fates[seq].append(t if kind == arrived else np.nan)
    acks = [x._where(x.ack > 0).t for x in (events.only("ack_sent"), events.only("ack_received"))]

    ends: list[float] = []
    copies: dict[int, int] = defaultdict(int)
    for begin, seq in zip(sent.t.tolist(), sent.seq.tolist(), strict=True):
        copy = copies[seq]
        copies[seq] += 1
        if (ends and begin < ends[-1]) or copy >= len(fates[seq]) or np.isnan(fates[seq][copy]):
            continue
        caused = int(np.searchsorted(acks[0], fates[seq][copy], side="left"))
        if caused >= len(acks[1]):
            break
        ends.append(float(acks[1][caused]))
    return ends


def draw(golden: LossyRun, reno: LossyRun, file: Path) -> None:
    """cwnd per round trip, Reno's behind it in grey; ticks where the sender found a loss."""
    lines = [plots.Line("reno", *_points(reno), muted=True)] if reno.name != golden.name else []
    lines.append(plots.Line(golden.name, *_points(golden)))
    marks = [(float(r), "timeout") for r in golden.rounds_of("timeout")]
    panel = plots.Panel("cwnd (packets)", lines, x_label="round trip", x_range=(0.0, ROUNDS + 1.0), marks=marks)
    plots.save(plots.panels([panel], f"{golden.name}: cwnd per round trip", height=1.9), [file])


def _points(golden: LossyRun) -> tuple[Any, Any]:
    windows = np.array(golden.windows[:ROUNDS])
    return np.arange(1.0, len(windows) + 1), windows


def write(name: str) -> str:
    """Write a scheme's fixture and its picture; says what happened when."""
    old = read(name)
    found = run(name, old.settings)
    write_whole(path(name), Golden(old.sentence, old.settings, found.numbers).text())
    draw(found, run("reno", read("reno").settings), path(name).with_suffix(".svg"))
    seen = "; ".join(f"{k.replace('_', ' ')} in {found.rounds_of(k)}" for k in ("fast_retransmit", "timeout", "lost_on_air", "dropped_at_queue"))
    return f"{name}: {seen}" + ("" if old.sentence else f"\n  {path(name)} has no sentence yet: write one, by looking at the picture")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or names():
        print(write(chosen))
