"""Traffic models on the command line: arrivals, and what users feel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lasthop
from lasthop.analysis import schemas
from lasthop.cli.main import main

WEB = """title = "web"
duration = "20 s"
[last_hop]
rate = "10 Mbps"
rtt = "40 ms"
[[flow]]
name = "web"
app = { kind = "poisson", size = "30 kB", load = "40 %" }
[[flow]]
name = "never"
stop = "1 ms"
app = { kind = "poisson", size = "30 kB", every = "1 h" }
"""
CALL = """title = "call"
duration = "20 s"
[last_hop]
rate = "10 Mbps"
rtt = "40 ms"
[[flow]]
name = "bulk"
[[flow]]
name = "call"
role = "probe"
app = "call"
[[flow]]
name = "ping"
role = "probe"
app = "ping"
"""


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], command: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, command, *words, "--json"))
    pytest.importorskip("jsonschema").validate(found, schemas.schema(command))
    return found


def test_arrivals_have_completion_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "web.toml"
    file.write_text(WEB, encoding="utf-8")
    run = document(capsys, "run", str(file))
    web = [f for f in run["flows"] if f["group"] == "web"]
    # 333 are expected.
    assert 250 < len(web) < 420
    assert all(f["arrived_s"] < 20 for f in web)
    text = printed(capsys, "run", str(file))
    assert f"web: {len(web)} transfers from server to phone" in text
    assert "never: 0 transfers" in text
    assert text.count("completion time") == 2
    compared = document(capsys, "compare", str(file), "--schemes", "cubic,reno", "--seeds", "3")[
        "points"
    ][0]["schemes"]
    for scheme in compared:
        of_web, of_never = scheme["groups"]
        assert 1 < of_web["slowdown_p50"]["mean"] < of_web["slowdown_p95"]["mean"] < 30
        assert of_never["completed_share"]["mean"] is None
        # 40 % of 10 Mbit/s, with the variation of three runs.
        assert 3e6 < of_web["goodput_bps"]["mean"] < 5e6


def test_a_call_and_a_ping_tell_schemes_apart(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "call.toml"
    file.write_text(CALL, encoding="utf-8")
    run = document(capsys, "run", str(file))
    _, call, ping = run["flows"]
    assert call["call"]["sent"] == call["sent_segments"] - 7
    assert call["call"]["mos"] < 1.5
    text = printed(capsys, "run", str(file))
    assert "packets late or lost (deadline 150 ms), mean opinion score 1." in text
    assert "RTT, empty path 40.16 ms" in text
    compared = document(capsys, "compare", str(file), "--schemes", "cubic,vegas")
    of = {s["label"]: s["groups"] for s in compared["points"][0]["schemes"]}
    for label, (_, calls, pings) in of.items():
        missing, score = calls["late_or_lost_share"]["mean"], calls["mos"]["mean"]
        increase = pings["rtt_increase_s_p95"]["mean"]
        if label == "vegas":
            assert missing == 0
            assert score > 4.3
            assert increase < 0.01
        else:
            assert missing > 0.8
            assert score < 1.5
            assert increase > 0.2
    assert of["cubic"][2]["rtt_increase_s_p95"]["mean"] == pytest.approx(
        ping["rtt_s"]["p95"] - ping["empty_path_s"]
    )


def test_inspect_shows_a_transfer_of_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "web.toml"
    file.write_text(WEB, encoding="utf-8")
    found = lasthop.inspect(str(file), seed=2, flow="web 100").to_dict()
    (connection,) = found["connections"]
    arrived = next(f for f in lasthop.run(str(file), seed=2).data["flows"] if f["id"] == "web 100")
    assert found["flow"] == "web 100"
    assert connection["totals"]["retransmissions"] == arrived["retransmissions"]["total"]
