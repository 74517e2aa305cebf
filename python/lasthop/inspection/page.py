"""The page of `lasthop inspect`: linked charts, stalls with their causes, and totals.

The element `data` has `start`, `end` (seconds), `tick` (seconds per unit of the times) and
`columns`, one per connection: `panels` with `series` and `marks` (`t`: base64 of little-endian
uint32, `v` and `e`: of float32), `outages` and `stalls` (start and end in seconds).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lasthop import limits, pages
from lasthop.inspection import drawing
from lasthop.inspection.sentences import duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lasthop.inspection import series
    from lasthop.inspection.drawing import Drawing
    from lasthop.inspection.inspection import Inspection, Subject

#: Stalls that are listed at once; the shorter ones are folded.
LISTED: Final = 10
# Colours that remain distinguishable for colour-blind readers (Okabe and Ito, 2008); lines differ
# in their dashes and marks in their shapes too.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BLACK, GREY = (
    "#0072b2",
    "#c77700",
    "#00805c",
    "#c24a00",
    "#a3487f",
    "#3d9fd6",
    "#1b1b1b",
    "#767676",
)
STYLES: Final[dict[str, tuple[str, list[int]]]] = {
    "cwnd": (BLUE, []),
    "ssthresh": (ORANGE, [8, 4]),
    "flight": (GREEN, []),
    "pipe": (PURPLE, [2, 3]),
    "rwnd": (BLACK, [12, 3, 2, 3]),
    "delivery": (BLUE, []),
    "pacing": (ORANGE, [8, 4]),
    "sending": (GREEN, [2, 3]),
    "in-order": (PURPLE, [2, 3]),
    "capacity": (BLACK, [12, 3, 2, 3]),
    "rtt": (SKY, []),
    "srtt": (BLUE, []),
    "rto": (RED, [8, 4]),
    "queue": (BLUE, []),
    "delay": (BLUE, []),
    "sent": (SKY, []),
    "acked": (GREEN, []),
    "mpdus": (SKY, []),
    "retries": (ORANGE, []),
    "mcs": (BLUE, []),
}
MARK_COLOURS: Final = {
    "timeout": RED,
    "fast": PURPLE,
    "undone": GREEN,
    "sack": PURPLE,
    "retransmission": BLACK,
    "spurious": ORANGE,
    "drop": RED,
    "lost-ack": GREY,
    "filtered-ack": BLUE,
    "suppressed-ack": GREEN,
    "collision": PURPLE,
    "unanswered": RED,
}
LIMIT_COLOURS: Final = {
    "cwnd": "#56b4e9",
    "pacing": "#e69f00",
    "receive_window": "#cc79a7",
    "send_buffer": "#d55e00",
    "application": "#d9d9d9",
    "relay_buffer": "#009e73",
    "agent_cache": "#f0e442",
    "handshake": "#8c8c8c",
    "outage": "#404040",
}
AIR_TIME_COLOURS: Final = {
    "air-there": "#56b4e9",
    "air-back": "#009e73",
    "air-rest": "#e69f00",
    "air-collisions": "#d55e00",
    "air-beacons": "#8c8c8c",
    "air-others": "#404040",
    "air-idle": "#e8e8e8",
}


def render(inspection: Inspection) -> str:
    """The page as HTML."""
    subjects = inspection.subjects
    bins = drawing.bins(len(subjects))
    end = max(s.drawing(bins).duration_s for s in subjects)
    tick = max(1e-6, end / (2**32 - 2))
    columns = [_column(s, tick, bins) for s in subjects]
    return pages.render(
        "inspect.html",
        title=inspection.title,
        scripts=["uPlot.iife.min.js", "timeline.js"],
        styles=["uPlot.min.css", "timeline.css"],
        notices=["uPlot-LICENSE.txt"],
        data={"start": 0.0, "end": end, "tick": tick, "columns": columns},
        values={
            "inspection": inspection,
            "columns": [
                _texts(s, c, LISTED if len(subjects) < 3 else LISTED // 2)
                for s, c in zip(subjects, columns, strict=True)
            ],
            "totals": _totals(subjects),
            "rule": inspection.rule,
            "outages": inspection.outages,
            "downsampled": any(c["downsampled"] for c in columns),
        },
    )


def _column(subject: Subject, tick: float, bins: int) -> dict[str, Any]:
    drawn = subject.drawing(bins)
    packed: list[dict[str, Any]] = []
    for panel in drawn.panels:
        packed.append(_panel(panel, tick))
        if panel.key == "windows":
            packed.append(_shares(drawn))
    return {
        "panels": packed,
        "outages": drawn.outages,
        "stalls": [[s.start_s, s.end_s] for s in subject.stalls],
        "downsampled": drawn.is_downsampled,
    }


def _panel(panel: series.Panel, tick: float) -> dict[str, Any]:
    items = []
    for s in panel.series:
        color, dash = STYLES[s.key]
        items.append(
            {
                "key": s.key,
                "label": s.label,
                "kind": s.kind,
                "shown": s.shown,
                "color": color,
                "dash": dash,
                "t": _times(s.t, tick),
                "v": _floats(s.v),
            }
        )
    marks = []
    for m in panel.marks:
        marks.append(
            {
                "key": m.key,
                "label": m.label,
                "shape": m.shape,
                "shown": True,
                "color": MARK_COLOURS.get(m.key, RED),
                "t": _times(m.t, tick),
                "v": _floats(m.v),
            }
            | ({} if m.v_end is None else {"e": _floats(m.v_end)})
        )
    head = {"key": panel.key, "title": panel.title, "unit": panel.unit, "note": panel.note}
    whole: dict[str, Any] = head | {"series": items, "marks": marks}
    if panel.shares is not None:
        rows = [
            {"key": key, "label": label, "color": AIR_TIME_COLOURS[key], "v": _floats(v)}
            for key, (label, v) in panel.shares.rows.items()
        ]
        whole["shares"] = {"width": panel.shares.width_s, "rows": rows}
    return whole


def _shares(drawn: Drawing) -> dict[str, Any]:
    """Shares of each interval of time by what limits the sender."""
    width = drawn.share_width_s
    rows = [
        {
            "key": key,
            "label": limits.NAMES[key],
            "color": LIMIT_COLOURS[key],
            "v": _floats(v),
        }
        for key, v in drawn.shares.items()
    ]
    return {
        "key": "limits",
        "title": "Sender limited by",
        "unit": "share of the time",
        "note": f"Share of each interval of {width * 1e3:.4g} ms.",
        "series": [],
        "marks": [],
        "shares": {"width": width, "rows": rows},
    }


def _times(t: Any, tick: float) -> str:
    return _base64(np.round(np.asarray(t) / tick).astype("<u4"))


def _floats(v: Any) -> str:
    return _base64(np.asarray(v).astype("<f4"))


def _base64(array: Any) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


def _texts(subject: Subject, column: dict[str, Any], listed: int) -> dict[str, Any]:
    """What the template shows of a connection."""
    panels = [{k: p[k] for k in ("key", "title", "unit", "note")} for p in column["panels"]]
    by_length = sorted(subject.stalls, key=lambda s: -s.duration_s)
    shortest_shown = by_length[:listed][-1].duration_s if by_length else 0.0
    rows = [
        {
            "number": i + 1,
            "start": s.start_s,
            "length": duration(s.duration_s),
            "sentence": s.sentence.split(": ", 1)[1],
            "long": s.duration_s >= shortest_shown,
        }
        for i, s in enumerate(subject.stalls)
    ]
    shown: list[dict[str, Any]] = [
        {"key": key, "name": limits.NAMES[key], "share": share, "color": LIMIT_COLOURS[key]}
        for key, share in subject.limited_by.items()
        if share > 0
    ]
    shown.sort(key=lambda row: -float(row["share"]))
    x = 0.0
    for row in shown:
        row["x"] = x
        x += row["share"]
    return {
        "title": subject.title,
        "slots": subject.slots,
        "panels": panels,
        "stalls": rows,
        "threshold": duration(subject.threshold_s),
        "stalled": duration(sum(s.duration_s for s in subject.stalls)),
        "limits": shown,
        "undecided": sum(s.cause == "undecided" for s in subject.stalls),
        "outages": len(column["outages"]),
    }


def _totals(subjects: Sequence[Subject]) -> list[tuple[str, list[str]]]:
    """Rows of the table of totals: name, and the value of each connection."""
    names: dict[str, str] = {
        "goodput_bps": "goodput while active",
        "delivered_bytes": "delivered in order",
        "rtt_min_s": "RTT, smallest sample",
        "rtt_median_s": "RTT, median",
        "sent_segments": "segments sent",
        "retransmissions": "retransmissions (spurious)",
        "timeouts": "timeouts",
        "fast_retransmits": "fast retransmits",
        "lost_segments": "segments lost",
        "lost_acks": "ACKs lost",
        "filtered_acks": "ACKs removed by a filter",
        "suppressed": "suppressed by an agent",
        "stalls": "stalls (time)",
    }
    if not any("filtered_acks" in s.facts for s in subjects):
        del names["filtered_acks"]
    if not any(s.facts["suppressed_by"] for s in subjects):
        del names["suppressed"]
    return [(name, [_total(s, key) for s in subjects]) for key, name in names.items()]


def _total(subject: Subject, key: str) -> str:
    facts = subject.facts
    if key == "retransmissions":
        return f"{facts[key]} ({facts['spurious_retransmissions']})"
    if key == "lost_segments":
        parts = [f"{n} {fate}" for fate, n in facts["losses"].items()]
        return ", ".join(parts) if parts else "0"
    if key == "suppressed":
        counts = [(facts["suppressed_acks"], "ACKs"), (facts["suppressed_segments"], "segments")]
        parts = [f"{n} {what}" for n, what in counts if n]
        return f"{', '.join(parts)} by {facts['suppressed_by']}" if parts else "0"
    if key == "stalls":
        spent = sum(s.duration_s for s in subject.stalls)
        return f"{len(subject.stalls)} ({duration(spent)})" if subject.stalls else "0"
    value = facts.get(key, 0) if key == "filtered_acks" else facts[key]
    if value is None:
        return "–"
    if key == "goodput_bps":
        return f"{value * 1e-3:,.0f} kbit/s".replace(",", " ")
    if key == "delivered_bytes":
        return f"{value * 1e-6:.4g} MB"
    return duration(value) if key.endswith("_s") else str(value)


__all__ = ["render"]
