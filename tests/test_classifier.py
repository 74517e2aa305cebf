from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import pytest
from fakes import FakeLoader, FakeScenario, classified, run_json

import lasthop
from lasthop import _native
from lasthop.analysis import metrics
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.experiments.comparison import compare
from lasthop.tables import run_text

COUNTS = [
    "wireless_as_wireless",
    "wireless_as_congestion",
    "congestion_as_wireless",
    "congestion_as_congestion",
    "not_lost_as_wireless",
]


def run(*flows: tuple[int, int, int, int, int, int]) -> dict[str, Any]:
    return {**run_json(1000.0, "veno"), "classifier": classified(*flows)}


def text(result: dict[str, Any]) -> str:
    return run_text.run(result, [], [])


def test_the_table_of_a_run() -> None:
    block = text(run((30, 10, 5, 55, 7, 2))).split("\n\n")[-1].splitlines()
    assert block[0] == "classifier of veno, flow 1: 85.0 % of the losses classified correctly"
    assert [line.split() for line in block[1:]] == [
        ["true", "class", "classified", "as", "wireless", "classified", "as", "congestion"],
        ["wireless", "losses", "30", "10"],
        ["congestion", "losses", "5", "55"],
        ["segments", "not", "lost", "7", "2"],
    ]


def test_one_table_per_flow_with_a_classifier() -> None:
    found = text(run((1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 4, 0)))
    assert "classifier of veno, flow 1: 100.0 %" in found
    assert "classifier of veno, flow 2: no losses" in found


def test_no_classifier_no_table() -> None:
    assert "classifier" not in text(run_json(1000.0))


def test_metrics_are_taken_from_the_sums_over_flows() -> None:
    found = metrics.of_run(run((30, 10, 5, 55, 7, 2), (0, 100, 0, 0, 0, 0)))
    assert found["classifier_accuracy"] == pytest.approx(85 / 200)
    assert [found[c] for c in COUNTS] == [30, 110, 5, 55, 7]
    assert found["not_lost_as_congestion"] == 2


def test_without_losses_only_the_accuracy_is_unknown() -> None:
    found = metrics.of_run(run((0, 0, 0, 0, 3, 4)))
    assert found["classifier_accuracy"] is None
    assert found["wireless_as_wireless"] == 0
    assert found["not_lost_as_congestion"] == 4


def test_without_a_classifier_the_metrics_are_unknown() -> None:
    found = metrics.of_run(run_json(1000.0))
    assert found["classifier_accuracy"] is None
    assert all(found[c] is None for c in COUNTS)


def test_columns_and_json_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = FakeScenario.run

    def with_classifier(self: FakeScenario, seed: int, cancel: Any = None) -> _native.Run:
        found = plain(self, seed, cancel).to_dict()
        found["classifier"] = classified((seed, 1, 0, 2, 0, 0)) if self.label == "veno" else None
        return _native.Run.from_json(json.dumps(found))

    monkeypatch.setattr(FakeScenario, "run", with_classifier)
    the_plan = plan.plan(plan.Source("x"), ["reno", "veno"], 3, version="1", loader=FakeLoader())
    result = compare(the_plan, version="1", out=tmp_path)
    result.write(tmp_path, ["x"])
    rows = polars.read_csv(tmp_path / "runs.csv").filter(scheme="veno").sort("seed")
    assert rows["wireless_as_wireless"].to_list() == [1, 2, 3]
    assert rows["classifier_accuracy"].to_list() == pytest.approx([3 / 4, 4 / 5, 5 / 6])
    reno, veno = result.to_dict()["points"][0]["schemes"]
    assert veno["congestion_as_congestion"]["mean"] == 2
    assert veno["classifier_accuracy"]["ci95"] is not None
    assert reno["classifier_accuracy"]["mean"] is None


def test_the_json_of_the_simulator_has_a_classifier() -> None:
    """For all schemes with a classifier, the accuracy of each flow follows from its matrix."""
    loss = {"rate": "2 Mbps", "rtt": "100 ms", "loss": "1 %"}
    for entry in lasthop.schemes():
        if entry["family"] != "end-to-end":
            continue
        try:
            found = lasthop.run(
                last_hop=loss, scheme=entry["name"], settings={"duration": "5 s"}
            ).data["classifier"]
        except InputError:  # the scheme needs more of the network, such as a marking queue
            continue
        for flow in found["flows"] if found else ():
            matrix = flow["matrix"]
            assert {k: set(v) for k, v in matrix.items()} == {
                truth: set(metrics.PREDICTED_CLASSES) for truth in metrics.TRUE_CLASSES
            }
            losses = sum(
                matrix[c][s] for c in metrics.PREDICTED_CLASSES for s in metrics.PREDICTED_CLASSES
            )
            right = sum(matrix[c][c] for c in metrics.PREDICTED_CLASSES)
            assert flow["accuracy"] == (pytest.approx(right / losses) if losses else None)
