"""The traffic of a capture: what `lasthop advise` simulates the schemes over."""

from __future__ import annotations

from pathlib import Path

import pytest
from fitted_links import Link, measured

import lasthop
from lasthop.advice import advise
from lasthop.traces.fit import observed, scenario, traffic
from lasthop.traces.fit.fit import fit

SIZES = '{ distribution = "lognormal", median = "60 kB", sigma = 0.8, max = "800 kB" }'
APPS = {
    "bulk": 'app = "bulk"\ncount = 2',
    "requests": f'app = {{ kind = "requests", response = {SIZES}, think = "500 ms" }}\ncount = 2',
    "transfers": f'app = {{ kind = "poisson", size = {SIZES}, every = "400 ms" }}',
    "video": (
        'app = { kind = "video", ladder = ["500 kbps", "1 Mbps", "2 Mbps"], chunk = "2 s",'
        ' buffer = "18 s" }'
    ),
}


def link(kind: str, loss: float = 0.005) -> Link:
    """A link of 8 Mbit/s with this kind of traffic."""
    return Link(8e6, 0.06, loss, 100, app=APPS[kind])


@pytest.mark.parametrize("kind", APPS)
@pytest.mark.parametrize("end", ["phone", "server"])
def test_a_capture_of_either_end_tells_its_traffic(kind: str, end: str) -> None:
    found = fit(measured(link(kind, loss=0.0), 1, end, duration_s=50))
    own = traffic.of(found.seen)
    assert own.kind == kind
    words = {
        "bulk": "2 bulk transfers",
        "requests": "on 2 connections",
        "transfers": "one every 0.",
        "video": "chunks of 2 s at 0.5 to 2 Mbit/s",
    }
    assert words[kind] in own.text
    text = scenario.text(found, None, own)
    assert f"# Traffic (down): {own.text}." in text
    assert lasthop.run(text=text).goodput_bps > 0


def test_sizes_and_pauses_are_those_of_the_capture() -> None:
    own = traffic.of(observed.of(measured(link("requests"), 2, "phone", duration_s=60)))
    # The median of the log-normal sizes is 60 kB (with TCP's retransmissions), the mean pause
    # 500 ms and half a round trip of each side.
    median = float(own.text.split("median ")[1].split(" kB")[0])
    assert 50 < median < 75
    think = float(own.text.split("], ")[1].split(" ms")[0])
    assert 400 < think < 700


def test_an_upload_and_a_file_without_connections(tmp_path: Path) -> None:
    found = measured(link("bulk"), 1, "phone", duration_s=10).swapped()
    assert traffic.of(observed.of(found)).kind == "upload"
    pings = tmp_path / "ping.txt"
    line = "64 bytes from 192.0.2.1: icmp_seq={} ttl=60 time={}.5 ms\n"
    pings.write_text("PING\n" + "".join(line.format(i, 40 + i % 7) for i in range(1, 60)))
    own = traffic.of(lasthop.fit(pings).seen)
    assert own.kind == "bulk"
    assert own.text.startswith("assumed: one bulk transfer")


def test_pauses_of_an_application_are_no_queue() -> None:
    # Without this, the capacity was that of the pauses, 0.05 Mbit/s with a negative bound.
    found = fit(measured(link("requests"), 1, "phone", duration_s=30))
    capacity = found.capacity.estimate
    assert capacity.is_range
    assert capacity.low <= 8e6 <= capacity.high
    assert found.base_rtt.low <= 0.06 <= found.base_rtt.high
    assert found.losses.air.low <= 0.005 <= found.losses.air.high


def test_the_gain_is_that_of_the_users_traffic() -> None:
    true = link("requests", loss=0.02)
    found = fit(measured(true, 1, "phone", duration_s=30))
    answer = advise.advise(found, "ap", 5)
    assert answer.traffic["kind"] == "requests"
    assert answer.traffic["gain"].startswith("speed of responses")
    snoop = next(o for o in answer.options if o.scheme == "snoop")
    times = [
        [
            f["requests"]["response_s"]["p95"]
            for seed in (11, 12, 13)
            for f in lasthop.run(text=true.toml(30), scheme=scheme, seed=seed).data["flows"]
        ]
        for scheme in ("cubic", "snoop")
    ]
    gain = sum(times[0]) / sum(times[1]) - 1
    assert gain > 0.5
    assert snoop.gain[0] > 0.3
    assert snoop.gain[1] > 0
    # The application limits the goodput, so that it gains less than the responses.
    assert snoop.goodput[0] < snoop.gain[0]
    bulk = advise.advise(found, "ap", 5, traffic="bulk")
    assert bulk.traffic["text"] == "one bulk transfer, as requested"
    assert bulk.options[0].gain == bulk.options[0].goodput
