from __future__ import annotations

import scheme_figures
import scheme_pages

from lasthop import catalogue
from lasthop.scenarios import experiment

ENTRIES = catalogue.entries()


def test_every_scheme_has_a_figure() -> None:
    figures = scheme_figures.figures_by_scheme()
    assert [e["name"] for e in ENTRIES if not figures.get(e["name"])] == []
    assert set(figures) <= {e["name"] for e in ENTRIES}


def test_all_schemes_of_a_figure_are_found() -> None:
    text = """
[[flow]]
scheme = { name = "veno", recovery = "reno" }
[experiment]
schemes = [
  "reno",
  { name = "ll-elsn", sender = "esack:tolerated_run=3" },
  { name = "snoop", sender = "(sack:prr=true)", label = "cubic" },
]
[plot]
kind = "vectors"
[[plot.vector]]
id = "x"
scheme = "packet-control"
packets = ["data 1"]
expect = ["forward"]
"""
    figure = experiment.read(scheme_pages.FOLDER / "x.toml", "x/y", text)
    assert scheme_figures.schemes_of(figure) == {
        "veno",
        "reno",
        "ll-elsn",
        "esack",
        "snoop",
        "sack",
        "packet-control",
    }


def test_the_page_of_a_scheme_lists_its_figures() -> None:
    page = (scheme_pages.FOLDER / "santa-cruz.md").read_text(encoding="utf-8")
    figures = scheme_figures.figures_by_scheme()["santa-cruz"]
    assert "yun2009/section2" in figures
    (line,) = (x for x in page.splitlines() if x.startswith("[Figures]"))
    assert all(figure.partition("/")[2] in line for figure in figures)
    assert "[santa_cruz.rs](../../crates/lasthop-schemes/src/santa_cruz.rs)" in page
