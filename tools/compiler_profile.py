"""Make the compiler's profile anew: which ways through the code typical runs take, for `make build`.

    make profile

An instrumented lasthop is built beside the ordinary one, in target/profile, and does what lasthop is mostly used for: the
cases of the speed comparison, every end-to-end scheme on three of them, and figures with cells. What it counted goes into
profile/lasthop.profdata, for the rustc that is named in profile/rustc. Functions that have changed since are compiled as
if there were no profile, so it wants to be made anew after changes of the hot path. It needs llvm-profdata (`rustup
component add llvm-tools`), which `make build` does not.
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

PROFILE, WORK = ROOT / "profile", ROOT / "target" / "profile"
RAW, SITE = WORK / "raw", WORK / "site"
FIGURES = ["yun2009", "noor/fig04", "zeng2006/fig15"]


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def profdata() -> str:
    """llvm-profdata of the compiler in use: another version's would not read its counts."""
    host = next(line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:"))
    program = Path(output("rustc", "--print", "sysroot")) / "lib" / "rustlib" / host / "bin" / "llvm-profdata"
    if not program.exists():
        sys.exit("llvm-profdata is missing: rustup component add llvm-tools")
    return str(program)


def build() -> None:
    """The instrumented lasthop, as an unpacked wheel."""
    wheels = WORK / "wheel"
    for folder in (wheels, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    flags = {"RUSTFLAGS": f"-Cprofile-generate={RAW}"}
    maturin = Path(sys.executable).parent / "maturin"
    build = [str(maturin), "build", "--release", "--quiet", "--target-dir", str(WORK / "build"), "--out", str(wheels)]
    subprocess.run(build, check=True, cwd=ROOT, env=os.environ | flags)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(SITE)]
    subprocess.run([*install, *map(str, wheels.glob("*.whl"))], check=True)
    # The compiler's own helpers were instrumented, too.
    shutil.rmtree(RAW, ignore_errors=True)


def train() -> None:
    """What is counted: on one core, for threads that count the same things are slow."""
    os.environ["PYTHONPATH"] = str(SITE)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "lasthop"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lasthop "$@"\n')
        program.chmod(0o755)
        speed.LASTHOP = program
        for case in speed.CASES:
            print(case.name, flush=True)
            speed.lasthop(case, case.seconds, folder)
        for scheme in speed.schemes():
            for profile in ("ns-2.35", "rfc", "linux"):
                for case in speed.CASES[1:]:
                    speed.lasthop(replace(case, scheme=scheme, profile=profile), case.seconds // 8, folder)
        for figure in FIGURES:
            print(figure, flush=True)
            subprocess.run([str(program), "reproduce", figure, "--quick", "--out", folder], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    merge = profdata()
    build()
    train()
    PROFILE.mkdir(exist_ok=True)
    subprocess.run([merge, "merge", "-sparse", "-o", str(PROFILE / "lasthop.profdata"), *map(str, RAW.glob("*.profraw"))], check=True)
    (PROFILE / "rustc").write_text(output("rustc", "--version") + "\n")
    print(f"{PROFILE / 'lasthop.profdata'}: {(PROFILE / 'lasthop.profdata').stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
