"""Cells on the command line: results, tables, events."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import document

from lasthop.cli.main import main

WLAN = """
duration = "5 s"
[[link]]
between = ["server", "ap"]
rate = "10 Mbps"
delay = "20 ms"
[[cell]]
name = "wlan"
members = ["ap", "idle", "phone", "laptop"]
attempts = 1
loss = { model = "frame-errors", rate = "1 %" }
[[flow]]
from = "server"
to = "phone"
[[flow]]
from = "laptop"
to = "server"
start = "6 s"
[[flow]]
from = "server"
to = "laptop"
[tcp]
scheme = "reno"
"""


@pytest.fixture
def wlan(tmp_path: Path) -> Path:
    path = tmp_path / "wlan.toml"
    path.write_text(WLAN.replace('start = "6 s"', 'start = "4999 ms"'))
    return path


def test_a_run_counts_attempts_and_collisions(
    wlan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = {f"{x['from']}>{x['to']}": x for x in document(capsys, "run", wlan)["links"]}
    assert set(links) == {
        "server>ap",
        "ap>server",
        "ap>phone",
        "phone>ap",
        "ap>laptop",
        "laptop>ap",
    }
    down = links["ap>phone"]
    assert down["attempts"] >= down["delivered_frames"] + down["lost_on_air"] > 100
    assert 0 < down["lost_in_collision"] == down["collisions"] < down["lost_on_air"]
    assert "collisions" not in links["server>ap"]


def test_events_name_the_links_of_a_cell(wlan: Path, tmp_path: Path) -> None:
    import polars

    assert main(["run", str(wlan), "--events", str(tmp_path)]) == 0
    events = polars.read_parquet(tmp_path / "events.parquet")
    lost = events.filter(polars.col("event") == "lost_on_air").with_columns(
        polars.col("link", "node").cast(polars.String)
    )
    assert {"air", "collision"} <= set(lost["cause"].cast(str).to_list())
    # A frame is lost between the nodes of its link.
    assert all(
        link.startswith(f"{node}>") for node, link in lost.select("node", "link").iter_rows()
    )


def test_cells_are_varied_like_links(wlan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--vary", "cell.wlan.attempts=1,4", "--schemes", "reno", "--seeds", "3")
    points = document(capsys, "compare", wlan, *words)["points"]
    once, four = (p["schemes"][0]["goodput_bps"]["mean"] for p in points)
    assert four > 1.2 * once
