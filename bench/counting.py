"""Instructions per delivered packet, counted by callgrind."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Runs one scenario with nothing but the native module, and prints the delivered segments.
RUN = """
import importlib.util as u, sys
spec = u.spec_from_file_location("lasthop._native", sys.argv[1])
native = u.module_from_spec(spec)
spec.loader.exec_module(native)
result = native.Scenario(open(sys.argv[2]).read()).run(1).to_dict()
print(sum(f["delivered_bytes"] for f in result["flows"]) // 1000)
"""


def native_module() -> str:
    """Path of the native module of the lasthop that this Python imports."""
    import lasthop._native

    path = lasthop._native.__file__
    assert path is not None
    return path


def command(scenario: Path) -> list[str]:
    """The command that runs a scenario."""
    return [sys.executable, "-I", "-S", "-c", RUN, native_module(), str(scenario)]


def count(text: str, folder: str) -> tuple[int, int]:
    """Instructions and delivered packets of one run of a scenario."""
    scenario = Path(folder) / "case.toml"
    scenario.write_text(text)
    callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"]
    done = subprocess.run([*callgrind, *command(scenario)], capture_output=True, text=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"valgrind failed\n{done.stderr}")
    return int(found[1]), int(done.stdout)


def per_packet(scenario: Callable[[float], str], seconds: float, folder: str) -> float:
    """Instructions per delivered packet between runs of T and 2 T, so without start-up."""
    short, long = (count(scenario(k * seconds), folder) for k in (1, 2))
    return (long[0] - short[0]) / (long[1] - short[1])


def rustc_version() -> str:
    """The version of rustc."""
    return subprocess.run(
        ["rustc", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
