"""`lasthop replay` on captures of tunnels: what is looked into, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lasthop.cli.main import main

DATA = Path(__file__).parents[1] / "crates" / "lasthop-live/tests/live/data"
GTP_U = DATA / "gtpu.pcap"


def replay(capture: Path, mobile: str, out: Path, *options: str) -> int:
    words = ["replay", str(capture), "--mobile", mobile, "--scheme", "snoop", "--out", str(out)]
    return main([*words, *options])


def with_outer_protocol(capture: Path, protocol: int) -> bytes:
    """The capture (Ethernet, IPv4) with another protocol in the outer headers."""
    data = bytearray(capture.read_bytes())
    at = 24
    while at < len(data):
        data[at + 16 + 14 + 9] = protocol
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    return bytes(data)


def test_the_agent_sees_inside_a_tunnel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pcapng"
    assert replay(GTP_U, "10.0.88.85", out, "--json") == 0
    counts = json.loads(capsys.readouterr().out)
    assert (counts["tcp"], counts["encapsulations"]) == (39, {"GTP-U": 39})
    assert counts["untouched"] == {}
    assert out.stat().st_size > 4000


def test_what_was_not_looked_into_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    esp, out = tmp_path / "esp.pcap", tmp_path / "out.pcapng"
    esp.write_bytes(with_outer_protocol(GTP_U, 50))
    assert replay(esp, "10.0.88.85", out) == 2
    assert "to or from the mobile 10.0.88.85 (39 ESP); not looked into" in capsys.readouterr().err
    assert not out.exists()


def test_an_agent_that_saw_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.pcapng"
    assert replay(GTP_U, "10.0.88.86", out) == 2
    said = capsys.readouterr().err
    assert "the agent processed nothing: none of the 39 packets" in said
    assert "addresses of TCP packets: 10.0.88.85" in said or "10.0.88.85" in said.split(";")[-1]
    assert not out.exists()
