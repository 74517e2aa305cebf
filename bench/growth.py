"""How the cost of a packet grows: with flows, rate, overflow, stations, hops and duration.

    make growth     or    python bench/growth.py [--runs N] [--only AXIS ...] [--memory]

Prints for each point the instructions per delivered packet (by callgrind) and the CPU time. Both
are differences between runs of T and of 2 T, so start-up is excluded. bench/instructions.py holds
the instructions to their baselines. With --memory, writes the memory of a run with 1,000 and 10,000
flows into docs/speed.md instead, under `ns-2.35` and under the default profile. A flow of the axes
`flows` and `default flows` has 1 Mbit/s; those of `competing` share 100 Mbit/s, delay ACKs and
overflow the queue.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import counting  # noqa: E402
import speed_page  # noqa: E402

HEAD = 'duration = "{seconds} s"\n'
PATH = """[[link]]
between = ["fh", "bs"]
rate = "10 Gbps"
delay = "1 ms"
queue = "99999 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{rate} Mbps"
delay = "{delay} ms"
forward.queue = "{queue} packets"
backward.queue = "99999 packets"
"""
TCP = '[tcp]\nprofile = "{profile}"\nscheme = "reno"\nreceive_window = "{window} segments"\n'
FLOW = '[[flow]]\nfrom = "{start}"\nto = "{end}"\ncount = {count}\nsegment = "1000 B"\n'
# Bits of a full segment with its headers.
FRAME = 8 * 1040


@dataclass(frozen=True)
class Point:
    """A point of an axis: a scenario of any length, and the length T in seconds."""

    axis: str
    value: str
    seconds: float
    scenario: Callable[[float], str]
    # Payload bytes of a segment.
    segment: int = 1000

    @property
    def name(self) -> str:
        """Its name in the baselines."""
        return f"{self.axis} {self.value}"


def _last_hop(
    rate: float, delay: int, queue: int, window: int, count: int = 1, profile: str = "ns-2.35"
) -> Callable[[float], str]:
    text = PATH.format(rate=f"{rate:g}", delay=delay, queue=queue)
    text += FLOW.format(start="fh", end="mh", count=count)
    text += TCP.format(profile=profile, window=window)
    return lambda seconds: HEAD.format(seconds=seconds) + text


def _default(count: int) -> Callable[[float], str]:
    """Flows of CUBIC under the default profile, with a round-trip time of 40 ms."""
    text = f'[last_hop]\nrate = "{count} Mbps"\nrtt = "40 ms"\n[[flow]]\ncount = {count}\n'
    text += '[tcp]\nscheme = "cubic"\n'
    return lambda seconds: HEAD.format(seconds=seconds) + text


def _overflow(rate: int) -> Callable[[float], str]:
    """A window of 10 BDP into a queue of 1 BDP, with a round-trip time of 22 ms."""
    bdp = int(rate * 1e6 * 0.022 / FRAME)
    return _last_hop(rate, 10, bdp, 10 * bdp, profile="rfc")


def _cell(stations: int, mac: str = "802.11b") -> Callable[[float], str]:
    names = f'"n{{1..{stations}}}"'
    text = f'[[cell]]\nmembers = ["ap", {names}]\nmac = "{mac}"\n'
    text += FLOW.format(start="ap", end="@", count=stations).replace('"@"', f"[{names}]")
    text += TCP.format(profile="ns-2.35", window=10)
    return lambda seconds: HEAD.format(seconds=seconds) + text


def _chain(nodes: int) -> Callable[[float], str]:
    text = "".join(
        f'[[link]]\nbetween = ["n{i}", "n{i + 1}"]\nrate = "100 Mbps"\ndelay = "1 ms"\n'
        'queue = "99999 packets"\n'
        for i in range(1, nodes)
    )
    text += FLOW.format(start="n1", end=f"n{nodes}", count=1)
    text += TCP.format(profile="ns-2.35", window=1000)
    return lambda seconds: HEAD.format(seconds=seconds) + text


POINTS = [
    *(
        Point("flows", f"{n:,}", seconds, _last_hop(n, 20, 10_000, 10, n))
        for n, seconds in ((1, 40), (100, 0.6), (1000, 0.2))
    ),
    *(
        Point("default flows", f"{n:,}", seconds, _default(n), 1448)
        for n, seconds in ((10, 6), (100, 2), (1000, 1))
    ),
    *(
        Point("competing", f"{n:,}", 2, _last_hop(100, 20, 1000, 100, n, "rfc"))
        for n in (100, 1000)
    ),
    *(
        Point("rate", name, seconds, _last_hop(rate, 10, 99_999, int(rate * 2.7) + 10))
        for name, rate, seconds in (
            *(("1 Mbit/s", 1, 40), ("100 Mbit/s", 100, 0.6), ("1 Gbit/s", 1000, 0.3)),
        )
    ),
    *(
        Point("overflow", name, seconds, _overflow(rate))
        for name, rate, seconds in (
            *(("10 Mbit/s", 10, 10), ("100 Mbit/s", 100, 2), ("1 Gbit/s", 1000, 1.2)),
        )
    ),
    *(Point("stations", str(n), 10, _cell(n)) for n in (2, 20, 200)),
    # 200 stations collide so often at the start that 0.3 s would count little else.
    *(
        Point("802.11ax", f"{n} stations", seconds, _cell(n, "802.11ax"))
        for n, seconds in ((2, 0.3), (20, 0.3), (200, 3))
    ),
    *(
        Point("chain", f"{n} nodes", seconds, _chain(n))
        for n, seconds in ((2, 0.5), (10, 0.6), (50, 2))
    ),
    *(
        Point("duration", f"{seconds} s", seconds, _last_hop(2, 20, 150, 100))
        for seconds in (10, 100)
    ),
]


def cpu_ns(point: Point, folder: str, runs: int) -> float:
    """CPU time per delivered packet in ns; the best of several runs."""

    def once(seconds: float) -> tuple[float, int]:
        file = Path(folder) / "case.toml"
        file.write_text(point.scenario(seconds))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(counting.command(file), capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return spent, int(done.stdout) // point.segment

    # Longer than for the instructions: the clock of the CPU time is coarse.
    pairs = [(once(10 * point.seconds), once(20 * point.seconds)) for _ in range(runs)]
    time = min(long[0] for _, long in pairs) - min(short[0] for short, _ in pairs)
    short, long = pairs[0]
    return time * 1e9 / (long[1] - short[1])


def memory(folder: str) -> list[str]:
    """The table of the memory of runs, and, from their difference, of a flow."""
    few, many = 1000, 10_000
    lines = [
        f"| profile | {few:,} flows, MiB | {many:,} flows, MiB | a flow, KiB |",
        "| --- | ---: | ---: | ---: |",
    ]
    for profile in ("ns-2.35", "linux"):
        mib = {}
        for flows in (few, many):
            case = (
                _default(flows) if profile == "linux" else _last_hop(flows, 20, 10_000, 10, flows)
            )
            mib[flows] = counting.memory(case(2), folder)
        each = 1024 * (mib[many] - mib[few]) / (many - few)
        lines.append(f"| `{profile}` | {mib[few]:.1f} | {mib[many]:.1f} | {each:.1f} |")
    return lines


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="How the cost of a packet grows.")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs for the CPU time")
    parser.add_argument("--only", nargs="+", metavar="AXIS", help="only these axes")
    parser.add_argument("--memory", action="store_true", help="write the memory of a flow instead")
    args = parser.parse_args()
    if args.memory:
        with tempfile.TemporaryDirectory() as folder:
            lines = memory(folder)
        page = speed_page.PAGE.read_text(encoding="utf-8")
        page = speed_page.marked_pages.replaced(page, "memory", "\n".join(lines))
        speed_page.PAGE.write_text(page, encoding="utf-8")
        return 0
    print("| axis | value | instructions per packet | CPU time per packet, ns |")
    print("| --- | --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for point in POINTS:
            if args.only and point.axis not in args.only:
                continue
            count = counting.per_packet(point.scenario, point.seconds, folder, point.segment)
            time = cpu_ns(point, folder, args.runs) if args.runs else float("nan")
            print(f"| {point.axis} | {point.value} | {count:,.0f} | {time:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
