"""Connections that `lasthop gateway` divides, between real network namespaces."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from busy import OtherPrograms, undecided
from optional import needs
from processes import ended
from test_live_gateway import REASON

import lasthop
from lasthop.analysis import series
from lasthop.cli.main import main

HERE = Path(__file__).parent
#: Connections one after the other, and at a time.
COUNT, TOGETHER = (10_000, 50) if os.environ.get("LASTHOP_LONG_TESTS") else (500, 20)
#: I-TCP's buffer, bytes.
BUFFER = 64_000
#: Rates of RNF's radio link (Mbit/s), how long each holds, and the time between reports (s).
RATES, PHASE, PERIOD = (2, 8, 2), 1.8, 0.15

live = pytest.mark.skipif(REASON is not None, reason=str(REASON))


def split(scheme: str, *words: str, version: int = 4) -> dict[str, Any]:
    """What `gateway_splits.py` finds."""
    call = ["unshare", "-n", sys.executable, str(HERE / "gateway_splits.py"), scheme, *words]
    environment = {**os.environ, "VERSION": str(version)}
    done = ended(call, env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@live
@needs("ip")
@pytest.mark.parametrize(("scheme", "version"), [("i-tcp", 4), ("m-tcp", 6), ("mtcp", 6)])
def test_no_connection_is_lost(scheme: str, version: int) -> None:
    # The server answers with the address that it sees, which is the client's.
    found = split(scheme, "short", str(COUNT), str(TOGETHER), version=version)
    assert found["failures"] == {}
    assert found["bulk"]["right"]
    assert found["changed"] == []
    report = found["report"]
    # Those beyond a thousand a second pass.
    assert 0.9 * COUNT < report["connections_seen"] <= COUNT + 1
    assert report["agent"]["connections_reset"] == 0
    assert report["not_injected"] == 0


@live
@needs("ip")
def test_a_slow_reader_holds_the_sender_back() -> None:
    found = split("i-tcp", "slow")
    held = found["acknowledged"] - found["arrived"]
    assert 0 < held <= BUFFER
    assert found["report"]["agent"]["buffer_peak_bytes"] <= BUFFER
    # SIGUSR1 shows the connection.
    (shown,) = found["state"]["divided"]
    assert (shown["server"], shown["to_mobile"]) == ("10.2.0.2:5001", "ESTABLISHED")
    assert shown["mobile"].startswith("10.1.0.2:")
    assert shown["held"] == held


@live
@needs("ip", "nft")
def test_connection_tracking_sees_one_connection() -> None:
    found = split("i-tcp", "nat", "200", "8")
    assert (found["failures"], found["invalid"], found["changed"]) == ({}, 0, [])
    assert found["bulk"]["right"]
    assert found["report"]["connections_seen"] == 201


@live
@needs("ip", "nft")
def test_a_killed_gateway_leaves_nothing_and_stops_nobody() -> None:
    found = split("i-tcp", "killed")
    assert (found["failures"], found["changed"]) == ({}, [])


@live
@needs("ip")
def test_connections_pass_a_gateway_that_is_stopped() -> None:
    found = split("i-tcp", "stopped")
    assert found["failures"] == {}
    assert "reset by peer" in found["waiting"]
    assert found["report"]["connections_seen"] == found["report"]["agent"]["connections_reset"] == 1


def simulated_queues() -> list[float]:
    """The mean queue of the second half of each phase, packets."""
    schedule = [{"at": f"{i * PHASE} s", "rate": f"{rate}Mbps"} for i, rate in enumerate(RATES)]
    run = lasthop.run(
        last_hop={"rate": {"schedule": schedule}, "rtt": "2ms", "queue": "200packets"},
        settings={"duration": f"{len(RATES) * PHASE} s"},
        scheme=f"rnf:period={PERIOD}s",
    )
    kinds = list(series.SERIES["queue"][1])
    events = series.Events.of(kinds, run.scenario.run_series(1, kinds)[1])
    halves = (np.arange((i + 0.5) * PHASE, (i + 1) * PHASE, 0.01) for i in range(len(RATES)))
    return [float(np.nanmean(series.sample(events, "queue", grid))) for grid in halves]


# With the tests that begin first: it is the longest of this file.
@pytest.mark.xdist_group("gateway")
@live
@needs("ip")
def test_rnf_holds_its_queue_while_the_rate_changes() -> None:
    others = OtherPrograms()
    rates = [str(rate) for rate in RATES]
    found = split(f"rnf:period={PERIOD}s", "rnf", str(PERIOD), str(PHASE), *rates)
    assert found["report"]["agent"]["stale_notices"] == 0
    if found["late_s"] > PERIOD / 2:
        undecided(f"reports were {found['late_s']:.2f} s late")
    for simulated, measured in zip(simulated_queues(), found["queues"], strict=True):
        ratio = measured / 1500 / simulated
        text = f"{measured / 1500:.2f} packets, simulated {simulated:.2f}"
        others.decide(0.8 <= ratio <= 1.2, text)


def test_rnf_needs_reports_of_the_radio_link(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--scheme", "rnf", "--wireless", "lo"]) == 2
    assert "scheme `rnf` needs reports of the radio link" in capsys.readouterr().err


def test_agents_have_no_use_for_reports(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "--scheme", "snoop", "--wireless", "lo", "--radio", "5005"]) == 2
    assert "scheme `snoop` has no use for reports" in capsys.readouterr().err
