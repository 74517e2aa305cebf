"""Truth test of `lasthop trace fit` with files of real programs, measured over live links."""

from __future__ import annotations

from pathlib import Path

import live_fits
import pytest
from busy import undecided
from optional import needs

from lasthop.live import link as live
from lasthop.traces.fit.fit import Fit

REASON = live.missing()

pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    needs(*live_fits.PROGRAMS),
]


def values(found: Fit) -> dict[str, tuple[float, float, float, bool]]:
    return {e.name: (e.value, e.low, e.high, e.is_range) for e in found.estimates()}


@pytest.mark.long
def test_parameters_are_found_in_what_iperf3_ping_and_tcpdump_write(tmp_path: Path) -> None:
    link = live_fits.drawn(2)
    run = live_fits.carried(link, 2, tmp_path)
    if run.late_s > 1e-3:
        undecided(f"the 99th percentile of lateness was {1e3 * run.late_s:.1f} ms, more than 1 ms")
    for name in live_fits.MEASUREMENTS:
        found = values(run.fit(name))
        assert found["base_rtt"][0] == pytest.approx(link.rtt_s, rel=0.05), name
        capacity, low, high, is_range = found["capacity"]
        assert low * 0.97 <= link.rate_bps <= high * 1.03, name
        if name == "tcpdump":
            assert not is_range
            assert capacity == pytest.approx(link.rate_bps, rel=0.02)
        _, low, high, is_range = found["air_loss"]
        # Without round-trip times of the time of the datagrams, all losses may be overflows.
        assert is_range == (name not in ("tcpdump", "ping")), name
        assert low / 1.5 <= link.loss <= 1.5 * high, name
