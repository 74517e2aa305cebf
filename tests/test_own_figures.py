"""Figures and claims in scenario files of a user, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lasthop
from lasthop.cli.main import main
from lasthop.errors import InputError

SCENARIO = """
title = "Mine"
duration = "5 s"
[last_hop]
rate = "5 Mbps"
rtt = "40 ms"
[experiment]
schemes = ["newreno", "snoop"]
seeds = 10
vary = { "last_hop.loss" = ["0.1 %", "3 %"] }
"""
PLOT = """
[plot]
kind = "KIND"
show = ["goodput_bps"]
"""
CLAIM = """
[[claim]]
id = "snoop"
kind = "order"
text = "Snoop is better"
metric = "goodput_bps"
left = "snoop"
right = "newreno"
at = { "last_hop.loss" = "3 %" }
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text(SCENARIO + PLOT.replace("KIND", "bars") + CLAIM, encoding="utf-8")
    return file


def test_reproduce_reads_a_scenario_file(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "mine.toml", "--out", "out", "--json"]) == 0
    (figure,) = json.loads(capsys.readouterr().out)["figures"]
    assert figure["id"] == "mine"
    assert [c["verdict"] for c in figure["claims"]] == ["holds"]
    written = sorted(p.name for p in Path("out").iterdir() if not p.name.startswith("."))
    assert written == [
        "index.html",
        "index.md",
        *(f"mine.{end}" for end in ("csv", "json", "md", "png", "svg", "table.csv", "txt")),
    ]
    assert "command: lasthop reproduce mine.toml" in Path("out/mine.txt").read_text()


def test_compare_judges_claims_and_reuses_runs_for_another_figure(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "mine.toml", "--out", "out"]) == 0
    assert "holds      Snoop is better" in capsys.readouterr().out
    mine.write_text(SCENARIO + PLOT.replace("KIND", "box") + CLAIM, encoding="utf-8")
    assert main(["compare", "mine.toml", "--out", "out", "--json"]) == 0
    shown = capsys.readouterr()
    assert "40 of 40 runs reused" in shown.err
    assert [c["verdict"] for c in json.loads(shown.out)["claims"]] == ["holds"]
    series = PLOT.replace("KIND", "series").replace("goodput_bps", "cwnd")
    mine.write_text(SCENARIO + series, encoding="utf-8")
    assert main(["compare", "mine.toml", "--out", "out"]) == 0
    assert "40 of 40 runs reused" in capsys.readouterr().err
    assert "congestion window" in Path("out/figure.svg").read_text()


def test_options_choose_the_figure(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "mine.toml", "--out", "out"]
    options = ["--metric", "timeouts,goodput_bps", "--plot", "box", "--format", "pdf,svg"]
    assert main([*words, *options, "--style", "ieee-column", "--x", "loss"]) == 0
    assert Path("out/figure.pdf").exists()
    assert ">timeouts<" in Path("out/figure.svg").read_text()
    assert main([*words[:-1], "tables", "--no-figure"]) == 0
    assert not list(Path("tables").glob("figure.*"))
    assert Path("tables/table.csv").exists()
    assert Path("tables/table.csv").read_bytes() == Path("out/table.csv").read_bytes()
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plot", "pie", "--out", "o"], "there are line, bars, scatter, box, cdf, heatmap"),
        (["--metric", "speed", "--out", "o"], "no metric 'speed'"),
        (
            ["--metric", "flows.tcp.rtt_s_p95", "--out", "o"],
            "'rtt_s_p95' (did you mean `rtt_s.p95`",
        ),
        (
            ["--metric", "groups.tcp.speed", "--out", "o"],
            "groups have no 'speed'; they have goodput",
        ),
        (["--x", "rate", "--out", "o"], "no varied key 'rate'; there are last_hop.loss"),
        (["--style", "poster", "--out", "o"], "there are page, ieee-column"),
        (["--format", "gif", "--out", "o"], "there are svg, pdf, png"),
        (["--plot", "bars"], "--plot needs --out DIR"),
        (["--no-figure"], "--no-figure needs --out DIR"),
        (["--no-figure", "--plot", "bars", "--out", "o"], "cannot be given together"),
    ],
)
def test_wrong_options_do_no_run(
    words: list[str], message: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "mine.toml", *words]) == 2
    assert message in capsys.readouterr().err
    assert not Path("o/runs.csv").exists()


def test_wrong_files_are_refused(mine: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.toml: No such file"):
        lasthop.reproduce("nowhere.toml")
    (mine.parent / "index.toml").write_text(SCENARIO)
    with pytest.raises(InputError, match="the name of the index"):
        lasthop.reproduce("index.toml")
    mine.write_text(SCENARIO + PLOT.replace("KIND", "bars") + 'x = "last_hop.rate"\n')
    with pytest.raises(InputError, match=r"\[plot\] x: no varied key 'last_hop.rate'"):
        lasthop.reproduce("mine.toml")
    mine.write_text(
        SCENARIO + PLOT.replace("goodput_bps", "flows.tcp.goodput").replace("KIND", "bars")
    )
    with pytest.raises(InputError, match=r"flows have no .goodput. .did you mean `goodput_bps`"):
        lasthop.reproduce("mine.toml")
    mine.write_text(SCENARIO + PLOT.replace("KIND", "pie"))
    with pytest.raises(InputError, match="allowed: series, sequence, metric-vs-key"):
        lasthop.compare("mine.toml")


def test_expect_has_no_verdicts_of_own_files(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "mine.toml", "--expect"]) == 2
    assert "no recorded verdicts for mine.toml" in capsys.readouterr().err


def test_results_in_a_notebook_are_short(mine: Path) -> None:
    run = lasthop.run("mine.toml", seed=2)
    result = lasthop.reproduce("mine.toml")
    for shown in (run, result, result.figures[0]):
        assert len(repr(shown)) < 200
        assert "<b>" in shown._repr_html_()
    assert repr(result) == "<Reproduction: 1 figure, claims: 1 holds>"
    assert result.plot().get_size_inches()[0] == 6.3
    assert run.plot(show=["cwnd"], style="screen").get_size_inches()[0] == 9.0
