"""Records the verdicts of all figures of the papers.

    python -m fidelity.expected OUT

Reproduces the figures, with plots and pages in the folder OUT, and writes their verdicts to
expected.toml, with which `lasthop reproduce --expect` compares, and the evidence of the catalogue.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import lasthop
from fidelity import evidence
from lasthop.experiments.figure_result import FigureResult, read_expected
from lasthop.experiments.store import write_whole
from lasthop.reproduction import report
from lasthop.scenarios import experiment


def expected_text(figures: Sequence[FigureResult]) -> str:
    """Format the verdicts as `expected.toml`."""
    lines = [
        (
            "# Verdicts of a full run of `lasthop reproduce`, compared by `--expect`. Written by"
            " `make expected`."
        ),
        "",
    ]
    for figure in figures:
        if figure.verdicts:
            lines += [
                f'["{figure.id}"]',
                *(f'{v.claim.id} = "{v.verdict}"' for v in figure.verdicts),
                "",
            ]
    return "\n".join(lines)


def main(out: str) -> None:
    """Reproduce all figures and record their verdicts."""
    done = lasthop.reproduce(out=out, told=lambda figure: print(report.text(figure), flush=True))
    if done.interrupted:
        raise SystemExit(130)
    write_whole(experiment.FOLDER / "expected.toml", expected_text(done.figures))
    evidence.update(evidence.FIGURES, evidence.from_figures(read_expected(experiment.FOLDER)))
    print(report.tally(done.figures))


if __name__ == "__main__":
    main(sys.argv[1])
