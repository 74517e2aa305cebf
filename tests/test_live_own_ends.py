"""Programs over live links whose ends have lasthop's own TCP: conversations of several kinds, peers
without options of TCP, captures.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from live_cases import OPTIONS
from live_conversations import check, converse
from optional import needs
from processes import ended

from lasthop.live import link as live

REASON = live.missing()
LOSSY = ("--rate", "20Mbps", "--rtt", "4ms", "--loss", "1%")
#: The second one has the same kernels, which meet the link by endpoints only.
ENDS = ["own,kernel", pytest.param("own", marks=pytest.mark.more("test_conversations_of_programs"))]

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.mark.parametrize(("ends", "v6"), [("own,kernel", False), ("kernel,own", True)])
def test_conversations_of_programs(ends: str, v6: bool) -> None:
    found, report = converse(*LOSSY, "--ends", ends, v6=v6)
    check(found, report)


@pytest.mark.parametrize("ends", ENDS)
def test_kernels_without_options_of_tcp(ends: str) -> None:
    off = {f"tcp_{name}" for name in OPTIONS}
    found, report = converse(*LOSSY, "--ends", ends, "--scheme", "westwood", OFF=" ".join(off))
    check(found, report, options=[])


@pytest.mark.more("test_kernels_without_options_of_tcp")
@pytest.mark.parametrize("missing", OPTIONS)
@pytest.mark.parametrize("ends", ["own,kernel", "own"])
def test_kernels_without_one_option_of_tcp(ends: str, missing: str) -> None:
    found, report = converse(*LOSSY, "--ends", ends, OFF=f"tcp_{missing}")
    check(found, report, options=[name for name in OPTIONS if name != missing])


@pytest.mark.parametrize("ends", ENDS)
def test_small_segments_of_a_peer(ends: str) -> None:
    found, report = converse(*LOSSY, "--ends", ends, SEGMENT="536")
    check(found, report)
    if ends == "own,kernel":
        # IP packets of the server's end, whose peer is the kernel that asks for 536 bytes.
        down = report["links"][0]
        assert down["from"] == "server"
        assert down["bytes"] <= 576 * down["offered_frames"]


@pytest.mark.more("test_conversations_of_programs")
@needs("tshark")
def test_wireshark_has_no_complaint_about_what_own_ends_send(tmp_path: Path) -> None:
    file = tmp_path / "link.pcapng"
    found, report = converse(*LOSSY, "--ends", "own", "--pcap", str(file))
    check(found, report)
    # In the order of sending, at the server: what leaves there, and what arrives.
    shown = "frame.interface_id == 0"
    wrong = "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0"
    wrong += " || tcp.analysis.ack_lost_segment || tcp.analysis.window_full && tcp.len == 0"
    checks = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    counts = []
    for condition in (shown, f"{shown} && ({wrong})", f"{shown} && tcp.checksum.status == 1"):
        frames = ended(
            ["tshark", "-r", str(file), *checks, "-Y", condition, "-T", "fields", "-e", "tcp.seq"],
            check=True,
        )
        counts.append(len(frames.stdout.splitlines()))
    assert counts[0] == counts[2] > 2000
    assert counts[1] == 0


@pytest.mark.long
@pytest.mark.parametrize("ends", ["own,kernel", "own"])
def test_ten_thousand_writes_of_one_byte_and_five_idle_seconds(ends: str) -> None:
    hop = ("--rate", "20Mbps", "--rtt", "2ms")
    found, report = converse(*hop, "--ends", ends, ROUNDS="10000", IDLE="5")
    check(found, report)
