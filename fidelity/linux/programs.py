"""What programs do to their sockets: the tables of docs/validation.md.

    python -m fidelity.linux.programs [--transfers N] [--jobs N] [--only TEXT] [--simulate-only]

For each kind of program, N real transfers over the path of the cell "long path" with Reno, which
takes one of two times, and 200 simulated ones, which begin at 25 fractions of a millisecond with
eight seeds each; the shares of slow ones, and how likely it is that equal shares differ as much
(Fisher's exact test, two-sided). Simulated programs write as the real ones: in writes of that size,
and in the time that such a program has measured. Programs that time their writes come last: the
time for 64 KiB from one wait for room to the next one, system calls and all.

The real transfers are stored in tests/reference/linux/programs.json. `--only` carries those of the
programs with this in the name, `--simulate-only` none. Live links need root.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fidelity.linux import cells, programs_page, simulated, transfers, writing
from lasthop.live import link, transfer
from lasthop.live.validation import SocketUse

BLOCK = "long path, 100 Mbit/s"
SENDER = "reno"
#: A transfer that takes longer is slow; the two times are 6.7 and 10.8 s.
SLOW_S = 8.5
#: Simulated transfers begin a second after the run, and at this many fractions of a millisecond.
FRACTIONS, SEEDS = 25, 8
#: Bytes for which the time to write is given, and the least of a refill that counts.
UNIT, LEAST = 64 << 10, 400_000
#: Bytes of the header that `http.server` writes before the file (`sock_send_length`).
HEADER = 206
#: Attempts of a transfer whose packets left too late.
ATTEMPTS = 3
FILE, OUTCOME = "file", "outcome.json"
REAL_TIME = ["chrt", "--rr", "1"]
#: Before the command of a program that leaves the congestion control to its namespace, and reports
#: each request.
USE_SENDER = [
    "sh",
    "-c",
    f'echo {SENDER} > /proc/sys/net/ipv4/tcp_congestion_control && exec "$@" 2> /dev/null',
    "sh",
]


@dataclass(frozen=True)
class Program:
    """A kind of program that sends."""

    name: str
    #: SO_SNDBUF, or none.
    send_buffer: int | None = None
    #: Bytes of each write; none for one write of all.
    writes: int | None = UNIT
    #: It answers a request of curl.
    is_http: bool = False
    #: It times its writes.
    is_timed: bool = False
    #: Microseconds for 64 KiB, as such a program has timed; none: the profile's.
    write_us: float | None = None
    #: No real program: it takes no time, neither to continue after a wait nor to write.
    takes_no_time: bool = False

    def commands(self, size: int, folder: Path) -> tuple[list[str], list[str]]:
        """Server and mobile."""
        run, writes = transfers.PYTHON, str(self.writes or size)
        port = str(transfers.PORT)
        if self.is_http:
            serve = [*USE_SENDER, *REAL_TIME, sys.executable, "-I"]
            curl = "--silent --fail --output /dev/null --write-out '%{time_total} %{size_download}'"
            url = f"http://$LASTHOP_SERVER:{port}/{FILE}"
            fetch = f"{' '.join(REAL_TIME)} curl {curl} {url} > {folder / transfer.RECEIVED}"
            mobile = ["sh", "-c", fetch]
            if self.is_timed:
                return [*serve, writing.__file__, "serve", port, str(folder)], mobile
            return [*serve, "-m", "http.server", "--directory", str(folder), port], mobile
        receive = [*run, transfer.__file__, "receive", port, str(size), str(folder)]
        to = ["$LASTHOP_MOBILE", port, str(size), SENDER, str(folder)]
        if self.is_timed:
            return [*run, writing.__file__, *to, writes], receive
        send = [*run, transfer.__file__, "send", *to, str(transfers.INTERVAL)]
        return [*send, str(self.send_buffer or 0), writes], receive

    def settings(self, size: int) -> list[tuple[str, str]]:
        """The socket of the simulated sender, and its writes."""
        found = [*SocketUse(send_buffer=self.send_buffer).settings(), *transfers.headers()]
        found.append(("tcp.program_write_size", f"{self.writes or size} B"))
        if self.is_http:
            found += [("flow.1.opens", "receiver"), ("tcp.program_first_write", f"{HEADER} B")]
        if self.write_us is not None:
            found.append(("tcp.program_write_time", f"{self.write_us} us"))
        if self.takes_no_time:
            found += [("tcp.program_write_time", "0 s"), ("tcp.program_latency", "0 s")]
        return found


PROGRAMS = (
    Program("SO_SNDBUF 8 MiB, writes of 64 KiB", send_buffer=8 << 20),
    Program("default buffer, writes of 64 KiB"),
    Program("default buffer, writes of 1 MB", writes=1_000_000, write_us=10.8),
    Program("default buffer, one write of all data", writes=None, write_us=25.8),
    Program("`python3 -m http.server` and curl", is_http=True, write_us=31.4),
    Program("writes of 64 KiB by a program that takes no time", takes_no_time=True),
    Program("timed, writes of 64 KiB", is_timed=True),
    Program("timed, writes of 1 MB", writes=1_000_000, is_timed=True),
    Program("timed, one write of all data", writes=None, is_timed=True),
    Program("timed, `http.server` and curl", is_http=True, is_timed=True),
)


def main(words: list[str] | None = None) -> int:
    """Carry, simulate and write the tables; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m fidelity.linux.programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--transfers", type=int, default=24, help="of each (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=3, help="at a time (default %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs with this in the name")
    parser.add_argument("--simulate-only", action="store_true", help="carry no real transfers")
    options = parser.parse_args(words)
    cell = next(c for c in cells.read() if c.block == BLOCK and c.sender == SENDER)
    if not options.simulate_only:
        if reason := link.missing():
            parser.error(f"{reason} (see `lasthop doctor`)")
        for program in PROGRAMS:
            if options.only in program.name and not program.takes_no_time:
                found = carry_all(program, cell, options.transfers, options.jobs)
                programs_page.keep(program.name, measured(program, found))
    stored = programs_page.read()
    untimed, timed = ([p for p in PROGRAMS if p.is_timed == is_timed] for is_timed in (False, True))
    programs_page.write(
        (shares(program, cell, stored.get(program.name)) for program in untimed),
        (times(program, stored[program.name]) for program in timed if program.name in stored),
    )
    return 0


def measured(program: Program, found: list[dict[str, Any]]) -> programs_page.Outcome:
    """What is stored of real transfers."""
    if not program.is_timed:
        return {"slow": sum(outcome["s"] > SLOW_S for outcome in found), "of": len(found)}
    each = [us for outcome in found for us in outcome["refills_us"]]
    deciles = statistics.quantiles(each, n=10)
    us = [round(us, 1) for us in (statistics.median(each), deciles[0], deciles[-1])]
    return {"us": us, "refills": len(each)}


def shares(program: Program, cell: cells.Cell, real: programs_page.Outcome | None) -> str:
    """A row: slow transfers, real and simulated, and Fisher's probability."""
    made = [s > SLOW_S for s in simulate(program, cell)]
    slow, of = sum(made), len(made)
    if real is None:
        return f"{program.name} | | {slow} of {of} |"
    p = fisher(real["slow"], real["of"], slow, of)
    shown = "< 0.001" if p < 0.001 else f"{p:.2f}"
    return f"{program.name} | {real['slow']} of {real['of']} | {slow} of {of} | {shown}"


def times(program: Program, real: programs_page.Outcome) -> str:
    """A row: microseconds for 64 KiB, the median and the first and last decile."""
    median, first, last = real["us"]
    name = program.name.removeprefix("timed, ")
    return f"{name} | {median:.1f} ({first:.1f} to {last:.1f}) | {real['refills']}"


def simulate(program: Program, cell: cells.Cell) -> list[float]:
    """Seconds of the simulated transfers."""
    starts = [1 + i / 1000 / FRACTIONS for i in range(FRACTIONS)]
    settings = program.settings(cell.size)
    return [
        simulated.completion_s(cell, settings, start, seed)
        for seed in range(1, SEEDS + 1)
        for start in starts
    ]


def carry_all(program: Program, cell: cells.Cell, count: int, jobs: int) -> list[dict[str, Any]]:
    """Real transfers, `jobs` at a time, without those whose packets left too late."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fidelity.linux.transfers"])

    def one(seed: int) -> dict[str, Any] | None:
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory(prefix="lasthop-") as name:
                process = context.Process(target=carry, args=(program, cell, seed, Path(name)))
                process.start()
                process.join(transfers.LONGEST_S)
                if process.is_alive():
                    process.kill()
                    process.join()
                file = Path(name) / OUTCOME
                if file.exists():
                    return dict(json.loads(file.read_text(encoding="ascii")))
        return None

    with ThreadPoolExecutor(jobs) as pool:
        return [found for found in pool.map(one, range(1, count + 1)) if found is not None]


def carry(program: Program, cell: cells.Cell, seed: int, folder: Path) -> None:
    """Carry a transfer; write its seconds and refills to the folder, if no packet left too late."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(silent, stream)
    file = folder / "cell.toml"
    file.write_text(cell.scenario(), encoding="utf-8")
    if program.is_http:
        (folder / FILE).write_bytes(bytes(cell.size))
    server, mobile = program.commands(cell.size, folder)
    report = link.link(mobile, file, server=server, scheme=cell.scheme, seed=seed)
    if not report["valid"]:
        return
    received = (folder / transfer.RECEIVED).read_text(encoding="ascii")
    if program.is_http:
        seconds, size = (float(word) for word in received.split())
    else:
        size, arrived = json.loads(received)
        sent = json.loads((folder / transfer.REPORT).read_text(encoding="ascii"))
        seconds = arrived - sent["start"]
    if size == cell.size:
        written = folder / writing.WRITTEN
        calls = json.loads(written.read_text(encoding="ascii")) if written.exists() else []
        outcome = {"s": seconds, "refills_us": refills(calls)}
        (folder / OUTCOME).write_text(json.dumps(outcome), encoding="ascii")


def refills(calls: list[writing.Call]) -> list[float]:
    """Microseconds for 64 KiB of what a program wrote between two waits, if that was enough."""
    found: list[list[int]] = []
    for taken, begin, end, waited in calls:
        if waited:
            found.append([0, begin, end])
        found[-1][0] += taken
        found[-1][2] = end
    return [(end - begin) / 1000 * UNIT / size for size, begin, end in found if size >= LEAST]


def fisher(a: int, n: int, b: int, m: int) -> float:
    """Fisher's exact test, two-sided, of `a` of `n` beside `b` of `m`."""
    total, all_ = a + b, math.comb(n + m, a + b)
    each = [
        math.comb(n, k) * math.comb(m, total - k) / all_
        for k in range(max(0, total - m), min(n, total) + 1)
    ]
    mine = math.comb(n, a) * math.comb(m, b) / all_
    return min(1.0, sum(p for p in each if p <= mine * (1 + 1e-9)))


if __name__ == "__main__":
    raise SystemExit(main())
