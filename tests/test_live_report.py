"""What the report of a live link says about this machine: its drops and its congestion control."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import validate
from processes import ended

from lasthop import _native
from lasthop.live import link as live
from lasthop.live import validation

REASON = live.missing()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

LINK = [sys.executable, "-m", "lasthop", "link", "--rate", "50Mbps", "--rtt", "10ms"]
LINK += ["--bound", "10s"]

# More datagrams than wait in a TUN device, once a line has been read.
FLOOD = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print('ready', flush=True)
sys.stdin.readline()
for _ in range(6000): s.sendto(bytes(100), ('100.64.0.1', 9))
print('sent', flush=True)
sys.stdin.readline()
"""


def missing_tun() -> str | None:
    rows, _ = _native.link_abilities()
    return next(why for name, _, why, _ in rows if name == "tun")


def report(*words: str) -> Any:
    done = ended([*LINK, "--json", *words, "--", "true"])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    validate("link", document)
    return document


@pytest.mark.skipif(missing_tun() is not None, reason=str(missing_tun()))
def test_packets_that_lasthop_does_not_read_in_time_make_the_run_invalid() -> None:
    server = f"{sys.executable} -m http.server 80"
    words = ["--device", "tun", "--json", "--server", server, "--", sys.executable, "-c", FLOOD]
    link = subprocess.Popen(
        [*LINK, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert link.stdin is not None
    assert link.stdout is not None
    assert link.stdout.readline() == "ready\n"
    os.kill(link.pid, signal.SIGSTOP)
    link.stdin.write("go\n")
    link.stdin.flush()
    assert link.stdout.readline() == "sent\n"
    os.kill(link.pid, signal.SIGCONT)
    out, err = link.communicate("end\n", timeout=60)
    document = json.loads(out)
    validate("link", document)
    reasons = document["own_drop_reasons"]
    # 4096 packets wait in the device.
    assert 1000 < reasons["not_read"] <= 6000 - 4096
    assert document["own_drops"] == sum(reasons.values())
    radio = next(x for x in document["links"] if x["from"] == "phone")
    assert radio["offered_frames"] >= 6000 - reasons["not_read"]
    assert (link.returncode, document["valid"]) == (1, False)
    text = f"{reasons['not_read']} packets were dropped because lasthop did not read them in time"
    assert document["invalid"][0].startswith(text)
    assert f"INVALID: {text}" in err


def test_a_run_without_faults_is_valid() -> None:
    document = report()
    assert (document["valid"], document["invalid"], document["own_drops"]) == (True, [], 0)


def test_the_congestion_control_of_the_ends_is_named() -> None:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    document = report("--scheme", "snoop")
    own = {"server": False, "mobile": False}
    ends = {
        "congestion_control": default,
        "available": available,
        "chosen": False,
        "own": own,
    }
    assert document["ends"] == ends
    line = (
        f"ends: congestion control {default} (default of this machine, for programs that choose"
        f" none); available: {', '.join(available)}"
    )
    assert line in live.summary(document).splitlines()
    assert ("BBR hardly slows down" in live.summary(document)) == default.startswith("bbr")
    # Reno is compiled into each kernel.
    document = report("--scheme", "snoop", "--ends", "reno")
    assert document["ends"] == {**ends, "congestion_control": "reno", "chosen": True}
    assert "ends: congestion control reno (--ends," in live.summary(document)
    assert "hint" not in live.summary(document)


@pytest.mark.parametrize("name", ["bbr", "bbr3"])
def test_before_bbr_agents_come_with_a_hint(name: str) -> None:
    ends = {"congestion_control": name, "available": [name], "chosen": True}
    assert live.ends_text({"ends": ends, "agents": [{"scheme": "mine"}]})[1].startswith("hint: BBR")
    assert len(live.ends_text({"ends": ends, "agents": []})) == 1


def test_a_validation_names_the_congestion_control_of_the_ends() -> None:
    ends = {"congestion_control": "cubic", "available": ["reno", "cubic"]}

    def cell(sender: str, scheme: str) -> validation.Cell:
        return validation.Cell(sender, scheme, False, [], [], [], [], "TCP_INFO", [], [], ends)

    text = validation.table([cell("bbr", "snoop")])
    assert "the receivers have cubic (default of this machine)" in text
    assert "hint: BBR hardly slows down" in text
    assert "hint" not in validation.table([cell("bbr", "none"), cell("reno", "snoop")])
    assert validation.document([cell("reno", "none")])["ends"] == ends


def test_connections_beyond_the_limit_are_named() -> None:
    carried = {"missing": None, "connections": 5000, "refused": 1, "beyond_limit": 904}
    carried |= {"limit": 4096, "datagrams": 0, "dropped": 0}
    text = live._outer_network(carried)
    assert "5000 connections (1 refused), 0 datagrams" in text
    assert "904 connections were reset by lasthop, which carries at most 4096 at a time" in text
    assert "reset by lasthop" not in live._outer_network({**carried, "beyond_limit": 0})
