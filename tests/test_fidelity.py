"""The pages of docs/fidelity*.md still hold: a few cells of each, and the rule that judges them."""

from __future__ import annotations

import json

import ns2_more
import pytest

from fidelity import ns2_traces, pages, quick, references, wlan
from fidelity.agreement import Cell, Table
from fidelity.measuring import Measured

PAGES = {suite.page: name for name, suite in pages.SUITES.items()}
RECORD = json.loads(quick.RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", list(RECORD["pages"]))
def test_the_verdicts_of_a_page_still_hold(page: str) -> None:
    assert quick.check(page) == [], (
        f"`python -m fidelity {PAGES[page]}` writes docs/{page}.md; look at its verdicts"
    )


def test_the_pages_are_of_these_reference_tables() -> None:
    assert RECORD["references"] == references.digests(), "`make fidelity`"


@pytest.mark.parametrize("page", list(PAGES))
def test_a_page_that_names_its_commit_is_recorded(page: str) -> None:
    assert (", commit " in quick.page_text(page)) == (page in RECORD["pages"]), (
        f"`python -m fidelity {PAGES[page]}`"
    )


def test_recovery_traces_of_ns2_are_equal() -> None:
    score, differences = ns2_traces.exact()
    assert differences == []
    assert all(count >= 33 for _, count in score.values())


def test_the_goodput_of_a_cell_counts_segments_in_either_direction() -> None:
    """Segments that were sent, less their retransmissions: all but the last window arrived."""
    for row in references.ns2_rows("wlan.csv"):
        if row["variant"] in wlan.SCHEMES:
            sent_once = 8000 / 60 * (float(row["data_pkts"]) - float(row["retrans"]))
            assert 0.997 * sent_once < wlan.ns2_flow_reference(row).goodput < sent_once, row


def test_replaced_scripts_differ_where_they_say() -> None:
    for table, (base, changes) in ns2_more.CHANGED.items():
        script = (ns2_more.REFERENCE / "scripts" / ns2_more.MADE[base].script).read_text()
        assert ns2_more.MADE[table] is ns2_more.MADE[base]
        assert all(script.count(old) == 1 for old in changes), table


def recorded(page: str = "fidelity") -> dict[str, object]:
    """The first table of a page, as recorded."""
    table: dict[str, object] = json.loads(json.dumps(RECORD["pages"][page]["tables"][0]))
    return table


def test_a_cell_that_has_moved_is_found() -> None:
    table = recorded()
    cell = table["cells"][0]  # type: ignore[index]
    cell["first"] = [
        0.9 * x for x in cell["first"]
    ]  # as if the code of the page had given a tenth less
    assert any(text.startswith(cell["name"]) for text in quick.no_longer(table))


def test_a_table_that_has_moved_as_a_whole_is_found() -> None:
    table = recorded()
    for cell in table["cells"]:  # type: ignore[attr-defined]
        cell["first"] = [0.98 * x for x in cell["first"]]
        cell["se"] *= 100  # no single cell stands out
    assert [text.split(" average")[0] for text in quick.no_longer(table)] == [
        "signed relative differences"
    ]


def test_a_deterministic_cell_that_has_moved_is_found() -> None:
    table = next(t for t in RECORD["pages"]["fidelity-janevski"]["tables"] if t["cells"])
    table = json.loads(json.dumps(table))
    table["cells"][0]["first"] = [0.9 * x for x in table["cells"][0]["first"]]
    assert len(list(quick.no_longer(table))) >= 1


def cells(*relative: float, se: float = 0.01) -> list[Cell]:
    counts = {"retransmissions": (10.0, 10.0), "timeouts": (1.0, 1.0)}
    return [
        Cell(f"c{i}", "reno", 40, 1e6, 0.0, 1e6 * (1 + r), 1e6 * se, counts)
        for i, r in enumerate(relative)
    ]


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (cells(0.0, 0.01, -0.01, 0.02), [True] * 5),
        (cells(0.036, -0.036), [False, False, True, True, True]),
        (cells(0.026, *[0.0] * 18), [True, False, True, True, True]),
        (cells(0.026, *[0.0] * 19), [True] * 5),
        (cells(0.015, 0.015, se=0.005), [True, True, False, True, True]),
    ],
    ids=[
        "agrees",
        "a cell at 3.6",
        "one of 19 at 2.6",
        "one of 20 at 2.6",
        "all 1.5 % high, under 2 %",
    ],
)
def test_the_rule_of_agreement(found: list[Cell], holds: list[bool]) -> None:
    assert [good for _, good in Table("t", "", found).verdicts()] == holds


def test_counts_over_a_table_are_within_a_tenth() -> None:
    table = Table("t", "", cells(0.0, 0.0))
    table.cells[0].counts["timeouts"] = (1.0, 1.3)
    assert [good for text, good in table.verdicts() if text.startswith(("retr", "time"))] == [
        True,
        False,
    ]


@pytest.mark.parametrize("page", list(RECORD["pages"]))
def test_the_quick_form_of_a_page_has_cells(page: str) -> None:
    tables = RECORD["pages"][page]["tables"]
    assert any(table["cells"] for table in tables) == any(table["judged"] for table in tables)


def test_a_mean_and_its_error() -> None:
    m = Measured("", "", 1.0, (1.0, 3.0), 0.0, 0.0, 0.0)
    assert (m.mean, m.se) == (2.0, 1.0)


def test_the_seeds_of_ns2_are_those_of_the_reference() -> None:
    row = {
        "variant": "Reno",
        "wireless_rate": "2Mb",
        "wireless_delay": "5ms",
        "loss": "0.001",
        "dir": "data",
        "runs": "80",
    }
    assert ns2_more.seed("bulk_w100", row, 1) == 491012730, (
        "the value that the reference's README works out"
    )


def test_a_row_with_more_runs_takes_the_place_of_the_tables() -> None:
    plain, merged = references.read(references.NS2 / "noor.csv"), references.ns2_rows("noor.csv")
    again = {references.settings(r): r for r in references.read(references.NS2 / "noor_more.csv")}
    assert len(plain) == len(merged)
    for before, row in zip(plain, merged, strict=True):
        assert references.settings(before) == references.settings(row)
        assert row == again.get(references.settings(row), before)
    assert sum(row["runs"] != "5" for row in merged) == len(again) > 0
