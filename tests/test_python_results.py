"""Results in Python: short reprs, HTML, pickling, pandas, xarray, progress in notebooks."""

from __future__ import annotations

import importlib.util
import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from optional import needs_packages
from processes import ended

import lasthop
from lasthop import InputError, extras, notebooks
from lasthop.tables import summary

HOP = {"rate": 2e6, "rtt": 0.04, "loss": 0.01}
SHORT = {"duration": 3}
CLAIM = """
[[claim]]
id = "snoop"
kind = "order"
text = "Snoop is better"
metric = "goodput_bps"
left = "snoop"
right = "reno"
"""
FIGURE = """
title = "Mine"
duration = "3 s"
[last_hop]
rate = "2 Mbps"
loss = "2 %"
[experiment]
schemes = ["reno", "snoop"]
seeds = 3
"""
RULE = """
import lasthop

class Fixed(lasthop.CongestionControl):
    segments = 4

    def on_ack(self, window, ack):
        window.cwnd = self.segments * ack.mss
        window.record("cwnd", window.cwnd)
"""


class Fixed(lasthop.CongestionControl):
    """A window of constant size."""

    segments = 4

    def on_ack(self, window: Any, ack: Any) -> None:
        window.cwnd = self.segments * ack.mss
        window.record("cwnd", window.cwnd)


def run(scheme: Any = "reno", seed: int = 1) -> lasthop.RunResult:
    return lasthop.run(last_hop=HOP, scheme=scheme, seed=seed, settings=SHORT)


def compare(**more: Any) -> lasthop.Comparison:
    options: dict[str, Any] = {"schemes": ["snoop", "reno"], "seeds": 2, "settings": SHORT}
    return lasthop.compare(last_hop=HOP, **{**options, **more})


@pytest.fixture
def figure(tmp_path: Path) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(FIGURE + CLAIM)
    return str(file)


# Representations


def test_public_results_have_short_reprs_and_html(tmp_path: Path, figure: str) -> None:
    vary = {"last_hop.loss": [0.001, 0.01, 0.02]}
    results: list[Any] = [
        run(),
        compare(vary=vary),
        lasthop.sweep(
            last_hop=HOP,
            schemes=["reno"],
            vary=vary,
            seeds=2,
            out=tmp_path / "sweep",
            settings=SHORT,
        ),
        lasthop.inspect(last_hop=HOP, schemes="reno", settings=SHORT),
        lasthop.reproduce(figure),
    ]
    names = [type(r).__name__ for r in results]
    assert names == ["RunResult", "Comparison", "SweepResult", "Inspection", "Reproduction"]
    for result in results:
        text = repr(result)
        assert text.startswith(f"<{type(result).__name__} ") or text.startswith(
            f"<{type(result).__name__}:"
        )
        assert len(text) < 200
        assert "\n" not in text
        page: str = result._repr_html_()
        assert "<table" in page or "<iframe" in page
        assert "reno" in page or "Snoop is better" in page
    # Which time goodput refers to, in the words of the commands.
    ran, compared, swept = (result._repr_html_() for result in results[:3])
    assert "<th>goodput while active</th>" in ran
    assert f"; {summary.GOODPUT}</b>" in compared
    assert f"; {summary.GOODPUT}</b>" in swept
    one = repr(run())
    assert (
        one
        == "<RunResult last hop: 2 Mbps, RTT 40 ms, loss 1 %: reno, seed 1, 1 flow, goodput"
        + (f" {run().goodput_bps * 1e-3:.4g} kbit/s>")
    )


def test_html_escapes_titles() -> None:
    result = lasthop.run({"title": "<b>&", **SHORT}, scheme="reno")
    assert "&lt;b&gt;&amp;" in result._repr_html_()
    assert "<b><b>" not in result._repr_html_()


# Pickling


def again(result: Any) -> Any:
    return pickle.loads(pickle.dumps(result))


def test_results_survive_pickling(tmp_path: Path, figure: str) -> None:
    one = run()
    assert again(one) == one
    assert again(one).inspect().to_dict() == one.inspect().to_dict()
    many = compare(vary={"last_hop.loss": [0.001, 0.01]})
    assert again(many).to_dict() == many.to_dict()
    assert again(many).table_csv() == many.table_csv()
    runs = [r.plan.cases[1].scenario.run(2).json() for r in (again(many), many)]
    assert runs[0] == runs[1]
    swept = lasthop.sweep(last_hop=HOP, schemes=["reno"], seeds=2, out=tmp_path, settings=SHORT)
    assert again(swept).table.equals(swept.table)
    seen = lasthop.inspect(last_hop=HOP, schemes="reno", settings=SHORT)
    assert again(seen).to_dict() == seen.to_dict()
    assert again(seen).html == seen.html
    made = lasthop.reproduce(figure)
    assert again(made).to_dict() == made.to_dict()
    assert again(made).figures[0].comparison.to_dict() == made.figures[0].comparison.to_dict()


@pytest.mark.parametrize("form", ["class", "configured", "dataclass", "file", "file configured"])
def test_results_of_own_schemes_survive_pickling(form: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RULE)
    schemes: dict[str, Any] = {
        "class": Fixed,
        "configured": lasthop.configure(Fixed, segments=9, label="nine"),
        "dataclass": lasthop.configure(lasthop.configure(Fixed, segments=7), segments=8),
        "file": f"{file}:Fixed",
        "file configured": f"{file}:Fixed:segments=6",
    }
    one = run(schemes[form])
    other = again(one)
    assert other == one
    assert other.series().equals(one.series())
    assert other.series()["value"].max() == one.series()["value"].max()
    many = compare(schemes=["reno", schemes[form]])
    assert again(many).to_dict() == many.to_dict()
    runs = [r.plan.cases[1].scenario.run(2).json() for r in (again(many), many)]
    assert runs[0] == runs[1]


def test_an_unpickled_run_needs_its_files(tmp_path: Path) -> None:
    trace = tmp_path / "my.down"
    trace.write_text("".join(f"{t}\n" for t in range(1, 2000, 7)))
    stored = pickle.dumps(lasthop.run(last_hop={"down": trace}, settings=SHORT))
    assert pickle.loads(stored).goodput_bps > 0
    trace.unlink()
    with pytest.raises(InputError, match=r"my\.down"):
        pickle.loads(stored)


def _goodput(arguments: dict[str, Any]) -> lasthop.RunResult:
    return lasthop.run(**arguments)


JOBS = [
    {"last_hop": HOP, "scheme": scheme, "seed": seed, "settings": SHORT}
    for scheme in ("reno", Fixed)
    for seed in (1, 2)
]


def test_runs_in_other_processes() -> None:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(_goodput, JOBS))
    assert found == [_goodput(job) for job in JOBS]


@needs_packages("joblib")
def test_runs_with_joblib() -> None:
    import joblib

    with joblib.parallel_config(n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(_goodput)(job) for job in JOBS)
    assert found == [_goodput(job) for job in JOBS]


@pytest.mark.more("test_runs_in_other_processes")
@needs_packages("distributed")
def test_runs_with_dask() -> None:
    from distributed import Client, LocalCluster

    cluster: Any = LocalCluster
    connect: Any = Client
    with (
        cluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
        connect(workers) as client,
    ):
        found = client.gather(client.map(_goodput, JOBS))
    assert list(found) == [_goodput(job) for job in JOBS]


# pandas and xarray


@needs_packages("pandas", "xarray")
def test_a_comparison_becomes_a_cube() -> None:
    vary = {"last_hop.rate": ["500 kbps", "2 Mbps"], "last_hop.loss": [0.001, 0.01]}
    result = compare(vary=vary, seeds=3)
    cube = result.to_xarray()
    assert dict(cube.sizes) == {"last_hop.rate": 2, "last_hop.loss": 2, "scheme": 2, "seed": 3}
    assert cube["last_hop.rate"].values.tolist() == [5e5, 2e6]
    assert cube["last_hop.rate"].attrs["units"] == "bit/s"
    assert cube["last_hop.loss"].attrs["units"] == "%"
    assert cube["scheme"].values.tolist() == ["snoop", "reno"]
    means = cube["goodput_bps"].mean("seed")
    for point, at in enumerate(result.plan.points):
        for scheme in ("snoop", "reno"):
            rate = {"500 kbps": 5e5, "2 Mbps": 2e6}[at["last_hop.rate"]]
            loss = float(at["last_hop.loss"].split()[0])
            got = means.sel({"last_hop.rate": rate, "last_hop.loss": loss, "scheme": scheme})
            assert float(got) == pytest.approx(
                result.statistics(point, scheme, "goodput_bps")["mean"], rel=1e-12
            )
    assert all(v.dtype == np.float64 for v in cube.data_vars.values())
    frame = result.to_pandas()
    assert frame.index.names == ["last_hop.rate", "last_hop.loss", "scheme", "seed"]
    assert len(frame) == 2 * 2 * 2 * 3
    assert frame["goodput_bps"].sum() == pytest.approx(result.runs["goodput_bps"].sum())


@needs_packages("pandas", "xarray")
def test_runs_and_sweeps_become_frames(tmp_path: Path) -> None:
    one = lasthop.run(last_hop=HOP, settings=SHORT, flows={"flows": 2})
    frame = one.to_pandas()
    assert frame.index.tolist() == [f["id"] for f in one.data["flows"]]
    assert frame["goodput_bps"].tolist() == [f["goodput_bps"] for f in one.data["flows"]]
    assert one.to_xarray()["goodput_bps"].dims == ("id",)
    swept = lasthop.sweep(
        last_hop=HOP,
        schemes=["reno", "snoop"],
        zip=[{"last_hop.rate": [1e6, 2e6], "last_hop.rtt": [0.08, 0.04]}],
        seeds=2,
        settings=SHORT,
        out=tmp_path,
    )
    cube = swept.to_xarray()
    assert dict(cube.sizes) == {"last_hop.rate": 2, "scheme": 2, "seed": 2}
    assert cube["last_hop.rtt"].isel(scheme=0, seed=0).values.tolist() == [80.0, 40.0]
    assert len(swept.to_pandas()) == swept.runs.height == 8


@pytest.mark.parametrize(("method", "extra"), [("to_pandas", "pandas"), ("to_xarray", "xarray")])
def test_a_missing_package_is_named(
    method: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == extra else found(name))
    for result in (run(), compare()):
        with pytest.raises(InputError, match=rf"pip install 'lasthop\[{extra}\]'"):
            getattr(result, method)()


# Figures


def test_figures_are_returned_and_drawn_into_given_axes() -> None:
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    one, many = run(), compare()
    assert isinstance(one.plot(), Figure)
    assert isinstance(many.plot(), Figure)
    own, axes = plt.subplots(1, 3)
    assert one.plot(show=["cwnd", "rate"], ax=[axes[0], axes[1]]) is own
    assert many.plot(kind="bars", metrics="goodput_bps", ax=axes[2]) is own
    assert all(a.has_data() for a in axes)
    plt.close(own)


# Progress in notebooks


class FakeBar:
    """Takes the place of `tqdm.auto.tqdm`."""

    made: list[FakeBar]

    def __init__(self, desc: str, total: int | None, **_: Any) -> None:
        self.desc, self.total, self.n, self.closed = desc, total, 0, False
        FakeBar.made.append(self)

    def update(self, count: int) -> None:
        self.n += count

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeBar.made = []
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=FakeBar))


@pytest.mark.usefixtures("notebook")
def test_a_notebook_gets_progress_bars(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebooks.shell() is not None
    compare(seeds=3)
    lasthop.sweep(last_hop=HOP, schemes=["reno"], seeds=3, settings=SHORT, out=tmp_path, jobs=1)
    done = [(bar.desc, bar.n, bar.total, bar.closed) for bar in FakeBar.made]
    assert done == [("runs", 6, 6, True), ("sweep", 3, 3, True)]
    lasthop.sweep(
        last_hop=HOP, schemes=["reno"], seeds=4, settings=SHORT, out=tmp_path / "q", quiet=True
    )
    assert len(FakeBar.made) == 2
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("notebook")
def test_a_notebook_without_tqdm_is_silent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert len(compare().rows) == 4
    assert capsys.readouterr().err == ""


def test_elsewhere_there_is_no_bar() -> None:
    assert notebooks.shell() is None
    assert notebooks.progress_bar("runs", 3) is None


def test_optional_packages_are_not_imported_by_a_comparison() -> None:
    code = (
        "import sys, lasthop; lasthop.compare(last_hop={'rate': 2e6}, schemes=['reno', 'cubic'],"
        " seeds=2, settings={'duration': 1}); "
        "print(sorted({'pandas', 'xarray', 'tqdm', 'IPython', 'matplotlib'} & set(sys.modules)))"
    )
    found = ended([sys.executable, "-c", code], check=True)
    assert found.stdout.strip() == "[]"


def texts(figure: Any) -> str:
    """All texts of a figure of matplotlib."""
    return " ".join(x.get_text() for x in figure.findobj(lambda x: hasattr(x, "get_text")))


def test_a_plot_of_a_run_has_all_flows(tmp_path: Path) -> None:
    hop = {"rate": 10e6, "rtt": 0.04}
    two = lasthop.run(last_hop=hop, flows={"against": "bbr", "duration": 1})
    figure = two.plot(show=["cwnd"])
    (axis,) = figure.axes
    assert len([x for x in axis.lines if np.size(x.get_xdata()) > 10]) == 2
    text = texts(figure)
    assert "bbr" in text
    assert "all 2 flows" in text
    many = lasthop.run(last_hop=hop, flows={"traffic": "rrul", "duration": 1})
    figure = many.plot(show=["cwnd", "sending"])
    text = texts(figure)
    assert "mean of 8 flows (thin lines)" in text
    # Eight thin lines and their mean.
    assert len(figure.axes[0].lines) == 9
    chosen = many.plot(show=["cwnd"], flow="up 1")
    text = texts(chosen)
    assert "flow up 1 of 9 flows" in text
    with pytest.raises(InputError, match="there is no flow 'x'"):
        many.plot(show=["cwnd"], flow="x")


def test_the_flow_that_is_shown_is_named_among_several() -> None:
    hop = {"rate": 2e6, "rtt": 0.04}
    two = lasthop.inspect(last_hop=hop, flows={"against": "bbr", "duration": 1})
    assert two.title.endswith(", seed 1, flow candidate of 2 flows")
    assert "flow candidate of 2 flows" in two.html
    alone = lasthop.inspect(last_hop=hop, flows={"duration": 1})
    assert alone.title.endswith(", seed 1")


def test_a_caption_of_series_says_of_how_many_flows_one_is_drawn(tmp_path: Path) -> None:
    text = (
        'title = "two"\nduration = "1 s"\n[last_hop]\nrate = "2 Mbps"\nloss = "1 %"\n'
        '[[flow]]\nname = "a"\ncount = COUNT\n[experiment]\nschemes = ["reno"]\nseeds = 2\n'
        '[plot]\nkind = "series"\nshow = ["cwnd"]\n'
    )
    for count, caption in ((1, ""), (3, "; flow 1 of 3 flows")):
        file = tmp_path / "a.toml"
        file.write_text(text.replace("COUNT", str(count)))
        found = lasthop.compare(file)
        figure = found.plot()
        words = texts(figure)
        assert ("flow 1 of" in words) == bool(caption), words
        assert caption in words


def test_options_of_the_last_hop_and_of_flows_are_arguments() -> None:
    plain = lasthop.run(rate="1Mbps", rtt=0.04, traffic="bulk", duration=1)
    nested = {"rate": "1Mbps", "rtt": 0.04}, {"traffic": "bulk", "duration": 1}
    assert plain.data == lasthop.run(last_hop=nested[0], flows=nested[1]).data
    assert len(lasthop.run(rate=1e6, rtt=0.04, duration=1, flows=2).data["flows"]) == 2
    lasthop.compare(rate=1e6, rtt=0.04, duration=1, schemes=["reno", "cubic"])
    with pytest.raises(InputError, match=r"no argument `durration` \(did you mean `duration`"):
        lasthop.run(rate=1e6, durration=1)
    with pytest.raises(InputError, match="rate is given twice"):
        lasthop.run(last_hop={"rate": 1e6}, rate=1e6)
    with pytest.raises(InputError, match=r"down is the name of a trace file.*found \[1, 2, 3\]"):
        lasthop.run(last_hop={"down": [1, 2, 3]})
