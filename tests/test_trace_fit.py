"""`lasthop trace fit`: parameters of simulated links, found again from their captures."""

from __future__ import annotations

import json
from math import exp, lgamma, log
from pathlib import Path

import numpy as np
import pytest
from documents import validate
from fitted_links import Link, drawn, measured, of_kind
from trace_files import file

import lasthop
from lasthop.advice import draws, repeat
from lasthop.cli.main import main
from lasthop.traces import formats
from lasthop.traces.fit import fit as few_losses
from lasthop.traces.fit import loss_process, observed, scenario
from lasthop.traces.fit.estimate import share_interval
from lasthop.traces.fit.fit import Fit, fit
from lasthop.traces.source import ReadOptions


def named(found: Fit) -> dict[str, tuple[float, float, float]]:
    """Value and interval of each parameter that is no range."""
    return {e.name: (e.value, e.low, e.high) for e in found.estimates() if not e.is_range}


def test_a_filled_link_is_found_again_at_both_ends() -> None:
    link = Link(rate_bps=8e6, rtt_s=0.04, loss=0.0, queue_packets=60)
    for end in ("phone", "server"):
        found = fit(measured(link, 1, end, duration_s=15))
        values = named(found)
        assert values["capacity"][1] <= 8e6 <= values["capacity"][2]
        assert values["base_rtt"][1] <= 0.04 <= values["base_rtt"][2]
        assert values["queue"][1] <= 61 * 1500
        assert values["queue"][2] >= 59 * 1500
        assert values["overflow_loss"][0] > 0
        assert found.capacity.busy_share > 0.9


def test_a_burst_that_meets_the_longest_queue_is_no_overflow() -> None:
    found = fit(measured(of_kind("drawn", 107), 107, "phone", duration_s=30))
    assert named(found)["overflow_loss"][0] == 0
    queue = next(e for e in found.estimates() if e.name == "queue")
    assert queue.is_range
    assert queue.low <= 135 * 1500 <= queue.high


def test_losses_of_the_air_are_no_overflows() -> None:
    link = Link(rate_bps=8e6, rtt_s=0.04, loss=0.01, queue_packets=200)
    found = fit(measured(link, 2, "phone", duration_s=20))
    air = named(found)["air_loss"]
    assert air[1] <= 0.01 <= air[2]
    assert named(found)["overflow_loss"][0] == 0
    queue = next(e for e in found.estimates() if e.name == "queue")
    assert queue.is_range
    assert "unknown" in queue.how
    assert not found.loss_process.is_bursty


def test_bursts_are_told_from_independent_losses() -> None:
    link = Link(rate_bps=8e6, rtt_s=0.04, loss=0.01, queue_packets=200, burst=5.0)
    found = fit(measured(link, 3, "phone", duration_s=30))
    process = found.loss_process
    assert process.is_bursty
    assert process.bad_to_bad is not None
    assert process.bad_to_bad.low <= 0.8 <= process.bad_to_bad.high


def test_an_application_limited_sender_leaves_the_capacity_unknown() -> None:
    link = Link(rate_bps=20e6, rtt_s=0.04, loss=0.0, queue_packets=100, window_packets=8)
    found = fit(measured(link, 1, "phone", duration_s=10)).capacity.estimate
    assert found.is_range
    assert "unknown" in found.how
    assert found.low <= 20e6 <= found.high


def test_a_short_capture_with_a_queue_is_not_called_limited_by_its_application() -> None:
    link = Link(rate_bps=10e6, rtt_s=0.04, loss=0.0, queue_packets=300)
    found = fit(measured(link, 1, "server", duration_s=5)).capacity.estimate
    assert found.is_range
    assert "measure for longer" in found.how
    assert found.low <= 10e6 <= found.high


def test_the_share_of_the_radio_link_in_the_rtt_is_assumed_and_drawn() -> None:
    found = fit(measured(Link(8e6, 0.04, 0.0, 60), 1, "phone", duration_s=5))
    text = scenario.text(found, scenario.values(found) | {"radio_share": 1.0, "base_rtt": 0.04})
    assert "# radio share: ASSUMED, possible from 0 to 1 share." in text
    assert 'delay = "20000 us"' in text
    assert lasthop.run(text=text).goodput_bps > 1e6
    assert np.ptp([d["radio_share"] for d in draws.draw(found, 20)]) > 0.5


def test_pings_show_jumps_every_15_s_and_no_rates(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    bases = np.repeat(rng.uniform(30, 60, 10), 75)
    lines = [
        f"[{1700000000 + 0.2 * i:.6f}] 64 bytes from 192.0.2.1: icmp_seq={i + 1} ttl=60"
        f" time={base + rng.exponential(0.4):.2f} ms"
        for i, base in enumerate(bases)
    ]
    name = file(tmp_path, "PING 192.0.2.1 56(84) bytes of data.\n" + "\n".join(lines) + "\n")
    found = fit(formats.read(name, ReadOptions()))
    assert found.jumps.period_s == 15
    assert found.capacity.estimate.is_range
    assert found.losses.air.value == 0
    assert not found.losses.air.is_range
    assert found.base_rtt.value == pytest.approx(bases.min() / 1000, rel=0.02)
    assert found.base_rtt.low <= bases.min() / 1000 <= found.base_rtt.high
    out = tmp_path / "my.toml"
    assert main(["trace", "fit", name, "--out", str(out), "--quiet"]) == 0
    assert "steps = [" in out.read_text(encoding="utf-8")
    lasthop.explain(out)


def test_the_test_of_bursts_keeps_its_level() -> None:
    rng = np.random.default_rng(4)
    rejected = 0
    for _ in range(100):
        sent = rng.integers(1, 6, 4000).astype(float)
        lost = rng.binomial(sent.astype(int), 0.02).astype(float)
        seen = observed.Observed(
            *(None, 0, None, np.empty(0), np.empty(0)),  # type: ignore[arg-type]
            *(np.arange(4000.0), sent, lost, 1.0, False),
        )
        rejected += loss_process.find(seen, np.ones(4000, dtype=bool)).is_bursty
    assert rejected <= 5


def test_wilson_interval() -> None:
    # Its bounds are the shares from which the observed one is 1.645 standard errors away.
    for bound in share_interval(10, 100):
        error = (bound * (1 - bound) / 100) ** 0.5
        assert abs(0.1 - bound) / error == pytest.approx(1.6449, abs=1e-4)
    assert share_interval(0, 100)[0] == 0


def test_the_command_writes_a_scenario_and_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "run.pcapng"
    link = Link(rate_bps=4e6, rtt_s=0.05, loss=0.005, queue_packets=50)
    lasthop.run(text=link.toml(8), pcap=capture)
    out = tmp_path / "my.toml"
    words = [str(capture), "--interface", "modem-phone", "--out", str(out)]
    assert main(["trace", "fit", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    validate("fit", found)
    assert {r["name"] for r in found["repeated"]} >= {"rate", "loss", "RTT, median"}
    assert out.with_suffix(".png").stat().st_size > 10_000
    again = lasthop.run(out, settings={"duration": 8})
    assert 0.3 < again.goodput_bps / lasthop.run(text=link.toml(8)).goodput_bps < 3
    assert main(["trace", "fit", *words]) == 0
    shown = capsys.readouterr().out
    assert "90 % interval" in shown
    assert "note: The capture is of a hop of lasthop run" in shown
    assert main(["trace", "fit", str(capture), "--out", "my.txt"]) == 2


def test_other_traffic_in_the_queue_makes_the_capacity_a_range() -> None:
    link = Link(rate_bps=8e6, rtt_s=0.04, loss=0.0, queue_packets=60, competitor_s=1.0)
    found = fit(measured(link, 1, "phone", duration_s=15))
    capacity = found.capacity.estimate
    assert capacity.is_range
    assert "other traffic" in capacity.how
    assert capacity.low <= 8e6 <= capacity.high
    assert capacity.high < 8.2e6
    queue = next(e for e in found.estimates() if e.name == "queue")
    assert queue.low <= 60 * 1500 <= queue.high


def test_overflows_of_a_variable_link_leave_the_loss_rate_of_the_air_open() -> None:
    link = of_kind("trace", 1)
    found = fit(measured(link, 1, "phone", duration_s=30))
    assert found.losses.air.is_range
    assert found.losses.air.low == 0


def test_a_timeout_of_the_sender_is_no_queue() -> None:
    # Of this link 2.4 % of the packets are lost in bursts, so that the sender waits for timeouts.
    link = drawn(35)
    capacity = fit(measured(link, 35, "phone", duration_s=30)).capacity.estimate
    assert capacity.is_range
    assert capacity.low <= link.rate_bps <= capacity.high


def test_few_losses_in_bursts_are_named() -> None:
    link = drawn(19)
    air = fit(measured(link, 19, "phone", duration_s=30)).losses.air
    assert "few losses" in air.note
    independent = share_interval(air.value * air.n, air.n)
    assert air.high > independent[1]


@pytest.mark.parametrize("hold_ms", [0, 20])
def test_bunches_of_acks_are_found_at_the_sender_and_simulated(hold_ms: int) -> None:
    text = Link(20e6, 0.05, 0.0, 100).toml(15)
    if hold_ms:
        hold = f'from = "0 s", length = "{0.9 * hold_ms} ms", every = "{hold_ms} ms"'
        hold = f"backward.outage = {{ {hold}, times = {15_000 // hold_ms} }}"
        text = text.replace("forward.loss", f"{hold}\nforward.loss", 1)
    found = fit(repeat.captured(text, 1, repeat.SERVER))
    bunching = found.ack_bunching
    assert not bunching.is_range
    assert bunching.low <= hold_ms / 1000 <= bunching.high
    assert bunching.high < 0.025
    assert found.base_rtt.low <= 0.05 <= found.base_rtt.high
    again = scenario.text(found)
    assert ("backward.outage = {" in again) == (hold_ms > 0)
    lasthop.explain(text=again)
    if hold_ms:
        simulated = fit(repeat.captured(repeat.tapped(found), 2, repeat.SERVER)).ack_bunching
        assert simulated.value == pytest.approx(0.02, abs=0.002)
    at_phone = fit(repeat.captured(text, 1)).ack_bunching
    assert at_phone.is_range
    assert "only a capture at the sender" in at_phone.how


def test_a_sender_sees_what_the_link_layer_retransmits() -> None:
    # Pairs of ACKs show the rate of the link, the mean what is left of it. Overflows met queues
    # that seemed short, so that they were losses of the air, 500 times as many as there are.
    link = of_kind("arq", 16)
    found = fit(measured(link, 16, "server", duration_s=30))
    assert found.seen.found.pair_rate_bps == pytest.approx(link.rate_bps, rel=0.02)
    assert found.capacity.estimate.low <= link.capacity_bps <= found.capacity.estimate.high
    assert found.losses.air.is_range
    assert found.losses.air.low <= link.residual_loss <= found.losses.air.high
    queue = found.losses.queue
    assert queue.low <= 1500 * link.queue_packets <= queue.high


def test_bursts_among_overflows_are_a_range() -> None:
    link = of_kind("competitor", 15)
    found = fit(measured(link, 15, "server", duration_s=30))
    bad = found.loss_process.bad_to_bad
    assert bad is not None
    assert bad.is_range
    assert bad.low <= 1 - 1 / link.burst <= bad.high
    # Draws of the bursts keep the loss rate.
    for given in draws.draw(found, 20):
        leave_good, leave_bad = 1 - given["good_to_good"], 1 - given["bad_to_bad"]
        share = leave_good / (leave_good + leave_bad)
        assert share == pytest.approx(given["air_loss"], rel=0.01)


@pytest.mark.long
def test_intervals_hold_over_random_links() -> None:
    holds = total = 0
    for seed in range(1, 41):
        link = drawn(seed)
        found = fit(measured(link, seed, "phone", duration_s=30))
        true = {"capacity": link.rate_bps, "base_rtt": link.rtt_s, "air_loss": link.loss}
        for e in found.estimates():
            if e.name in true:
                total += 1
                holds += e.low <= true[e.name] <= e.high
    # 90 % of 120, less two standard deviations of a binomial count.
    assert total == 120
    assert holds >= 101


def test_losses_are_uncertain_where_a_short_queue_fills_within_a_round_trip() -> None:
    """Of a variable Wi-Fi link with 16 packets of queue, seven of eight losses are overflows."""
    link = of_kind("trace", 43)
    found = fit(measured(link, 43, "phone", 30))
    assert found.losses.air.is_range
    assert found.losses.air.low <= link.loss <= found.losses.air.high
    assert "may be overflows" in found.losses.air.how


def share_table(folder: Path, lost: np.ndarray, packets: int) -> str:
    """A table of shares of lost packets, a row per second."""
    rows = "".join(f"{i},8,40,{k / packets:.6f}\n" for i, k in enumerate(lost))
    return file(folder, f"time_s,download_mbps,rtt_ms,loss_share\n{rows}", "drive.csv")


def test_a_table_of_shares_counts_as_many_packets_as_their_spread_shows(tmp_path: Path) -> None:
    # 300 rows of 200 packets, of which 1 % are lost, alone or 20 together.
    holds = {1: 0, 20: 0}
    widths: dict[int, list[float]] = {1: [], 20: []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for burst in holds:
            lost = burst * rng.binomial(200 // burst, 0.01, 300)
            air = fit(formats.read(share_table(tmp_path, lost, 200), ReadOptions())).losses.air
            # A row of a table is a round trip, of whose losses each direction has half.
            holds[burst] += 2 * air.low <= 0.01 <= 2 * air.high
            widths[burst].append(2 * (air.high - air.low))
            assert "spread" in air.of
    # 90 % of 20, less two standard deviations.
    assert min(holds.values()) >= 15
    # 2 x 1.645 standard errors of 60,000 independent packets, and of 3,000.
    assert np.median(widths[1]) == pytest.approx(3.29 * (0.01 * 0.99 / 60_000) ** 0.5, rel=0.1)
    assert np.median(widths[20]) == pytest.approx(3.29 * (0.01 * 0.99 / 3_000) ** 0.5, rel=0.1)


def test_few_rows_of_shares_count_as_one_packet_each(tmp_path: Path) -> None:
    found = formats.read(share_table(tmp_path, np.array([0, 1, 0, 0]), 100), ReadOptions())
    assert float(np.nansum(found.sent)) == 4


def test_the_same_share_in_all_rows_counts_as_one_loss_each(tmp_path: Path) -> None:
    found = formats.read(share_table(tmp_path, np.full(20, 2), 100), ReadOptions())
    assert float(np.nansum(found.lost)) == pytest.approx(20)
    assert float(np.nansum(found.sent)) == pytest.approx(1000)


def test_the_rate_of_few_losses_has_a_note_until_half_or_twice_is_unlikely() -> None:
    # P(X >= k) for a mean of k / 2, and P(X <= k) for one of 2 k.
    def at_most(k: int, mean: float) -> float:
        return sum(exp(i * log(mean) - mean - lgamma(i + 1)) for i in range(k + 1))

    least = next(
        k for k in range(1, 100) if max(1 - at_most(k - 1, k / 2), at_most(k, 2 * k)) <= 0.005
    )
    assert least == few_losses._FEW_LOSSES
    # Of this link the air took 14 packets in 30 s, where 8 are the mean.
    link = drawn(54)
    for end in ("phone", "server"):
        air = fit(measured(link, 54, end, duration_s=30)).losses.air
        assert air.value > 2 * link.loss
        assert "may be less than half" in air.note


def test_losses_counted_by_interval_have_the_interval_of_their_spread() -> None:
    rng = np.random.default_rng(1)
    sent = np.full(60, 1000.0)
    effects = []
    for burst in (1, 10):
        lost = burst * rng.binomial(1000 // burst, 0.02, 60).astype(float)
        seen = observed.Observed(
            *(None, 0, None, np.empty(0), np.empty(0)),  # type: ignore[arg-type]
            *(np.arange(60.0), sent, lost, 1.0, False),
        )
        process = loss_process.find(seen, np.ones(60, dtype=bool))
        assert not process.is_bursty
        assert process.events == lost.sum()
        effects.append(process.effect)
    # The variance of 60 rows has a standard error of 18 %.
    assert effects[0] == pytest.approx(1, abs=0.4)
    assert effects[1] == pytest.approx(10, rel=0.4)


def udp_document(losses: list[int], started: int = 1_700_000_000) -> str:
    """iperf3 JSON of a UDP download, of which 820 datagrams of 1448 bytes arrive a second."""
    intervals = [
        {
            "streams": [
                {
                    **{"start": i, "end": i + 1, "seconds": 1, "sender": False},
                    **{"bytes": 1448 * 820, "packets": 820 + lost, "lost_packets": lost},
                }
            ]
        }
        for i, lost in enumerate(losses)
    ]
    test = {"protocol": "UDP", "blksize": 1448, "reverse": 1}
    start = {"version": "iperf 3.12", "timestamp": {"timesecs": started}, "test_start": test}
    return json.dumps({"start": start | {"connected": []}, "intervals": intervals, "end": {}})


def pings(rtts_ms: list[float], started: float) -> str:
    """What `ping -D -i 0.1` prints."""
    return "".join(
        f"[{started + 0.1 * i + rtt / 1000:.6f}] 64 bytes from 192.0.2.1: icmp_seq={i + 1} ttl=60"
        f" time={rtt:.2f} ms\n"
        for i, rtt in enumerate(rtts_ms)
    )


@pytest.mark.parametrize(("earlier_s", "late_ms"), [(0, 0), (0, 80), (100, 0)])
def test_losses_without_round_trip_times_near_them_may_be_overflows(
    earlier_s: int, late_ms: int, tmp_path: Path
) -> None:
    # A flood of 1000 datagrams a second fills the queue: 60 of the first second are lost, then 180.
    rng = np.random.default_rng(1)
    flood = file(tmp_path, udp_document([60] + [180] * 29), "udp.json")
    full = [40 + 60 * min(i / 5, 1) + rng.normal() for i in range(320)]
    # A machine that is late makes a queue seem longer than the one that overflows.
    full[150] += late_ms
    idle = [40 + rng.exponential() for i in range(320)]
    text = pings(idle if earlier_s else full, 1_700_000_000.3 - earlier_s)
    found = lasthop.fit([flood, file(tmp_path, text, "ping.txt")])
    assert found.losses.air.is_range
    assert found.losses.air.low == 0
    assert "may be overflows" in found.losses.air.how
    rate = found.capacity.estimate
    assert rate.low <= 820 * 8 * 1476 <= rate.high
    assert rate.is_range == (earlier_s > 0)
    # The pings end two seconds after the flood.
    assert rate.value > 0.95 * 820 * 8 * 1476
    alone = lasthop.fit(flood).losses.air
    assert alone.is_range
    assert "no round-trip times" in alone.how


def test_bytes_of_iperf3_are_scaled_to_packets(tmp_path: Path) -> None:
    document = json.loads(udp_document([0]))
    assert lasthop.trace(file(tmp_path, json.dumps(document))).ip_factor == 1476 / 1448
    document["start"]["test_start"]["blksize"] = 8192
    # Six fragments.
    long = lasthop.trace(file(tmp_path, json.dumps(document))).ip_factor
    assert long == (8192 + 8 + 6 * 20) / 8192
    document["start"]["test_start"]["protocol"] = "TCP"
    assert lasthop.trace(file(tmp_path, json.dumps(document))).ip_factor == 1500 / 1448


def test_data_behind_a_loss_do_not_raise_the_least_capacity(tmp_path: Path) -> None:
    # 10 Mbit/s and 200 ms; a hole in the third second is filled in the fourth.
    rates = [10.0, 10.0, 8.2, 11.8, 10.0, 9.0, 10.0, 10.0]
    rows = "".join(f"{i},{rate},200\n" for i, rate in enumerate(rates))
    found = lasthop.fit(file(tmp_path, f"time_s,download_mbps,rtt_ms\n{rows}", "x.csv"))
    assert found.capacity.estimate.low < 10e6


def test_pairs_of_acks_that_waited_together_do_not_show_the_link() -> None:
    link = of_kind("trace", 1)
    rate = fit(measured(link, 1, "server", duration_s=30)).capacity.estimate
    assert rate.is_range
    # The highest rate of a variable link is above its mean. It was 29 times the mean.
    assert rate.low <= 1.5 * link.rate_bps
    assert rate.high >= link.rate_bps
