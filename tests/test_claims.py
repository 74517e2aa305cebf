from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLoader, Randomness

from lasthop.analysis import claim_text
from lasthop.errors import InputError
from lasthop.experiments import plan
from lasthop.experiments.comparison import Comparison, compare
from lasthop.reproduction import claims
from lasthop.scenarios import experiment
from lasthop.scenarios.experiment import Claim


def measured(
    values: dict[str, list[float]],
    random: Randomness = True,
    vary: dict[str, list[str]] | None = None,
) -> Comparison:
    """A comparison with given goodputs, by scheme or by "scheme@value of the varied key"."""
    loader = FakeLoader(random=random)
    schemes = list(dict.fromkeys(k.split("@")[0] for k in values))
    runs = len(next(iter(values.values())))
    the_plan = plan.plan(plan.Source("x"), schemes, runs, vary, version="1", loader=loader)

    def observe(job: plan.Job, _: Any) -> dict[str, float | None]:
        at = "@" + next(iter(job.case.set.values())) if job.case.set else ""
        return {"goodput_bps": values[job.case.label + at][job.seed - 1]}

    return compare(the_plan, version="1", observe=observe, names=["goodput_bps"])


def claim(**given: Any) -> Claim:
    return Claim(**{"id": "c", "text": "t", "paper": None, "metric": "goodput_bps", **given})


NOISE = [0.0, 3.0, -2.0, 1.0, -1.0, 2.0, -3.0, 0.5, -0.5, 0.0]


def around(mean: float, scale: float = 1.0) -> list[float]:
    return [mean + scale * x for x in NOISE]


@pytest.mark.parametrize(
    ("b", "verdict"),
    [
        (around(110), "holds"),
        (around(90), "differs"),
        ([100 - x for x in NOISE], "undecided"),
        (around(100), "differs"),
    ],
)
def test_order_is_judged_by_the_paired_interval(b: list[float], verdict: str) -> None:
    found = claims.judge(
        claim(kind="order", left="b", right="a"), measured({"a": around(100), "b": b})
    )
    assert found.verdict == verdict
    assert found.measured == pytest.approx(sum(b) / 10 - 100)


@pytest.mark.parametrize(
    ("least", "is_share", "verdict"),
    [
        (5.0, False, "holds"),
        (10.0, False, "undecided"),
        (20.0, False, "differs"),
        (0.05, True, "holds"),
        (0.2, True, "differs"),
    ],
)
def test_an_order_can_require_a_minimum_difference(
    least: float, is_share: bool, verdict: str
) -> None:
    asked = claim(kind="order", left="b", right="a", least=least, least_is_share=is_share)
    found = claims.judge(asked, measured({"a": around(100), "b": around(110, 2)}))
    assert found.verdict == verdict
    assert "required: at least" in found.why


def test_order_of_a_chain() -> None:
    values = {"a": around(100), "b": around(110), "c": around(105)}
    assert (
        claims.judge(claim(kind="order", chain=("a", "c", "b")), measured(values)).verdict
        == "holds"
    )
    found = claims.judge(claim(kind="order", chain=("a", "b", "c")), measured(values))
    assert found.verdict == "differs"
    assert found.measured == pytest.approx([10, -5])


@pytest.mark.parametrize(
    ("value", "tolerance", "verdict"),
    [
        (100, 5, "holds"),
        (100, 1, "undecided"),
        (120, 5, "differs"),
        (101.5, 0.5, "undecided"),
        (103, 2, "undecided"),
    ],
)
def test_about(value: float, tolerance: float, verdict: str) -> None:
    found = claims.judge(
        claim(kind="about", left="a", value=value, tolerance=tolerance),
        measured({"a": around(100)}),
    )
    assert found.verdict == verdict
    assert found.ci95 is not None


def test_about_a_gain_uses_fieller_and_reports_single_pairs() -> None:
    data = {"a": around(100), "b": around(150, 4)}
    found = claims.judge(
        claim(
            kind="about",
            left="b",
            right="a",
            relation="gain",
            value=1.0,
            tolerance=0.2,
            note="Seen.",
        ),
        measured(data),
    )
    assert found.verdict == "differs"
    assert found.measured == pytest.approx(0.5)
    assert "single pairs of runs give +4" in found.why
    assert found.why.endswith("Seen.")


@pytest.mark.parametrize(
    ("given", "display", "paper"),
    [
        (
            {
                "kind": "about",
                "left": "b",
                "right": "a",
                "relation": "gain",
                "value": 1.0,
                "paper": 1.0,
            },
            "+50 % [",
            "+100 %",
        ),
        (
            {"kind": "bound", "left": "b", "right": "a", "relation": "ratio", "min": 1.0},
            "ratio 1.5 [",
            "",
        ),
        (
            {"kind": "about", "left": "b", "value": 15e4, "paper": 15e4},
            "150 kbit/s [",
            "150 kbit/s",
        ),
        (
            {"kind": "order", "left": "b", "right": "a", "paper": "more"},
            "difference +50 kbit/s [",
            "more",
        ),
        ({"kind": "order", "chain": ("a", "b")}, "difference +50 kbit/s [", ""),
        ({"kind": "order", "chain": ("a", "b", "c")}, "differences +50, -25 kbit/s, n = 10", ""),
    ],
)
def test_a_measured_value_has_unit_and_name(
    given: dict[str, Any], display: str, paper: str
) -> None:
    data = {"a": around(100e3, 1e3), "b": around(150e3, 4e3), "c": around(125e3, 2e3)}
    found = claims.judge(claim(**given), measured(data))
    assert found.display.startswith(display)
    assert found.display.endswith("n = 10")
    assert found.to_dict()["n"] == 10
    assert claim_text.paper(found.claim) == paper


def test_a_note_is_shown_unless_the_claim_holds_or_has_too_few_runs() -> None:
    def why(runs: list[float], limit: float) -> str:
        return claims.judge(
            claim(kind="bound", left="a", max=limit, note="Seen."), measured({"a": runs})
        ).why

    assert why(around(100), 90).endswith("Seen.")
    assert why(around(100), 100).endswith("Seen.")
    assert not why(around(100), 110).endswith("Seen.")
    assert not why(around(100)[:9], 90).endswith("Seen.")


def test_bound() -> None:
    data = measured({"a": around(100)})
    assert claims.judge(claim(kind="bound", left="a", min=90), data).verdict == "holds"
    assert claims.judge(claim(kind="bound", left="a", min=90, max=95), data).verdict == "differs"
    assert claims.judge(claim(kind="bound", left="a", max=100), data).verdict == "undecided"


def test_shapes_along_a_key() -> None:
    vary = {"k": ["1", "2", "3"]}
    rising = {
        "a@1": around(1),
        "a@2": around(2),
        "a@3": around(3),
        "b@1": around(3, 2),
        "b@2": around(2, 2),
        "b@3": around(1, 2),
    }
    data = measured(rising, vary=vary)
    assert claims.judge(claim(kind="shape", left="a", shape="increasing"), data).verdict == "holds"
    assert (
        claims.judge(claim(kind="shape", left="a", shape="decreasing"), data).verdict == "differs"
    )
    crossing = measured({**rising, **{f"b@{k}": around(4 - k) for k in (1, 2, 3)}}, vary=vary)
    assert (
        claims.judge(
            claim(kind="shape", left="a", right="b", shape="crossing", between=("1", "3")), crossing
        ).verdict
        == "holds"
    )
    assert (
        claims.judge(
            claim(kind="shape", left="a", right="b", shape="crossing", between=("2", "3")), crossing
        ).verdict
        == "differs"
    )
    with pytest.raises(InputError, match="the varied key has"):
        claims.judge(
            claim(kind="shape", left="a", right="b", shape="crossing", between=("0", "3")), crossing
        )


def test_two_points_of_one_scheme() -> None:
    values = {"a@1": around(100), "a@2": around(80)}
    data = measured(values, vary={"gain": ["1", "2"]})
    falls = claims.judge(
        claim(kind="order", left="a", right="a", at={"gain": "1"}, against={"gain": "2"}), data
    )
    assert falls.verdict == "holds"
    assert falls.measured == pytest.approx(20)
    share = claims.judge(
        claim(
            kind="bound",
            left="a",
            right="a",
            relation="ratio",
            min=0.78,
            max=0.82,
            at={"gain": "2"},
            against={"gain": "1"},
        ),
        data,
    )
    assert share.verdict == "holds"
    assert share.measured == pytest.approx(0.8)


def test_too_few_runs_give_no_verdict() -> None:
    data = measured({"a": around(100)[:9], "b": around(200)[:9]})
    found = claims.judge(claim(kind="order", left="b", right="a"), data)
    assert found.verdict == "undecided"
    assert "too few" in found.why


def test_one_deterministic_run_gives_a_verdict() -> None:
    data = measured({"a": [100.0], "b": [100.5]}, random=False)
    assert claims.judge(claim(kind="order", left="b", right="a"), data).verdict == "holds"
    assert claims.judge(claim(kind="order", left="a", right="b"), data).verdict == "differs"
    assert (
        claims.judge(claim(kind="about", left="a", value=100, tolerance=0), data).verdict == "holds"
    )


def test_a_modified_figure_is_measured_but_not_judged() -> None:
    found = claims.judge(
        claim(kind="bound", left="a", min=90), measured({"a": around(100)}), modified=True
    )
    assert found.verdict == "undecided"
    assert found.measured == pytest.approx(100)
    assert "not judged" in found.why


def test_unknown_schemes_and_points_are_input_errors() -> None:
    data = measured({"a": around(100)})
    with pytest.raises(InputError, match="names the scheme `x`"):
        claims.judge(claim(kind="bound", left="x", min=90), data)
    with pytest.raises(InputError, match="no point"):
        claims.judge(claim(kind="bound", left="a", min=90, at={"k": "1"}), data)


FIGURE = """
title = "t"
[experiment]
schemes = [
  "reno",
  {name="packet-control", dupack_threshold=12, sender="reno:recovery=newreno", label="D = 12"},
]
seeds = 30
[experiment.vary]
"link.radio.queue" = ["10 packets", { packets = 20 }, 3]
[plot]
kind = "series"
show = ["goodput"]
range = ["1 s", "2 s"]
[[claim]]
id = "one"
kind = "about"
text = "x"
metric = "goodput_bps"
left = "reno"
value = "100 kbps"
tolerance = "20 %"
"""


def test_reading_a_figure_file() -> None:
    figure = experiment.read(Path("f.toml"), text=FIGURE)
    assert (
        figure.experiment.schemes[1]
        == "packet-control:dupack_threshold=12:sender=(reno:recovery=newreno):label=D = 12"
    )
    assert figure.experiment.vary == {"link.radio.queue": ("10 packets", "{ packets = 20 }", "3")}
    assert figure.claims[0].value == 100e3
    assert figure.claims[0].tolerance == pytest.approx(20e3)
    assert figure.plot is not None
    assert figure.plot.range == (1.0, 2.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "about"', 'kind = "abuot"', "did you mean `about`"),
        ('left = "reno"', 'lfet = "reno"', "needs `left`|unknown key `lfet`"),
        ('value = "100 kbps"', "", "needs `left` and `value`"),
        ('value = "100 kbps"', 'value = "fast"', "must be a number"),
        ('tolerance = "20 %"', "", "\\[\\[claim\\]\\] one: kind about needs `tolerance`"),
        ('range = ["1 s", "2 s"]', 'range = ["2 s", "1 s"]', "earlier one first"),
        ("seeds = 30", "seeds = 0", "at least 1"),
        ("seeds = 30", "sedes = 30", "did you mean `seeds`"),
        ('show = ["goodput"]', 'show = "goodput"', "a list of strings"),
        ('kind = "series"', 'kind = "pie"', "allowed: series"),
        ('title = "t"', "title = ", "f.toml"),
        ('left = "reno"', 'left = "reno"\nagainst = { k = "1" }', "needs `right`"),
        ("seeds = 30", "seeds = 30\nsettings = { reno = 3 }", "a table of tables"),
        ('left = "reno"', 'left = "reno"\nleast = "2 %"', "kind about has `tolerance`"),
        ('left = "reno"', 'left = "reno"\nleast = 0', "`least` must be above 0"),
    ],
)
def test_mistakes_in_a_figure_file(old: str, new: str, message: str) -> None:
    assert old in FIGURE
    with pytest.raises(InputError, match=message):
        experiment.read(Path("f.toml"), text=FIGURE.replace(old, new))


def test_a_scheme_can_need_scenario_settings() -> None:
    text = FIGURE.replace(
        "seeds = 30", 'seeds = 30\nsettings = { reno = { "link.radio.queue" = { packets = 9 } } }'
    )
    figure = experiment.read(Path("f.toml"), text=text)
    needs = figure.experiment.settings
    assert needs == {"reno": {"link.radio.queue": "{ packets = 9 }"}}
    loader = FakeLoader()
    made = plan.plan(
        plan.Source("x"),
        ["reno", "snoop"],
        2,
        {"gain": ["1", "2"]},
        own=needs,
        version="1",
        loader=loader,
    )
    assert {c.label: dict(c.needs) for c in made.cases} == {"reno": needs["reno"], "snoop": {}}

    def queues(label: str) -> set[Any]:
        scenarios: list[Any] = [c.scenario for c in made.cases if c.label == label]
        return {s.settings.get("link.radio.queue") for s in scenarios}

    assert (queues("snoop"), queues("reno")) == ({None}, {"{ packets = 9 }"})
    plan.check_needs(made, needs)
    with pytest.raises(InputError, match="did you mean `reno`"):
        plan.check_needs(made, {"rneo": {}})


def test_jointly_varied_keys() -> None:
    made = plan.plan(
        plan.Source("x"),
        ["reno"],
        1,
        {"a & gain": ["1 & 2", "3 & 4"]},
        version="1",
        loader=FakeLoader(),
    )
    scenarios: list[Any] = [c.scenario for c in made.cases]
    settings = [(s.settings["a"], s.settings["gain"]) for s in scenarios]
    assert settings == [("1", "2"), ("3", "4")]
    with pytest.raises(InputError, match="names 2 keys"):
        plan.plan(
            plan.Source("x"), ["reno"], 1, {"a & gain": ["1"]}, version="1", loader=FakeLoader()
        )


def test_a_deterministic_point_is_exact_among_random_ones() -> None:
    """One run is enough there, although other points need more."""
    values = {
        "a@1": [100.0] * 3,
        "b@1": [110.0] * 3,
        "a@2": around(100)[:3],
        "b@2": around(110)[:3],
    }
    found = measured(
        values, lambda source, _: ("gain", "1") not in source.settings, {"gain": ["1", "2"]}
    )
    assert len(found.values(0, "a", "goodput_bps")) == 1
    order = claim(kind="order", left="b", right="a", at={"gain": "1"})
    assert claims.judge(order, found).verdict == "holds"
    assert claims.judge(order, found).ci95 == (10, 10)
    # A comparison with a random point still needs enough runs.
    assert (
        claims.judge(claim(kind="shape", shape="increasing", left="a"), found).verdict
        == "undecided"
    )
    assert (
        claims.judge(claim(kind="order", left="b", right="a", at={"gain": "2"}), found).verdict
        == "undecided"
    )


EACH = """
[[claim]]
id = "best"
kind = "order"
text = "b is best at {}"
metric = "goodput_bps"
left = "b"
right = "a"
at = { y = "1" }
each = { x = ["0.1 %", "9 %"] }
"""


def test_each_expands_to_one_claim_per_value() -> None:
    found = experiment.read(Path("f.toml"), text=EACH).claims
    assert [(c.id, c.text, dict(c.at)) for c in found] == [
        ("best-0_1", "b is best at 0.1 %", {"y": "1", "x": "0.1 %"}),
        ("best-9", "b is best at 9 %", {"y": "1", "x": "9 %"}),
    ]
    for wrong in ("each = 3", "each = {}", 'each = { x = "1" }', "each = { x = [] }"):
        with pytest.raises(InputError, match="each"):
            experiment.read(
                Path("f.toml"), text=EACH.replace('each = { x = ["0.1 %", "9 %"] }', wrong)
            )
