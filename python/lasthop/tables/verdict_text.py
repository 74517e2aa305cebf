"""Verdicts about claims as plain text."""

from __future__ import annotations

from lasthop.analysis import claim_text
from lasthop.analysis.verdict import Verdict

VERDICT_TEXT = {"holds": "holds", "differs": "DIFFERS", "undecided": "undecided"}


def claim_lines(v: Verdict) -> list[str]:
    """Format a claim for the terminal: verdict, text, number of the paper, measured number."""
    paper = claim_text.paper(v.claim)
    lines = [
        f"  {VERDICT_TEXT[v.verdict]:<9}  {v.claim.text};"
        f" {f'paper: {paper}; ' if paper else ''}measured: {v.display}"
    ]
    return lines if v.verdict == "holds" else [*lines, f"             {v.why}"]


__all__ = ["VERDICT_TEXT", "claim_lines"]
