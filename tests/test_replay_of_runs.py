"""Replaying the capture at the input of an agent gives the capture at its output."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from optional import needs
from processes import ended

from lasthop.cli.main import main

SCENARIO = """
duration = "20 s"
[[link]]
between = ["server", "bs"]
rate = "10 Mbps"
delay = "10 ms"
[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "2 Mbps"
delay = { base = "40 ms", table = [
  { share = "90 %", from = "30 ms", to = "50 ms" },
  { share = "10 %", from = "50 ms", to = "200 ms" },
] }
loss = "2 %"
queue = "12 packets"
[[flow]]
count = 2
[tcp]
profile = "ns-2.35"
timestamps = true
"""


def packets(file: Path, interface: str) -> list[tuple[int, bytes]]:
    """(nanoseconds, bytes) of the packets of one interface, parsed from the pcapng blocks."""
    data, at, names, out = file.read_bytes(), 0, [], []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8 : at + length - 4]
        if kind == 1:
            option = 8
            name = ""
            while option + 4 <= len(body):
                code, size = struct.unpack_from("<HH", body, option)
                if code == 2:
                    name = body[option + 4 : option + 4 + size].decode()
                option += 4 + (size + 3) // 4 * 4
            names.append(name)
        elif kind == 6:
            i, high, low, captured, _ = struct.unpack_from("<IIIII", body)
            if names[i] == interface:
                out.append(((high << 32) | low, body[20 : 20 + captured]))
        at += length
    return out


@pytest.mark.parametrize(
    "scheme",
    [
        "packet-control:sender=reno",
        "packet-control:dupack_threshold=12",
        "packet-control:dupack_threshold=3:forward_even=true",
        "snoop",
        "snoop:sender=reno:tick=20 ms",
        "snoop:sender=sack",
        "snack-snoop:sender=reno",
        "ack-pacing:rate=measured:detect=false",
        "ack-pacing:rate=measured:detect=false:sender=sack",
        "rate-control:rate=1 Mbps:sender=reno",
    ],
)
@pytest.mark.parametrize(
    "seed",
    [
        1,
        pytest.param(
            2,
            marks=pytest.mark.more("test_replay_gives_the_agents_output_byte_for_byte_and_in_time"),
        ),
    ],
)
def test_replay_gives_the_agents_output_byte_for_byte_and_in_time(
    tmp_path: Path, scheme: str, seed: int
) -> None:
    file, capture, out = tmp_path / "cell.toml", tmp_path / "run.pcapng", tmp_path / "out.pcapng"
    file.write_text(SCENARIO)
    words = ["--scheme", scheme, "--seed", str(seed), "--pcap", str(capture)]
    assert main(["run", str(file), *words]) == 0
    words = ["--mobile", "10.0.0.3", "--scheme", scheme, "--out", str(out)]
    assert main(["replay", str(capture), *words]) == 0
    expected, found = packets(capture, "bs:out"), packets(out, "bs:out")
    assert len(expected) > 500
    assert packets(capture, "bs:in") != expected, "the agent did something"
    assert found == expected


#: Severity of Wireshark's expert information from errors on, and columns of a packet.
ERROR = 0x00800000
COLUMNS = ("_ws.malformed", "_ws.expert.severity", "ip.checksum.status", "tcp.checksum.status")
GOOD = "1"


@needs("tshark")
def test_wireshark_reads_the_captures_of_run_and_replay(tmp_path: Path) -> None:
    file, capture, out = tmp_path / "cell.toml", tmp_path / "run.pcapng", tmp_path / "out.pcapng"
    file.write_text(SCENARIO)
    assert main(["run", str(file), "--scheme", "snoop", "--pcap", str(capture), "--json"]) == 0
    words = ["--mobile", "10.0.0.3", "--scheme", "snoop", "--out", str(out)]
    assert main(["replay", str(capture), *words]) == 0
    for written in (capture, out):
        checked = [x for name in ("ip", "tcp") for x in ("-o", f"{name}.check_checksum:TRUE")]
        columns = [x for name in COLUMNS for x in ("-e", name)]
        done = ended(["tshark", "-r", str(written), *checked, "-T", "fields", *columns], check=True)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        assert len(rows) > 1000
        for malformed, severities, ip, tcp in rows:
            assert malformed == ""
            # Warnings are about what the link did: lost, out of order, retransmitted.
            assert all(int(severity) < ERROR for severity in severities.split(",") if severity)
            assert (ip, tcp) == (GOOD, GOOD)


@pytest.mark.parametrize(("scheme", "field"), [("reno", 0), ("cubic:ecn", 2), ("prague", 1)])
def test_captures_show_the_ecn_field(
    tmp_path: Path, scheme: str, field: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, ecn = scheme.partition(":")
    file = tmp_path / "run.pcapng"
    words = ["--rate", "5Mbps", "--rtt", "20ms", "--set", "duration=1 s", "--pcap", str(file)]
    words += ["--set", f"tcp.ecn={'true' if ecn else 'false'}"]
    assert main(["run", *words, "--scheme", name]) == 0
    capsys.readouterr()
    fields: dict[bool, set[int]] = {True: set(), False: set()}
    for _, packet in packets(file, "server-bs"):
        fields[len(packet) > 500].add(packet[1] & 3)
    # Data are ECN-capable, ACKs are not (RFC 3168, section 6.1.4).
    assert fields == {True: {field}, False: {0}}
