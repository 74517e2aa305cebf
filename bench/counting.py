"""Instructions per delivered packet, counted by callgrind; memory of a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Runs one scenario with nothing but the native module, and prints the delivered bytes.
RUN = """
import importlib.util as u, sys
spec = u.spec_from_file_location("lasthop._native", sys.argv[1])
native = u.module_from_spec(spec)
spec.loader.exec_module(native)
result = native.Scenario(open(sys.argv[2]).read()).run(1).to_dict()
print(sum(f["delivered_bytes"] for f in result["flows"]))
"""

# The same, but prints by how much the run raises the peak of the process' memory, in KiB.
MEMORY = """
import importlib.util as u, resource, sys
spec = u.spec_from_file_location("lasthop._native", sys.argv[1])
native = u.module_from_spec(spec)
spec.loader.exec_module(native)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scenario = native.Scenario(open(sys.argv[2]).read())
before = peak()
result = scenario.run(1)
print(peak() - before)
"""


def native_module() -> str:
    """Path of the native module of the lasthop that this Python imports."""
    import lasthop._native

    path = lasthop._native.__file__
    assert path is not None
    return path


def command(scenario: Path, program: str = RUN) -> list[str]:
    """The command that runs a scenario."""
    return [sys.executable, "-s", "-P", "-S", "-c", program, native_module(), str(scenario)]


def memory(text: str, folder: str) -> float:
    """Memory of a run in MiB, without the interpreter and the scenario that was read."""
    scenario = Path(folder) / "case.toml"
    scenario.write_text(text)
    done = subprocess.run(command(scenario, MEMORY), capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def count(text: str, folder: str) -> tuple[int, int]:
    """Instructions and delivered bytes of one run of a scenario."""
    scenario = Path(folder) / "case.toml"
    scenario.write_text(text)
    callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/callgrind.out"]
    # The same hashes each time: otherwise the start of Python varies by more than a short run.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    call = [*callgrind, *command(scenario)]
    done = subprocess.run(call, capture_output=True, text=True, env=environment)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"valgrind failed\n{done.stderr}")
    return int(found[1]), int(done.stdout)


def per_packet(
    scenario: Callable[[float], str], seconds: float, folder: str, segment: int = 1000
) -> float:
    """Instructions per delivered packet of `segment` bytes of payload, between runs of T and 2 T,
    so without start-up.
    """
    short, long = (count(scenario(k * seconds), folder) for k in (1, 2))
    return (long[0] - short[0]) / (long[1] // segment - short[1] // segment)


def rustc_version() -> str:
    """The version of rustc."""
    return subprocess.run(
        ["rustc", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
