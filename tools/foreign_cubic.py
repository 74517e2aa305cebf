"""CUBIC of lasthop, Linux, quinn and smoltcp, for docs/foreign-stacks.md.

`python tools/foreign_cubic.py measure` runs the example `cubic` of examples/foreign-stacks and
carries transfers of this machine's Linux over live links (root, half an hour), and writes
docs/foreign-cubic.csv. `python tools/foreign_cubic.py` makes the table and the figure from it.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import marked_pages
from matplotlib.figure import Figure

from lasthop.analysis import statistics
from lasthop.experiments.store import write_whole

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs/foreign-cubic.csv"
PAGE = ROOT / "docs/foreign-stacks.md"
FIGURE = ROOT / "docs/img/foreign-cubic.png"
BLOCK = "CUBIC"
BASE = "lasthop"
#: Column of the real transfers.
LINUX = "Linux"
RATE = "20Mbps"
#: MB of a transfer by round-trip time (ms) and loss (%): some 15 s.
SIZES = {
    ("20", "0"): 20,
    ("20", "0.1"): 20,
    ("20", "1"): 10,
    ("40", "0"): 20,
    ("40", "0.1"): 15,
    ("40", "1"): 5,
    ("80", "0"): 20,
    ("80", "0.1"): 10,
    ("80", "1"): 3,
    ("160", "0"): 20,
    ("160", "0.1"): 8,
    ("160", "1"): 2,
}
HEAD = ["rtt_ms", "loss_percent", "form", "n", "goodput_mbps", "ratio", "low", "high"]


def simulated() -> list[list[Any]]:
    """A row for each link and form; ratios to lasthop's goodput are paired by seed."""
    command = ["cargo", "run", "--release", "--quiet", "--locked", "--example", "cubic"]
    stacks = ROOT / "examples/foreign-stacks"
    out = subprocess.run(command, cwd=stacks, check=True, capture_output=True, text=True).stdout
    goodputs: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(io.StringIO(out)):
        of_link = goodputs[row["rtt_ms"], row["loss_percent"]]
        of_link[row["form"]].append(float(row["goodput_mbps"]))
    rows = []
    for link, forms in goodputs.items():
        for form, values in forms.items():
            ratio = statistics.ratio(values, forms[BASE])
            low, high = ratio.ci95 or (None, None)
            rows.append([*link, form, len(values), statistics.mean(values), ratio.mean, low, high])
    return rows


def real(link: tuple[str, str], megabytes: int) -> list[Any]:
    """Transfers of Linux beside the same ones of lasthop."""
    rtt, loss = link
    out = subprocess.run(
        [
            *(sys.executable, "-m", "lasthop", "validate", "--rate", RATE, "--rtt", f"{rtt}ms"),
            *("--loss", f"{loss}%", "--queue", "1BDP", "--senders", "cubic", "--schemes", "none"),
            *("--seeds", "10", "--size", f"{megabytes}MB", "--json"),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return real_row(link, megabytes, json.loads(out))


def real_row(link: tuple[str, str], megabytes: int, found: dict[str, Any]) -> list[Any]:
    """The row of what `lasthop validate` has found."""
    cell = found["cells"][0]
    goodput = statistics.mean([megabytes * 8 / s for s in cell["real_s"]])
    low, high = cell["ci95"] or (None, None)
    return [*link, LINUX, cell["n"], goodput, cell["ratio"], low, high]


def write(rows: list[list[Any]]) -> None:
    """Writes the file of the measurements."""
    lines = [HEAD, *([f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in rows)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    write_whole(DATA, text.getvalue())


def read() -> dict[tuple[str, str], dict[str, dict[str, str]]]:
    """By link and form: the row of the file."""
    links: dict[tuple[str, str], dict[str, dict[str, str]]] = defaultdict(dict)
    with DATA.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            links[row["rtt_ms"], row["loss_percent"]][row["form"]] = row
    return dict(links)


def _cell(row: dict[str, str]) -> str:
    ratio = f"{float(row['ratio']):.2f}"
    return f"{ratio} [{float(row['low']):.2f}, {float(row['high']):.2f}]" if row["low"] else ratio


def table(links: dict[tuple[str, str], dict[str, dict[str, str]]]) -> str:
    """The ratios of all forms to lasthop's."""
    forms = [form for form in next(iter(links.values())) if form != BASE]
    lines = [
        f"| RTT | loss | {BASE}, Mbit/s | " + " | ".join(forms) + " |",
        "| --- | --- | ---: |" + " ---: |" * len(forms),
    ]
    for (rtt, loss), row in links.items():
        goodput = f"{float(row[BASE]['goodput_mbps']):.2f}"
        cells = " | ".join(_cell(row[form]) for form in forms)
        lines.append(f"| {rtt} ms | {loss} % | {goodput} | {cells} |")
    return "\n".join(lines)


def draw(links: dict[tuple[str, str], dict[str, dict[str, str]]]) -> None:
    """The figure: a panel for each loss rate, round-trip times across."""
    losses = sorted({loss for _, loss in links}, key=float)
    rtts = sorted({rtt for rtt, _ in links}, key=float)
    forms = [form for form in next(iter(links.values())) if form != BASE]
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = figure.subplots(1, len(losses), sharey=True)
    for panel, loss in zip(panels, losses, strict=True):
        panel.axhspan(0.95, 1.05, color="0.9")
        for i, form in enumerate(forms):
            rows = [links[rtt, loss][form] for rtt in rtts]
            ratios = [float(row["ratio"]) for row in rows]
            low = [r - float(row["low"] or r) for r, row in zip(ratios, rows, strict=True)]
            high = [float(row["high"] or r) - r for r, row in zip(ratios, rows, strict=True)]
            at = [x + (i - len(forms) / 2) * 0.1 for x in range(len(rtts))]
            panel.errorbar(at, ratios, (low, high), fmt="osD^vPX"[i], ms=5, lw=1, label=form)
        panel.set_xticks(range(len(rtts)), rtts)
        panel.set_title(f"loss {loss} %")
        panel.set_xlabel("round-trip time, ms")
    panels[0].set_ylabel("goodput relative to lasthop's CUBIC")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(FIGURE, dpi=110)


def page(text: str, made: str) -> str:
    """The page with its table made again."""
    return marked_pages.replaced(text, BLOCK, made)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        write([*simulated(), *(real(link, size) for link, size in SIZES.items())])
    found = read()
    draw(found)
    write_whole(PAGE, page(PAGE.read_text(encoding="utf-8"), table(found)))
