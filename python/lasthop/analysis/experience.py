"""What users feel: metrics of calls, pings, requests and videos in a group of flows.

docs/traffic.md describes these applications.
"""

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
    **{
        f"response_s_p{p}": (
            f"response time, {words} (ms)",
            1e3,
            "from a request to the last byte of the response; maximum over its clients",
        )
        for p, words in ((50, "median"), (95, "95th percentile"), (99, "99th percentile"))
    },
    "responses_per_s": ("responses per second", 1.0, "sum over its clients"),
    "startup_s": (
        "start-up delay (s)",
        1.0,
        "from the first request of a video to its first picture; maximum over its videos",
    ),
    "stalls": ("stalls", 1.0, "of its videos, without the start-up"),
    "stalled_s": ("rebuffering time (s)", 1.0, "time in stalls, sum over its videos"),
    "rebuffer_ratio": (
        "rebuffering ratio (%)",
        1e2,
        "share of the time since the start of the playback in stalls, over its videos",
    ),
    "bitrate_bps": (
        "bitrate played (kbit/s)",
        1e-3,
        "mean over the play time of its videos",
    ),
    "bitrate_switches": (
        "bitrate switches",
        1.0,
        "chunks with another bitrate than the one before, sum over its videos",
    ),
}

# Metrics that are shares, so at most 1.
SHARES: Final = ("late_or_lost_share", "rebuffer_ratio")
