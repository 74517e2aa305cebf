"""Write docs/schemes: a page per scheme, NAME.md, with its figure, and an index (`make docs`).

A page is generated from the catalogue entry, the comment at the head of the Rust file of the
scheme, and one run. No file in docs/schemes is written by hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import goldens
import numpy as np
import scheme_figures

from lasthop import catalogue
from lasthop.analysis import series
from lasthop.catalogue import FIGURE_EVIDENCE, Entry
from lasthop.experiments import plan
from lasthop.experiments.store import write_whole
from lasthop.plotting import plots

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "crates/lasthop-schemes/src"
FOLDER = ROOT / "docs/schemes"
SHOWN_S = 8.0  # seconds of the run in the figure
LABELS = ("Source", "Idea", "Deployed at", "Wire", "State", "Assumes", "Bad at", "Today")
MADE = "Made by `make docs` from the catalogue; do not edit."


def source_of(name: str) -> Path:
    """The Rust file whose catalogue entry has this name."""
    found = [
        p
        for p in sorted(SOURCES.rglob("*.rs"))
        if f'name: "{name}"' in p.read_text(encoding="utf-8")
    ]
    if len(found) != 1:
        raise SystemExit(f"{len(found)} files under {SOURCES} have an entry with the name {name}")
    return found[0]


def head(file: Path) -> str:
    """The comment at the head of a Rust file, as Markdown."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line.removeprefix("//!").removeprefix(" ").rstrip())
    text = "\n".join(lines).strip()
    text = re.sub(
        r"\[(`[^`\]]+`)\](?![(\[])", r"\1", text
    )  # links between items of the crate do not work here
    text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
    return re.sub(rf"(^|(?<=[.;)] ))({'|'.join(LABELS)}):", r"\1**\2:**", text, flags=re.MULTILINE)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(header) + " |",
        "| " + " | ".join("---" for _ in header) + " |",
        *("| " + " | ".join(map(_cell, r)) + " |" for r in rows),
    ]


def facts(entry: Entry) -> list[tuple[str, str]]:
    """Rows of the table of facts."""
    slots = ", ".join(f"{k} `{v}`" for k, v in entry["slots"].items()) or "none"
    changes = ", ".join(k.replace("_", " ") for k, v in entry["changes"].items() if v) or "nothing"
    group = (
        "" if entry["group"] is None else f", {catalogue.section_title(catalogue.section(entry))}"
    )
    file = source_of(entry["name"])
    rows = [
        ("family", entry["family"].replace("-", " ") + group),
        ("source", entry["paper"]),
        ("changes", changes),
        ("slots", slots),
        ("file", f"[{file.name}](../../{file.relative_to(ROOT)})"),
    ]
    if entry["unsafe"]:
        rows.append(("unsafe", entry["unsafe_where"]))
    if entry["simulation_only"]:
        rows.append(("simulation only", "knows what only a simulator knows"))
    return rows


def settings(entry: Entry) -> list[str]:
    """The table of settings."""
    if not entry["settings"]:
        return ["None."]
    rows = [
        (f"`{s['name']}`", f"`{catalogue.toml(s['default'])}`", s["unit"] or "", s["doc"])
        for s in entry["settings"]
    ]
    return _table(("setting", "default", "unit", "what it does"), rows)


def evidence(entry: Entry) -> list[str]:
    """The list of evidence."""
    known = [e for e in entry["evidence"] if e["kind"] != "none"]
    if not known:
        return ["None yet: nothing independent was compared with it."]
    lines = [f"- {catalogue.agreement(e)}" for e in known]
    if any(e["kind"] != FIGURE_EVIDENCE for e in known):
        lines += ["", "The tables: [fidelity.md](../fidelity.md)."]
    return lines


def _needs(name: str) -> tuple[tuple[str, str], ...]:
    return goldens.read(name).settings


@cache
def windows(name: str) -> tuple[str, dict[str, series.Steps]]:
    """Node of the sender over the radio link in the standard lossy run, with its cwnd and
    ssthresh.
    """
    scenario: Any = plan.load(plan.source(goldens.SCENARIO, settings=_needs(name)), name)
    _, columns = scenario.run_recorded(1, True)
    kinds, nodes = list(columns["events"]), list(columns["nodes"])
    cwnd_events = np.isin(columns["event"], [kinds.index("cwnd")])
    node = "bs" if nodes.index("bs") in columns["node"][cwnd_events] else "server"
    mine = np.flatnonzero(columns["node"] == nodes.index(node))
    there = {
        k: columns[k][mine] for k in ("t_ns", "event", "flow", "seq", "len", "ack", "value", "link")
    }
    events = series.Events.of(kinds, there | {"data_radio": -1})
    return node, {
        k: series.extend_to(series.steps(events, k), SHOWN_S) for k in ("cwnd", "ssthresh")
    }


def _thinned(drawn: series.Steps) -> series.Steps:
    """Reduce a step function to 400 points, so that SVG files are small."""
    grid = np.linspace(0.0, SHOWN_S, 400)
    place = np.searchsorted(drawn[0], grid, side="right") - 1
    return grid[place >= 0], drawn[1][place[place >= 0]]


def draw(name: str, file: Path) -> None:
    """Plot cwnd and ssthresh over time, with Reno's cwnd in grey."""
    _, own = windows(name)
    lines = [plots.Line("cwnd", *_thinned(own["cwnd"]))]
    if len(own["ssthresh"][0]):
        lines.append(plots.Line("ssthresh", *own["ssthresh"], steps=True))
    if name != "reno":
        lines.insert(
            0, plots.Line("cwnd of Reno", *_thinned(windows("reno")[1]["cwnd"]), muted=True)
        )
    panel = plots.Panel("cwnd, ssthresh (kB)", lines, x_range=(0.0, SHOWN_S))
    plots.save(plots.panels([panel], f"{name}: the standard lossy run", height=2.0), [file])


def caption(entry: Entry) -> list[str]:
    """Caption of the figure."""
    name = entry["name"]
    who = "the base station's sender" if windows(name)[0] == "bs" else "the server"
    needs = "".join(f", with `{k} = {v}`" for k, v in _needs(name))
    run = (
        f"[one run](../../tests/goldens/lossy.toml){needs}: one loss, two losses of one window, a"
        " burst, then a queue that overflows."
    )
    lines = [f"cwnd and ssthresh of {who} over {run}"]
    sentence = goldens.read(name).sentence
    if sentence:
        lines += ["", f"By round trips ([numbers](../../tests/goldens/{name}.txt)): {sentence}"]
    return lines


def page(entry: Entry) -> str:
    """The page of a scheme."""
    name = entry["name"]
    lines = [f"# {name}", "", f"*{entry['summary']}*", "", *_table(("", ""), facts(entry)), ""]
    lines += [
        head(source_of(name)),
        "",
        f"![{name}: cwnd and ssthresh]({name}.svg)",
        "",
        *caption(entry),
        "",
    ]
    lines += [
        "## Settings",
        "",
        *settings(entry),
        "",
        f"On the command line `{_example(entry)}`; see [scenario.md](../scenario.md).",
        "",
    ]
    lines += ["## Assumptions", "", *(f"- {a}" for a in entry["assumptions"] or ["none"]), ""]
    lines += ["## Evidence", "", *evidence(entry), ""]
    lines += [f"[Figures](../figures.md#the-papers) that run it: {scheme_figures.text(name)}.", ""]
    lines += [f"{MADE} [All schemes](README.md).", ""]
    return "\n".join(lines)


def _example(entry: Entry) -> str:
    first = next((s for s in entry["settings"] if s["default"] not in (None, "")), None)
    if first is None:
        return f"--scheme {entry['name']}"
    value = catalogue.toml(first["default"]).strip('"')
    text = f"{entry['name']}:{first['name']}={value}"
    return f"--scheme '{text}'" if " " in text else f"--scheme {text}"


def index(entries: Sequence[Entry]) -> str:
    """The index of all pages, by family."""
    lines = [
        "# Schemes",
        "",
        f"{len(entries)} schemes, by family. {MADE}",
        "",
    ]
    family = ""
    for section in catalogue.ordered_sections(catalogue.section(e) for e in entries):
        if section[0] != family:
            family = str(section[0])
            lines += [f"## {catalogue.FAMILIES.get(family, family).capitalize()}", ""]
        if section[1] is not None:
            lines += [f"### {catalogue.section_title(section).capitalize()}", ""]
        members = [e for e in entries if catalogue.section(e) == section]
        rows = [
            (f"[{e['name']}]({e['name']}.md)", e["summary"], e["paper"], _status(e))
            for e in members
        ]
        lines += [*_table(("scheme", "what it does", "source", "evidence"), rows), ""]
    return "\n".join(lines)


def _status(entry: Entry) -> str:
    kinds = ", ".join(e["kind"] for e in entry["evidence"] if e["kind"] != "none") or "none yet"
    return "; ".join([kinds, *catalogue.flags(entry)])


def main(chosen: Sequence[str]) -> None:
    """Write pages and figures of these schemes (default: all), and the index."""
    entries = catalogue.entries()
    for entry in entries:
        if not chosen or entry["name"] in chosen:
            draw(entry["name"], FOLDER / f"{entry['name']}.svg")
            write_whole(FOLDER / f"{entry['name']}.md", page(entry))
    write_whole(FOLDER / "README.md", index(entries))
    known = {"README", *(e["name"] for e in entries)}
    for stale in sorted(p for p in FOLDER.iterdir() if p.stem not in known):
        stale.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
