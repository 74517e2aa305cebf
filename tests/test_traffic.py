"""Traffic models on the command line: arrivals, and what users feel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import document, printed

import lasthop
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
    compared = document(
        capsys, "compare", str(file), "--schemes", "cubic,vegas", "--set", "random_starts=none"
    )
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


def groups(compared: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Scheme -> group -> metrics of the only point."""
    schemes = compared["points"][0]["schemes"]
    return {s["label"]: {g["name"]: g for g in s["groups"]} for s in schemes}


HOP = ("--rate", "6Mbps", "--rtt", "40ms", "--queue", "100 packets")


def test_requests_have_response_times(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*HOP, "--duration", "20s", "--traffic", "requests+bulk")
    run = document(capsys, "run", *words)
    client, bulk = run["flows"]
    assert (client["app"], client["role"], bulk["role"]) == ("requests", "probe", "candidate")
    found = client["requests"]
    assert found["answered"] > 10
    assert client["delivered_bytes"] >= found["answered"] * 20_000
    assert found["answered_per_s"] == pytest.approx(found["answered"] / 20)
    text = printed(capsys, "run", *words)
    assert f"responses       {found['answered']} to {found['sent']} requests" in text
    compared = document(capsys, "compare", *words, "--schemes", "cubic,vegas", "--seeds", "3")
    of = groups(compared)
    slow, fast = (of[s]["requests"]["response_s_p50"]["mean"] for s in ("cubic", "vegas"))
    # A full queue of 100 packets takes 200 ms.
    assert slow > fast + 0.1


def test_a_video_adapts(capsys: pytest.CaptureFixture[str]) -> None:
    words: tuple[str, ...] = (*HOP, "--duration", "60s", "--traffic", "video")
    for adaptation in ("rate", "buffer"):
        setting = ("--set", f"flow.video.app.adaptation={adaptation}")
        run = document(capsys, "run", *words, *setting)
        (flow,) = run["flows"]
        video = flow["video"]
        assert (video["stalls"], flow["role"]) == (0, "candidate")
        assert 0 < video["startup_s"] < 1
        assert 2e6 < video["bitrate_bps"] <= 4.3e6
        assert video["startup_s"] + video["played_s"] == pytest.approx(60)
    text = printed(capsys, "run", *words)
    assert "video           start-up" in text
    words = ("--rate", "250kbps", *words[2:])
    slow = document(capsys, "run", *words)["flows"][0]["video"]
    assert slow["stalls"] > 3
    assert slow["bitrate_bps"] == 3e5
    assert slow["rebuffer_ratio"] == pytest.approx(
        slow["stalled_s"] / (slow["stalled_s"] + slow["played_s"])
    )
    printed_text = printed(capsys, "compare", *words, "--schemes", "cubic,reno", "--seeds", "3")
    assert "rebuffering %" in printed_text
    assert "start-up s" in printed_text


def test_named_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    from lasthop.cli import options

    for name in options.TRAFFIC:
        run = document(capsys, "run", *HOP, "--duration", "4s", "--traffic", name)
        assert run["flows"], name
        assert name in run["scenario"]
    rrul = document(capsys, "run", *HOP, "--duration", "10s", "--traffic", "rrul")["flows"]
    assert [f["from"] for f in rrul] == ["server"] * 4 + ["phone"] * 4 + ["server"]
    assert rrul[8]["rtt_s"]["p95"] > rrul[8]["empty_path_s"]
    assert main(["run", *HOP, "--traffic", "web+bluk"]) == 2
    message = capsys.readouterr().err
    assert f"there are {', '.join(options.TRAFFIC)}" in message
    assert "did you mean `bulk`?" in message
    for command in ("run", "compare", "inspect", "sweep"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        assert ", ".join(options.TRAFFIC) in text


def test_metrics_of_users_make_figures_and_claims(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "video.toml"
    file.write_text(
        """title = "video"
duration = "30 s"
[last_hop]
rate = "6 Mbps"
rtt = "40 ms"
[[flow]]
name = "video"
role = "probe"
app = "video"
[[flow]]
name = "bulk"
[experiment]
schemes = ["cubic", "vegas"]
seeds = 10
vary = { "last_hop.loss" = ["0.1 %"] }
[plot]
kind = "bars"
show = ["groups.video.bitrate_bps"]
[[claim]]
id = "bitrate"
kind = "order"
text = "a video beside Vegas has the higher bitrate"
metric = "groups.video.bitrate_bps"
left = "vegas"
right = "cubic"
""",
        encoding="utf-8",
    )
    text = printed(capsys, "reproduce", str(file), "--out", str(tmp_path / "out"))
    assert "bitrate" in text
    assert "holds" in text
    assert (tmp_path / "out" / "video.svg").exists()
