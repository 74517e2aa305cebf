"""The table docs/scheme-figures.md: scheme, paper, source file, figures, evidence: `make docs`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import scheme_pages

from lasthop import catalogue, quantities
from lasthop.catalogue import Entry
from lasthop.experiments.store import write_whole
from lasthop.scenarios import experiment, table_reader

FILE = scheme_pages.ROOT / "docs/scheme-figures.md"
PAPERS = ("zeng2006", "yun2009", "paul2005", "noor", "janevski2009")
#: A reference to one of the five papers in the head of a file: "yun2009, section 2.1", "(yun2009),
#: sections 3 and 4".
SECTION = re.compile(
    rf"\b({'|'.join(PAPERS)})\)?(?:'s)?,? \(?((?:sections?|chapter|figures?|slides?) [0-9][0-9."
    r" ]*(?:(?:and|to) [0-9.]+)?)"
)


def names(scheme: str) -> Iterator[str]:
    """Names in a scheme as written on the command line: its name, and that of the sender below
    it.
    """
    name, *settings = quantities.split(scheme, ":")
    yield name
    for setting in settings:
        key, _, value = setting.partition("=")
        while value.startswith("(") and value.endswith(")"):
            value = value[1:-1]
        if key == "sender" and value:
            yield from names(value)


def schemes_of(figure: experiment.Figure) -> set[str]:
    """Every scheme that runs in a figure, or receives test packets there."""
    flows: list[dict[str, Any]] = tomllib.loads(figure.text).get("flow", [])
    own = [table_reader.scheme_text(f["scheme"], figure.id) for f in flows if "scheme" in f]
    vectors = [v.scheme for v in figure.plot.vectors] if figure.plot is not None else []
    return {n for scheme in [*figure.experiment.schemes, *own, *vectors] for n in names(scheme)}


def figures_by_scheme() -> dict[str, list[str]]:
    """Scheme -> the figures that run it."""
    found: dict[str, list[str]] = {}
    for figure in experiment.figures(experiment.all_ids()):
        for name in schemes_of(figure):
            found.setdefault(name, []).append(figure.id)
    return found


def sections(file: Path) -> list[str]:
    """The sections of the five papers that the head of a scheme's file names."""
    head = " ".join(scheme_pages.head(file).split())
    return list(
        dict.fromkeys(f"{paper}, {place.rstrip(' .')}" for paper, place in SECTION.findall(head))
    )


def _ids(ids: Sequence[str]) -> str:
    """Figures by paper: "yun2009: fig06, fig07"."""
    by: dict[str, list[str]] = {}
    for paper, _, name in (i.partition("/") for i in ids):
        by.setdefault(paper, []).append(name)
    return "; ".join(f"{paper}: {', '.join(found)}" for paper, found in by.items())


def table(entries: Sequence[Entry]) -> str:
    """The page."""
    figures = figures_by_scheme()
    lines = [
        "# Which figure runs which scheme",
        "",
        (
            "Made by `make docs` from the catalogue and the figure files; do not edit. *Figures*"
            " lists the"
        ),
        (
            "figures of `python/lasthop/papers` that use the scheme as a scheme or a sender, or"
            " pass test packets"
        ),
        (
            "to it; `related` contains the figures in scenarios of other papers. *Evidence* lists"
            " the comparisons"
        ),
        "with an independent reference, and how many claims of the figures about the scheme hold.",
        "",
        "| scheme | paper and section | file | figures | evidence |",
        "| --- | --- | --- | --- | --- |",
    ]
    for entry in entries:
        file = scheme_pages.source_of(entry["name"])
        path = file.relative_to(scheme_pages.ROOT)
        paper = "; ".join([entry["paper"], *(s for s in sections(file) if s not in entry["paper"])])
        known = [catalogue.agreement(e) for e in entry["evidence"] if e["kind"] != "none"]
        cells = [
            f"[{entry['name']}](schemes/{entry['name']}.md)",
            paper,
            f"[{file.name}](../{path})",
            _ids(figures.get(entry["name"], [])),
            "; ".join(known) or "none yet",
        ]
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    write_whole(FILE, table(catalogue.entries()))


if __name__ == "__main__":
    main()
