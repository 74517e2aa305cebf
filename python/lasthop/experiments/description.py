"""The file `comparison.json`: what a comparison consists of, for programs that read its tables."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lasthop.analysis.verdict import Verdict
    from lasthop.experiments.comparison import Comparison

SCHEMA_VERSION: Final = 1
#: File in the folder of a comparison.
FILE: Final = "comparison.json"


def document(comparison: Comparison, command: Sequence[str]) -> dict[str, Any]:
    """Schemes, keys, assumptions and claims of a comparison; its numbers are in table.csv."""
    plan = comparison.plan
    schemes: dict[str, dict[str, Any]] = {}
    for case in plan.cases:
        known = {
            "label": case.label,
            "name": case.name,
            "settings": dict(case.settings),
            "python_rule": case.python_rule,
            "slots": list(dict.fromkeys(case.scenario.slots)),
        }
        schemes.setdefault(case.label, known)
    return {
        "schema_version": SCHEMA_VERSION,
        "lasthop": comparison.version,
        "scenario": plan.title,
        "scenario_sha256": plan.sha256,
        "command": shlex.join(command),
        "seeds": list(plan.seeds),
        "deterministic": [
            [c.point, c.label] for c in plan.cases if comparison.deterministic(c.point, c.label)
        ],
        "processing_times": [
            [c.point, c.label] for c in plan.cases if c.scenario.draws_processing_times
        ],
        "vary": {key: list(values) for key, values in plan.vary.items()},
        "schemes": list(schemes.values()),
        "warnings": list(plan.warnings),
        "assumed": [f"{at}: {line}" if at else line for at, line in plan.assumed],
        "claims": claims(comparison.verdicts),
        "failed": len(comparison.failed),
    }


def claims(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """The verdicts, with the metric and with the number of the paper as text."""
    from lasthop.analysis import claim_text

    return [
        {**v.to_dict(), "metric": v.claim.metric, "paper_text": claim_text.paper(v.claim)}
        for v in verdicts
    ]


def text(found: dict[str, Any]) -> str:
    """The content of the file."""
    return json.dumps(found, indent=1) + "\n"
