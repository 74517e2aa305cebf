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


def test_the_table_is_up_to_date() -> None:
    assert scheme_figures.FILE.read_text(encoding="utf-8") == scheme_figures.table(ENTRIES), (
        "`make docs`"
    )


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
    figure = experiment.read(scheme_figures.FILE, "x/y", text)
    assert scheme_figures.schemes_of(figure) == {
        "veno",
        "reno",
        "ll-elsn",
        "esack",
        "snoop",
        "sack",
        "packet-control",
    }


def test_sections_of_a_paper_are_found_in_the_head_of_a_file() -> None:
    assert "yun2009, section 3" in scheme_figures.sections(scheme_pages.source_of("ll-elsn"))
    line = next(
        x for x in scheme_figures.table(ENTRIES).splitlines() if x.startswith("| [santa-cruz]")
    )
    assert "yun2009: section2" in line
    assert "[santa_cruz.rs](../crates/lasthop-schemes/src/santa_cruz.rs)" in line
