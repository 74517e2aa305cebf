"""Which figures of the papers run which scheme, for the pages of the schemes."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

from lasthop import quantities
from lasthop.scenarios import experiment, table_reader


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


@cache
def figures_by_scheme() -> dict[str, list[str]]:
    """Scheme -> the figures that run it."""
    found: dict[str, list[str]] = {}
    for figure in experiment.figures(experiment.all_ids()):
        for name in schemes_of(figure):
            found.setdefault(name, []).append(figure.id)
    return found


def text(scheme: str) -> str:
    """The figures that run a scheme, by paper: "yun2009: fig06, fig07"."""
    by: dict[str, list[str]] = {}
    for paper, _, name in (i.partition("/") for i in figures_by_scheme().get(scheme, [])):
        by.setdefault(paper, []).append(name)
    return "; ".join(f"{paper}: {', '.join(found)}" for paper, found in by.items())
