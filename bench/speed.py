"""CPU time per delivered packet: lasthop and ns-2.35, the default profile, and each scheme relative
to Reno.

    make bench            or    python bench/speed.py [--runs N] [--short] [--htsim FOLDER]
                                                      [--default [--pgo] | --schemes [NAME ...]]

Each program runs the same four cases for T and for 10 T. The difference of the CPU times, divided
by the difference of delivered packets, excludes start-up. lasthop runs as `lasthop run --json`. All
cases and programs take turns, N times; the shortest times of T and of 10 T count. ns-2 is the
program `ns` (Debian package ns2). htsim, whose TCP is NewReno without SACK, is compiled from
FOLDER: `sim` of github.com/Broadcom/csg-htsim, after `make libhtsim.a`. Programs that are not there
are not timed. Then seven runs under the default profile, `linux`, are compared with Reno under
`ns-2.35` on 100 Mbit/s, and three of them with ns-2's Agent/TCP/Linux with SACK and delayed ACKs.
Then a window of 10 BDP overflows a queue of 1 BDP at 0.1 to 10 Gbit/s; the time per packet should
not depend on the rate. Finally every end-to-end scheme runs the same cases under the profile `rfc`,
and one case under `linux`.

The times of the cases and of the default profile are written into docs/speed.md, unless the runs
are short.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import speed_page  # noqa: E402

TRACES = HERE.parent / "python" / "lasthop" / "data" / "traces"
LASTHOP = Path(sys.executable).parent / "lasthop"

SCENARIO = """
duration = "{seconds} s"
[[link]]
between = ["fh", "bs"]
rate = "{wired} Mbps"
delay = "20 ms"
queue = "99999 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{hop} Mbps"
delay = "20 ms"
forward.queue = "{waiting} packets"
backward.queue = "99999 packets"
{loss}
{flows}
[tcp]
profile = "{profile}"
scheme = "{scheme}"
receive_window = "{window} segments"
"""


@dataclass(frozen=True)
class Case:
    """One of the four cases: rates in Mbit/s, T in seconds."""

    name: str
    seconds: int
    wired: int
    hop: int
    window: int
    queue: int
    flows: int = 1
    loss: float = 0.0
    scheme: str = "reno"
    profile: str = "ns-2.35"
    # Payload bytes of a segment.
    segment: int = 1000

    def scenario(self, seconds: float) -> str:
        flow = (
            '[[flow]]\nfrom = "fh"\nto = "mh"\napp = "bulk"\n'
            f'segment = "{self.segment} B"\nheaders = "40 B"\nstart = "{{}} ms"\n'
        )
        flows = "".join(flow.format(10 * i) for i in range(self.flows))
        loss = (
            f'forward.loss = {{ model = "uniform", rate = {self.loss}, index = "frame" }}'
            if self.loss
            else ""
        )
        return SCENARIO.format(
            seconds=seconds,
            wired=self.wired,
            hop=self.hop,
            waiting=self.queue - 1,
            loss=loss,
            flows=flows,
            window=self.window,
            scheme=self.scheme,
            profile=self.profile,
        )

    def tcl(self, seconds: int) -> list[str]:
        settings = dict(
            T=seconds,
            wired=f"{self.wired}Mb",
            hop=f"{self.hop}Mb",
            window=self.window,
            queue=self.queue,
            flows=self.flows,
            loss=self.loss,
        )
        return ["ns", str(HERE / "ns2.tcl"), *(f"{k}={v}" for k, v in settings.items())]

    def htsim(self, seconds: int) -> list[str]:
        """Arguments of bench/htsim.cpp."""
        numbers = seconds, self.wired, self.hop, self.window, self.queue, self.flows, self.loss
        return [str(n) for n in numbers]


CASES = [
    Case("one flow on 2 Mbit/s", 2000, 10, 2, 100, 150),
    Case("one flow on 2 Mbit/s with 1 % loss", 2000, 10, 2, 100, 150, loss=0.01),
    Case("one flow on 100 Mbit/s", 100, 1000, 100, 1100, 1500),
    Case("100 flows on 100 Mbit/s", 100, 1000, 100, 100, 1000, flows=100),
]


# The case of the goals for the default profile.
HEADLINE = CASES[2]


@dataclass(frozen=True)
class DefaultCase:
    """`lasthop run` with options of the last hop, under the default profile: T in seconds."""

    name: str
    seconds: int
    # T of bench/instructions.py, which counts instructions.
    counted: int
    hop: str
    scheme: str
    # The CPU time per segment relative to the headline's that it should have at most.
    goal: float
    flows: int = 1
    segment: int = 1448
    # Settings of bench/ns2.tcl for the same, beside SACK, delayed ACKs and the rates.
    ns2: str | None = None

    def scenario(self, seconds: float) -> str:
        return (
            f'duration = "{seconds} s"\n[last_hop]\n{self.hop}rtt = "40 ms"\n'
            f'[[flow]]\ncount = {self.flows}\n[tcp]\nscheme = "{self.scheme}"\n'
        )

    def tcl(self, seconds: int) -> list[str]:
        settings = (
            f"variant=Linux ca={self.scheme} T={seconds} segment={self.segment} flows={self.flows}"
            " window=100000 queue=251 wired=1000Mb hop=100Mb far=10ms delay=10ms"
        )
        return ["ns", str(HERE / "ns2.tcl"), *f"{settings} {self.ns2}".split()]


FAST = 'rate = "100 Mbps"\n'
LOSSY = 'loss = "1 %"\n'
LTE = f'down = "{TRACES}/synthetic-lte.down"\nup = "{TRACES}/synthetic-lte.up"\n'
DEFAULT_CASES = [
    DefaultCase("default, cubic", 20, 5, FAST, "cubic", 2.5, ns2=""),
    DefaultCase(
        "default, cubic, 1 % loss", 200, 30, FAST + LOSSY, "cubic", 3.5, ns2="loss=0.01 both=1"
    ),
    DefaultCase("default, cubic, LTE trace", 60, 20, LTE, "cubic", 3.5),
    DefaultCase(
        "default, snoop, 10 Mbit/s, 1 % loss", 60, 30, 'rate = "10 Mbps"\n' + LOSSY, "snoop", 5.0
    ),
    DefaultCase("default, 100 flows of cubic", 10, 5, FAST, "cubic", 4.0, flows=100, ns2=""),
    DefaultCase("default, 100 flows of bbr", 10, 3, FAST, "bbr", 6.0, flows=100),
    DefaultCase("default, bbr3, 1 % loss", 20, 5, FAST + LOSSY, "bbr3", 4.0),
]


def cpu(command: list[str]) -> tuple[float, str]:
    """CPU seconds of a command, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, output


def lasthop(case: Case | DefaultCase, seconds: int, folder: str) -> tuple[float, int]:
    file = Path(folder) / "case.toml"
    file.write_text(case.scenario(seconds))
    time, output = cpu([str(LASTHOP), "run", str(file), "--json"])
    return time, sum(f["delivered_bytes"] for f in json.loads(output)["flows"]) // case.segment


def ns2(case: Case | DefaultCase, seconds: int, folder: str) -> tuple[float, int]:
    time, output = cpu(case.tcl(seconds))
    return time, int(output.split("acked ")[1].split()[0])


def htsim(case: Case | DefaultCase, seconds: int, folder: str) -> tuple[float, int]:
    assert isinstance(case, Case)
    time, output = cpu([str(Path(folder) / "htsim"), *case.htsim(seconds)])
    return time, int(output.split("acked ")[1])


def compile_htsim(sources: Path, folder: str) -> None:
    """Compile bench/htsim.cpp as htsim itself is compiled."""
    words = ["g++", "-std=c++17", "-O3", f"-I{sources}", str(HERE / "htsim.cpp")]
    program = Path(folder) / "htsim"
    subprocess.run([*words, f"-L{sources}", "-lhtsim", "-o", str(program)], check=True)


Program = Callable[[Case | DefaultCase, int, str], tuple[float, int]]


class Rounds:
    """CPU times of a program for T and 10 T, in seconds, by round, and the packets between."""

    def __init__(self) -> None:
        self.little: list[float] = []
        self.much: list[float] = []
        self.packets = 0

    def add(self, program: Program, case: Case | DefaultCase, seconds: int, folder: str) -> None:
        """Run it once more for either time."""
        little, few = program(case, seconds, folder)
        much, many = program(case, 10 * seconds, folder)
        self.little.append(little)
        self.much.append(much)
        self.packets = many - few

    def best(self) -> float:
        """CPU time per delivered packet, ns, of the shortest times: another program on the machine
        only adds to them. The shortest difference would be one with a long start.
        """
        return (min(self.much) - min(self.little)) / self.packets * 1e9

    def ratios(self, other: Rounds) -> tuple[float, float]:
        """The lowest and the highest ratio to another in the same round."""
        pairs = zip(self.much, self.little, other.much, other.little, strict=True)
        scale = other.packets / self.packets
        ratios = [scale * (much - little) / (most - least) for much, little, most, least in pairs]
        return min(ratios), max(ratios)


def schemes() -> list[str]:
    """All end-to-end schemes."""
    listed = json.loads(
        subprocess.run(
            [str(LASTHOP), "schemes", "--json"], capture_output=True, text=True, check=True
        ).stdout
    )
    return [s["name"] for s in listed if s["family"] == "end-to-end"]


def compare_schemes(names: list[str], runs: int, folder: str, short: bool) -> None:
    """Delivered packets per CPU second of each scheme, relative to Reno.

    The four cases under `rfc`, and one under `linux`.
    """
    longer = [3, 10, 4, 1]  # Factors of the duration, where a case is too short to measure.
    cases = [
        replace(c, seconds=k * c.seconds, profile="rfc") for k, c in zip(longer, CASES, strict=True)
    ]
    cases.append(replace(cases[1], profile="linux"))
    columns = ["2 Mbit/s", "1 % loss", "100 Mbit/s", "100 flows", "linux, 1 % loss"]
    print("packets per CPU second relative to Reno, and CPU time per packet (ns)")
    print(f"{'scheme':18s}" + "".join(f"{c:>20s}" for c in columns))
    reno: list[float] = []
    slow: list[str] = []
    for scheme in ["reno", *(s for s in names or schemes() if s != "reno")]:
        speeds = []
        for case in cases:
            case = replace(case, scheme=scheme, seconds=case.seconds // (10 if short else 1))
            few = [lasthop(case, case.seconds // 10, folder) for _ in range(runs)]
            many = [lasthop(case, case.seconds, folder) for _ in range(runs)]
            packets, spent = (
                many[0][1] - few[0][1],
                min(s for s, _ in many) - min(s for s, _ in few),
            )
            # A scheme that sends almost nothing takes too little time to measure.
            speeds.append(packets / spent if spent > 0.002 else math.nan)
        reno = reno or speeds
        shares = [s / r for s, r in zip(speeds, reno, strict=True)]
        slow += [
            f"{scheme} ({column})"
            for column, share in zip(columns, shares, strict=True)
            if share < 0.5
        ]
        print(
            f"{scheme:18s}"
            + "".join(
                f"{share:12.2f} {1e9 / s:7.0f}" for s, share in zip(speeds, shares, strict=True)
            ),
            flush=True,
        )
    print("less than half of Reno's speed: " + (", ".join(slow) or "none"))


def time_overflow(runs: int, folder: str) -> None:
    """CPU time per delivered packet if a window of 10 BDP overflows a queue of 1 BDP, with
    start-up.
    """
    print(
        f"{'overflow, 4 s (10 Gbit/s: <= 1 us and <= 4 us)':48s} {'reno, rfc: us/packet':>22s}"
        f" {'cubic, linux: us/packet':>24s}"
    )
    for rate in (100, 1000, 10_000):
        bdp = round(rate * 1e6 * 0.08 / 8 / 1000)
        case = Case(f"{rate / 1000:g} Gbit/s", 4, 10 * rate, rate, 10 * bdp, bdp)
        cells = []
        for scheme, profile in (("reno", "rfc"), ("cubic", "linux")):
            times = [
                lasthop(replace(case, scheme=scheme, profile=profile), case.seconds, folder)
                for _ in range(runs)
            ]
            cells.append(min(spent for spent, _ in times) / times[0][1] * 1e6)
        print(f"{case.name:48s} {cells[0]:22.2f} {cells[1]:24.2f}", flush=True)
    print()


def compare_default(runs: int, folder: str, short: bool) -> dict[str, speed_page.Times]:
    """CPU time in ns per delivered segment under the default profile, by case: relative to the
    headline, and beside ns-2 with Linux' congestion control, SACK and delayed ACKs.
    """
    cases: list[Case | DefaultCase] = [HEADLINE, *DEFAULT_CASES]
    beside = shutil.which("ns") is not None
    ours = {case.name: Rounds() for case in cases}
    theirs = {
        case.name: Rounds()
        for case in cases
        if beside and (case is HEADLINE or getattr(case, "ns2", None) is not None)
    }
    for k in range(runs):
        print(f"default profile, round {k + 1} of {runs}", file=sys.stderr)
        for case in cases:
            seconds = max(1, case.seconds // 10) if short else case.seconds
            ours[case.name].add(lasthop, case, seconds, folder)
            if case.name in theirs:
                theirs[case.name].add(ns2, case, seconds, folder)
    print(f"{'default profile':38s} {'ns/segment':>10s} {'ratio':>6s}  {'ns-2':>22s} {'ratio':>6s}")
    found: dict[str, speed_page.Times] = {}
    headline = ours[HEADLINE.name]
    for name, rounds in ours.items():
        each, (low, high) = rounds.best(), rounds.ratios(headline)
        other = theirs[name].best() if name in theirs else None
        found[name] = speed_page.Times(each, (low, high), other)
        spread = "" if rounds is headline else f"[{low:.1f}, {high:.1f}]"
        cells = "" if other is None else f" {other:9.1f} {other / each:6.1f}"
        print(f"{name:38s} {each:10.1f} {each / headline.best():6.1f} {spread:13s}{cells}")
    print(flush=True)
    return found


def compare_with_others(
    runs: int, folder: str, short: bool, programs: dict[str, Program]
) -> dict[str, dict[str, float]]:
    """Time the four cases and start-up: ns per packet by case and program."""
    found = {case.name: {name: Rounds() for name in programs} for case in CASES}
    for k in range(runs):
        print(f"beside other programs, round {k + 1} of {runs}", file=sys.stderr)
        for case in CASES:
            seconds = case.seconds // 10 if short else case.seconds
            for name, program in programs.items():
                found[case.name][name].add(program, case, seconds, folder)
    print(f"{'case':38s}" + "".join(f" {name + ', ns/packet':>19s}" for name in programs))
    best = {case: {name: r.best() for name, r in of.items()} for case, of in found.items()}
    for case_name, times in best.items():
        cells = "".join(
            f" {time:10.1f} ({time / times['lasthop']:4.1f} x)" for time in times.values()
        )
        counts = " and ".join(f"{r.packets} in {name}" for name, r in found[case_name].items())
        print(f"{case_name:38s}{cells}   packets: {counts}", flush=True)
    empty = Path(folder) / "empty.toml"
    empty.write_text("")
    start = min(
        cpu([str(LASTHOP), "run", str(empty), "--set", "duration=1 ms", "--json"])[0]
        for _ in range(runs)
    )
    print(
        f"\nstart-up: `lasthop run` of an empty scenario takes {start * 1e3:.0f} ms of CPU"
        f" (processors: {os.cpu_count()})\n",
        flush=True,
    )
    return best


def record(
    write: Callable[[str, speed_page.Bench], str], runs: int, load: float, pgo: bool = False
) -> None:
    """Write times into docs/speed.md."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    bench = speed_page.Bench(commit, os.cpu_count() or 1, load, runs, pgo)
    text = write(speed_page.PAGE.read_text(encoding="utf-8"), bench)
    speed_page.PAGE.write_text(text, encoding="utf-8")


def record_others(runs: int, load: float, found: dict[str, dict[str, float]]) -> None:
    """Write the times beside the other programs."""
    record(lambda text, bench: speed_page.beside_others(text, bench, found), runs, load)


def record_default(
    runs: int, load: float, found: dict[str, speed_page.Times], pgo: bool = False
) -> None:
    """Write the times under the default profile."""
    goals = {case.name: case.goal for case in DEFAULT_CASES}
    record(lambda text, bench: speed_page.under_default(text, bench, found, goals), runs, load, pgo)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="number of runs, of which the best counts (default 5)"
    )
    parser.add_argument("--short", action="store_true", help="a tenth of the simulated time")
    parser.add_argument(
        "--htsim", type=Path, metavar="FOLDER", help="time htsim too, compiled from this folder"
    )
    parser.add_argument(
        "--default", action="store_true", help="only the cases under the default profile"
    )
    parser.add_argument(
        "--pgo", action="store_true", help="the build is that of `make build-pgo` (with --default)"
    )
    parser.add_argument(
        "--schemes",
        nargs="*",
        metavar="NAME",
        help="only compare these schemes (default: all) with Reno",
    )
    options = parser.parse_args()
    if options.pgo and not options.default:
        parser.error("--pgo needs --default")
    with tempfile.TemporaryDirectory() as folder:
        load = os.getloadavg()[0]
        if options.default or options.schemes is None:
            under_default = compare_default(options.runs, folder, options.short)
            if not options.short:
                record_default(options.runs, load, under_default, options.pgo)
        if options.default:
            return
        if options.schemes is None:
            programs: dict[str, Program] = {"lasthop": lasthop}
            if shutil.which("ns"):
                programs["ns-2"] = ns2
            else:
                print("ns-2 is not installed (Debian package ns2): not timed", file=sys.stderr)
            if options.htsim is not None:
                compile_htsim(options.htsim, folder)
                programs["htsim"] = htsim
            found = compare_with_others(options.runs, folder, options.short, programs)
            if not options.short and shutil.which("ns"):
                record_others(options.runs, load, found)
            time_overflow(min(options.runs, 3), folder)
        compare_schemes(options.schemes or [], min(options.runs, 3), folder, options.short)


if __name__ == "__main__":
    main()
