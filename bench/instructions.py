"""Instructions per delivered packet, counted by callgrind and held to a baseline.

    make instructions   or   python bench/instructions.py [--write] [--cases WORD ...]

Seconds on a shared machine scatter by more than a change of the code costs; instructions do not.
The cases of bench/speed.py and the points of bench/growth.py run for T and for 2 T (short, since
callgrind is 50 times slower than the processor); the difference of the instructions, divided by the
difference of the delivered packets, excludes start-up.

bench/instructions.json keeps the baselines, one set for each version of rustc, since another
compiler emits other code. A version without a baseline is recorded, and passes. With a baseline, a
case fails if it is off by more than the tolerance (in percent), also if it needs fewer: then
`--write` records the new baseline, so that later changes are held to it, and writes the table of
docs/speed.md. The build must be that of `make build`: optimised, without PGO.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import counting  # noqa: E402
import growth  # noqa: E402
import speed  # noqa: E402
import speed_page  # noqa: E402

BASELINES = HERE / "instructions.json"
# The case to which the others are compared: one Reno flow under the profile `ns-2.35`.
HEADLINE = "one flow on 100 Mbit/s"
# T of the cases of bench/speed.py, in seconds, by their T there.
SHORTENED = {2000: 200, 100: 10}


# A scenario of any length, T, and the payload bytes of a segment.
Counted = tuple[Callable[[float], str], float, int]


def _of_bench(case: speed.Case) -> Counted:
    """A case of the bench."""
    seconds = SHORTENED[case.seconds] / (2 if case.flows > 1 else 1)
    return lambda s: case.scenario(int(s)), seconds, case.segment


CASES: dict[str, Counted] = {
    **{case.name: _of_bench(case) for case in speed.CASES},
    **{case.name: (case.scenario, case.counted, case.segment) for case in speed.DEFAULT_CASES},
    **{point.name: (point.scenario, point.seconds, point.segment) for point in growth.POINTS},
}


def table(stored: dict[str, dict[str, float]]) -> str:
    """The baselines of the last version of rustc as a table of Markdown."""
    version, counts = list(stored.items())[-1]
    lines = [
        f"| case (rustc {version}) | instructions per packet | ratio to the headline |",
        "| --- | ---: | ---: |",
        *(
            f"| {name} | {count:,.0f} | {count / counts[HEADLINE]:.1f} |"
            for name, count in counts.items()
        ),
    ]
    return "\n".join(lines)


def page(text: str, stored: dict[str, dict[str, float]]) -> str:
    """docs/speed.md with the table of these baselines."""
    return speed_page.marked_pages.replaced(text, "instructions", table(stored))


def main() -> int:
    """Count, compare, and record where there is no baseline."""
    parser = argparse.ArgumentParser(description="Instructions per packet, against a baseline.")
    parser.add_argument("--write", action="store_true", help="record these counts as baseline")
    parser.add_argument("--tolerance", type=float, default=2.0, metavar="PERCENT")
    parser.add_argument("--cases", nargs="+", metavar="WORD", help="cases whose name has a word")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at a time")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("instructions.py: valgrind is missing (Debian package valgrind)", file=sys.stderr)
        return 2
    stored: dict[str, dict[str, float]] = (
        json.loads(BASELINES.read_text()) if BASELINES.exists() else {}
    )
    version = counting.rustc_version()
    baseline = stored.get(version, {})
    names = [n for n in CASES if not args.cases or any(word in n for word in args.cases)]

    def counted(name: str) -> float:
        scenario, seconds, segment = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            return round(counting.per_packet(scenario, seconds, folder, segment), 1)

    print(f"instructions per delivered packet, rustc {version}")
    found: dict[str, float] = {}
    off = False
    with ThreadPoolExecutor(args.jobs) as pool:
        for name, now in zip(names, pool.map(counted, names), strict=True):
            found[name] = now
            before = baseline.get(name)
            change = 0.0 if before is None else 100 * (now / before - 1)
            text = "no baseline" if before is None else f"{change:+.1f} %"
            outside = abs(change) > args.tolerance
            off |= outside
            verdict = ("  TOO MANY" if change > 0 else "  FEWER") if outside else ""
            print(f"  {name:35} {now:9.1f}  {text}{verdict}", flush=True)
    new = {name: now for name, now in found.items() if args.write or name not in baseline}
    if new:
        stored[version] = {**baseline, **new}
        BASELINES.write_text(json.dumps(stored, indent=1) + "\n")
        file = speed_page.PAGE
        file.write_text(page(file.read_text(encoding="utf-8"), stored), encoding="utf-8")
        print(f"recorded in {BASELINES.name}: {len(new)} of {len(found)}")
    if off and not args.write:
        print("if the change is intended, record it: make instructions WRITE=--write")
    return 1 if off and not args.write else 0


if __name__ == "__main__":
    sys.exit(main())
