"""What users feel: metrics of calls and pings in a group of flows (docs/traffic.md)."""

from __future__ import annotations

from typing import Final

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
