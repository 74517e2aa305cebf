"""Real and simulated transfers over the same link, paired by seed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop.analysis import statistics
from lasthop.errors import InputError
from lasthop.experiments import plan

#: Largest deviation of the ratio real / simulated from 1 that counts as agreement.
MARGIN, MARGIN_BBR = 0.05, 0.10
PORT = 8000


@dataclass(frozen=True)
class Cell:
    """Transfers with one sender and one scheme."""

    sender: str
    scheme: str
    #: Seconds per seed, real and simulated.
    real: list[float]
    simulated: list[float]
    #: Runs that were late twice and are not counted.
    late: int

    def ratio(self) -> tuple[float | None, tuple[float, float] | None]:
        """Mean goodput real / simulated, and its 95 % interval from pairs."""
        if not self.real:
            return None, None
        found = statistics.ratio([1 / s for s in self.real], [1 / s for s in self.simulated])
        return found.mean, found.ci95

    def verdict(self) -> str:
        """Whether the interval of the ratio lies within the margin."""
        _, interval = self.ratio()
        margin = MARGIN_BBR if self.sender.startswith("bbr") else MARGIN
        if interval is None:
            return "undecided: machine too busy" if self.late else "undecided: one run"
        low, high = interval
        if 1 - margin <= low and high <= 1 + margin:
            return "agrees"
        return "differs" if high < 1 - margin or low > 1 + margin else "undecided"

    def document(self) -> dict[str, Any]:
        """The cell for JSON."""
        ratio, interval = self.ratio()
        return {
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
    `seeds`; yield a cell for each sender and scheme.

    Raises `InputError` as `link`.
    """
    if seeds < 1:
        raise InputError(f"--seeds must be at least 1, found {seeds}")
    where = _words(file, settings, last_hop)
    for scheme in schemes:
        for sender in senders:
            app = f'{{kind = "transfer", size = "{size} B"}}'
            chosen = sender if scheme == "none" else f"{scheme}:sender={sender}"
            source = plan.source(file, settings=[*settings, ("flow.1.app", app)], last_hop=last_hop)
            loaded: Any = plan.load(source, chosen)
            scenario = loaded.draw_by_frame()
            cell = Cell(sender, scheme, [], [], 0)
            late = 0
            for seed in range(1, seeds + 1):
                simulated = json.loads(scenario.run(seed))["flows"][0]["completed_s"]
                real = _transfer(where, sender, scheme, seed, size)
                progress()
                if real is None or simulated is None:
                    late += 1
                else:
                    cell.real.append(real)
                    cell.simulated.append(simulated)
            yield Cell(sender, scheme, cell.real, cell.simulated, late)


def _transfer(where: Sequence[str], sender: str, scheme: str, seed: int, size: int) -> float | None:
    """Seconds of a real transfer; None if the machine was too busy, twice."""
    program = f"{sys.executable} -I -m lasthop.live.transfer"
    # A process for each link: it gives up its privileges for good.
    words = [sys.executable, "-m", "lasthop", "link", *where, "--scheme", scheme, "--json"]
    words += ["--seed", str(seed), "--server", f"{program} serve {PORT} {size} {sender}"]
    words += ["--", *program.split(), "fetch", "$LASTHOP_SERVER", str(PORT)]
    for _ in range(2):
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        measured, _, document = done.stdout.partition("\n")
        if not document:
            raise InputError(done.stderr.strip().removeprefix("lasthop: "))
        report = json.loads(document)
        seconds, received = measured.split()
        if report["exit_status"] != 0 or int(received) != size:
            raise InputError(f"the transfer with {sender} failed: {done.stderr[-300:]}")
        if report["valid"]:
            return float(seconds)
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
    head = f"{'sender':<8}{'scheme':<18}{'n':>3}{'real s':>9}{'simulated s':>13}"
    lines = [f"{head}  real / simulated goodput [95 % CI]   verdict"]
    for cell in cells:
        ratio, interval = cell.ratio()
        n = len(cell.real)
        if ratio is None:
            lines.append(f"{cell.sender:<8}{cell.scheme:<18}{n:>3}{'':>22}  {cell.verdict()}")
            continue
        shown = "" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
        lines.append(
            f"{cell.sender:<8}{cell.scheme:<18}{n:>3}{sum(cell.real) / n:>9.2f}"
            f"{sum(cell.simulated) / n:>13.2f}  {ratio:.3f} {shown:<29} {cell.verdict()}"
        )
    return "\n".join(lines)
