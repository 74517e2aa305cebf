"""Real transfers beside simulated ones: `lasthop validate`, and where real windows come from."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from busy import OtherPrograms, undecided
from documents import validate
from processes import ended
from test_live import REASON, measures_time, run

from lasthop.live import validation, windows
from lasthop.live.transfer import LISTENING, REPORT

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@measures_time
def test_a_real_transfer_beside_a_simulated_one() -> None:
    words = [sys.executable, "-m", "lasthop", "validate", "--rate", "10Mbps", "--rtt", "40ms"]
    words += ["--loss", "1%", "--senders", "reno", "--schemes", "none,snoop", "--seeds", "1"]
    others = OtherPrograms()
    done = ended([*words, "--size", "400 kB", "--json"])
    document = json.loads(done.stdout)
    validate("validate", document)
    assert any("snoop cache_packets" in line for line in document["assumed"])
    late = [x["error"] == validation.LATE for x in document["failed"]]
    assert all(late), document["failed"]
    assert (done.returncode == 0) == (late == []), done.stderr
    if late:
        undecided(f"{len(late)} transfers had packets that came late")
    for cell in document["cells"]:
        # As root the tracepoint can be had, unless the kernel has none; it may miss samples.
        assert cell["cwnd_source"] in ("TCP_INFO", "tcp_probe")
        assert probe_is_missing() is None or cell["cwnd_source"] == "TCP_INFO"
        assert cell["cwnd"][0]["acks"] > 50
    ratios = [cell["ratio"] for cell in document["cells"] + document["controls"]]
    others.decide(all(0.5 < x < 1.5 for x in ratios), f"real goodput was {ratios} of simulated")
    controls = [x for cell in document["controls"] for x in cell["counters"]]
    assert len(controls) == 2
    for name in ("retransmissions", "fast_retransmits", "timeouts"):
        # The same frames are lost; packets that come late may add a few.
        found = [(x["real"][name], x["simulated"][name]) for x in controls]
        same = all(abs(real - simulated) <= 3 for real, simulated in found)
        others.decide(same, f"{name}, real and simulated, were {found}")


def probe_is_missing() -> str | None:
    try:
        windows.TcpProbe(1)
    except OSError as error:
        return str(error)
    return None


@measures_time
@pytest.mark.skipif(probe_is_missing() is not None, reason=str(probe_is_missing()))
def test_the_tracepoint_and_the_socket_report_the_same_windows(tmp_path: Path) -> None:
    probe = windows.TcpProbe(validation.PORT)
    program = f"{sys.executable} -I -m lasthop.live.transfer"
    send = f"{program} send $LASTHOP_MOBILE {validation.PORT} 1200000 cubic {tmp_path} 0.0005"
    send += " 0 65536"
    receive = [*program.split(), "receive", str(validation.PORT), "1200000", str(tmp_path)]
    others = OtherPrograms()
    # In some transfers perf events miss most records of a processor (docs/validation.md).
    for _ in range(6):
        (tmp_path / LISTENING).unlink(missing_ok=True)
        (tmp_path / REPORT).unlink(missing_ok=True)
        done = run(
            "--rate", "10Mbps", "--rtt", "40ms", "--loss", "1%", "--server", send, "--", *receive
        )
        assert done.returncode == 0, done.stderr
        sent = windows.read_report(tmp_path / REPORT, 1448)
        probed = probe.take(sent.cookie, 1448)
        if len(probed) > 250:
            break
    # 828 segments, of which every second one is acknowledged; the last ones while the connection
    # is closing, which the tracepoint does not show.
    others.decide(len(probed) > 250, f"the tracepoint showed {len(probed)} ACKs of about 414")
    assert [acked for acked in probed if acked > 828] == []
    common = probed.keys() & sent.windows.keys()
    # Samples of the socket miss ACKs that come together, and the last window before one.
    others.decide(len(common) > 150, f"the socket and the tracepoint share {len(common)} ACKs")
    equal = sum(abs(probed[acked] - sent.windows[acked]) <= 1 for acked in common)
    assert equal >= 0.95 * len(common)


def test_nothing_of_the_tracepoint_is_left() -> None:
    if probe_is_missing() is not None:
        pytest.skip(str(probe_is_missing()))
    mounts = Path("/proc/self/mounts").read_text()
    probe = windows.TcpProbe(1)
    assert probe.take(0, 1448) == {}
    assert Path("/proc/self/mounts").read_text() == mounts
    assert perf_events() >= 1
    del probe
    assert perf_events() == 0


def perf_events() -> int:
    """Descriptors of perf events that this process holds."""
    found = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += "perf_event" in os.readlink(file)
    return found
