"""ns-3 with rules replaced: the table is that of the tool, and the page judges it by the rule."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import ns3_replaced as tool
import ns3_silent as silent
import pytest

from fidelity import ns3
from fidelity.agreement import Cell, Table
from fidelity.references import NS3, read


def rows() -> list[dict[str, str]]:
    with tool.REPLACED.open(newline="") as f:
        return list(csv.DictReader(f))


def test_a_row_stands_for_a_cell_and_has_the_rules_of_its_variant() -> None:
    found = rows()
    assert {(r["variant"], r["sack"] == "1") for r in found} == set(tool.RULES)
    for variant, sack in tool.RULES:
        own = [r for r in found if (r["variant"], r["sack"]) == (variant, str(int(sack)))]
        assert {r["rules"] for r in own} == {" ".join(tool.RULES[variant, sack])}
        assert [[r[k] for k in ns3.CELL_KEYS] for r in own] == [
            [r[k] for k in ns3.CELL_KEYS] for r in tool.cells(variant, sack=sack)
        ]
    assert [int(r["runs_ok"]) for r in found] == [tool.runs_of(r) for r in found]


def test_the_table_without_beacons_has_the_cells_of_the_other() -> None:
    def cells(file: Path) -> list[list[str]]:
        rows = read(file)
        return [[r[k] for k in silent.CELL] for r in rows if r["variant"] == "TcpNewReno"]

    assert cells(silent.SILENT) == cells(NS3 / "wifi.csv")


def test_the_program_has_every_rule() -> None:
    text = Path(tool.__file__).with_name("ns3_rules.cc").read_text(encoding="utf-8")
    options = set(re.findall(r'AddValue\("([a-z-]+)"', text))
    assert {rule for rules in tool.RULES.values() for rule in rules} <= options


def test_a_row_has_the_means_of_the_runs(tmp_path: Path) -> None:
    program = tmp_path / "rules"
    # The goodput is a hundred times the number of the run.
    program.write_text('#!/bin/sh\necho "$5" | sed "s/--run=//; s/.*/& &00 1000 10 0.5/"\n')
    program.chmod(0o755)
    row = tool.cells("TcpVeno", sack=True)[0]
    found = tool.replaced(str(program), row, ("prr",), 3)
    assert (found["goodput_kbps_mean"], found["runs_ok"]) == ("200.0", "3")
    assert found["goodput_kbps_ci95"] == "248.4", "t for two degrees of freedom: 4.303"
    assert (found["rtx_share_mean"], found["rtos_per_100s_mean"]) == ("0.01000", "0.50")


@pytest.mark.parametrize(("off", "words"), [(0.0, "agrees with"), (0.2, "is left apart from")])
def test_the_page_says_whether_the_experiment_agrees(off: float, words: str) -> None:
    counts = {"retransmissions": (10.0, 10.0), "timeouts": (1.0, 1.0)}

    def table(relative: float) -> Table:
        return Table("t", "", [Cell("c", "veno", 40, 1e6, 0.0, 1e6 * (1 + relative), 1e4, counts)])

    assert words in ns3.explained(table(0.3), None, table(off))
    assert ns3.explained(table(0.3), None, None).endswith("no table of ns-3 with rules replaced")
