"""What limits a flow (cwnd, pacing, receive window, …): shares of time, and their text."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

# Key of `limited_by` -> name.
NAMES: Final = {
    "cwnd": "cwnd",
    "pacing": "pacing",
    "receive_window": "receive window",
    "send_buffer": "send buffer",
    "application": "application",
    "relay_buffer": "relay buffer",
    "agent_cache": "agent cache",
    "handshake": "handshake",
    "outage": "link outage",
}
# A flow's line omits shares of time below this one.
MIN_SHARE_SHOWN: Final = 0.005
# A comparison names a limiting setting if its share of time is above this one.
MIN_SHARE_OF_BINDING: Final = 0.1


def describe(flow: Mapping[str, Any]) -> str:
    """Describe the limits of a flow, the largest share of time first.

    Example: "relay buffer 93.1 % of the time (i-tcp:buffer = 64000 B), cwnd 6.9 %".
    """
    found = flow.get("limited_by")
    if found is None:
        return "–"
    parts: list[str] = []
    for key in sorted(NAMES, key=lambda k: -found[k]):
        if found[key] < MIN_SHARE_SHOWN:
            continue
        settings = [
            f"{b['setting']} = {b['value']}"
            for b in flow.get("bounds", ())
            if b["limited_by"] == key
        ]
        of = "" if parts else " of the time"
        parts.append(
            f"{NAMES[key]} {100 * found[key]:.1f} %{of}"
            + (f" ({', '.join(settings)})" if settings else "")
        )
    return ", ".join(parts)


def binding_settings(
    label: str, means: Mapping[str, float | None], bounds: Sequence[Mapping[str, str]]
) -> list[str]:
    """Name each setting that limits a scheme for more than 10 % of the time, and how to change
    it.
    """
    lines = []
    for bound in bounds:
        share = means.get(f"limited_by_{bound['limited_by']}")
        if share is not None and share > MIN_SHARE_OF_BINDING:
            scheme, _, setting = bound["setting"].partition(":")
            change = f"{scheme}:{setting}=…" if setting else f"--set {scheme}=…"
            what = f"{NAMES[bound['limited_by']]} {100 * share:.1f} % of the time"
            lines.append(
                f"{label}: limited by {what}; {bound['setting']} = {bound['value']}; to change it:"
                f" {change}"
            )
    return lines
