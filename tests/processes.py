"""Commands that run as processes, and rules in Python with faults, for the tests of both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from busy import PATIENCE, undecided

HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%"]
SHORT = [*HOP, "--set", "duration=2s"]
LONG = [*HOP, "--set", "duration=100000s", "--limit", "900 d"]
RULES = """
import pathlib
import sys
import lasthop

class Half(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        window.cwnd += ack.mss * ack.mss / window.cwnd

class Broken(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        self.helper()

    def helper(self):
        raise ValueError("no idea")

class Leaves(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        sys.exit("had enough")

class Interrupts(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        raise KeyboardInterrupt

class Stuck(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        pathlib.Path(__file__).with_name("stuck").touch()
        while True:
            pass
"""
PROGRAM = [sys.executable, "-m", "lasthop"]


def ended(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has run to its end, with what it has printed. It has no input."""
    given = {"timeout": PATIENCE, "stdin": subprocess.DEVNULL, **options}
    return subprocess.run(command, capture_output=True, text=True, **given)


def started(*words: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        **options,
    )


def wait_for(what: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pause(what: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    """Stop a process as soon as a condition holds, so that it cannot end before what comes next;
    the caller sends SIGCONT. The test is undecided if the process had ended already.
    """
    wait_for(what, process)
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        process.returncode = os.waitstatus_to_exitcode(status)
        undecided("the command had ended before it could be stopped")


def rows_of(file: Path) -> int:
    return len(file.read_text().splitlines()) - 1 if file.exists() else 0
