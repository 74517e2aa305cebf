"""`lasthop sweep --dask`: a scheduler and two workers, as separate processes."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from busy import PATIENCE
from optional import needs_packages
from processes import pause, wait_for

from lasthop.errors import InputError
from lasthop.experiments import provenance

# Not imported here: every worker of the tests would compile and import it.
pytestmark = needs_packages("distributed")

SWEEP = ["sweep", "--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%", "--set", "duration=1s"]
SWEEP += ["--schemes", "reno,snoop", "--vary", "last_hop.rtt=20..60..20ms", "--seeds", "20"]
TABLES = ("runs.parquet", "table.parquet", "table.csv")


def dask(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )


def lasthop(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lasthop", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler file, and two workers without a process that restarts them."""
    file = tmp_path / "scheduler.json"
    to_scheduler = ("--scheduler-file", str(file))
    local = ("--host", "127.0.0.1", "--dashboard-address", ":0")
    scheduler = dask("scheduler", *to_scheduler, *local, "--port", "0")
    workers = [
        dask("worker", *to_scheduler, *local, "--nthreads", "1", "--no-nanny") for _ in range(2)
    ]
    try:
        yield str(file), workers
    finally:
        for process in [*workers, scheduler]:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()


def wait_for_file(file: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not Path(file).is_file():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.more("test_runs_with_dask")
def test_a_killed_worker_changes_nothing(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    file, workers = cluster
    whole, out = tmp_path / "whole", tmp_path / "out"
    subprocess.run(
        [sys.executable, "-m", "lasthop", *SWEEP, "--out", str(whole), "--quiet"], check=True
    )
    wait_for_file(file)
    words = [*SWEEP, "--out", str(out), "--dask", file, "--chunk", "1us"]
    process = lasthop(*words, "--json", "--progress", "json")
    wait_for(lambda: len(list((out / "parts").glob("*.parquet"))) >= 10, process)
    workers[0].kill()
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    found = json.loads(stdout)
    assert (found["runs"], found["reused"], found["missing"]) == (120, 0, 0)
    assert '"event": "progress"' in stderr
    assert [(out / n).read_bytes() for n in TABLES] == [(whole / n).read_bytes() for n in TABLES]


@pytest.mark.more("test_runs_with_dask")
def test_errors_of_workers_come_back(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    from lasthop.experiments.dask_workers import DaskWorkers

    file, _ = cluster
    rule = tmp_path / "mine.py"
    rule.write_text(
        "import lasthop\nclass Rule(lasthop.CongestionControl):\n"
        "    def on_ack(self, window, ack):\n        raise ValueError('no idea')\n"
    )
    wait_for_file(file)
    words = [*SWEEP[:-6], "--schemes", f"{rule}:Rule", "--seeds", "2"]
    process = lasthop(*words, "--out", str(tmp_path / "out"), "--dask", file)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "ValueError: no idea" in stderr
    with pytest.raises(InputError, match="has another build of lasthop"):
        DaskWorkers(file, "0" * 64)
    DaskWorkers(file, provenance.build_id()).close()


@pytest.mark.more("test_runs_with_dask")
def test_an_interrupt_keeps_finished_chunks(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    file, _ = cluster
    wait_for_file(file)
    out = tmp_path / "out"
    words = [*SWEEP, "--out", str(out), "--dask", file, "--chunk", "1us", "--json"]
    process = lasthop(*words)
    pause(lambda: len(list((out / "parts").glob("*.parquet"))) >= 5, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, stderr
    assert "repeat the command to continue" in stderr
    again = lasthop(*words)
    stdout, stderr = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0, stderr
    found = json.loads(stdout)
    assert (found["runs"], found["missing"]) == (120, 0)
    assert found["reused"] >= 5


def test_a_wrong_address(tmp_path: Path) -> None:
    process = lasthop(*SWEEP, "--out", str(tmp_path / "out"), "--dask", "nowhere://x")
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "--dask nowhere://x: no Dask scheduler answers there" in stderr
