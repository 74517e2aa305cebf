"""The text file beside a figure: what it shows, of how many runs, and how to repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lasthop.plotting import plot_text

if TYPE_CHECKING:
    from lasthop.experiments.comparison import Comparison


def text(
    comparison: Comparison, drawn: str, command: Sequence[str] = (), *, title: str = ""
) -> str:
    """The caption of a figure of a comparison, one fact per line.

    `drawn` says what points, bars and bands are, with the number of runs.
    """
    plan = comparison.plan
    seeds = list(plan.seeds)
    varied = "; ".join(
        f"{plot_text.key_name(k, {})} = {', '.join(plot_text.value_name(v, {}) for v in values)}"
        for k, values in plan.vary.items()
    )
    facts = {
        "figure": title or plan.title,
        "varied": varied,
        "schemes": ", ".join(plan.labels),
        "drawn": drawn,
        "interval": _interval(comparison),
        "seeds": f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
        "scenario": f"{plan.title} (SHA-256 {plan.sha256})" if plan.sha256 else plan.title,
        "command": shlex.join(command),
        "version": f"lasthop {comparison.version}",
    }
    return "\n".join(f"{name}: {fact}" for name, fact in facts.items() if fact) + "\n"


def _interval(comparison: Comparison) -> str:
    plan = comparison.plan
    runs = max((len(plan.seeds_of(c)) for c in plan.cases), default=0)
    if runs < 2:
        return ""
    if runs < plot_text.MIN_RUNS_FOR_INTERVAL:
        return f"none: fewer than {plot_text.MIN_RUNS_FOR_INTERVAL} runs are drawn one by one"
    return (
        f"two-sided 95 % of the mean, Student's t with {runs - 1} degrees of freedom, drawn within"
        " the possible values; runs of different schemes are paired by seed"
    )


__all__ = ["text"]
