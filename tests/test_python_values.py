"""Scenarios as dictionaries, numbers as numbers."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lasthop
from lasthop import InputError
from lasthop.experiments import plan
from lasthop.scenarios import python_values

TEXTS = {"rate": "2 Mbps", "rtt": "40 ms", "loss": "1 %"}
NUMBERS = {"rate": 2e6, "rtt": 0.04, "loss": 0.01}
SCENARIO = {
    "title": "Mine",
    "duration": 5,
    "last_hop": {**NUMBERS, "queue": "30 packets", "overhead": 20},
    "tcp": {"min_rto": 0.3, "scheme": "reno", "receive_window": 65536, "delayed_ack": None},
    "flow": [{"count": 2, "start": [0, 0.5]}, {"app": "bulk", "stop": timedelta(seconds=3)}],
    "experiment": {
        "schemes": ["reno", "newreno"],
        "seeds": 3,
        "vary": {"last_hop.rate": [1e6, 2e6], "last_hop.rtt": [0.02]},
        "settings": {"newreno": {"tcp.min_rto": 1}},
    },
}
TOML = """
title = "Mine"
duration = "5 s"
[last_hop]
rate = "2 Mbps"
rtt = "40 ms"
loss = "1 %"
queue = "30 packets"
overhead = "20 B"
[tcp]
min_rto = "300 ms"
scheme = "reno"
receive_window = "65536 B"
[[flow]]
count = 2
start = ["0 s", "500 ms"]
[[flow]]
app = "bulk"
stop = "3 s"
[experiment]
schemes = ["reno", "newreno"]
seeds = 3
vary = { "last_hop.rate" = ["1 Mbps", "2 Mbps"], "last_hop.rtt" = ["20 ms"] }
settings = { newreno = { "tcp.min_rto" = "1 s" } }
"""


def test_a_dictionary_is_the_scenario_of_its_file() -> None:
    found = lasthop.run(SCENARIO)
    assert found.data == lasthop.run(text=TOML).data
    assert found.scenario.filled == lasthop.run(text=TOML).scenario.filled


def test_numbers_are_in_base_units() -> None:
    short = {"duration": 5}
    found = lasthop.run(last_hop=NUMBERS, settings=short, flows={"start": [0.5]})
    same = lasthop.run(last_hop=TEXTS, settings={"duration": "5 s"}, flows={"start": ["500 ms"]})
    assert found.data == same.data
    assert found.data["scenario"] == "last hop: 2 Mbps, RTT 40 ms, loss 1 %"


@pytest.mark.parametrize(
    "call",
    [
        lambda s: lasthop.run(s).data,
        lambda s: lasthop.explain(s),
        lambda s: lasthop.inspect(s, schemes=["reno"]).to_dict(),
        lambda s: lasthop.compare(s, seeds=2).to_dict()["points"],
    ],
)
def test_every_function_takes_a_dictionary(call: Callable[[Any], Any], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(TOML)
    assert call(SCENARIO) == call(file)


def test_a_sweep_takes_a_dictionary(tmp_path: Path) -> None:
    result = lasthop.sweep(SCENARIO, out=tmp_path / "dict")
    file = tmp_path / "mine.toml"
    file.write_text(TOML)
    same = lasthop.sweep(file, out=tmp_path / "file")
    assert result.runs.equals(same.runs)
    assert result.runs.height == 2 * 2 * 3


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("duration", 60, "60 s"),
        ("duration", 0.5, "500 ms"),
        ("duration", 1.25, "1.25 s"),
        ("last_hop.rtt", 1e-5, "10 us"),
        ("last_hop.rtt", 3e-9, "3 ns"),
        ("rtt", 0.04, "40 ms"),
        ("last_hop.rtt", timedelta(milliseconds=40), "0.04 s"),
        ("last_hop.rtt", 0, "0 s"),
        ("last_hop.rtt", "40 ms", "40 ms"),
        ("last_hop.delay", np.float64(0.1), "100 ms"),
        ("last_hop.rate", np.int64(2_000_000), "2 Mbps"),
        ("last_hop.rate", 1500, "1.5 kbps"),
        ("last_hop.rate", 0, "0 bps"),
        ("last_hop.rate", 2.5e9, "2.5 Gbps"),
        ("last_hop.loss", 0.07, "7 %"),
        ("last_hop.loss", 1e-7, "0.00001 %"),
        ("link.radio.loss.rate", 0.03, "3 %"),
        ("link.radio.loss", 0.03, "3 %"),
        ("link.1.delay", 0.005, "5 ms"),
        ("link.1.forward.rate", 1e6, "1 Mbps"),
        ("flow.1.start", 2, "2 s"),
        ("flow.web.count", 3, "3"),
        ("flow.1.segment", 1000, "1000 B"),
        ("tcp.min_rto", 1, "1 s"),
        ("tcp.receive_window", 65536, "65536 B"),
        ("tcp.sack", True, "true"),
        ("tcp.scheme.beta", 0.7, "0.7"),
        ("last_hop.outage", {"from": 2, "length": 0.5}, '{ from = "2 s", length = "500 ms" }'),
        ("flow.1.start", [0, 1.5], '["0 s", "1.5 s"]'),
        ("last_hop.down", Path("my.down"), "my.down"),
    ],
)
def test_values_get_the_unit_of_their_key(key: str, value: object, text: str) -> None:
    assert python_values.value_text(key, value) == text


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("last_hop.loss", 1, 'ambiguous.*write "1 %" or "100 %"'),
        ("last_hop.loss", 2.5, 'write "2.5 %"'),
        ("last_hop.queue", 20, 'write "20 packets" or "20 B"'),
        ("last_hop.rate", 2, 'in bit/s.*write "2 Mbps" or "2 bps"'),
        ("last_hop.rtt", 40, 'in seconds.*write "40 ms" or "40 s"'),
        ("link.1.delay", 10.0, "in seconds"),
        ("last_hop.rate", True, "must be a number or a text, found True"),
        ("last_hop.rate", np.bool_(True), "must be a number or a text"),
        ("duration", float("nan"), "finite"),
        ("duration", float("inf"), "finite"),
        ("flow.1.segment", 99.5, "whole number of bytes"),
        ("duration", object(), "texts, numbers, true, false"),
        ("duration", None, "texts, numbers, true, false"),
    ],
)
def test_ambiguous_values_are_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as found:
        python_values.value_text(key, value)
    assert key in str(found.value)


def test_the_core_still_checks_what_is_given() -> None:
    for wrong, message in (
        ({"last_hop": {"rat": 1e6}}, "did you mean `rate`"),
        ({"last_hop": {"rtt": -1}}, "rtt"),
        ({"tcp": {"scheme": {"name": "snoop", "cache": 1}}}, "cache"),
        ({1: 2}, "keys of a scenario are texts"),
    ):
        with pytest.raises(InputError, match=message):
            lasthop.run(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not both"):
        lasthop.run({"duration": 1}, text="duration = '1 s'")


def _quantities(schema: Any, where: str) -> Iterator[tuple[str, Any]]:
    """All quantities of a JSON Schema."""
    if isinstance(schema, dict):
        kinds = schema.get("type", ())
        if isinstance(kinds, list) and {"string", "number"} <= set(kinds):
            yield where, schema
        for key, value in schema.items():
            yield from _quantities(value, f"{where}/{key}")
    elif isinstance(schema, list):
        for i, value in enumerate(schema):
            yield from _quantities(value, f"{where}/{i}")


def test_the_dimension_of_each_quantity_is_known() -> None:
    found = list(_quantities(lasthop.schema(), ""))
    assert len(found) > 100
    dimensions = {where: python_values._quantity([schema]) for where, schema in found}
    assert [where for where, dimension in dimensions.items() if not dimension] == []
    assert set(dimensions.values()) == {"s", "bit/s", "B", "packets", "share"}
    # A short form is a text in the schema; those of quantities are listed.
    defined = lasthop.schema()["$defs"]
    forms = {
        name
        for name, schema in defined.items()
        if any("Short form" in part.get("description", "") for part in schema.get("anyOf", ()))
    }
    assert forms == {*python_values._SHORT_FORMS, "AppForm"}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUE = st.recursive(
    TEXT | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


KEYS_OF_A_FILE = set(lasthop.schema()["properties"])
SCENARIOS = st.dictionaries(TEXT.filter(lambda k: k not in KEYS_OF_A_FILE), VALUE)


@pytest.mark.parametrize("examples", [50, pytest.param(200, marks=pytest.mark.long)])
def test_toml_gives_back_what_was_written(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(SCENARIOS)
    def check(scenario: dict[str, Any]) -> None:
        assert tomllib.loads(python_values.scenario_text(scenario)) == scenario

    check()


def test_axes_are_lists_arrays_and_ranges() -> None:
    assert python_values.axis_texts("last_hop.loss", [0.001, "1 %"]) == ["0.1 %", "1 %"]
    assert python_values.axis_texts("last_hop.rate", np.array([1e6, 2e6])) == ["1 Mbps", "2 Mbps"]
    assert python_values.axis_texts("flow.1.count", range(1, 4)) == ["1", "2", "3"]
    joint = python_values.axis_texts("last_hop.rate & last_hop.rtt", [(1e6, 0.08), (4e6, 0.02)])
    assert joint == ["1 Mbps & 80 ms", "4 Mbps & 20 ms"]
    with pytest.raises(InputError, match="names 2 keys"):
        python_values.axis_texts("last_hop.rate & last_hop.rtt", [(1e6,)])
    with pytest.raises(InputError, match="needs a list of values"):
        python_values.axis_texts("last_hop.rtt", 3)


def test_a_comparison_varies_numbers() -> None:
    result = lasthop.compare(
        last_hop=NUMBERS,
        schemes=["reno"],
        vary={"last_hop.loss": [0.001, 0.02]},
        seeds=2,
        settings={"duration": 3},
    )
    assert result.plan.vary == {"last_hop.loss": ["0.1 %", "2 %"]}
    assert result.plan.title == "last hop: 2 Mbps, RTT 40 ms"


def test_classes_are_competitors_and_schemes_of_flows() -> None:
    class Fixed(lasthop.CongestionControl):
        segments = 4

        def on_ack(self, window: Any, ack: Any) -> None:
            window.cwnd = self.segments * ack.mss

    more = lasthop.configure(Fixed, segments=8)
    result = lasthop.run(
        {
            "duration": 3,
            "last_hop": NUMBERS,
            "flow": [{"scheme": more}, {}],
            "tcp": {"scheme": Fixed},
        },
        flows={"against": [Fixed, "reno"]},
    )
    labels = [f["scheme"] for f in result.data["flows"]]
    assert labels == ["Fixed:segments=8", "Fixed", "Fixed", "reno"]
    alone = lasthop.run(last_hop=NUMBERS, flows={"against": "reno"}, settings={"duration": 1})
    assert [f["scheme"] for f in alone.data["flows"]] == ["cubic", "reno"]
    with pytest.raises(InputError, match=r"subclass of lasthop\.CongestionControl"):
        lasthop.run(last_hop=NUMBERS, flows={"against": [dict]})


def test_stored_scenarios_of_dictionaries_run_again(tmp_path: Path) -> None:
    lasthop.compare(SCENARIO, seeds=2, out=tmp_path)
    again = json.loads((tmp_path / "comparison.json").read_text())
    assert again["scenario"] == "Mine"
    same = plan.load(plan.source(tmp_path / "scenario.toml"))
    assert same.filled == plan.load(plan.source(SCENARIO)).filled


def test_a_figure_with_claims_may_be_a_dictionary(tmp_path: Path) -> None:
    figure = {
        **SCENARIO,
        "title": "Loss & delay: mine",
        "plot": {"kind": "line", "show": ["goodput_bps"], "x": "last_hop.rate"},
        "claim": [
            {
                "id": "more",
                "kind": "order",
                "text": "The faster link is faster at {}",
                "metric": "goodput_bps",
                "left": "reno",
                "right": "reno",
                "at": {"last_hop.rate": 2e6, "last_hop.rtt": 0.02},
                "against": {"last_hop.rate": 1e6, "last_hop.rtt": 0.02},
                "min_runs": 3,
            }
        ],
    }
    result = lasthop.reproduce(figure, out=tmp_path)
    assert [f.id for f in result.figures] == ["loss-delay-mine"]
    assert [v.verdict for v in result.figures[0].verdicts] == ["holds"]
    assert (tmp_path / "loss-delay-mine.svg").is_file()
    with pytest.raises(InputError, match="rename the file"):
        lasthop.reproduce(figure, {**figure, "duration": 3})
    compared = lasthop.compare(figure)
    assert [v.verdict for v in compared.verdicts] == ["holds"]


def test_names_for_annotations_are_exported() -> None:
    for name in lasthop.__all__:
        assert getattr(lasthop, name) is not None
    assert {"Ack", "Context", "Loss", "Segment", "Window"} <= set(lasthop.__all__)
