"""BBRv3 beside real Linux (google/bbr v3): tests/reference/linux/bbr3_*.csv, whose README says how
they were measured.

    python -m fidelity.bbr3 [single|split …] [--seeds N] [--cells 40-4-10,…] [--by-frame]
        [--check]

`fidelity.bbr3_page` writes docs/fidelity-bbr3.md. A cell is a transfer of 10 s × the smaller rate;
its figure is size / (completion + 2 RTT for TLS), the median over the seeds. The source gave each
transfer 180 s, began no further ones of a cell after the first that took longer, and its medians
leave those out: of a cell with fewer than 40 transfers the figure is compared with the interval in
which 95 % of such medians of simulated transfers lie. Two columns:

* offload: the source's end hosts leave segmentation offload on (its `config_iface` sets `gso on tso
  on`, and on the emulating node only), so that netem, RED and the receiver see what Linux sends as
  one frame (`segmentation_offload = true`).
* by frame: each segment is a separate frame.

`--check` exits with 1 where too many cells are off with offload: more than 10 %, or outside of the
interval, in any cell of `single` but 1 ms, 0 % and 30 Mbit/s, where the source lies below its own
neighbours; more than 15 % in more than one of ten of `split`.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fidelity.measuring import CORES
from fidelity.references import LINUX
from lasthop import _native

#: The source's own neighbours are twice as fast.
OUTLIER = (1.0, 0.0, 30.0)
#: By how much the median of a cell may be off, and of which share of cells it may be more.
LIMITS = {"single": 0.10, "split": 0.15}
ALLOWED = {"single": 0.0, "split": 0.1}
#: Times the seeds where transfers of a cell differ by a factor of ten.
SCATTERED = 5
#: Transfers of a cell that was measured completely, and the time that each had, in s.
TRIALS, TIMEOUT = 40, 180.0


@dataclass(frozen=True)
class Leg:
    """One way through a segment of the path: delay in ms, loss in %, rate in Mbit/s."""

    delay: float
    loss: float
    rate: float

    def __str__(self) -> str:
        return f"{self.delay:g} ms {self.loss:g} % {self.rate:g} Mbit/s"


@dataclass(frozen=True)
class Cell:
    """A published cell: the legs from the client to the server, its median in Mbit/s, and the
    transfers that it is the median of."""

    legs: tuple[Leg, ...]
    theirs: float
    completed: int = TRIALS

    @property
    def rtt(self) -> float:
        """Of the whole path, in s."""
        return 2 * sum(leg.delay for leg in self.legs) / 1e3

    @property
    def rate(self) -> float:
        """Of the slower leg, in bit/s."""
        return 1e6 * min(leg.rate for leg in self.legs)

    @property
    def size(self) -> int:
        """Of the transfer, in bytes."""
        return int(10 * self.rate / 8)

    def ours(self, seeds: int, offload: bool) -> float:
        """The median in Mbit/s; a run that does not complete counts as 0."""
        return statistics.median(self.goodputs(seeds, offload))

    def in_time(self, goodputs: list[float]) -> list[float]:
        """Those of transfers that complete in the time that the source gave them, sorted."""
        return sorted(g for g in goodputs if g * TIMEOUT >= 8e-6 * self.size)

    def interval(self, goodputs: list[float]) -> tuple[float, float]:
        """Where the source's median lies with 95 % of probability, in Mbit/s, if its transfers are
        like these: that of `completed` transfers, its element `completed // 2` in order."""
        found = self.in_time(goodputs)
        rank = self.completed // 2 + 1

        def at_most(share: float) -> float:
            """The probability that the median is among this share of the slowest."""
            return sum(
                math.comb(self.completed, k) * share**k * (1 - share) ** (self.completed - k)
                for k in range(rank, self.completed + 1)
            )

        shares = [(i + 1) / len(found) for i in range(len(found))]
        low = next(g for g, share in zip(found, shares, strict=True) if at_most(share) >= 0.025)
        high = next(g for g, share in zip(found, shares, strict=True) if at_most(share) >= 0.975)
        return low, high

    def goodputs(self, seeds: int, offload: bool) -> list[float]:
        """One in Mbit/s for each seed; 0 for a run that does not complete."""
        scenario = _native.Scenario(scenario_text(self, offload))
        with ThreadPoolExecutor(CORES) as pool:
            runs = pool.map(scenario.run, range(1, seeds + 1))
            flows = [r.to_dict()["flows"][0] for r in runs]
        times = [f["completed_s"] for f in flows]
        return [8e-6 * self.size / (t + 2 * self.rtt) if t else 0.0 for t in times]


def cells(name: str) -> list[Cell]:
    """The cells of `single` or `split`."""
    found = []
    with (LINUX / f"bbr3_{name}.csv").open(encoding="utf-8") as file:
        for row in csv.reader(file):
            if row[0][0].isdigit():
                numbers = [float(value) for value in row]
                completed = int(numbers.pop()) if name == "single" else TRIALS
                theirs = numbers.pop()
                legs = tuple(Leg(*numbers[i : i + 3]) for i in range(0, len(numbers), 3))
                found.append(Cell(legs, theirs, completed))
    return found


def scenario_text(cell: Cell, offload: bool) -> str:
    """The cell as a scenario, one link a leg."""
    limit = max(4 * cell.rate * cell.rtt / 8, 144e3)
    red = (
        f'max_th = "{int(limit / 4)} B", min_th = "{int(limit / 12)} B", max_p = "2 %", gentle ='
        ' false, mean_packet = "1000 B"'
    )
    queue = f'queue = {{ discipline = "red", bytes = {int(limit)}, {red} }}'
    nodes = ["client", "pep", "server"] if len(cell.legs) == 2 else ["client", "server"]
    tables = ""
    for leg, near, far in zip(cell.legs, nodes, nodes[1:], strict=False):
        tables += (
            f'[[link]]\nbetween = ["{far}", "{near}"]\nrate = "{leg.rate} Mbps"\ndelay ='
            f' "{leg.delay} ms"\n{queue}\n'
        )
        if leg.loss:
            loss = f'{{ model = "uniform", rate = "{leg.loss} %", index = "frame" }}'
            tables += f"backward.loss = {loss}\nforward.loss = {loss}\n"
    flow = (
        f'[[flow]]\nfrom = "server"\nto = "client"\napp = {{ kind = "transfer", size = "{cell.size}'
        ' B" }\n'
    )
    # The kernel of the reference is 6.4 (deps/BBRV3.md of its repository).
    tcp = '[tcp]\nprofile = "linux"\nreceive_rtt = "smoothed"\nprocessing_time = "0 s"\n'
    if offload:
        tcp += 'segmentation_offload = true\ntso_defer = "half-rtt"\n'
    else:
        tcp += 'tso_defer = "off"\n'
    if len(cell.legs) == 1:
        return f'duration = "900 s"\n{tables}{flow}{tcp}scheme = "bbr3"\n'
    tables += '[[node]]\nname = "pep"\nrole = "base-station"\n'
    return (
        f'duration = "900 s"\n{tables}{flow}{tcp}scheme = {{ name = "i-tcp", sender = "bbr3",'
        ' buffer = "64 MiB" }\nreceive_window = "64 MiB"\n'
    )


def key(cell: Cell) -> str:
    """The cell's name on the command line."""
    return "-".join(f"{leg.delay:g}-{leg.loss:g}-{leg.rate:g}" for leg in cell.legs)


def is_scattered(cell: Cell) -> bool:
    """True where transfers differ by a factor of ten."""
    first = cell.legs[0]
    return cell.completed < TRIALS or (first.loss >= 3 and first.rate >= 50)


def outlier(cell: Cell) -> bool:
    """Not judged at all."""
    first = cell.legs[0]
    return len(cell.legs) == 1 and (first.delay, first.loss, first.rate) == OUTLIER


@dataclass(frozen=True)
class Result:
    """A cell, and what is simulated of it."""

    cell: Cell
    #: Of the runs with offload, in Mbit/s.
    offload: list[float]
    #: The same with a frame for each segment, if asked for.
    by_frame: list[float] | None
    limit: float

    @property
    def gain(self) -> float:
        """By how much the median with offload is above Linux."""
        return statistics.median(self.offload) / self.cell.theirs - 1

    @property
    def late(self) -> float:
        """The share of runs that take longer than the source waited."""
        return 1 - len(self.cell.in_time(self.offload)) / len(self.offload)

    @property
    def is_off(self) -> bool:
        """True if the cell is judged, and off."""
        if self.cell.completed < TRIALS:
            low, high = self.cell.interval(self.offload)
            return not low <= self.cell.theirs <= high
        return not outlier(self.cell) and abs(self.gain) > self.limit

    def line(self) -> str:
        """As the command prints it."""
        text = f"{', '.join(map(str, self.cell.legs)):52} {self.cell.theirs:7.2f}"
        text += f" {statistics.median(self.offload):8.2f} {self.gain:+7.1%}"
        if self.by_frame is not None:
            ours = statistics.median(self.by_frame)
            text += f" {ours:8.2f} {ours / self.cell.theirs - 1:+7.1%}"
        if self.cell.completed < TRIALS:
            low, high = self.cell.interval(self.offload)
            text += f" [{low:.2f}, {high:.2f}] of {self.cell.completed}, {self.late:.0%} late"
        return text


def report(name: str, seeds: int, chosen: set[str] | None, by_frame: bool) -> list[Result]:
    """Simulate cells, and print a line for each."""
    head = f"{name + ', Mbit/s':52} {'Linux':>7} {'offload':>16}"
    print(head + f" {'by frame':>16}" * by_frame)
    found = []
    for cell in cells(name):
        if chosen is None or key(cell) in chosen:
            count = seeds * SCATTERED if name == "single" and is_scattered(cell) else seeds
            frames = cell.goodputs(count, False) if by_frame else None
            found.append(Result(cell, cell.goodputs(count, True), frames, LIMITS[name]))
            print(found[-1].line(), flush=True)
    off = sum(r.is_off for r in found)
    print(f"{name}: {off} of {len(found)} cells more than {LIMITS[name]:.0%} off")
    return found


def holds(name: str, found: list[Result]) -> bool:
    """True if not more cells are off than may be."""
    return sum(r.is_off for r in found) <= ALLOWED[name] * len(found)


def main() -> int:
    """Print the tables of the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="single|split")
    parser.add_argument("--seeds", type=int, default=19)
    parser.add_argument("--cells", type=lambda s: set(s.split(",")))
    parser.add_argument(
        "--by-frame", action="store_true", help="also with each segment as a separate frame"
    )
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    good = [
        holds(name, report(name, args.seeds, args.cells, args.by_frame))
        for name in args.tables or ["single", "split"]
    ]
    return 0 if all(good) or not args.check else 1


if __name__ == "__main__":
    sys.exit(main())
