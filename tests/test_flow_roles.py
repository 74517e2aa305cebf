"""Roles of flows: competitors from the command line, shares, harm, slowdown and series measures."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import polars
import pytest
from commands import document, printed

import lasthop

HOP = ["--rate", "20Mbps", "--rtt", "40ms", "--duration", "8s"]
PAGES = """title = "pages"
duration = "12 s"
[last_hop]
rate = "10 Mbps"
loss = "0.5 %"
[[flow]]
name = "bulk"
[[flow]]
name = "call"
role = "probe"
app = { kind = "cbr", rate = "500 kbps" }
[[flow]]
name = "pages"
role = "competitor"
app = { kind = "session", pages = ["100 kB", "200 kB"], every = "5 s" }
"""


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    schemes: list[dict[str, Any]] = document(capsys, "compare", *words)["points"][0]["schemes"]
    return schemes


def test_a_competitor_tells_schemes_apart(capsys: pytest.CaptureFixture[str]) -> None:
    schemes = compared(capsys, *HOP, "--schemes", "cubic,bbr,reno", "--against", "cubic")
    shares = []
    for scheme in schemes:
        own, other = scheme["groups"]
        assert (own["name"], own["role"], own["scheme"]) == (
            "candidate",
            "candidate",
            scheme["label"],
        )
        assert (other["name"], other["role"], other["scheme"]) == ("cubic", "competitor", "cubic")
        share = own["goodput_share"]["mean"]
        assert share + other["goodput_share"]["mean"] == pytest.approx(1)
        assert [r["role"] for r in scheme["roles"]] == ["candidate", "competitor"]
        assert scheme["roles"][0]["goodput_share"] == own["goodput_share"]
        shares.append(share)
    assert len({round(s, 3) for s in shares}) == 3
    # The link is full in any case, so the totals are nearly the same.
    totals = [s["goodput_bps"]["mean"] for s in schemes]
    assert max(totals) < 1.03 * min(totals)


def test_harm_is_relative_to_a_run_without_the_candidates(
    capsys: pytest.CaptureFixture[str],
) -> None:
    undrawn = ("--set", "random_starts=none")
    (scheme,) = compared(capsys, *HOP, "--schemes", "bbr", "--against", "cubic", *undrawn)
    alone = lasthop.run(
        last_hop={"rate": "20Mbps", "rtt": "40ms"}, scheme="cubic", flows={"duration": "8s"}
    ).data["flows"][0]
    own, other = scheme["groups"]
    goodput = alone["delivered_bytes"] * 8 / 8
    expected = (goodput - other["goodput_bps"]["mean"]) / goodput
    assert other["harm_goodput"]["mean"] == pytest.approx(expected)
    beside = other["one_way_delay_s_p95"]["mean"]
    delay = (beside - alone["one_way_delay_s"]["p95"]) / beside
    assert other["harm_delay"]["mean"] == pytest.approx(delay)
    assert own["harm_goodput"]["mean"] is None


def test_options_describe_flows(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--flows", "2", "--start", "0s,3s", "--against", "reno", "--upload"]
    run = document(capsys, "run", *words, "--scheme", "bbr")
    assert run["duration_s"] == 8
    assert [(f["id"], f["role"], f["scheme"], f["from"]) for f in run["flows"]] == [
        ("candidate 1", "candidate", "bbr", "phone"),
        ("candidate 2", "candidate", "bbr", "phone"),
        ("reno", "competitor", "reno", "phone"),
    ]
    assert run["scenario"].endswith("; 2 flows against reno, upload")
    shown = printed(capsys, "compare", *words, "--schemes", "bbr,cubic")
    assert "competitor" in shown
    assert "harm goodput %" in shown


def test_wrong_options_name_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (["--flows", "0"], "--flows must be at least 1"),
        (["--against", "cubic,,bbr"], "--against has an empty item"),
        (["--against", "cubick"], "--against: there is no scheme `cubick`"),
        (["--start", "0s,1s"], "--start: 2 start times for 1 flow"),
        (["--duration", "9"], "--duration"),
        (["--set", "flow.1.role=competitor"], "no flow is a candidate"),
    ):
        error = printed(capsys, "compare", *HOP[:4], "--schemes", "bbr", *words, status=2)
        assert expected in error


def test_sweeps_and_comparisons_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--loss", "0.1%", "--schemes", "bbr,snoop", "--against", "cubic"]
    printed(capsys, "sweep", *words, "--seeds", "2", "--out", str(tmp_path / "s"), "--jobs", "1")
    printed(capsys, "compare", *words, "--seeds", "2", "--out", str(tmp_path / "c"), "--no-figure")
    tables = [polars.read_csv(tmp_path / d / "table.csv", infer_schema_length=None) for d in "sc"]
    for metric in ("groups.cubic.harm_goodput", "agents.snoop.cached"):
        swept, one = (t.filter(metric=metric, scheme="snoop")["mean"].item() for t in tables)
        assert swept == one is not None


def test_pages_and_probes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(PAGES))
    (scheme,) = compared(capsys, "-", "--schemes", "cubic", "--seeds", "3")
    bulk, call, pages = scheme["groups"]
    assert call["scheme"] is None
    assert 0 < call["harm_delay"]["mean"] < 1
    assert pages["slowdown_p50"]["mean"] > 1
    assert pages["click_s_p50"]["mean"] == pages["completed_s_p50"]["mean"]
    assert bulk["slowdown_p50"]["mean"] is None
    assert sum(bulk[f"limited_by_{k}"]["mean"] for k in ("cwnd", "receive_window")) <= 1


def test_series_measures(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--rate", "4Mbps", "--rtt", "40ms", "--schemes", "cubic,reno", "--duration", "20s"]
    words += ["--set", "random_starts=none"]
    (cubic, _) = compared(capsys, *words, "--series")
    assert 0.1 < cubic["time_to_90_s"]["mean"] < 2
    assert cubic["convergence_s"]["mean"] is None  # one flow
    assert cubic["queue_peak_frames"]["mean"] <= 250
    assert cubic["rate_overshoot"]["mean"] > 0
    (two, _) = compared(capsys, *words, "--series", "--flows", "2")
    assert 0 <= two["convergence_s"]["mean"] < 20
    assert "time_to_90_s" not in compared(capsys, *words)[0]
    assert "convergence time" in printed(capsys, "compare", *words, "--series", "--flows", "2")


def test_the_figure_shows_the_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*HOP, "--schemes", "cubic,bbr", "--against", "cubic", "--format", "svg"]
    printed(capsys, "compare", *words, "--out", str(tmp_path))
    drawing = (tmp_path / "figure.svg").read_text()
    assert "share of the goodput of the candidates (%)" in drawing
    assert "against cubic" in drawing


def test_agents_are_shown_with_their_sender(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(
        capsys, "compare", *HOP, "--loss", "1%", "--schemes", "reno,snoop", "--seeds", "2"
    )
    assert "snoop over cubic" in text
    assert "agent snoop, scheme snoop: cached" in text
