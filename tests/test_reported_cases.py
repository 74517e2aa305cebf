"""Small inputs that users reported, run as they ran them; most have a test beside what they are of.

Ground truth: test_ground_truth.py. Outputs that are inputs: test_outputs.py. Pipes: test_pipes.py.
Tunnels: test_replay_tunnels.py. Measured files: test_traces.py. Plots of several flows:
test_python_results.py.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop.cli.main import main

CAPTURE = Path(__file__).parents[1] / "crates" / "lasthop-live/tests/live/data" / "gtpu.pcap"
PING = """\
PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
64 bytes from 192.0.2.1: icmp_seq=1 ttl=55 time=42.1 ms
64 bytes from 192.0.2.1: icmp_seq=2 ttl=55 time=40.8 ms
"""
IPERF3 = {"start": {"version": "iperf 3.16"}, "intervals": [], "end": {}}
CSV = "timestamp_start,timestamp_end,throughput\n0,1,143000000\n"


@pytest.mark.parametrize("text", [CSV, PING, json.dumps(IPERF3)], ids=["csv", "ping", "iperf3"])
@pytest.mark.parametrize("option", ["--down", "--up"])
def test_a_measurement_in_place_of_a_trace_names_the_importer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, option: str
) -> None:
    file = tmp_path / "measured"
    file.write_text(text)
    assert main(["run", option, str(file), "--rtt", "40ms"]) == 2
    said = capsys.readouterr().err
    assert f"`lasthop trace import {file}" in said
    assert "docs/traces.md" in said


def test_one_seed_is_not_the_number_of_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    hop = ["--rate", "1Mbps", "--rtt", "40ms", "--loss", "1%", "--duration", "5s"]
    assert main(["compare", *hop, "--schemes", "cubic,bbr", "--seed", "42"]) == 2
    assert "--seeds" in capsys.readouterr().err
    assert main(["run", *hop, "--schemes", "cubic"]) == 2
    assert "--scheme" in capsys.readouterr().err


def records(capture: bytes) -> list[bytes]:
    """The records of a capture (pcap, little endian), with their headers."""
    found, at = [], 24
    while at < len(capture):
        length = 16 + struct.unpack_from("<I", capture, at + 8)[0]
        found.append(capture[at : at + length])
        at += length
    return found


def test_a_syn_ack_that_was_captured_before_the_syn_is_of_the_same_flow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = CAPTURE.read_bytes()
    syn, syn_ack, *rest = records(data)
    flows = []
    for order in ([syn, syn_ack], [syn_ack, syn]):
        # The times stay in place: a capture is in the order of its times.
        times = [syn[:8], syn_ack[:8]]
        first = [time + record[8:] for time, record in zip(times, order, strict=True)]
        (tmp_path / "in.pcap").write_bytes(data[:24] + b"".join([*first, *rest]))
        out = str(tmp_path / "out.pcapng")
        words = ["replay", str(tmp_path / "in.pcap"), "--mobile", "10.0.88.85", "--out", out]
        assert main([*words, "--scheme", "snoop", "--json"]) == 0
        flows.append(json.loads(capsys.readouterr().out)["flows"])
    assert flows == [1, 1]


STEPS = [{"at": "0 s", "rate": "4 Mbps"}, {"at": "1 s", "rate": "1 Mbps"}]
BUCKET = {"rate": "1 Mbps", "burst": "30 kB"}


@pytest.mark.parametrize(
    ("keys", "at_most_bps"),
    [
        ({"shaper": BUCKET}, 1.2e6),
        ({"policer": BUCKET}, 1.2e6),
        ({"rate": {"schedule": STEPS}}, 2.2e6),
        ({"queue": "100 ms"}, 4e6),
        ({"queue": "2 BDP"}, 4e6),
        ({"duplicate": "1 %"}, 4e6),
        ({"corrupt": "0.1 %"}, 4e6),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_short_form_has_the_knobs_of_emulators(
    keys: dict[str, Any], at_most_bps: float
) -> None:
    hop = {"rate": "4 Mbps", "rtt": "40 ms", **keys}
    run = lasthop.run({"duration": "3 s", "last_hop": hop})
    goodput = run.data["flows"][0]["goodput_bps"]
    assert 0.3e6 < goodput < at_most_bps
