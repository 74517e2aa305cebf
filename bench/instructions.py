"""Instructions per delivered packet, counted by callgrind and held to a baseline.

    python bench/instructions.py [--write] [--tolerance 3] [--cases WORD ...]

Seconds on a shared machine scatter by more than a change of the code costs; instructions do not.
Each case of bench/speed.py runs for T and for 2 T (T shortened: callgrind is 50 times slower than
the processor); the difference of the instructions, divided by the difference of the delivered
packets, excludes start-up. bench/instructions.json keeps the baselines, one set for each version of
rustc, since another compiler emits other code. A version without a baseline is recorded and passes;
a known one fails when a case needs more than the tolerance (in percent) above its baseline.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from speed import CASES, Case  # noqa: E402

BASELINES = HERE / "instructions.json"

# Runs one scenario with nothing but the native module, and prints the delivered packets.
RUN = """
import importlib.util as u, sys
spec = u.spec_from_file_location("lasthop._native", sys.argv[1])
native = u.module_from_spec(spec)
spec.loader.exec_module(native)
result = native.Scenario(open(sys.argv[2]).read()).run(1).to_dict()
print(sum(f["delivered_bytes"] for f in result["flows"]) // 1000)
"""

SHORTENED = {2000: 200, 100: 10}


def native_module() -> str:
    """Path of the native module of the lasthop that this Python imports."""
    import lasthop._native

    path = lasthop._native.__file__
    assert path is not None
    return path


def count(case: Case, seconds: int, folder: str) -> tuple[int, int]:
    """Instructions and delivered packets of one run of `seconds` simulated seconds."""
    scenario = Path(folder) / "case.toml"
    scenario.write_text(case.scenario(seconds))
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"]
    python = [sys.executable, "-I", "-S", "-c", RUN, native_module(), str(scenario)]
    done = subprocess.run([*command, *python], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"instructions.py: valgrind failed\n{done.stderr}")
    return int(found[1]), int(done.stdout)


def per_packet(case: Case, folder: str) -> float:
    """Instructions per delivered packet, without start-up."""
    seconds = SHORTENED[case.seconds]
    if case.flows > 1:
        seconds //= 2
    short, long = (count(case, k * seconds, folder) for k in (1, 2))
    return (long[0] - short[0]) / (long[1] - short[1])


def rustc_version() -> str:
    return subprocess.run(
        ["rustc", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]


def main() -> int:
    parser = argparse.ArgumentParser(description="Instructions per packet, against a baseline.")
    parser.add_argument("--write", action="store_true", help="record these counts as baseline")
    parser.add_argument("--tolerance", type=float, default=3.0, metavar="PERCENT")
    parser.add_argument("--cases", nargs="+", metavar="WORD", help="cases whose name has a word")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("instructions.py: valgrind is missing (Debian package valgrind)", file=sys.stderr)
        return 2
    stored: dict[str, dict[str, float]] = (
        json.loads(BASELINES.read_text()) if BASELINES.exists() else {}
    )
    version = rustc_version()
    baseline = stored.get(version, {})
    counted: dict[str, float] = {}
    failed = False
    print(f"instructions per delivered packet, rustc {version}")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if args.cases and not any(word in case.name for word in args.cases):
                continue
            counted[case.name] = now = round(per_packet(case, folder), 1)
            before = baseline.get(case.name)
            change = "no baseline" if before is None else f"{100 * (now / before - 1):+.1f} %"
            over = before is not None and now > before * (1 + args.tolerance / 100)
            failed |= over
            print(f"  {case.name:35} {now:8.1f}  {change}{'  TOO MANY' if over else ''}")
    if args.write or not baseline:
        stored[version] = {**baseline, **counted}
        BASELINES.write_text(json.dumps(stored, indent=1) + "\n")
        print(f"recorded in {BASELINES.name}")
    return 1 if failed and not args.write else 0


if __name__ == "__main__":
    sys.exit(main())
