"""`lasthop report`: numbers and claims against the results, the page in Chromium, wrong input."""

from __future__ import annotations

import csv
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import browser
import pytest

import lasthop
from lasthop.analysis.series import measure_label
from lasthop.cli.main import main
from lasthop.reporting import bill, chart_data, page, sources
from lasthop.reporting.study import SchemeUse, Study
from lasthop.tables import summary

HOSTILE = "<script>document.title=1</script>&amp;"
#: `compare` refuses markup in labels; the files of a folder may have it nevertheless.
LABEL = "MARK"
RULE = """
import lasthop

class Half(lasthop.CongestionControl):
    def on_ack(self, window, ack):
        window.cwnd += ack.mss * ack.mss / window.cwnd

    def on_loss(self, window, loss):
        loss.halve(window)
"""
SCENARIO = """
title = '''HOSTILE'''
duration = "4 s"
[last_hop]
rate = "2 Mbps"
rtt = "40 ms"
loss = "2 %"
[experiment]
schemes = ["reno", { name = "snoop", label = "MARK" }, "cubic", "noor-aer"]
seeds = 10
[experiment.vary]
"last_hop.rtt" = ["20 ms", "80 ms"]
[[claim]]
id = "better"
kind = "order"
text = '''snoop <b>exceeds</b> reno'''
paper = "more"
metric = "goodput_bps"
left = "MARK"
right = "reno"
at = { "last_hop.rtt" = "80 ms" }
""".replace("HOSTILE", HOSTILE)


class Texts(HTMLParser):
    """The texts of the rows of all tables, and the names of all elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.names: list[str] = []
        self.in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.in_cell:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "mine.toml").write_text(SCENARIO, encoding="utf-8")
    command = ["compare", str(folder / "mine.toml"), "--out", str(folder / "results")]
    assert main(command) == 0
    for name in ("table.csv", "comparison.json"):
        file = folder / "results" / name
        text = file.read_text(encoding="utf-8")
        assert LABEL in text
        file.write_text(text.replace(LABEL, HOSTILE), encoding="utf-8")
    found = lasthop.inspect(folder / "results", schemes="cubic", seed=2)
    found.save(folder / "results" / "one run.html")
    assert main(["report", str(folder / "results"), "--out", str(folder / "report.html")]) == 0
    return folder


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduced")
    figures = ["zeng2006/fig10", "zeng2006/fig15", "zeng2006/ack-compression"]
    assert main(["reproduce", *figures, "--quick", "--out", str(folder / "out")]) == 0
    assert main(["report", str(folder / "out"), "--out", str(folder / "report.html")]) == 0
    return folder


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    words = "sweep --rate 2Mbps --rtt 40ms --schemes reno,snoop --seeds 3 --set duration=2s"
    axes = ["--vary", "last_hop.rtt=20..60..20ms", "--vary", "last_hop.loss=0.1%,1%,10%"]
    out = ["--out", str(folder / "out"), "--jobs", "1", "--quiet"]
    assert main([*words.split(), *axes, *out]) == 0
    assert main(["report", str(folder / "out"), "--out", str(folder / "report.html")]) == 0
    return folder


def test_numbers_are_those_of_the_table(compared: Path) -> None:
    text = (compared / "report.html").read_text(encoding="utf-8")
    rows = [row for row in Texts(text).rows if row[:2] == ["20 ms", "cubic"]]
    with open(compared / "results" / "table.csv", encoding="utf-8", newline="") as file:
        (wanted,) = [
            r
            for r in csv.DictReader(file)
            if (r["last_hop.rtt"], r["scheme"], r["metric"]) == ("20 ms", "cubic", "goodput_bps")
        ]
    numbers = {
        k: float(v)
        for k, v in wanted.items()
        if k not in ("last_hop.rtt", "scheme") and v and k != "metric"
    }
    mean = {"mean": numbers["mean"], "ci95": (numbers["ci95_low"], numbers["ci95_high"])}
    change = {
        "mean": numbers["ratio_to_first"],
        "ci95": (numbers["ratio_low"], numbers["ratio_high"]),
    }
    (row,) = rows
    assert f"; {summary.GOODPUT}." in text
    assert row[2] == summary.interval(mean, 1e-3)
    assert "±" in row[2]
    assert row[-3:] == ["10", summary.percent(change), summary.p_text(numbers["p_holm"])]


def test_markup_in_names_is_text(compared: Path) -> None:
    text = (compared / "report.html").read_text(encoding="utf-8")
    found = Texts(text)
    assert found.names.count("script") == 3, "the data and two scripts"
    assert HOSTILE not in text
    assert "b" not in found.names
    assert any(HOSTILE in row for row in found.rows)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert policy[1].startswith("default-src &#39;none&#39;; script-src &#39;sha256-")
    assert "unsafe" not in policy[1]


def test_claims_have_their_verdicts(compared: Path, reproduced: Path) -> None:
    rows = Texts((compared / "report.html").read_text(encoding="utf-8")).rows
    (claim,) = [r for r in rows if r[0] == "snoop <b>exceeds</b> reno"]
    given = json.loads((compared / "results" / "comparison.json").read_text())["claims"]
    assert (claim[1], claim[2]) == ("more", given[0]["display"])
    assert claim[3] == page.VERDICTS[given[0]["verdict"]]
    figure = json.loads((reproduced / "out/zeng2006/fig15.json").read_text())
    rows = Texts((reproduced / "report.html").read_text(encoding="utf-8")).rows
    shown = {r[0]: r[3] for r in rows if len(r) == 5}
    assert len(figure["claims"]) == 3
    for c in figure["claims"]:
        assert shown[c["text"]] == page.VERDICTS[c["verdict"]]


def test_deployment_is_that_of_the_catalogue(tmp_path: Path) -> None:
    schemes = [
        SchemeUse("reno", "reno"),
        SchemeUse("S", "snoop"),
        SchemeUse("noor-aer", "noor-aer"),
        SchemeUse("ideal-bwe", "ideal-bwe"),
        SchemeUse("Half", "Half", python_rule=True),
        SchemeUse("lost", "lost"),
    ]
    study = Study("", "t", None, schemes, "", "1", "")
    rows = {r["name"]: r for r in bill.rows([study, study])}
    place = list(bill.PLACES).index("base_station")
    assert [r["changes"][place] for r in rows.values()] == [False, True, False, False, False, None]
    assert rows["snoop"]["labels"] == ["S"]
    assert rows["noor-aer"]["warnings"][0].startswith("unsafe outside a private LAN")
    assert rows["ideal-bwe"]["warnings"][0].startswith("simulation only")
    assert rows["Half"]["changes"][0] is True
    for row in rows.values():
        assert len(row["changes"]) == len(bill.PLACES)


def test_a_rule_in_python_changes_the_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RULE, encoding="utf-8")
    last_hop = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%", "--set", "duration=2s"]
    words = ["--schemes", "reno,mine.py:Half", "--seeds", "3", "--out", "results", "--no-figure"]
    assert main(["compare", *last_hop, *words]) == 0
    (study,) = sources.read(Path("results")).studies
    assert [s.python_rule for s in study.schemes] == [False, True]
    assert bill.rows([study])[1]["changes"][0] is True


def test_commands_and_inspected_runs_are_named(compared: Path) -> None:
    text = (compared / "report.html").read_text(encoding="utf-8")
    assert f"lasthop compare {compared / 'mine.toml'} --out {compared / 'results'}" in text
    assert '<a href="results/one%20run.html">' in text
    (found,) = page.inspected(compared / "results", compared)
    assert (compared / "results/one run.html").samefile(compared / "results" / found["file"])


def test_chart_data_have_every_case(swept: Path) -> None:
    (study,) = sources.read(swept / "out").studies
    found = chart_data.document(study)
    assert found["first"] == {"y": "goodput_bps", "x": "key 0"}
    assert [k["label"] for k in found["keys"]] == ["RTT", "loss"]
    assert found["keys"][0]["places"] == [20, 40, 60]
    assert len(found["cells"]["goodput_bps"]) == 9 * 2
    goodput, low, high, ratio, _, _, p, runs = found["cells"]["goodput_bps"][-1]
    # The interval of three runs may end above the rate of the link.
    assert low < goodput < min(high, 2000)
    assert 0.1 < ratio < 100
    assert 0 <= p <= 1
    assert runs == 3


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", ["compared", "reproduced", "swept"])
def test_the_page_renders_without_errors_or_requests(
    chromium: Any, kind: str, width: int, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(kind)
    with browser.opened(chromium, folder / "report.html", width) as found:
        assert found.errors == []
        assert [r for r in found.requests if not r.startswith(("data:", "file:"))] == []
        assert len([r for r in found.requests if r.startswith("file:")]) == 1
        assert found.overlaps() == []
        assert not found.scrolls_sideways()
        assert found.page.title() != "1"
        charts = found.page.locator(".plot > svg").count()
        assert charts == {"compared": 1, "reproduced": 2, "swept": 1}[kind]
        pictures = found.page.evaluate(
            "() => [...document.querySelectorAll('figure img')].map((i) => i.naturalWidth)"
        )
        assert len(pictures) == (3 if kind == "reproduced" else 0)
        assert all(pictures)


def test_axes_can_be_chosen(chromium: Any, compared: Path) -> None:
    with browser.opened(chromium, compared / "report.html", 1280) as found:
        choose = found.page.locator(".controls select")
        marks = ".plot > svg > :is(circle, rect, polygon)"
        assert found.page.locator(marks).count() == 8, "4 schemes at 2 round-trip times"
        choose.nth(1).select_option("scheme")
        assert found.page.locator(marks).count() == 4
        choose.nth(1).select_option("one_way_delay_s_p95")
        assert found.page.locator(marks).count() == 4
        assert "one-way delay" in found.page.locator(".plot").inner_text()
        choose.nth(0).select_option("timeouts")
        assert "timeouts" in found.page.locator(".plot").inner_text()
        choose.nth(2).select_option(label="80 ms")
        found.page.locator("summary", has_text="Values of this chart").click()
        rows = found.page.locator("table.explored tbody tr")
        assert rows.count() == 4
        assert [text.split("\t")[0] for text in rows.all_inner_texts()] == ["80\u00a0ms"] * 4
        found.page.locator(".legend button").nth(1).click()
        assert rows.count() == 3
        found.page.locator(".plot").focus()
        found.page.keyboard.press("ArrowRight")
        assert re.match(r"reno at .*: .*n = 10", found.page.locator(".readout").inner_text())
        assert found.errors == []


def test_the_page_prints(chromium: Any, reproduced: Path, tmp_path: Path) -> None:
    with browser.opened(chromium, reproduced / "report.html", 1280) as found:
        found.page.pdf(path=tmp_path / "report.pdf", format="A4")
        found.page.emulate_media(media="print")
        assert not found.page.locator(".readout").first.is_visible()
        assert found.errors == []
    assert (tmp_path / "report.pdf").stat().st_size > 20_000


def copy_of(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The message of a refused report."""
    capsys.readouterr()
    assert main(["report", *map(str, words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lasthop: ")
    assert error.count("\n") == 1
    return error


def test_wrong_folders_are_refused(
    compared: Path, swept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "x.html"
    results = copy_of(compared / "results", tmp_path / "results")
    unfinished = copy_of(swept / "out", tmp_path / "sweep")
    (unfinished / "table.csv").unlink()
    assert "--status" in refused(capsys, unfinished, "--out", out)
    assert "does not exist" in refused(capsys, tmp_path / "none", "--out", out)
    assert "is not a folder" in refused(capsys, results / "table.csv", "--out", out)
    (tmp_path / "empty").mkdir()
    assert "no results" in refused(capsys, tmp_path / "empty", "--out", out)
    table = (results / "table.csv").read_text(encoding="utf-8")
    (results / "table.csv").write_text(table[: len(table) // 2], encoding="utf-8")
    assert "is not a row of statistics" in refused(capsys, results, "--out", out)
    (results / "table.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert "it lacks point, scheme" in refused(capsys, results, "--out", out)
    (results / "comparison.json").write_text('{"schema_version": 1}', encoding="utf-8")
    assert "KeyError('scenario')" in refused(capsys, results, "--out", out)
    (results / "comparison.json").write_text('{"schema_version": 99}', encoding="utf-8")
    assert "schema_version 99" in refused(capsys, results, "--out", out)
    (results / "comparison.json").write_text("{", encoding="utf-8")
    assert "is not JSON" in refused(capsys, results, "--out", out)
    (results / "comparison.json").unlink()
    assert "older lasthop" in refused(capsys, results, "--out", out)
    assert not out.exists()


def test_only_a_report_is_replaced(
    compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = compared / "results"
    other = tmp_path / "other.html"
    other.write_text("<title>mine</title>", encoding="utf-8")
    assert "is no report of lasthop" in refused(capsys, results, "--out", other)
    assert other.read_text(encoding="utf-8") == "<title>mine</title>"
    assert "FILE.html" in refused(capsys, results, "--out", tmp_path / "x.csv")
    assert "cannot write" in refused(capsys, results, "--out", tmp_path / "none" / "x.html")
    again = tmp_path / "again.html"
    assert main(["report", str(results), "--out", str(again)]) == 0
    first = again.read_bytes()
    assert main(["report", str(results), "--out", str(again)]) == 0
    assert again.read_bytes() == first


def test_a_report_goes_into_its_folder_if_no_file_is_named(
    compared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = copy_of(compared / "results", tmp_path / "results")
    assert main(["report", str(results)]) == 0
    assert main(["report", str(results)]) == 0
    assert f"written: {results}/report.html" in capsys.readouterr().out
    page = (results / "report.html").read_text()
    assert 'report.html"' not in page


def test_measures_of_events_have_heads_with_units() -> None:
    assert measure_label("cwnd_after_timeout_bytes@5-11s") == (
        "cwnd after the first timeout (bytes), 5-11s"
    )
    assert measure_label("timeouts_within") == "timeouts"
    assert measure_label("goodput_bps") == "goodput_bps"


def test_all_papers_and_a_name_contradict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--all", "zeng2006"]) == 2
    assert "leave out zeng2006" in capsys.readouterr().err
