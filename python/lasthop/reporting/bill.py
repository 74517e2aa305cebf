"""What must change to deploy each scheme: at the hosts, on the path, on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from lasthop import catalogue
from lasthop.reporting.study import Study

#: Key of `changes` in the catalogue -> title of the column.
PLACES: Final = {
    "sender": "sender",
    "receiver": "receiver",
    "base_station": "base station",
    "link": "link layer",
    "proxy": "proxy",
    "wire": "on the wire",
}


def rows(studies: Sequence[Study]) -> list[dict[str, Any]]:
    """A row for each scheme of the studies, in the order of their first use.

    Each has `name`, `labels` (if they differ from the name), `changes` (one bool per place, or
    `None` if unknown), `summary`, `warnings` and `assumptions`.
    """
    labels: dict[tuple[str, bool], dict[str, None]] = {}
    for study in studies:
        for scheme in study.schemes:
            key = (scheme.name, scheme.python_rule)
            labels.setdefault(key, {})[scheme.label] = None
    known = {e["name"]: e for e in catalogue.entries()}
    return [
        _row(name, list(used), None if own else known.get(name), own)
        for (name, own), used in labels.items()
    ]


def _row(name: str, labels: list[str], entry: Any, own: bool) -> dict[str, Any]:
    shown = [x for x in labels if x != name]
    if entry is None:
        # A rule in Python replaces the congestion control of the sender and nothing else.
        why = "a rule in Python" if own else "not in the catalogue of this version"
        changes = [place == "sender" if own else None for place in PLACES]
        return {
            "name": name,
            "labels": shown,
            "changes": changes,
            "summary": why,
            "warnings": [],
            "assumptions": [],
        }
    warnings = [f"unsafe {entry['unsafe_where']}"] if entry["unsafe"] else []
    if entry["simulation_only"]:
        warnings.append("simulation only: it uses what only a simulator knows")
    return {
        "name": name,
        "labels": shown,
        "changes": [bool(entry["changes"][place]) for place in PLACES],
        "summary": f"{entry['summary']} ({entry['paper']})",
        "warnings": warnings,
        "assumptions": list(entry["assumptions"]),
    }


__all__ = ["PLACES", "rows"]
