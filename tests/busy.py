"""Tests that measure time: on a machine that other programs keep busy they are undecided, which is
a skip that says what was measured, and never fail.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NoReturn

import pytest

#: Seconds after which a process hangs, if it should have ended or answered. A busy machine takes
#: less, and a test that passes does not wait.
PATIENCE = 300
#: Processors that other programs may use on an idle machine.
IDLE = 0.05


def undecided(measured: str) -> NoReturn:
    """End a test whose condition could not be met, or not be met in time."""
    pytest.skip(f"undecided: {measured}")


def cpu_seconds(pid: int) -> float:
    """Processor time of a running process, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children_cpu_seconds() -> float:
    """Processor time of the children of this process that have ended, and of theirs."""
    return os.times().children_user + os.times().children_system


class OtherPrograms:
    """What other programs use of the machine from now on: all but this process and its children
    that have ended.
    """

    def __init__(self) -> None:
        self._begin = self._read()

    @staticmethod
    def _read() -> tuple[float, float]:
        """The time, and the processor time of other programs, in seconds."""
        numbers = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, numbers)
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        own = os.times()
        return time.monotonic(), busy - sum(own[:4])

    def processors(self) -> float:
        """Processors that other programs have used on average."""
        (begin, before), (end, after) = self._begin, self._read()
        return (after - before) / (end - begin)

    def decide(self, holds: bool, measured: str) -> None:
        """Fail if the measurement does not hold, unless other programs can be the reason."""
        if holds:
            return
        others = self.processors()
        if others > IDLE:
            undecided(f"{measured}, while other programs used {others:.2f} processors")
        pytest.fail(f"{measured}; other programs used {others:.2f} processors")
