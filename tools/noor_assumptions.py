"""Which assumptions reproduce the 70 % that Reno loses in noor's figure 2.

`python tools/noor_assumptions.py [OUT]` writes the tables of docs/noor-assumptions.md. The numbers
are those of the figures noor/fig02-switches and noor/fig02-frozen, from the tables that `lasthop
reproduce --out OUT` wrote, or else from runs done here (20 minutes).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import marked_pages
import polars

import lasthop
from lasthop.experiments.store import write_whole

PAGE = Path(__file__).parents[1] / "docs/noor-assumptions.md"
BLOCK = "assumptions"
#: Labels of the figure file, as the page shows them.
SHOWN = {
    "bad for 0.67 s": "bad state of 0.67 s",
    "stays ten times as long": "dwell times × 10",
    "stays a tenth as long": "dwell times ÷ 10",
    "ACKs not hit": "no bit errors on ACKs",
    "stays wait": "states wait for a packet",
    "stays wait, ticks of 500 ms": "states wait for a packet, ticks of 500 ms",
}
CT = "cumulative_throughput_bps"
COUNT = "flow.session.count"
HEAD = """| {what} | sessions | Reno, 1e-5 | Reno, 1e-3 | change \
| EAER, 1e-5 | EAER, 1e-3 | change | EAER / Reno, 1e-3 |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def change(before: float, after: float) -> str:
    """A change in per cent, with its sign."""
    return f"{100 * (after / before - 1):+.0f} %".replace("-", "−")


def row(what: str, count: str, reno: Sequence[float], eaer: Sequence[float]) -> str:
    """A row: throughputs (bit/s) at 1e-5 and at 1e-3."""
    cells = [what, count]
    for low, high in (reno, eaer):
        cells += [f"{low / 1e3:.0f}", f"{high / 1e3:.0f}", change(low, high)]
    return f"| {' | '.join(cells)} | {eaer[1] / reno[1]:.2f} |"


def mean(runs: polars.DataFrame, **where: str) -> float:
    """Mean cumulative throughput of the runs with these values, bit/s."""
    chosen = runs.filter([polars.col(key) == value for key, value in where.items()])
    value = chosen[CT].mean()
    if not isinstance(value, float):
        raise SystemExit(f"no runs of {where}")
    return value


def runs_of(figure: str, folder: str | None) -> polars.DataFrame:
    """A row per run of a figure, varied keys as in its file."""
    if folder is None:
        return lasthop.reproduce(figure).figures[0].runs
    return polars.read_csv(Path(folder) / f"{figure}.csv", infer_schema=False).with_columns(
        polars.col(CT).cast(polars.Float64)
    )


def switches(runs: polars.DataFrame) -> list[str]:
    """The table of assumptions changed one at a time."""
    lines = [HEAD.format(what="changed assumption")]
    labels = dict.fromkeys(
        str(s).removeprefix("Reno, ") for s in runs["scheme"] if str(s).startswith("Reno, ")
    )
    for what, count in [
        (w, c) for w in [*labels, "NewReno instead of Reno"] for c in ("15", "75", "105")
    ]:
        own = {"Reno": f"Reno, {what}", "EAER": f"EAER, {what}"}
        names = own if what in labels else {"Reno": "NewReno", "EAER": "EAER, 802.11's constants"}
        at = {COUNT: count}
        pairs = [
            [
                mean(runs, scheme=names[n], **{"flow.session.loss.bad_rate": b}, **at)
                for b in ("1e-5", "1e-3")
            ]
            for n in names
        ]
        lines.append(row(SHOWN.get(what, what), count, *pairs))
    return lines


def frozen(runs: polars.DataFrame) -> list[str]:
    """The table of the channel that changes state only with packets."""
    lines = [HEAD.format(what="collisions")]
    loss, link = (
        "flow.session.loss.bad_loss & flow.session.ack_loss.bad_loss",
        "cell.lan.link_acks & cell.lan.attempts",
    )
    for name, value in (("lose frames", "false & 1"), ("are repaired", "true & 7")):
        for count in ("15", "75", "105"):
            at = {COUNT: count, link: value}
            ends = ("0.92 % & 0.32 %", "60.5 % & 27.4 %")
            lines.append(
                row(
                    name,
                    count,
                    *(
                        [mean(runs, scheme=s, **{loss: e}, **at) for e in ends]
                        for s in ("reno", "noor-eaer")
                    ),
                )
            )
    return lines


def main(folder: str | None = None) -> None:
    """Writes the tables."""
    changed, moved = (
        runs_of(f"noor/{figure}", folder) for figure in ("fig02-switches", "fig02-frozen")
    )
    lines = [
        "## One assumption at a time",
        "",
        f"Figure `noor/fig02-switches`: means of {changed['seed'].n_unique()} runs of 60 s.",
        "",
        *switches(changed),
        "",
        "## A channel that changes state only with packets",
        "",
        f"Figure `noor/fig02-frozen`: means of {moved['seed'].n_unique()} runs of 200 s.",
        "",
        *frozen(moved),
    ]
    page = PAGE.read_text(encoding="utf-8")
    write_whole(PAGE, marked_pages.replaced(page, BLOCK, "\n".join(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:2])
