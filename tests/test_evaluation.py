"""`lasthop evaluate`: the suite, its verdicts, and truths about schemes that a card must show."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documents import validate

import lasthop
from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.evaluation import judge, page, suite, text, trial
from lasthop.evaluation.card import Card
from lasthop.evaluation.programs import Program
from lasthop.evaluation.suite import Number, Suite
from lasthop.own_schemes import Scheme

SUITE = suite.read()


def part(
    *files: str,
    vary: Mapping[str, Sequence[str]] | None = None,
    settings: Sequence[tuple[str, str]] = (),
) -> Suite:
    """The suite with these files alone, without ghosts; `vary` replaces the values of keys."""
    groups = []
    for group in SUITE.groups:
        chosen = []
        for file in (f for f in group.files if f.id in files):
            varied = {k: tuple((vary or {}).get(k, v)) for k, v in file.vary.items()}
            source = file.source.with_settings(list(settings))
            chosen.append(dataclasses.replace(file, vary=varied, source=source))
        groups.append(dataclasses.replace(group, files=tuple(chosen)))
    return dataclasses.replace(SUITE, groups=tuple(groups), ghosts=())


def card_of(scheme: Scheme, cells: Suite, *, quick: bool = True, jobs: int | None = None) -> Card:
    return trial.evaluate(cells, [scheme], quick=quick, jobs=jobs)[0]


def outcomes(card: Card, number: str) -> set[str]:
    """The verdicts about the numbers whose name begins so."""
    found: set[str] = {e.verdict.outcome for e in card.entries if e.number.name.startswith(number)}
    assert found
    return found


def number(**given: Any) -> Number:
    return dataclasses.replace(Number("n", "goodput_bps", "higher", 0.1), **given)


# The suite.


def test_the_suite_has_nine_groups_and_each_cell_names_its_section() -> None:
    assert [g.letter for g in SUITE.groups] == list("ABCDEFGHI")
    files = [f for g in SUITE.groups for f in g.files]
    assert all(g.files for g in SUITE.groups)
    assert all(re.fullmatch(r"[5-7]\.\d(\.\d)?|7\.1\d", s) for f in files for s in f.rfc9743)
    assert all(1 <= n <= 22 for f in files for n in f.bbr)


def test_the_hash_changes_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "suite.toml").write_text(
        'version = "1"\nbaseline = "cubic"\n[groups]\na = { letter = "A", title = "t" }\n'
    )
    cell = (suite.FOLDER / "safety" / "sub-packet.toml").read_text(encoding="utf-8")
    (tmp_path / "a" / "x.toml").write_text(cell)
    before = suite.read(tmp_path).sha256
    assert suite.read(tmp_path).sha256 == before
    (tmp_path / "a" / "x.toml").write_text(cell.replace("64 kbps", "65 kbps"))
    assert suite.read(tmp_path).sha256 != before


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('margin = "10 %"', 'margins = "10 %"', "needs `margin` or `limit`"),
        ('rfc9743 = ["7.4"]', "", "needs `rfc9743`"),
        ('better = "higher"', 'better = "high"', "better = 'high'"),
    ],
)
def test_a_wrong_cell_is_refused(tmp_path: Path, old: str, new: str, error: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "suite.toml").write_text(
        'version = "1"\nbaseline = "cubic"\n[groups]\na = { letter = "A", title = "t" }\n'
    )
    cell = (suite.FOLDER / "safety" / "sub-packet.toml").read_text(encoding="utf-8")
    (tmp_path / "a" / "x.toml").write_text(cell.replace(old, new))
    with pytest.raises(InputError, match=re.escape(error)):
        suite.read(tmp_path)


# Verdicts.


def decide(n: Number, candidate: Sequence[float], baseline: Sequence[float]) -> str:
    measured = judge.measure(n, np.array(candidate, float), np.array(baseline, float))
    return judge.judge([measured])[0].outcome


def test_verdicts_follow_from_the_interval_the_margin_and_the_direction() -> None:
    base = [1.0, 1.01, 0.99, 1.0]
    assert decide(number(), [1.2, 1.21, 1.18, 1.2], base) == "better"
    assert decide(number(), [0.97, 0.99, 0.96, 0.97], base) == "no worse"
    assert decide(number(), [0.8, 0.81, 0.78, 0.8], base) == "worse"
    assert decide(number(), [0.7, 1.1, 0.8, 1.0], base) == "undecided"
    assert decide(number(better="lower"), [1.2, 1.21, 1.18, 1.2], base) == "worse"
    assert decide(number(), base, base) == "no worse"
    assert decide(number(margin=0.0), base, base) == "no worse"


def test_a_margin_in_percent_is_a_share_of_the_baseline() -> None:
    base = [100.0, 101.0, 99.0, 100.0]
    assert decide(number(margin_is_share=True), [95, 96.5, 94, 95], base) == "no worse"
    assert decide(number(), [95, 96.5, 94, 95], base) == "worse"


def test_a_limit_is_kept_or_not_but_never_beaten() -> None:
    at_least = number(margin=0.0, limit=0.9)
    assert decide(at_least, [0.99, 0.98, 0.99], [0.9]) == "no worse"
    assert decide(at_least, [0.5, 0.51, 0.52], [0.9]) == "worse"


def test_an_unknown_value_and_a_single_run() -> None:
    assert decide(number(), [1.0, float("nan")], [1.0, 1.0]) == "undecided"
    assert decide(number(), [0.5], [1.0]) == "worse"
    assert decide(number(), [0.95], [1.0]) == "no worse"


def test_holm_counts_all_numbers_of_the_card() -> None:
    base, candidate = np.array([1.0, 1.1, 0.9, 1.0]), np.array([0.7, 0.9, 0.62, 0.7])
    measured = judge.measure(number(margin=0.0), candidate, base)
    alone = judge.judge([measured])[0]
    unclear = judge.measure(number(), np.array([1.0, 0.8, 1.3, 0.9]), base)
    among = judge.judge([measured, *[unclear] * 200])[0]
    assert alone.outcome == "worse"
    assert among.outcome == "undecided"
    assert alone.p_holm is not None
    assert among.p_holm is not None
    assert among.p_holm == pytest.approx(min(1.0, 201 * alone.p_holm))


# Truths.


def test_vegas_starves_beside_cubic() -> None:
    vary = {
        "flow.other.scheme": ["cubic"],
        "last_hop.rate": ["50 Mbps"],
        "last_hop.queue": ["1 BDP", "4 BDP"],
    }
    card = card_of("vegas", part("harm/one", vary=vary))
    assert outcomes(card, "share of the goodput") == {"worse"}
    assert outcomes(card, "harm to the goodput") <= {"better", "no worse"}


def test_the_first_bbr_harms_at_a_shallow_buffer() -> None:
    vary = {"last_hop.rate": ["8 Mbps"], "last_hop.queue": ["0.5 BDP"]}
    card = card_of("bbr", part("harm/one", vary=vary))
    assert outcomes(card, "harm to the goodput") == {"worse"}


def test_reno_fails_over_a_long_path_with_losses() -> None:
    assert outcomes(card_of("reno", part("radio-loss/long-path")), "at least half") == {"worse"}


@pytest.mark.parametrize("scheme", ["tcp-real", "noor-eaer"])
def test_schemes_that_are_unsafe_fail_safety(scheme: str) -> None:
    card = card_of(scheme, part("safety/overload", "safety/full-queue", "safety/feedback-lost"))
    assert "worse" in outcomes(card, "share of frames dropped")


def test_equal_flows_of_cubic_are_fair() -> None:
    card = card_of("cubic", part("among-itself/equal"), quick=False)
    assert outcomes(card, "Jain's index") == {"no worse"}


def test_cubic_with_beta_of_90_percent_keeps_out_late_flows() -> None:
    card = card_of("cubic:beta=0.9", part("among-itself/late"), quick=False)
    assert "worse" in outcomes(card, "Jain's index")
    assert outcomes(card_of("cubic", part("among-itself/late"), quick=False), "Jain") == {
        "no worse"
    }


class Plain(lasthop.CongestionControl):
    """Reno; those below differ from it by one fault."""

    def on_ack(self, window: lasthop.Window, ack: lasthop.Ack) -> None:
        slow_start = window.cwnd < window.ssthresh
        window.cwnd += ack.bytes if slow_start else ack.mss * ack.bytes / window.cwnd


class Deaf(Plain):
    """It does not react to losses."""

    def on_loss(self, window: lasthop.Window, loss: lasthop.Loss) -> None:
        pass


class SlowStartAlways(Plain):
    """Slow start does not end."""

    def on_ack(self, window: lasthop.Window, ack: lasthop.Ack) -> None:
        window.cwnd += ack.bytes


class TenSegments(Plain):
    """The window never has less than ten segments."""

    def on_loss(self, window: lasthop.Window, loss: lasthop.Loss) -> None:
        loss.halve(window)
        window.ssthresh = max(window.ssthresh, 10 * loss.mss)
        window.cwnd = max(window.cwnd, 10 * loss.mss)


class IgnoresMarks(Plain):
    """It asks for ECN and does not react to marks."""

    needs = ("ecn",)

    def on_loss(self, window: lasthop.Window, loss: lasthop.Loss) -> None:
        if loss.kind != "ecn":
            loss.halve(window)


@pytest.mark.parametrize(
    ("rule", "cell", "number"),
    [
        (Deaf, "safety/full-queue", "share of frames dropped"),
        (SlowStartAlways, "safety/full-queue", "share of frames dropped"),
        (TenSegments, "safety/overload", "share of frames dropped"),
    ],
)
def test_a_rule_with_one_fault_fails_the_cell_for_it(
    rule: type[Plain], cell: str, number: str
) -> None:
    assert outcomes(card_of(rule, part(cell)), number) == {"worse"}
    assert outcomes(card_of(Plain, part(cell)), number) == {"no worse"}


def test_a_rule_that_ignores_marks_fails_the_cells_that_mark() -> None:
    cells = part("alone/aqm")
    ignores, plain = (card_of(rule, cells).entries for rule in (IgnoresMarks, Plain))
    assert {e.verdict.outcome for e in ignores if "queueing delay" in e.number.name} == {"worse"}
    # Reno's delay at FQ-CoDel, too, is larger than CUBIC's, but by a millisecond.
    of_fq_codel = [e.verdict.measured for e in (ignores[1], plain[1])]
    differences_ms = [1e3 * (m.difference or 0.0) for m in of_fq_codel]
    assert differences_ms[0] > 100
    assert 0 < differences_ms[1] < 5


def test_a_timer_without_back_off_fails_safety() -> None:
    cells = part("safety/feedback-lost", settings=[("tcp.max_backoff", "1")])
    assert outcomes(card_of("cubic", cells), "segments sent") == {"worse"}
    assert outcomes(card_of("cubic", part("safety/feedback-lost")), "segments sent") == {"no worse"}


# Outputs.


def test_the_card_is_the_same_with_any_number_of_threads() -> None:
    cells = part("safety/ack-loss", "safety/overload", "short-flows/pages")
    one, three = (json.dumps(card_of("bbr3", cells, jobs=n).to_dict()) for n in (1, 3))
    assert one == three


@pytest.mark.more("test_the_card_is_the_same_with_any_number_of_threads")
def test_a_whole_quick_card_is_the_same_with_any_number_of_threads() -> None:
    one, two = (card_of("vegas", SUITE, jobs=n) for n in (1, 2))
    assert one.to_dict() == two.to_dict()
    assert page.render(one, "c") == page.render(two, "c")
    # Every number of every cell can be measured.
    assert all(e.verdict.measured.mean is not None for e in one.entries)


def test_the_command_writes_a_card_and_its_scenarios(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "vegas", "--quick", "--only", "safety/sub-packet", "--jobs", "2"]
    assert main([*words, "--out", str(tmp_path / "card")]) == 0
    shown = capsys.readouterr().out
    assert "I  Safety" in shown
    assert "vegas:" in shown
    document = json.loads((tmp_path / "card" / "card.json").read_text(encoding="utf-8"))
    assert document["suite"] == SUITE.version
    assert document["suite_sha256"] == SUITE.sha256
    html = (tmp_path / "card" / "card.html").read_text(encoding="utf-8")
    assert "http" not in re.sub(r"http-equiv", "", html)
    assert "lasthop inspect scenarios/safety-sub-packet.toml --scheme vegas --seed 1" in html
    scenario = tmp_path / "card" / "scenarios" / "safety-sub-packet.toml"
    repeated = lasthop.compare(scenario, schemes=["vegas"], seeds=SUITE.quick_seeds)
    values = repeated.values(0, "vegas", "queue_delay_s_p95")
    (found,) = [n for n in document["groups"][0]["numbers"] if n["metric"] == "queue_delay_s_p95"]
    mean = sum(v for v in values if v is not None) / SUITE.quick_seeds
    assert found["means"]["vegas"] == pytest.approx(mean, rel=1e-5)
    assert (tmp_path / "card" / "badge.svg").read_text(encoding="utf-8").startswith("<svg")


def test_several_schemes_have_a_folder_each_and_json_has_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", "reno", "cubic:beta=0.8", "--quick", "--only", "safety/sub-packet"]
    assert main([*words, "--json", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    validate("evaluate", document)
    cards = document["cards"]
    assert [c["scheme"] for c in cards] == ["reno", "cubic:beta=0.8"]
    assert (tmp_path / "reno" / "card.json").is_file()
    assert (tmp_path / "cubic-beta-0.8" / "card.html").is_file()
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^"]*card.html)"', index) == [
        "reno/card.html",
        "cubic-beta-0.8/card.html",
    ]


def test_the_gate_decides_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    only = "safety/feedback-lost,radio-loss/long-path"
    words = ["evaluate", "reno", "--quick", "--only", only, "--quiet"]
    assert main(words) == 0
    assert main([*words, "--gate", "safety"]) == 0
    assert main([*words, "--gate", "I,B"]) == 1
    assert "at least half of the capacity" in capsys.readouterr().err
    assert main([*words, "--gate", "all"]) == 1
    assert main([*words, "--gate", "safty"]) == 2
    assert "did you mean `safety`" in capsys.readouterr().err
    # A gate that nothing can close.
    assert main([*words, "--gate", "safety,harm"]) == 2
    assert "--only leaves no cell" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_refused_before_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_runs(*_: object, **__: object) -> list[Card]:
        raise AssertionError("runs were made")

    monkeypatch.setattr(trial, "evaluate", no_runs)
    (tmp_path / "file").touch()
    assert main(["evaluate", "reno", "--out", str(tmp_path / "file")]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_unknown_cells_and_schemes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "reno", "--only", "nothing"]) == 2
    assert (
        "there is no group and no cell `nothing`; there are A or alone" in capsys.readouterr().err
    )
    assert main(["evaluate", "reno", "--only", "safety/sub-packet,harm/won"]) == 2
    assert "did you mean `harm/one`" in capsys.readouterr().err
    assert main(["evaluate", "renno", "--only", "safety"]) == 2
    assert "renno" in capsys.readouterr().err


def test_the_page_shows_grids_as_maps_and_escapes_names() -> None:
    vary = {"last_hop.rate": ["10 Mbps"], "last_hop.rtt": ["10 ms"]}
    card = card_of("vegas", part("alone/grid", vary=vary))
    html = page.render(card, "lasthop evaluate '<script>'")
    assert html.count('<table class="map">') == len(card.entries[0].cell.file.numbers)
    assert "<script>" not in html
    assert text.card(card).count("\n") > len(card.entries)
    # Intervals are inside their pictures, those far beyond the margin too.
    bars = re.findall(r'<rect x="([\d.]+)" y="4" width="([\d.]+)"', html)
    spans = [(float(x), float(x) + float(width)) for x, width in bars]
    assert len(spans) == len(card.entries)
    assert all(0 <= left < right <= 2 * page.HALF for left, right in spans)
    assert any(right == 2 * page.HALF for _, right in spans)


# Programs: rules and stacks in Rust.

#: Answers as a rule does that is CUBIC itself; it takes no part in the cell about ACK loss, and
#: the queueing delay is unknown to it.
PROGRAM = f"""#!{sys.executable}
import json, math, sys
from lasthop import _native

for line in sys.stdin:
    request = json.loads(line)
    if sys.argv[1:] == ["dies"]:
        sys.exit(3)
    if "ACKs are lost" in request["scenario"]:
        print(json.dumps({{"left_out": "no ACKs"}}), flush=True)
        continue
    scenario = _native.Scenario(request["scenario"], None, [])
    alone = scenario.without_candidates()
    found = scenario.run_many(request["seeds"], request["metrics"], alone)
    hidden = [name == "queue_delay_s_p95" for name in request["metrics"]]
    rows = [[None if h or math.isnan(x) else x for h, x in zip(hidden, r)] for r in found.tolist()]
    print(json.dumps({{"rows": rows}}), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "mine"
    file.write_text(PROGRAM)
    file.chmod(0o755)
    return file


def test_a_program_takes_part_and_is_paired_with_the_baseline(program: Path) -> None:
    vary = {
        "flow.other.scheme": ["cubic"],
        "last_hop.rate": ["8 Mbps"],
        "last_hop.queue": ["1 BDP"],
    }
    cells = part(
        "harm/one", "safety/ack-loss", "safety/sub-packet", "variable-links/lte", vary=vary
    )
    card, own = trial.evaluate(cells, [Program(f"{program}:word"), "cubic"], quick=True)
    assert card.scheme == "mine:word"
    assert card.left_out == {
        "safety/ack-loss 1": "no ACKs",
        "safety/sub-packet 1: queueing delay, 95th percentile": "unknown in all runs",
    }
    beside = {(e.cell.id, e.number.name): e.verdict.measured for e in own.entries}
    assert len(card.entries) == len(beside) - 2
    for e in card.entries:
        assert e.verdict.measured == beside[e.cell.id, e.number.name]
    validate("evaluate", {"cards": [card.to_dict()]})
    assert "lasthop inspect" not in page.render(card, "c")
    assert "left out, no ACKs: safety/ack-loss 1" in text.card(card)


def test_a_program_that_does_not_answer_is_refused(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = ["--quick", "--only", "safety/sub-packet", "--quiet"]
    assert main(["evaluate", f"{program}:dies", *only]) == 2
    assert "it ended with status 3" in capsys.readouterr().err
    assert main(["evaluate", f"{program}-none:word", *only]) == 2
    assert "No such file or directory" in capsys.readouterr().err
    assert main(["evaluate", "/bin/cat", *only]) == 2
    assert "its `rows` do not fit the request" in capsys.readouterr().err
    assert main(["evaluate", str(program), str(program), *only]) == 2
    assert "two schemes have the name mine" in capsys.readouterr().err
