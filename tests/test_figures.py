from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from commands import document

import lasthop
from lasthop.analysis import series
from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.experiments.figure_result import FigureResult, read_expected
from lasthop.scenarios import experiment

# What the dossier of zeng2006 asks for, and its future work, with the number of claims.
ZENG = {
    "ack-compression": 11,
    "ack-compression-short": 11,
    "disconnections": 7,
    "eifel": 18,
    "eifel-stall": 4,
    "fig01": 0,
    "fig06": 3,
    "fig07": 5,
    "fig08": 7,
    "fig08b": 7,
    "fig10": 7,
    "fig11": 4,
    "fig13": 3,
    "fig14": 1,
    "fig15": 3,
    "fig16": 2,
    "fig17": 1,
    "fig18": 2,
    "fig19": 1,
    "fig20": 3,
    "multi-loss": 7,
    "multi-stall": 7,
    "multi-variation": 11,
    "table1": 5,
}


JANEVSKI = {
    "fig02": 7,
    "fig02b": 7,
    "fig03": 10,
    "fig04": 6,
    "fig04b": 6,
    "fig05": 6,
    "fig05b": 6,
    "fig06": 4,
    "fig06b": 4,
    "fig06c": 4,
    "small": 6,
    "small-once": 6,
    "table1": 1,
    "table2": 1,
    "terminals": 16,
}


def test_all_figures_and_claims_of_zeng2006_exist() -> None:
    found = {f.id: len(f.claims) for f in experiment.figures(experiment.select(["zeng2006"]))}
    assert found == {f"zeng2006/{k}": n for k, n in ZENG.items()}


def test_all_claims_of_janevski2009_exist() -> None:
    found = {
        f.id.split("/")[1]: len(f.claims)
        for f in experiment.figures(experiment.select(["janevski2009"]))
    }
    assert found == JANEVSKI


# Settings with which the figures of a paper take little time: enough to see that they are drawn and
# that their claims can be looked at. The last figures have their own length.
SHORT = {"yun2009": (2, "5 s"), "noor": (1, "2 s"), "related": (1, "10 s")}
# Some of these figures measure later than the short run lasts.
EARLY = {"related": {"measure.from": "4 s"}}
OWN_LENGTH = ("fig04", "fig16", "fig16b")
# A figure with each kind of plot.
DRAWN = ["yun2009/fig04", "yun2009/fig13b", "yun2009/table1", "noor/fig02", "related/split"]


def reproduced(figure: str, out: Path | None) -> FigureResult:
    paper, name = figure.split("/")
    seeds, duration = SHORT[paper]
    own = paper == "yun2009" and name in OWN_LENGTH
    settings = {} if own else {"duration": duration, **EARLY.get(paper, {})}
    return lasthop.reproduce(figure, seeds=seeds, settings=settings, out=out).figures[0]


@pytest.mark.more("test_figures_are_drawn")
@pytest.mark.parametrize("paper", list(SHORT))
def test_every_figure_of_a_paper_runs(paper: str) -> None:
    for figure in experiment.select([paper]):
        result = reproduced(figure, None)
        assert len(result.verdicts) == len(result.figure.claims)
        assert result.figure.claims or result.runs.height


@pytest.mark.parametrize(
    "figure",
    [
        pytest.param(f, marks=[] if f in DRAWN else [pytest.mark.long])
        for f in experiment.select(list(SHORT))
    ],
)
def test_figures_are_drawn(figure: str, tmp_path: Path) -> None:
    assert reproduced(figure, tmp_path).files


@pytest.mark.parametrize(
    "figure", list(experiment.figures(experiment.all_ids())), ids=lambda f: f.id
)
def test_figure_files_are_complete(figure: experiment.Figure) -> None:
    assert figure.plot is not None
    assert len(figure.plot.about) > 40
    for claim in figure.claims:
        assert claim.text
        assert claim.paper is not None
    recorded = read_expected(experiment.FOLDER).get(figure.id, {})
    assert set(recorded) == {c.id for c in figure.claims}


@pytest.mark.parametrize("figure", experiment.select(["yun2009", "related"]))
def test_a_least_effect_is_written(figure: str) -> None:
    claims = tomllib.loads((experiment.FOLDER / f"{figure}.toml").read_text(encoding="utf-8")).get(
        "claim", []
    )
    assert [c["id"] for c in claims if c["kind"] == "order" and "least" not in c] == []


def test_recorded_verdicts_name_known_figures() -> None:
    assert set(read_expected(experiment.FOLDER)) <= set(experiment.all_ids())


@pytest.mark.more("test_reproduce_as_recorded")
def test_verdicts_of_zeng2006_are_as_recorded() -> None:
    assert lasthop.reproduce("zeng2006").surprises() == []


# Figures with each kind of plot; all figures of a paper take minutes.
@pytest.mark.parametrize(
    "words",
    [
        ["zeng2006/fig01", "zeng2006/fig10", "zeng2006/multi-stall", "zeng2006/table1"],
        *(
            pytest.param([paper], marks=pytest.mark.long)
            for paper in ("zeng2006", "janevski2009", "yun2009", "noor")
        ),
    ],
    ids=" ".join,
)
def test_reproduce_as_recorded(words: list[str], tmp_path: Path) -> None:
    assert main(["reproduce", *words, "--expect", "--out", str(tmp_path)]) == 0
    for figure in experiment.select(words):
        for suffix in (".svg", ".png", ".md"):
            if figure != "zeng2006/fig01" or suffix != ".csv":
                assert (tmp_path / f"{figure}{suffix}").stat().st_size > 300
    index = (tmp_path / "index.md").read_text()
    assert all(i in index for i in experiment.select(words))
    assert "<svg" not in (tmp_path / "index.html").read_text()


def test_json_of_reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("zeng2006/fig15", "--seeds", "2", "--out", tmp_path)
    found = document(capsys, "reproduce", *words)["figures"]
    assert [f["id"] for f in found] == ["zeng2006/fig15"]
    assert found[0]["modified"] is False
    assert set(found[0]["claims"][0]) == {
        "id",
        "kind",
        "text",
        "paper",
        "measured",
        "ci95",
        "verdict",
        "why",
        "unit",
        "n",
        "display",
    }
    assert all((tmp_path / f).exists() for f in found[0]["files"])


def test_quick_gives_no_verdict_about_random_figures(tmp_path: Path) -> None:
    result = lasthop.reproduce("zeng2006/fig15", quick=True)
    assert {v.verdict for f in result.figures for v in f.verdicts} == {"undecided"}
    result.figures[0].plot(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    assert result.figures[0].runs.height == 15


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"also": ["newreno"]}, "also newreno"),
        ({"settings": {"duration": "10 s"}}, "duration = 10 s"),
    ],
)
def test_a_modified_figure_is_marked(change: dict[str, object], named: str, tmp_path: Path) -> None:
    result = lasthop.reproduce(
        "zeng2006/fig15",
        seeds=12,
        out=tmp_path,
        **change,  # type: ignore[arg-type]
    )
    figure = result.to_dict()["figures"][0]
    assert figure["modified"] is True
    assert f"(modified: {named})" in figure["title"]
    assert {c["verdict"] for c in figure["claims"]} == {"undecided"}
    assert "This figure was modified" in (tmp_path / "zeng2006/fig15.md").read_text()


def test_expect_names_differing_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["reproduce", "zeng2006/fig15", "--seeds", "3", "--expect", "--out", str(tmp_path)])
        == 1
    )
    assert ", recorded verdict " in capsys.readouterr().err


def test_selecting() -> None:
    assert experiment.select(["zeng2006/fig15", "zeng2006"])[0] == "zeng2006/fig15"
    assert len(experiment.select(["zeng2006"])) == len(ZENG)
    with pytest.raises(InputError, match="did you mean `zeng2006`"):
        experiment.select(["zeng2005"])


def test_every_series_and_measure_is_described() -> None:
    assert all(text and events for text, events in series.SERIES.values())
    assert all(events and text for events, _, text in series.MEASURES.values())
