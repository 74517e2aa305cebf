"""Every scheme of the catalogue on real packets beside its simulation, paired by seed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lasthop import _native, quantities
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.live import first_difference, link
from lasthop.live.first_difference import Difference
from lasthop.live.transfer import REPORT
from lasthop.live.validation import BUSY, LATE, MARGIN, PORT, Failed, goodput_ratio

#: Ends that are lasthop's own, in the order in which they are tried: the server's, so that the
#: senders of both worlds are the same, and the mobile's only if the scheme needs it.
ENDS = ("own,kernel", "own")
#: Seconds after which a transfer is given up.
PATIENCE = 300.0


@dataclass
class Row:
    """The transfers of one scheme."""

    scheme: str
    #: Whose TCP met the link: a word of `ENDS`.
    ends: str = ENDS[0]
    #: Seconds per seed.
    real: list[float] = field(default_factory=list)
    simulated: list[float] = field(default_factory=list)
    #: Where the data that leave the sender part, per seed; None if they do not.
    parted: list[Difference | None] = field(default_factory=list)
    #: Seeds of transfers that are not counted, and why.
    failed: list[tuple[int, str]] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)

    def ratio(self) -> tuple[float | None, tuple[float, float] | None]:
        """Mean goodput real / simulated, and its 95 % interval from pairs."""
        return goodput_ratio(self.real, self.simulated)

    def verdict(self) -> str:
        """Whether the ratio is within 5 % of 1."""
        ratio, _ = self.ratio()
        if ratio is None:
            late = any(error == LATE for _, error in self.failed)
            return f"undecided: {BUSY if late else 'no transfer'}"
        return "agrees" if abs(ratio - 1) <= MARGIN else "parts"

    def document(self) -> dict[str, Any]:
        """The row for JSON."""
        ratio, interval = self.ratio()
        return {
            "scheme": self.scheme,
            "ends": self.ends,
            "n": len(self.real),
            "real_s": self.real,
            "simulated_s": self.simulated,
            "ratio": ratio,
            "ci95": interval,
            "verdict": self.verdict(),
            "parted": [None if p is None else p.document() for p in self.parted],
            "failed": [{"seed": seed, "error": error} for seed, error in self.failed],
        }


def schemes() -> list[str]:
    """The schemes of the catalogue."""
    return [str(scheme["name"]) for scheme in _native.schemes()]


def validate(
    file: str | Path | None = None,
    *,
    names: Sequence[str],
    seeds: int,
    size: int,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, str] | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Iterator[Row]:
    """Carry a transfer of `size` bytes from the server to the mobile over a live link and in the
    simulator, for each scheme and each of the seeds 1 to `seeds`; yield a row for each scheme. The
    server's end is lasthop's own TCP, the mobile's the kernel's unless the scheme changes it.

    Under sudo, the process reads and writes files as the user who called it from then on.

    Raises `InputError` as `link`.
    """
    quantities.whole_number(seeds, "--seeds", 1)
    link.act_as_caller()
    words = [] if file is None else [str(file)]
    words += [x for key, value in settings for x in ("--set", f"{key}={value}")]
    words += [x for key, value in (last_hop or {}).items() for x in (f"--{key}", value)]
    for name in names:
        row = Row(name)
        for seed in range(1, seeds + 1):
            with tempfile.TemporaryDirectory(prefix="lasthop-") as folder:
                try:
                    seconds, start = _real(row, [*words, "--seed", str(seed)], size, Path(folder))
                    scenario = _scenario(file, settings, last_hop, size, name, start)
                    row.assumed = scenario.assumed
                    capture = Path(folder) / "simulated.pcapng"
                    run, _ = scenario.draw_by_frame().run_recorded(seed, False, str(capture))
                    simulated = run.to_dict()["flows"][0]["completed_s"]
                    if simulated is None:
                        raise Failed("the simulated transfer does not end within its duration")
                    parted = first_difference.find(Path(folder) / "real.pcapng", capture)
                except Failed as error:
                    row.failed.append((seed, str(error)))
                    continue
                finally:
                    progress()
            row.real.append(seconds)
            row.simulated.append(simulated)
            row.parted.append(parted)
        yield row


def _scenario(
    file: str | Path | None,
    settings: Sequence[tuple[str, str]],
    last_hop: Mapping[str, str] | None,
    size: int,
    scheme: str,
    start: float,
) -> Any:
    """The simulated transfer, which begins as late as the real one. The program at an end of
    lasthop's own has written all of it before the link has room: there is no send buffer.
    """
    app = f'{{kind = "transfer", size = "{size} B"}}'
    of_flow = [("flow.1.app", app), ("flow.1.start", f"{start:.9f} s")]
    of_flow += [("tcp.wmem_max", "0 B")]
    source = plan.source(file, settings=[*settings, *of_flow], last_hop=last_hop)
    return plan.load(source, scheme)


def _real(row: Row, words: Sequence[str], size: int, folder: Path) -> tuple[float, float]:
    """Seconds of a real transfer, and when its connection began. The folder then has its capture.

    Raises `Failed` if the machine was too busy, twice, or the transfer was not complete.
    """
    program = f"{sys.executable} -I -m lasthop.live.transfer"
    send = f"{program} send $LASTHOP_MOBILE {PORT} {size} cubic {folder} 0.01 0 65536"
    receive = [*program.split(), "receive", str(PORT), str(size), str(folder)]
    capture = ("--pcap", str(folder / "real.pcapng"), "--json")
    late = 0
    while late < 2:
        for used in folder.iterdir():
            used.unlink()
        options = [*words, "--scheme", row.scheme, "--ends", row.ends, *capture]
        call = [sys.executable, "-m", "lasthop", "link", *options, "--server", send, "--", *receive]
        try:
            done = subprocess.run(
                call, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=link.as_root()
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"the real transfer did not end in {PATIENCE:.0f} s") from None
        measured, _, document = done.stdout.partition("\n")
        if not document:
            if row.ends != ENDS[-1] and "needs `--ends" in done.stderr:
                row.ends = ENDS[-1]
                continue
            raise InputError(done.stderr.strip().removeprefix("lasthop: "))
        report = json.loads(document)
        received, _, arrived = measured.partition(" ")
        if report["exit_status"] != 0 or received != str(size):
            raise Failed(f"the real transfer was not complete: {done.stderr[-300:].strip()}")
        if report["valid"]:
            start = json.loads((folder / REPORT).read_text(encoding="ascii"))["start"]
            return float(arrived) - start, report["first_connection_s"]
        late += 1
    raise Failed(LATE)


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """The validation for JSON."""
    return {
        "schema_version": 1,
        "lasthop": _native.version(),
        "assumed": list(dict.fromkeys(line for row in rows for line in row.assumed)),
        "rows": [row.document() for row in rows],
    }


def summary(rows: Sequence[Row]) -> str:
    """How many rows agree."""
    agree = sum(row.verdict() == "agrees" for row in rows)
    return f"goodput real / simulated is within {MARGIN:.0%} of 1 in {agree} of {len(rows)} rows"


def table(rows: Sequence[Row]) -> str:
    """The rows as text."""
    columns = f"{'scheme':<18}{'ends':<12}{'n':>3}{'real s':>9}{'simulated s':>13}"
    lines = [f"{columns}  real / simulated goodput [95 % CI]   verdict"]
    for row in rows:
        lines.append(_row(row))
        if row.verdict() == "parts":
            lines += [f"{'':<18}{text}" for text in differences(row)[:1]]
    lines += ["", summary(rows)]
    failed = [(row.scheme, seed, error) for row in rows for seed, error in row.failed]
    lines += [f"{scheme}, seed {seed} failed: {error}" for scheme, seed, error in failed]
    lines += [f"assumed: {line}" for line in dict.fromkeys(x for row in rows for x in row.assumed)]
    return "\n".join(lines)


def differences(row: Row) -> list[str]:
    """Where the transfers part, as sentences, the earliest first."""
    parted = sorted((p.ordinal, p) for p in row.parted if p is not None)
    return [p.sentence() for _, p in parted]


def _row(row: Row) -> str:
    ratio, interval = row.ratio()
    n = len(row.real)
    head = f"{row.scheme:<18}{row.ends:<12}{n:>3}"
    if ratio is None:
        return f"{head}{'':>22}  {row.verdict()}"
    shown = "" if interval is None else f"[{interval[0]:.3f}, {interval[1]:.3f}]"
    real, simulated = sum(row.real) / n, sum(row.simulated) / n
    return f"{head}{real:>9.2f}{simulated:>13.2f}  {ratio:.3f} {shown:<29} {row.verdict()}"
