"""Record a PGO profile: which branches typical runs take, for `make build-pgo`.

    python tools/pgo_profile.py

An instrumented lasthop is built in target/pgo, beside the ordinary one. It runs the cases of the
speed comparison, every end-to-end scheme on three of them and under the default profile, a sweep of
short runs, cells and figures. What no case executes is compiled for size and placed far away, so
that it is slower than without a profile: a scheme or a link belongs to the cases. The merged counts
are written to target/pgo/lasthop.profdata; only the same version of rustc can use them. Needs
llvm-profdata (`rustup component add llvm-tools`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import speed  # noqa: E402

WORK = ROOT / "target" / "pgo"
RAW, SITE = WORK / "raw", WORK / "site"
PROFILE = WORK / "lasthop.profdata"
FIGURES = ["yun2009", "noor/fig04", "zeng2006/fig15"]
# What users type, beside the cases of the bench.
COMMANDS = [
    "compare --rate 2Mbps --loss 1% --set duration=1s --schemes reno,cubic,snoop --seeds 40"
    " --vary last_hop.rtt=20..100..20ms --no-figure --quiet",
    "compare --wifi 802.11ac --stations 5 --schemes cubic,bbr,snoop --seeds 2 --quiet --no-figure"
    " --set duration=5s",
    "compare --wifi 802.11ax --stations 40 --schemes cubic --seeds 1 --quiet --no-figure"
    " --set duration=5s",
]


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def profdata() -> str:
    """Path of llvm-profdata of the current compiler; other versions cannot read its counts."""
    host = next(
        line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:")
    )
    program = (
        Path(output("rustc", "--print", "sysroot"))
        / "lib"
        / "rustlib"
        / host
        / "bin"
        / "llvm-profdata"
    )
    if not program.exists():
        sys.exit("llvm-profdata is missing: rustup component add llvm-tools")
    return str(program)


def build() -> None:
    """Build the instrumented lasthop, as an unpacked wheel."""
    wheels = WORK / "wheel"
    for folder in (wheels, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    flags = {"RUSTFLAGS": f"-Cprofile-generate={RAW}"}
    maturin = Path(sys.executable).parent / "maturin"
    build = [
        str(maturin),
        "build",
        "--release",
        "--quiet",
        "--target-dir",
        str(WORK / "build"),
        "--out",
        str(wheels),
    ]
    subprocess.run(build, check=True, cwd=ROOT, env=os.environ | flags)
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(SITE),
    ]
    subprocess.run([*install, *map(str, wheels.glob("*.whl"))], check=True)
    # Build scripts were instrumented as well; their counts are not wanted.
    shutil.rmtree(RAW, ignore_errors=True)


def train() -> None:
    """Run the training cases on one core: threads that share counters are slow."""
    os.environ["PYTHONPATH"] = str(SITE)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "lasthop"
        # Counts are written when the process exits; the command itself exits at once.
        call = "import sys; from lasthop.cli.main import main; sys.exit(main())"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{call}" "$@"\n')
        program.chmod(0o755)
        speed.LASTHOP = program
        for case in speed.CASES:
            print(case.name, flush=True)
            speed.lasthop(case, case.seconds, folder)
        for scheme in speed.schemes():
            for profile in ("ns-2.35", "rfc", "linux"):
                for case in speed.CASES[1:]:
                    speed.lasthop(
                        replace(case, scheme=scheme, profile=profile), case.seconds // 8, folder
                    )
            for hop in (speed.FAST + speed.LOSSY, speed.LTE):
                case = speed.DefaultCase(f"default, {scheme}", 2, 0, hop, scheme, 0.0, flows=2)
                speed.lasthop(case, case.seconds, folder)
        for default in speed.DEFAULT_CASES:
            print(default.name, flush=True)
            speed.lasthop(default, default.seconds // 2, folder)
        figures = [f"reproduce {figure} --quick" for figure in FIGURES]
        for number, words in enumerate(COMMANDS + figures):
            print(words, flush=True)
            command = [str(program), *words.split(), "--out", f"{folder}/{number}"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    merge = profdata()
    build()
    train()
    counts = [str(file) for file in RAW.glob("*.profraw")]
    if not counts:
        sys.exit("the training runs have written no counts")
    subprocess.run([merge, "merge", "-sparse", "-o", str(PROFILE), *counts], check=True)
    print(f"{PROFILE}: {PROFILE.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
