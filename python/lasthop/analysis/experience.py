"""What users feel: metrics of calls and pings in a group of flows (docs/traffic.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# name -> as in `metrics.GROUP_METRICS`
METRICS: Final[dict[str, tuple[str, float, str]]] = {
    "rtt_s_p50": ("RTT, median (ms)", 1e3, "maximum over its flows"),
    "rtt_increase_s_p95": (
        "RTT above that of the empty path, 95th percentile (ms)",
        1e3,
        "latency under load; maximum over its pings",
    ),
    "late_or_lost_share": (
        "packets late or lost (%)",
        1e2,
        "packets of its calls that do not arrive within the deadline",
    ),
    "mos": (
        "mean opinion score",
        1.0,
        "E-model for G.711 with play-out at the deadline; minimum over its calls",
    ),
}

# Metrics that are shares, so at most 1.
SHARES: Final = ("late_or_lost_share",)


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None]


def of_flows(flows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """`METRICS` of these flows; `None` if unknown."""
    pings = [f for f in flows if f["app"] == "ping"]
    calls = [f["call"] for f in flows if "call" in f]
    sent = sum(c["sent"] for c in calls)
    increases = [
        f["rtt_s"]["p95"] - f["empty_path_s"]
        for f in pings
        if f["rtt_s"]["p95"] is not None and f["empty_path_s"] is not None
    ]
    missing = sum(c["late"] + c["lost"] for c in calls)
    return {
        "rtt_s_p50": max(_known([f["rtt_s"]["p50"] for f in flows]), default=None),
        "rtt_increase_s_p95": max(increases, default=None),
        "late_or_lost_share": missing / sent if sent else None,
        "mos": min(_known([c["mos"] for c in calls]), default=None),
    }
