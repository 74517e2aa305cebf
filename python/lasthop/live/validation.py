"""Real and simulated transfers over the same link, paired by seed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lasthop.analysis import statistics
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.live import link, windows
from lasthop.live.windows import Comparison

#: Largest deviation of the ratio real / simulated from 1 that counts as agreement.
MARGIN, MARGIN_BBR = 0.05, 0.10
PORT = 8000
#: Payload of a segment on a link of 1500 bytes with timestamps.
SEGMENT = 1448
#: Stands for the file with the windows of a transfer in the words of a link.
SAMPLES = "CWND-SAMPLES"


#: What the control counts, in the report of a link and in a simulated run.
COUNTERS = ("retransmissions", "fast_retransmits", "timeouts")
#: Transfers of the control.
CONTROL_SEEDS = 3


@dataclass(frozen=True)
class Cell:
    """Transfers with one sender and one scheme."""

    sender: str
    scheme: str
    #: True for the control, in which lasthop's own sender runs over the live link.
    own: bool
    #: Seconds per seed, real and simulated.
    real: list[float]
    simulated: list[float]
    #: Counters per seed, real and simulated, by name; only in the control.
    counters: list[tuple[dict[str, int], dict[str, int]]]
    #: Congestion windows, per seed; not in the control.
    windows: list[Comparison]
    #: Runs that were late twice and are not counted.
    late: int

    def ratio(self) -> tuple[float | None, tuple[float, float] | None]:
        """Mean goodput real / simulated, and its 95 % interval from pairs."""
        if not self.real:
            return None, None
        found = statistics.ratio([1 / s for s in self.real], [1 / s for s in self.simulated])
        return found.mean, found.ci95

    def margin(self) -> float:
        """Largest deviation that counts as agreement."""
        return MARGIN_BBR if self.sender.startswith("bbr") else MARGIN

    def verdict(self) -> str:
        """Whether the interval of the ratio lies within the margin."""
        _, interval = self.ratio()
        margin = self.margin()
        if interval is None:
            return "undecided: machine too busy" if self.late else "undecided: too few runs"
        low, high = interval
        if 1 - margin <= low and high <= 1 + margin:
            return "agrees"
        return "differs" if high < 1 - margin or low > 1 + margin else "undecided"

    def document(self) -> dict[str, Any]:
        """The cell for JSON."""
        ratio, interval = self.ratio()
        document = {
            "sender": self.sender,
            "scheme": self.scheme,
            "n": len(self.real),
            "late": self.late,
            "real_s": self.real,
            "simulated_s": self.simulated,
            "ratio": ratio,
            "ci95": interval,
            "verdict": self.verdict(),
        }
        if self.own:
            document["counters"] = [
                {"real": real, "simulated": simulated} for real, simulated in self.counters
            ]
        else:
            document["cwnd"] = [comparison.document() for comparison in self.windows]
        return document


def validate(
    file: str | Path | None = None,
    *,
    senders: Sequence[str] = ("reno", "cubic", "bbr"),
    schemes: Sequence[str] = ("none", "snoop"),
    seeds: int = 5,
    size: int = 2_000_000,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, str] | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Iterator[Cell]:
    """Carry transfers of `size` bytes over a live link and in the simulator, with seeds 1 to
    `seeds`; yield a cell for each sender and scheme. The first cell of each is the control: with
    lasthop's own sender on the live link, which tells deviations of links and receivers from those
    of the kernel's sender.

    Raises `InputError` as `link`.
    """
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, found {seeds}")
    for own in (True, False):
        for scheme in schemes:
            for sender in senders:
                app = f'{{kind = "transfer", size = "{size} B"}}'
                chosen = sender if scheme == "none" else f"{scheme}:sender={sender}"
                source = plan.source(
                    file, settings=[*settings, ("flow.1.app", app)], last_hop=last_hop
                )
                loaded: Any = plan.load(source, chosen)
                cell = Cell(sender, scheme, own, [], [], [], [], 0)
                words = _words(file, settings, last_hop)
                program = f"{sys.executable} -I -m lasthop.live.transfer"
                if own:
                    words += ["--scheme", chosen, "--own-sender", f"{PORT}:{size}"]
                    command = [*program.split(), "receive", str(PORT)]
                else:
                    words += ["--scheme", scheme]
                    words += ["--server", f"{program} serve {PORT} {size} {sender} {SAMPLES}"]
                    command = [*program.split(), "fetch", "$LASTHOP_SERVER", str(PORT), str(size)]
                yield _fill(cell, loaded.draw_by_frame(), words, command, size, seeds, progress)


def runs(senders: int, schemes: int, seeds: int) -> int:
    """Number of transfers of a validation."""
    return senders * schemes * (seeds + min(seeds, CONTROL_SEEDS))


def _fill(
    cell: Cell,
    scenario: Any,
    words: list[str],
    command: list[str],
    size: int,
    seeds: int,
    progress: Callable[[], None],
) -> Cell:
    """The cell with its transfers."""
    late = 0
    for seed in range(1, (min(seeds, CONTROL_SEEDS) if cell.own else seeds) + 1):
        run, recorded = scenario.run_recorded(seed, not cell.own)
        flow = run.to_dict()["flows"][0]
        found = _transfer([*words, "--seed", str(seed)], command, size)
        progress()
        if found is None or flow["completed_s"] is None:
            late += 1
            continue
        seconds, report, measured = found
        if not cell.own:
            simulated_windows = windows.simulated(recorded, SEGMENT)
            cell.windows.append(windows.compare(measured, simulated_windows, cell.margin()))
        if cell.own:
            own = report["own_sender"]
            # The sender learns of the last byte when its acknowledgment has come back.
            seconds = own["acked_s"] - report["one_way_delay_s"]
            simulated = {name: _total(flow[name]) for name in COUNTERS}
            cell.counters.append(({name: own[name] for name in COUNTERS}, simulated))
        cell.real.append(seconds)
        cell.simulated.append(flow["completed_s"])
    return replace(cell, late=late)


def _total(counter: int | Mapping[str, int]) -> int:
    return counter if isinstance(counter, int) else sum(counter.values())


def _transfer(
    words: Sequence[str], command: Sequence[str], size: int
) -> tuple[float, dict[str, Any], windows.Windows] | None:
    """Seconds of a real transfer, the report of the link, and the windows of a kernel's sender;
    None if the machine was too busy, twice.
    """
    # A process for each link: it gives up its privileges for good.
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="lasthop-") as folder:
            link.give_to_caller(Path(folder))
            samples = Path(folder) / "cwnd.json"
            placed = [word.replace(SAMPLES, str(samples)) for word in words]
            call = [sys.executable, "-m", "lasthop", "link", *placed, "--json", "--", *command]
            done = subprocess.run(
                call, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
            measured, _, document = done.stdout.partition("\n")
            if not document:
                raise InputError(done.stderr.strip().removeprefix("lasthop: "))
            report = json.loads(document)
            seconds, received = measured.split()
            unfinished = "own_sender" in report and report["own_sender"]["acked_s"] is None
            if report["exit_status"] != 0 or int(received) != size or unfinished:
                raise InputError(f"a transfer failed: {done.stderr[-300:]}")
            if report["valid"]:
                found = windows.real(samples, SEGMENT) if samples.exists() else {}
                return float(seconds), report, found
    return None


def _words(
    file: str | Path | None,
    settings: Sequence[tuple[str, str]],
    last_hop: Mapping[str, str] | None,
) -> list[str]:
    """The scenario as options of `lasthop link`."""
    words = [] if file is None else [str(file)]
    words += [x for key, value in settings for x in ("--set", f"{key}={value}")]
    return words + [x for key, value in (last_hop or {}).items() for x in (f"--{key}", value)]


def table(cells: Sequence[Cell]) -> str:
    """The cells as text."""
    heads = {
        True: "Control: lasthop's own sender on the live link, before the kernel's receiver",
        False: "The kernel's senders",
    }
    lines = []
    for own, head in heads.items():
        columns = f"{'sender':<8}{'scheme':<18}{'n':>3}{'real s':>9}{'simulated s':>13}"
        lines += ["", head, f"{columns}  real / simulated goodput [95 % CI]   verdict"]
        lines += [row for cell in cells if cell.own == own for row in _rows(cell)]
        equal = [real == simulated for c in cells if c.own == own for real, simulated in c.counters]
        if equal:
            lines.append(
                f"retransmissions, fast retransmits and timeouts are those of the simulation in"
                f" {sum(equal)} of {len(equal)} transfers"
            )
    return "\n".join(lines[1:])


def _rows(cell: Cell) -> list[str]:
    acks = sum(c.acks for c in cell.windows)
    if not acks:
        return [_row(cell)]
    equal = sum(c.equal for c in cell.windows)
    text = f"{'':<8}cwnd equal at {100 * equal / acks:.0f} % of {acks} ACKs"
    parted = sorted(c.parted for c in cell.windows if c.parted is not None)
    if parted:
        acked, real, simulated = parted[0]
        text += (
            f"; first different after {acked} segments: {real:.0f} real, {simulated:.1f} simulated"
            f" ({len(parted)} of {len(cell.windows)} transfers differ)"
        )
    return [_row(cell), text]


def _row(cell: Cell) -> str:
    ratio, interval = cell.ratio()
    n = len(cell.real)
    if ratio is None:
        return f"{cell.sender:<8}{cell.scheme:<18}{n:>3}{'':>22}  {cell.verdict()}"
    shown = "" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
    return (
        f"{cell.sender:<8}{cell.scheme:<18}{n:>3}{sum(cell.real) / n:>9.2f}"
        f"{sum(cell.simulated) / n:>13.2f}  {ratio:.3f} {shown:<29} {cell.verdict()}"
    )
