"""Real and simulated transfers over the same link, paired by seed."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

from lasthop import _native, quantities
from lasthop.analysis import statistics
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.live import link, windows
from lasthop.live.transfer import REPORT
from lasthop.live.windows import Comparison, Windows
from lasthop.scenarios import pipes
from lasthop.scenarios.scenario_source import STDIN

#: Largest deviation of the ratio real / simulated from 1 that counts as agreement.
MARGIN = 0.05
PORT = 8000
#: Stands for the folder of a transfer in the words of a link.
FOLDER = "TRANSFER-FOLDER"


#: What the control counts, in the report of a link and in a simulated run.
COUNTERS = ("retransmissions", "fast_retransmits", "timeouts")
#: Transfers of the control.
CONTROL_SEEDS = 3
#: Where real windows come from: a tracepoint at each ACK, or samples of a socket option.
TCP_PROBE, TCP_INFO = "tcp_probe", "TCP_INFO"
#: Seconds between two samples of TCP_INFO.
INTERVAL = 0.0005
#: Seconds between two looks at the tracepoint.
LOOK = 0.1
BUSY = "machine too busy"
LATE = f"packets left too late, twice: {BUSY}"


def goodput_ratio(
    real_s: list[float], simulated_s: list[float]
) -> tuple[float | None, tuple[float, float] | None]:
    """Mean goodput real / simulated of transfers that took so long, and its 95 % interval from
    pairs.
    """
    if not real_s:
        return None, None
    found = statistics.ratio([1 / s for s in real_s], [1 / s for s in simulated_s])
    return found.mean, found.ci95


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
    #: Where the real windows come from: `TCP_PROBE` or `TCP_INFO`.
    cwnd_source: str
    #: Assumptions for what the scenario does not specify.
    assumed: list[str]
    #: Seeds of transfers that are not counted, and why.
    failed: list[tuple[int, str]]
    #: Congestion control of the kernels, which the senders replace; None before a transfer.
    ends: dict[str, Any] | None = None

    @property
    def late(self) -> int:
        """Number of transfers whose packets left too late, twice."""
        return sum(error == LATE for _, error in self.failed)

    def ratio(self) -> tuple[float | None, tuple[float, float] | None]:
        """Mean goodput real / simulated, and its 95 % interval from pairs."""
        return goodput_ratio(self.real, self.simulated)

    def verdict(self) -> str:
        """Whether the interval of the ratio lies within the margin."""
        _, interval = self.ratio()
        if interval is None:
            return f"undecided: {BUSY if self.late else 'too few runs'}"
        low, high = interval
        if low >= 1 - MARGIN and high <= 1 + MARGIN:
            return "agrees"
        return "differs" if high < 1 - MARGIN or low > 1 + MARGIN else "undecided"

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
            document["cwnd_source"] = self.cwnd_source
            document["cwnd"] = [comparison.document() for comparison in self.windows]
        return document


@dataclass(frozen=True)
class SocketUse:
    """What the program that sends does to its socket."""

    #: SO_SNDBUF in bytes; None: the buffer that the kernel adapts to the connection.
    send_buffer: int | None = None
    #: Bytes of each write; None: one write of all data.
    writes: int | None = 64 << 10

    def words(self, size: int) -> str:
        """As arguments of `lasthop.live.transfer`, for a transfer of `size` bytes."""
        return f"{self.send_buffer or 0} {self.writes or size}"

    def settings(self) -> list[tuple[str, str]]:
        """The send buffer of the simulated sender: that of this machine's kernel (socket(7): twice
        SO_SNDBUF, which net.core.wmem_max limits; tcp(7): tcp_wmem).
        """
        sysctls = Path("/proc/sys/net")
        if self.send_buffer is None:
            _, first, most = (sysctls / "ipv4/tcp_wmem").read_text(encoding="ascii").split()
        else:
            limit = int((sysctls / "core/wmem_max").read_text(encoding="ascii"))
            first = most = str(2 * min(self.send_buffer, limit))
        return [("tcp.wmem_default", f"{first} B"), ("tcp.wmem_max", f"{most} B")]


class Failed(Exception):
    """A transfer that is not counted, and why."""


def validate(
    file: str | Path | None = None,
    *,
    senders: Sequence[str] = ("reno", "cubic", "bbr"),
    schemes: Sequence[str] = ("none", "snoop"),
    seeds: int = 5,
    size: int = 2_000_000,
    settings: Sequence[tuple[str, str]] = (),
    last_hop: Mapping[str, str] | None = None,
    socket_use: SocketUse | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Iterator[Cell]:
    """Carry transfers of `size` bytes over a live link and in the simulator, with seeds 1 to
    `seeds`; yield a cell for each sender and scheme. The first cell of each is the control: with
    lasthop's own sender on the live link, which tells deviations of links and receivers from those
    of the kernel's sender. The programs that send use their sockets as `socket_use` says (default:
    as most programs do), and the simulated sender has the send buffer of this machine's kernel.

    Under sudo, the process reads and writes files as the user who called it from then on.

    Raises `InputError` as `link`.
    """
    quantities.whole_number(seeds, "--seeds", 1)
    socket_use = socket_use or SocketUse()
    settings = [*socket_use.settings(), *settings]
    try:
        probe = windows.TcpProbe(PORT)
    except OSError:
        probe = None
    link.act_as_caller()
    # Each link is a process, and each reads the scenario; a pipe can be read only once.
    last_hop = {
        k: pipes.regular(v) if k in ("down", "up") else v for k, v in (last_hop or {}).items()
    }
    where = None if file is None else plan.source(file)
    text = where.text if where is not None and where.origin is None else None
    if text is not None:
        file = None
    given = _Given(file, text, settings, last_hop, size, socket_use, probe)
    for own in (True, False):
        for scheme in schemes:
            for sender in senders:
                yield _cell(given, sender, scheme, seeds, progress, own=own)


@dataclass(frozen=True)
class _Given:
    """What all cells of a validation have in common."""

    file: str | Path | None
    text: str | None
    settings: Sequence[tuple[str, str]]
    last_hop: Mapping[str, str]
    size: int
    socket_use: SocketUse
    probe: windows.TcpProbe | None


def _cell(
    given: _Given,
    sender: str,
    scheme: str,
    seeds: int,
    progress: Callable[[], None],
    *,
    own: bool,
) -> Cell:
    """The transfers with one sender and one scheme."""
    size = given.size
    chosen = sender if scheme == "none" else f"{scheme}:sender={sender}"
    load = partial(
        _load,
        file=given.file,
        text=given.text,
        settings=given.settings,
        last_hop=given.last_hop,
        size=size,
        scheme=chosen,
    )
    cwnd_source = TCP_INFO if given.probe is None else TCP_PROBE
    plain = load(0)
    cell = Cell(sender, scheme, own, [], [], [], [], cwnd_source, plain.assumed, [])
    words = _words(given.file if given.text is None else STDIN, given.settings, given.last_hop)
    program = f"{sys.executable} -I -m lasthop.live.transfer"
    command = [*program.split(), "receive", str(PORT), str(size)]
    if own:
        words += ["--scheme", chosen, "--own-sender", f"{PORT}:{size}"]
    else:
        words += ["--scheme", scheme]
        send = f"send $LASTHOP_MOBILE {PORT} {size} {sender} {FOLDER} {INTERVAL}"
        words += ["--server", f"{program} {send} {given.socket_use.words(size)}"]
        command.append(FOLDER)
    segment = _segment(plain)
    transfer = partial(
        _transfer,
        words=words,
        text=given.text,
        command=command,
        size=size,
        segment=segment,
        probe=given.probe,
    )
    return _fill(cell, load, transfer, segment, seeds, progress)


def runs(senders: int, schemes: int, seeds: int) -> int:
    """Number of transfers of a validation."""
    return senders * schemes * (seeds + min(seeds, CONTROL_SEEDS))


def _fill(
    cell: Cell,
    load: Callable[[float], Any],
    transfer: Callable[[int], tuple[float, dict[str, Any], Windows, str]],
    segment: int,
    seeds: int,
    progress: Callable[[], None],
) -> Cell:
    """The cell with its transfers."""
    sources: set[str] = set()
    ends: dict[str, Any] | None = None
    for seed in range(1, (min(seeds, CONTROL_SEEDS) if cell.own else seeds) + 1):
        try:
            seconds, report, measured, source = transfer(seed)
            ends = {name: report["ends"][name] for name in ("congestion_control", "available")}
            scenario = load(report["first_connection_s"]).draw_by_frame()
            run, recorded = scenario.run_recorded(seed, not cell.own)
            flow = run.to_dict()["flows"][0]
            if flow["completed_s"] is None:
                raise Failed("the simulated transfer does not end within the scenario's duration")
        except Failed as error:
            cell.failed.append((seed, str(error)))
            continue
        finally:
            progress()
        if cell.own:
            own = report["own_sender"]
            simulated = {name: _total(flow[name]) for name in COUNTERS}
            cell.counters.append(({name: own[name] for name in COUNTERS}, simulated))
        else:
            sources.add(source)
            simulated_windows = windows.simulated(recorded, segment)
            cell.windows.append(windows.compare(measured, simulated_windows, MARGIN))
        cell.real.append(seconds)
        cell.simulated.append(flow["completed_s"])
    source = TCP_INFO if TCP_INFO in sources else cell.cwnd_source
    return replace(cell, cwnd_source=source, ends=ends)


def _load(
    start: float,
    *,
    file: str | Path | None,
    text: str | None,
    settings: Sequence[tuple[str, str]],
    last_hop: Mapping[str, str] | None,
    size: int,
    scheme: str,
) -> Any:
    """The scenario of a simulated transfer that begins at `start`, in seconds: what the link does
    depends on the time.
    """
    app = f'{{kind = "transfer", size = "{size} B"}}'
    of_flow = [("flow.1.app", app), ("flow.1.start", f"{start:.9f} s")]
    source = plan.source(file, text=text, settings=[*settings, *of_flow], last_hop=last_hop)
    return plan.load(source, scheme)


def _segment(scenario: Any) -> int:
    """Payload of a full segment of the transfer, bytes: what the MTU of the links leaves."""
    flow = tomllib.loads(scenario.filled)["flow"][0]
    parsed = _native.quantity(flow["segment"])
    assert parsed is not None, "a filled scenario has quantities"
    return round(parsed[3])


def _total(counter: int | Mapping[str, int]) -> int:
    return counter if isinstance(counter, int) else sum(counter.values())


def _transfer(
    seed: int,
    *,
    words: Sequence[str],
    text: str | None,
    command: Sequence[str],
    size: int,
    segment: int,
    probe: windows.TcpProbe | None,
) -> tuple[float, dict[str, Any], Windows, str]:
    """Seconds of a real transfer, the report of the link, and the windows of a kernel's sender with
    their source.

    Raises `Failed` if the machine was too busy, twice, or the transfer was not complete.
    """
    # A process for each link: it gives up its privileges for good.
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="lasthop-") as folder:
            placed = [word.replace(FOLDER, folder) for word in words]
            call = [sys.executable, "-m", "lasthop", "link", *placed, "--seed", str(seed), "--json"]
            program = [w.replace(FOLDER, folder) for w in command]
            out, err = _run([*call, "--", *program], text or "", probe)
            measured, _, document = out.partition("\n")
            if not document:
                raise InputError(err.strip().removeprefix("lasthop: "))
            report = json.loads(document)
            own = report.get("own_sender")
            received, _, arrived = measured.partition(" ")
            unfinished = own is not None and own["acked_s"] is None
            if report["exit_status"] != 0 or received != str(size) or unfinished:
                raise Failed(f"the real transfer was not complete: {err[-300:].strip()}")
            if not report["valid"]:
                continue
            if own is not None:
                # The sender learns of the last byte when its acknowledgment has come back.
                return own["acked_s"] - report["one_way_delay_s"], report, {}, TCP_INFO
            sent = windows.read_report(Path(folder) / REPORT, segment)
            found = {} if probe is None else probe.take(sent.cookie, segment)
            seconds = float(arrived) - sent.start
            # Perf events sometimes miss most of what a processor records.
            if 2 * len(found) > len(sent.windows):
                return seconds, report, found, TCP_PROBE
            return seconds, report, sent.windows, TCP_INFO
    raise Failed(LATE)


def _filled(file: IO[str], text: str) -> IO[str]:
    """The file with a text, at its begin."""
    file.write(text)
    file.seek(0)
    return file


def _run(call: Sequence[str], text: str, probe: windows.TcpProbe | None) -> tuple[str, str]:
    """Run a link with `text` on stdin and return what it writes; take samples meanwhile."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as stdin,
        subprocess.Popen(
            call,
            stdin=_filled(stdin, text),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=link.as_root(),
        ) as process,
    ):
        try:
            while True:
                try:
                    return process.communicate(timeout=LOOK)
                except subprocess.TimeoutExpired:
                    if probe is not None:
                        probe.collect()
        finally:
            process.kill()


def _words(
    file: str | Path | None,
    settings: Sequence[tuple[str, str]],
    last_hop: Mapping[str, str] | None,
) -> list[str]:
    """The scenario as options of `lasthop link`."""
    words = [] if file is None else [str(file)]
    words += [x for key, value in settings for x in ("--set", f"{key}={value}")]
    return words + [x for key, value in (last_hop or {}).items() for x in (f"--{key}", value)]


def document(cells: Sequence[Cell]) -> dict[str, Any]:
    """The validation for JSON."""
    by_kind = {own: [cell.document() for cell in cells if cell.own == own] for own in (False, True)}
    failed = [
        {"own_sender": c.own, "sender": c.sender, "scheme": c.scheme, "seed": seed, "error": error}
        for c in cells
        for seed, error in c.failed
    ]
    return {
        "schema_version": 1,
        "lasthop": _native.version(),
        "assumed": list(dict.fromkeys(line for cell in cells for line in cell.assumed)),
        "cells": by_kind[False],
        "controls": by_kind[True],
        "failed": failed,
        "ends": _ends(cells),
    }


def _ends(cells: Sequence[Cell]) -> dict[str, Any] | None:
    """Congestion control of the kernels, as the first transfer has found it."""
    return next((cell.ends for cell in cells if cell.ends is not None), None)


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
    if any(c.windows for c in cells):
        lines += ["", *{_source(c.cwnd_source): None for c in cells}]
    ends = _ends(cells)
    if ends is not None:
        lines.append(
            f"ends: each sender chooses its congestion control by TCP_CONGESTION; the receivers"
            f" have {ends['congestion_control']} (default of this machine)"
        )
    if any(c.sender.startswith("bbr") and c.scheme != "none" for c in cells):
        lines.append(f"hint: {link.BBR_HINT}")
    failed = [(c, seed, error) for c in cells for seed, error in c.failed]
    lines += [f"{c.sender}, {c.scheme}, seed {seed} failed: {error}" for c, seed, error in failed]
    lines += [f"assumed: {line}" for line in dict.fromkeys(x for c in cells for x in c.assumed)]
    return "\n".join(lines[1:])


def _source(cwnd_source: str) -> str:
    if cwnd_source == TCP_PROBE:
        return "real cwnd: tracepoint tcp_probe, at each ACK"
    why = "the tracepoint tcp_probe is for root only, or missed ACKs"
    return f"real cwnd: TCP_INFO, twice per ms ({why})"


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
