"""What limited a flow, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

# Keys of `limited_by`, and what they are called.
NAMES: Final = {
    "cwnd": "cwnd",
    "pacing": "pacing",
    "receive_window": "receive window",
    "application": "application",
    "relay_buffer": "relay buffer",
    "agent_cache": "agent cache",
    "handshake": "handshake",
    "outage": "link outage",
}
# A share below this is left out of a flow's line.
MIN_SHARE_SHOWN: Final = 0.005
# From this share on a comparison names the setting that binds.
MIN_SHARE_OF_BINDING: Final = 0.1


def mean_shares(flows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Each share, as the mean of the flows that have one; `None` if none has."""
    known = [f["limited_by"] for f in flows if f.get("limited_by") is not None]
    return {f"limited_by_{key}": sum(s[key] for s in known) / len(known) if known else None for key in NAMES}


def describe(flow: Mapping[str, Any]) -> str:
    """The limits of a flow, the longest first: "relay buffer 93.1 % of the time (i-tcp:buffer = 64000 B), cwnd 6.9 %"."""
    found = flow.get("limited_by")
    if found is None:
        return "–"
    parts: list[str] = []
    for key in sorted(NAMES, key=lambda k: -found[k]):
        if found[key] < MIN_SHARE_SHOWN:
            continue
        settings = [f"{b['setting']} = {b['value']}" for b in flow.get("bounds", ()) if b["limited_by"] == key]
        of = "" if parts else " of the time"
        parts.append(f"{NAMES[key]} {100 * found[key]:.1f} %{of}" + (f" ({', '.join(settings)})" if settings else ""))
    return ", ".join(parts)


def binding_settings(label: str, means: Mapping[str, float | None], bounds: Sequence[Mapping[str, str]]) -> list[str]:
    """A sentence for each setting of a scheme that bound for more than a tenth of the time, and how to set it."""
    lines = []
    for bound in bounds:
        share = means.get(f"limited_by_{bound['limited_by']}")
        if share is not None and share > MIN_SHARE_OF_BINDING:
            scheme, _, setting = bound["setting"].partition(":")
            change = f"{scheme}:{setting}=…" if setting else f"--set {scheme}=…"
            what = f"{NAMES[bound['limited_by']]} {100 * share:.1f} % of the time"
            lines.append(f"{label}: limited by {what}; {bound['setting']} = {bound['value']}, another value: {change}")
    return lines
