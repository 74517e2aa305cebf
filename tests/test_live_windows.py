"""Congestion windows of real and simulated senders, without a live link."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lasthop.experiments import plan
from lasthop.live import windows


def test_windows_are_compared_at_the_acks_that_both_have_seen() -> None:
    real = {0: 10, 1: 11, 3: 13, 4: 20, 5: 21}
    simulated = {0: 0, 1: 11, 2: 12, 3: 14, 4: 17.5, 5: 21.9}
    compared = windows.compare(real, simulated, 0.1)
    # One segment or a tenth is equal; the state before the first ACK does not count.
    assert compared == windows.Comparison(4, 3, (4, 20, 17.5))
    assert compared.document()["parted"] == {
        "acked_segments": 4,
        "real_segments": 20,
        "simulated_segments": 17.5,
    }
    assert windows.compare(real, real, 0).document() == {"acks": 4, "equal": 4, "parted": None}


def test_the_last_sample_of_an_ack_counts(tmp_path: Path) -> None:
    samples = [[0, 10], [1448, 10], [1448, 11], [1449, 12], [2896, 13]]
    file = tmp_path / "sender.json"
    file.write_text(json.dumps({"start": 7.5, "cookie": 2**63, "samples": samples}))
    found = windows.read_report(file, 1448)
    assert found == windows.Sent(7.5, 2**63, {0: 10, 1: 12, 2: 13})


def test_samples_of_the_tracepoint_are_those_before_the_next_ack() -> None:
    # Another connection; sequence numbers that wrap.
    rows = [(1, 5, 2**32 - 1448, 10), (2, 6, 77, 99), (3, 5, 0, 11), (4, 5, 0, 12), (5, 5, 1448, 7)]
    assert windows.probed(rows, 5, 1448) == {0: 10, 1: 12, 2: 7}
    # The clocks of two processors differ.
    late = [(9 if una > 1448 else at, of, una, cwnd) for at, of, una, cwnd in rows]
    assert windows.probed(late, 5, 1448) == {0: 10, 1: 12, 2: 7}
    assert windows.probed(rows, 4, 1448) == {}


def test_the_simulated_window_grows_by_a_segment_per_segment_in_slow_start() -> None:
    source = plan.source(None, last_hop={"rate": "10Mbps", "rtt": "40ms"})
    scenario: Any = plan.load(source, "reno")
    _, recorded = scenario.run_recorded(1, True)
    simulated = windows.simulated(recorded, 1448)
    assert [simulated[n] for n in range(1, 20)] == [10 + n for n in range(1, 20)]
