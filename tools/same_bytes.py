"""Show that builds of the native module print the same bytes.

    make same-bytes   or   python tools/same_bytes.py MODULE.so MODULE.so …

For each module, `lasthop run --json` simulates every scheme on a lossy link, and some on the
shipped traces, in an 802.11 cell, and with the queue disciplines. All output must equal that of the
first module, byte for byte. `make same-bytes` compares the optimised build with that of the dev
profile, and, if `make build-pgo` has recorded a profile, with one that uses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "python" / "lasthop"
CELL = PACKAGE / "papers" / "noor" / "fig04.toml"
LOSSY = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%", "--duration", "20s"]
LTE = ["--down", "synthetic-lte.down", "--up", "synthetic-lte.up", "--rtt", "40ms"]
WIFI = ["--down", "synthetic-wifi.down", "--rtt", "40ms", "--loss", "1%"]
DISCIPLINES = ["red", "codel", "fq-codel"]


def install(module: Path, folder: Path) -> dict[str, str]:
    """The environment of a lasthop with this native module, whose other files are links."""
    package = folder / "lasthop"
    package.mkdir(parents=True)
    for file in PACKAGE.iterdir():
        if not file.name.startswith(("_native.", "__pycache__")):
            (package / file.name).symlink_to(file)
    (package / "_native.abi3.so").symlink_to(module.resolve())
    return os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}


def output(env: dict[str, str], *arguments: str) -> bytes:
    """What `lasthop` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "lasthop", *arguments], env=env, capture_output=True
    )
    if done.returncode:
        sys.exit(f"lasthop {' '.join(arguments)}\n{done.stderr.decode()}")
    return done.stdout


def cases(env: dict[str, str]) -> list[list[str]]:
    """The arguments of all runs."""
    listed = [s["name"] for s in json.loads(output(env, "schemes", "--json"))]
    return [
        *([*LOSSY, "--scheme", name] for name in listed),
        *([*LTE, "--scheme", name, "--duration", "20s"] for name in ("newreno", "cubic", "bbr")),
        *([*WIFI, "--traffic", "web+bulk", "--duration", "20s", "--seed", k] for k in "123"),
        [str(CELL)],
        *(
            [
                *LOSSY,
                "--scheme",
                "cubic",
                "--set",
                f'last_hop.queue={{ discipline = "{name}", packets = 50 }}',
            ]
            for name in DISCIPLINES
        ),
    ]


def main() -> int:
    modules = [Path(name) for name in sys.argv[1:]]
    if len(modules) < 2:
        print("usage: same_bytes.py MODULE.so MODULE.so …", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        envs = [install(m, Path(folder) / str(k)) for k, m in enumerate(modules)]
        runs = cases(envs[0])
        printed = [
            list(pool.map(lambda r, e=env: output(e, "run", "--json", *r), runs)) for env in envs
        ]
    different = 0
    for module, texts in zip(modules, printed, strict=True):
        digest = hashlib.sha256(b"".join(texts)).hexdigest()[:16]
        print(f"{digest}  {len(texts)} runs, {sum(map(len, texts))} bytes  {module}")
        for run, text, first in zip(runs, texts, printed[0], strict=True):
            if text != first:
                different += 1
                print(f"  differs: lasthop run --json {' '.join(run)}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
