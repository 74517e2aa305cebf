from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fidelity import evidence
from lasthop import catalogue
from lasthop.experiments.figure_result import read_expected
from lasthop.scenarios import experiment


def entry(name: str, family: str, group: str | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "family": family,
        "group": group,
        "summary": "s",
        "paper": "p",
        "unsafe": False,
        "unsafe_where": None,
        "simulation_only": False,
    }


MANY = [
    entry("cut", "split"),
    entry("new", "end-to-end", "today"),
    entry("odd", "end-to-end", "not-yet-known"),
    entry("agent", "link-layer"),
    entry("old", "end-to-end", "loss-recovery"),
    entry("older", "end-to-end", "loss-recovery"),
]


def test_sections_are_ordered_and_unknown_ones_come_last() -> None:
    found = catalogue.ordered_sections([(None, None), *(catalogue.section(e) for e in MANY)])
    assert found == [
        ("end-to-end", "loss-recovery"),
        ("end-to-end", "today"),
        ("end-to-end", "not-yet-known"),
        ("link-layer", None),
        ("split", None),
        (None, None),
    ]
    assert [catalogue.section_title(s) for s in found[-3:]] == [
        "link layer",
        "split",
        "own schemes",
    ]


def test_the_listing_has_every_scheme_once() -> None:
    blocks = [block.splitlines() for block in catalogue.listing(MANY).split("\n\n")]
    assert [b[0] for b in blocks[:3]] == [
        "end to end: loss recovery",
        "end to end: today's",
        "end to end: not yet known",
    ]
    assert [line.split()[0] for line in blocks[0][1:]] == ["old", "older"]
    assert sorted(line.split()[0] for b in blocks for line in b[1:]) == sorted(
        e["name"] for e in MANY
    )


def test_every_end_to_end_scheme_has_a_known_group() -> None:
    for found in catalogue.entries():
        if found["family"] == "end-to-end":
            assert found["group"] in catalogue.GROUPS, (
                f"{found['name']}: `group` in its ENTRY, and its title in catalogue.GROUPS"
            )


def test_unsafe_schemes_are_marked() -> None:
    dangerous = entry("bold", "end-to-end", "today") | {
        "unsafe": True,
        "unsafe_where": "in company: it pushes",
    }
    line = next(x for x in catalogue.listing([*MANY, dangerous]).splitlines() if "bold" in x)
    assert line.endswith("[unsafe in company]")
    empty: dict[str, Any] = {
        "slots": {},
        "changes": {},
        "settings": [],
        "assumptions": [],
        "evidence": [],
    }
    assert "unsafe   in company: it pushes" in catalogue.describe(dangerous | empty)


def test_the_recorded_verdicts_are_evidence() -> None:
    found = evidence.from_figures(read_expected(experiment.FOLDER))
    known = {
        s: [e for e in entries if e["kind"] == catalogue.FIGURE_EVIDENCE]
        for s, entries in catalogue.evidence().items()
    }
    assert {s: e for s, e in known.items() if e} == found, (
        "make expected, or evidence.update, writes it"
    )


def test_evidence_of_several_sources_adds_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "EVIDENCE", tmp_path / "evidence.json")
    catalogue.EVIDENCE.write_text("{}")
    entry = {"kind": "ns-2 statistics", "cases": 3, "agree": 2}
    evidence.update("one", {"reno": [entry], "sack": [entry]})
    evidence.update("other", {"reno": [entry]})
    evidence.update("one", {"reno": [entry]})
    assert catalogue.evidence() == {"reno": [{**entry, "cases": 6, "agree": 4}]}


def test_claims_are_counted_for_their_schemes() -> None:
    figure = experiment.read(experiment.FOLDER / "zeng2006" / "fig15.toml", "zeng2006/fig15")
    claim = next(
        c
        for c in figure.claims
        if c.left and not str(c.paper).startswith(evidence.OWN_CLAIM_PREFIX)
    )
    for verdict, agree in (("holds", 1), ("differs", 0), ("undecided", 0)):
        found = evidence.from_figures({"zeng2006/fig15": {claim.id: verdict}})
        assert [(e["cases"], e["agree"]) for entries in found.values() for e in entries] == [
            (1, agree)
        ]
