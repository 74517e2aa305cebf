"""`--wifi`: scenarios of an access point and its stations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lasthop import _native, runs
from lasthop.cli import main
from lasthop.errors import InputError
from lasthop.scenarios import wifi

KINDS = tuple(wifi.KINDS)


@pytest.mark.parametrize("place", wifi.PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_place_runs_and_its_air_time_adds_up(kind: str, place: str) -> None:
    described = {**wifi.scenario(kind, 3, place), "duration": "0.5 s"}
    result = runs.run(described, scheme="cubic").data
    downloads = [f for f in result["flows"] if f["to"].startswith("sta")]
    assert len(downloads) == 3
    assert all(f["delivered_bytes"] > 0 for f in downloads)
    (cell,) = result["cells"]
    shares = [s["air_time_s"] for s in cell["stations"]]
    rest = [cell[f"{kind}_s"] for kind in ("collisions", "beacons", "others", "idle")]
    total = sum(shares) + sum(rest)
    assert 0.5 - 1e-9 < total < 0.51
    assert max(shares[:4]) == shares[0], "the access point sends more than its stations"


def test_stations_behind_walls_are_slower_and_get_the_same_air_time() -> None:
    described = {**wifi.scenario("802.11ac", 3), "duration": "4 s"}
    flows = runs.run(described, scheme="cubic").data["flows"]
    rates = [f["goodput_bps"] for f in flows]
    assert rates[0] > rates[1] > rates[2]
    # With equal air time the rates are about as those of MCS 9 and 4, 390 and 175.5 Mbit/s.
    assert 1.5 < rates[0] / rates[2] < 5


def test_mistakes_name_the_option() -> None:
    with pytest.raises(InputError, match=r"--wifi 802\.11be: choose from 802\.11n"):
        wifi.scenario("802.11be")
    with pytest.raises(InputError, match="--place hut: choose from flat"):
        wifi.scenario("802.11n", place="hut")
    with pytest.raises(InputError, match="--stations"):
        wifi.scenario("802.11n", 0)


def test_compare_of_a_cell(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--wifi", "802.11ac", "--stations", "2", "--schemes", "cubic,snoop"]
    assert main.main([*words, "--seeds", "1", "--duration", "0.3s", "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert "802.11ac" in json.dumps(document)
    assert main.main(["compare", "--stations", "2", "--schemes", "cubic"]) == 2
    assert "--wifi" in capsys.readouterr().err


def test_the_figure_shows_goodput_the_slowest_station_and_delay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["compare", "--wifi", "802.11n", "--stations", "2", "--schemes", "cubic,reno"]
    assert main.main([*words, "--seeds", "1", "--duration", "0.3s", "--out", str(out)]) == 0
    caption = (out / "figure.svg").read_text(encoding="utf-8")
    for label in ("goodput (kbit/s)", "slowest", "one-way delay"):
        assert label in caption


def test_a_filled_scenario_of_every_kind_loads_again() -> None:
    for kind in KINDS:
        from lasthop.scenarios import python_values

        text = python_values.scenario_text(wifi.scenario(kind))
        filled = _native.Scenario(text).filled
        assert _native.Scenario(filled).filled == filled
