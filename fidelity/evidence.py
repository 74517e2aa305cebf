"""The evidence for each scheme: how many cases of a reference, or claims of papers, agree.

It is stored in the file `catalogue.EVIDENCE`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lasthop import catalogue, quantities
from lasthop.experiments.store import write_whole
from lasthop.scenarios import experiment

#: Start of `paper` in a claim that is the project's and not a paper's.
OWN_CLAIM_PREFIX = "(ours"

#: The source of the verdicts of figures.
FIGURES = "figures"

#: Scheme -> its evidence.
Found = Mapping[str, Sequence[Mapping[str, Any]]]


def update(source: str, found: Found) -> None:
    """Replace the stored evidence of a source: a page, or `FIGURES`."""
    known = json.loads(catalogue.EVIDENCE.read_text(encoding="utf-8"))
    known[source] = {scheme: list(entries) for scheme, entries in sorted(found.items())}
    kept = {name: of for name, of in sorted(known.items()) if of}
    write_whole(catalogue.EVIDENCE, json.dumps(kept, indent=1) + "\n")


def from_figures(verdicts: Mapping[str, Mapping[str, str]]) -> dict[str, list[dict[str, Any]]]:
    """Count the claims about each scheme that have a verdict, and those that hold.

    `verdicts` maps figure -> claim -> verdict. A claim is about the scheme on its left side; a
    claim about an order is about all its schemes. Claims of the project do not count.
    """
    counts: dict[str, list[int]] = {}
    for figure in experiment.figures([i for i in experiment.all_ids() if i in verdicts]):
        names = dict(_label_and_name(scheme) for scheme in figure.experiment.schemes)
        for claim in figure.claims:
            verdict = verdicts[figure.id].get(claim.id)
            about = {names[label] for label in claim.chain or (claim.left,) if label in names}
            for name in (
                about if verdict and not str(claim.paper).startswith(OWN_CLAIM_PREFIX) else ()
            ):
                count = counts.setdefault(name, [0, 0])
                count[0] += 1
                count[1] += verdict == "holds"
    return {
        name: [{"kind": catalogue.FIGURE_EVIDENCE, "cases": cases, "agree": agree}]
        for name, (cases, agree) in counts.items()
    }


def _label_and_name(scheme: str) -> tuple[str, str]:
    """Return label and name of a scheme in the form of the command line."""
    name, *settings = quantities.split(scheme, ":")
    labels = [s.removeprefix("label=") for s in settings if s.startswith("label=")]
    return (labels[-1] if labels else scheme), name


__all__ = ["from_figures", "update"]
