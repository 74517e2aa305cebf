"""Groups of tests that pytest's workers do not share out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GROUP = """
import os, pytest

@pytest.mark.xdist_group("time")
@pytest.mark.parametrize("i", range(8))
def test_one(i):
    with open("workers", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


def test_a_group_runs_on_one_worker(tmp_path: Path) -> None:
    """Tests that measure time follow each other."""
    (tmp_path / "test_group.py").write_text(GROUP)
    words = ["-p", "no:cacheprovider", "--numprocesses", "2", "--dist", "loadgroup"]
    call = [sys.executable, "-m", "pytest", *words, "test_group.py"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    workers = (tmp_path / "workers").read_text().split()
    assert (len(workers), len(set(workers))) == (8, 1)
