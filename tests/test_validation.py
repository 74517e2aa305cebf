"""The base of the comparisons with ns-2 and ns-3, and its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from fidelity import measuring, pages, quick, references
from fidelity.agreement import Table
from fidelity.suite import Columns, Comparison, Reference, Suite

ROW = {"variant": "Reno", "runs": "3", "goodput_bps_mean": "900000", "ci95_half": "5000"}
COUNTS = {"retrans": "12.5", "timeouts": "1.5"}

LINK = """
duration = "5 s"
[[link]]
name = "radio"
radio = true
between = ["a", "b"]
rate = "1 Mbps"
delay = "10 ms"
{loss}
[[flow]]
from = "a"
to = "b"
app = "bulk"
[tcp]
scheme = "reno"
"""
LOSSY = LINK.format(loss="loss.model = 'uniform'\nloss.rate = '2 %'")


def comparison(text: str = LOSSY, **other: object) -> Comparison:
    make: Any = Comparison
    return cast(
        "Comparison", make(lambda r: r["variant"], lambda _: "reno", lambda _: text, **other)
    )


def test_columns_are_read_in_their_unit() -> None:
    row = {"kbps": "900", "half": "5", "runs_ok": "3"}
    assert Columns("kbps", "half", "runs_ok", None, 1e3)(row) == Reference(3, 9e5, 5e3)
    assert Columns()(ROW | COUNTS) == Reference(3, 9e5, 5e3, (12.5, 1.5))


def test_a_cell_has_the_means_of_its_seeds() -> None:
    cell = comparison().cell(ROW | COUNTS, 2)
    runs = measuring.simulate(LOSSY, 3)
    goodput = [r["flows"][0]["goodput_bps"] for r in runs]
    assert len(goodput) == 3, "at least the runs of the reference"
    assert len(set(goodput)) > 1
    assert cell.source
    assert list(cell.source.values) == goodput
    assert cell.ours == pytest.approx(sum(goodput) / 3)
    theirs, ours = cell.counts["retransmissions"]
    assert theirs == 12.5
    assert ours == pytest.approx(sum(r["flows"][0]["retransmissions"]["total"] for r in runs) / 3)
    assert (cell.name, cell.scheme, cell.runs, cell.theirs) == ("Reno", "reno", 3, 9e5)


def test_a_table_that_is_not_judged_may_have_fewer_seeds_than_the_reference() -> None:
    assert len(comparison(as_many_runs=False).measure(ROW | COUNTS, 2).values) == 2


def test_a_scenario_without_losses_runs_once() -> None:
    assert len(comparison(LINK.format(loss="")).measure(ROW | COUNTS, 40).values) == 1


def test_further_quantities_are_means_over_the_same_runs() -> None:
    also = (lambda r: r["duration_s"], measuring.first_flow)
    ours = comparison(also=also).measure(ROW | COUNTS, 3)
    assert list(ours.also) == pytest.approx([5.0, ours.mean])


def test_the_quick_form_does_not_record_a_cell_that_it_cannot_repeat() -> None:
    cells = [comparison(repeatable=again).cell(ROW | COUNTS, 3) for again in (False, True)]
    assert quick.chosen(cells) == cells[1:]


def test_a_row_with_more_runs_takes_the_place_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "NS2", tmp_path)
    (tmp_path / "t.csv").write_text("loss,runs,goodput\n1,5,10\n2,5,20\n")
    assert [r["runs"] for r in references.ns2_rows("t.csv")] == ["5", "5"]
    (tmp_path / "t_more.csv").write_text("loss,runs,goodput\n2,60,21\n")
    assert [(r["runs"], r["goodput"]) for r in references.ns2_rows("t.csv")] == [
        ("5", "10"),
        ("60", "21"),
    ]


def test_a_page_is_written_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("one", "About.", [comparison().cell(ROW | COUNTS, 3)])
    suite = Suite("mine", "Mine", lambda _: [table])
    found: dict[str, object] = {}
    monkeypatch.setitem(pages.SUITES, "mine", suite)
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(quick, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(quick, "page_text", lambda p: (tmp_path / f"{p}.md").read_text())
    monkeypatch.setattr(pages, "commit", lambda: "abc1234")
    monkeypatch.setattr("fidelity.evidence.update", found.__setitem__)
    assert pages.compare("mine", 3, write=False) == [
        f"one: {text}" for text, good in table.verdicts() if not good
    ]
    assert list(tmp_path.iterdir()) == []
    pages.compare("mine", 3, write=True)
    text = (tmp_path / "mine.md").read_text()
    assert text.startswith("# Mine\n\nMade by `python -m fidelity mine --seeds 3`")
    assert "commit abc1234;" in text
    assert "| Reno | 900.0 |" in text
    assert quick.check("mine") == []
    assert found == {"mine": {"reno": [{"kind": "ns-2 statistics", "cases": 1, "agree": 0}]}}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["nonsense"], "unknown suite nonsense; known are dupack, sack"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--check", "--quick"], "not allowed with"),
    ],
)
def test_wrong_usage_is_named(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        pages.main(words)
    assert stopped.value.code == 2
    assert error in capsys.readouterr().err


def test_without_the_repository_the_missing_tables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "REFERENCES", tmp_path / "reference")
    with pytest.raises(SystemExit):
        pages.main(["--quick"])
    assert "reference tables are only in the repository" in capsys.readouterr().err
