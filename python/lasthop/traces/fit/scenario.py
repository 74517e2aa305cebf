"""A fit as a scenario file, with what is assumed as comments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lasthop.traces.fit.estimate import Estimate
from lasthop.traces.fit.fit import Fit
from lasthop.traces.fit.traffic import Traffic
from lasthop.traces.table import DIRECTIONS, DOWN

# Longest run of a fitted scenario, seconds, and its shortest.
_LONGEST_S, _SHORTEST_S = 60.0, 10.0
#: Shortest base RTT of a scenario, seconds.
LEAST_RTT_S = 0.001
_PACKET = 1500
# Share of the distance of two bunches of ACKs for which the link holds them.
_HELD = 0.9


def values(fit: Fit) -> dict[str, float]:
    """The parameters of a scenario by name."""
    return {e.name: e.value for e in fit.estimates()}


def duration_s(fit: Fit) -> float:
    """Length of a run: that of the measurement, from 10 s to a minute."""
    return float(np.clip(np.ceil(fit.seen.duration_s), _SHORTEST_S, _LONGEST_S))


def rate(fit: Fit, capacity: float) -> str:
    """The rate of the direction of the data as TOML; a variable one is scaled to this mean."""
    if fit.capacity.is_constant:
        return f'"{capacity:.0f} bps"'
    factor = capacity / fit.capacity.estimate.value
    steps = ", ".join(
        f'{{ at = "{t:.3f} s", rate = "{max(r * factor, 1000):.0f} bps" }}'
        for t, r in zip(fit.capacity.steps_s, fit.capacity.steps_bps, strict=True)
    )
    return f"{{ schedule = [{steps}] }}"


def loss(given: Mapping[str, float]) -> str:
    """The losses on the air as TOML."""
    if "bad_to_bad" in given:
        return (
            f'{{ model = "markov", clock = "frame", good_to_good = {given["good_to_good"]:.6f}, '
            f"bad_to_bad = {given['bad_to_bad']:.6f} }}"
        )
    return f"{min(max(given['air_loss'], 0.0), 0.99):.6f}"


def receive_window(fit: Fit) -> list[str]:
    """The window of the receiver as the key of a flow, if it was measured and constant."""
    window = fit.seen.found.window_bytes
    if window is None:
        return []
    return [f'receive_window = {{ size = "{window:.0f} B", grows = false }}']


def ack_hold(fit: Fit, given: Mapping[str, float]) -> list[str]:
    """The link's pauses that gather ACKs, as a key of a direction; none if they are not bunched."""
    every = given["ack_bunching"]
    if every <= 0:
        return []
    times = int(duration_s(fit) / every) + 1
    length = f'length = "{1e6 * _HELD * every:.0f} us", every = "{1e6 * every:.0f} us"'
    return [f'outage = {{ from = "0 s", {length}, times = {times} }}']


def radio_delay(fit: Fit, given: Mapping[str, float]) -> str:
    """The one-way delay of the radio link as TOML, with steps if the base RTT jumps."""
    jumps, share = fit.jumps, given["radio_share"]
    fixed = share * max(given["base_rtt"], LEAST_RTT_S) / 2
    if jumps.period_s is None:
        return f'"{1e6 * fixed:.0f} us"'
    extra = jumps.bases_s - jumps.bases_s.min()
    steps = ", ".join(
        f'{{ at = "{t:.1f} s", delay = "{1e6 * (fixed + e / 2):.0f} us" }}'
        for t, e in zip(jumps.starts_s, extra, strict=True)
        if t > 0
    )
    first = fixed + float(extra[0]) / 2
    return f'{{ base = "{1e6 * first:.0f} us", steps = [{steps}] }}'


def text(fit: Fit, given: Mapping[str, float] | None = None, traffic: Traffic | None = None) -> str:
    """The scenario with the values of the fit, or with those given, in TOML.

    Its traffic is a bulk transfer in the direction of the data, or `traffic`.
    """
    given = values(fit) if given is None else given
    rtt = max(given["base_rtt"], LEAST_RTT_S)
    held = ack_hold(fit, given)
    data, other = ("down_rate", "up_rate")
    if fit.seen.direction != DOWN:
        data, other = other, data
    if held:
        data, other = (f"{name}.rate" for name in directions(fit))
    lines = [
        f"# Fitted by lasthop trace fit to {fit.seen.found.format}; intervals are those of 90 %.",
        'title = "Fitted to a measurement"',
        f'duration = "{duration_s(fit):g} s"',
        "",
        *(_wired(given["radio_share"], rtt) if held else ["[last_hop]"]),
        *_comment(fit.capacity.estimate),
        f"{data} = {rate(fit, given['capacity'])}",
        "# Assumed: the other direction was not filled, and gets the same mean rate.",
        f'{other} = "{given["capacity"]:.0f} bps"',
        *_comment(fit.ack_bunching),
        *(f"{directions(fit)[1]}.{key}" for key in held),
        *_comment(fit.base_rtt),
        *([] if held else [f'rtt = "{1e6 * rtt:.0f} us"']),
    ]
    lines += [
        f"# Jumps of the base RTT: {fit.jumps.text}.",
        *_comment(fit.radio_share),
        f"delay = {radio_delay(fit, given)}",
        *_comment(fit.losses.air),
        f"# {fit.loss_process.text}. Assumed: the same in both directions.",
        f"loss = {loss(given)}",
        *_comment(fit.losses.queue),
        f'queue = "{max(given["queue"], _PACKET):.0f} B"',
        *_comment(fit.losses.overflow),
        *_comment(fit.reordering),
        "# Assumed: no reordering in the scenario, because its extent is not measured.",
        "",
        *_traffic(fit, traffic),
        *([] if fit.seen.direction == DOWN else ['from = "phone"', 'to = "server"']),
        *receive_window(fit),
        "",
    ]
    return "\n".join(lines)


def directions(fit: Fit) -> tuple[str, str]:
    """The directions of a link towards the phone that have the data and their ACKs."""
    return ("forward", "backward") if fit.seen.direction == DOWN else ("backward", "forward")


def _wired(share: float, rtt_s: float) -> list[str]:
    """The nodes of `[last_hop]` as links: one direction of it has keys that the other has not."""
    wire = f'delay = "{1e6 * (1 - share) * rtt_s / 2:.0f} us"'
    return [
        *("[[link]]", 'between = ["server", "bs"]', 'rate = "100 Gbps"', 'queue = "unlimited"'),
        *(wire, "", "[[link]]", 'name = "radio"', "radio = true", 'between = ["bs", "phone"]'),
    ]


def _traffic(fit: Fit, traffic: Traffic | None) -> list[str]:
    direction = DIRECTIONS[fit.seen.direction]
    if traffic is not None:
        return [f"# Traffic ({direction}): {traffic.text}.", "[[flow]]", *traffic.flow]
    where = f"in the direction that carried most bytes ({direction})"
    return [
        f"# Assumed: the traffic is one bulk transfer {where}.",
        *("[[flow]]", 'app = "bulk"'),
    ]


def _comment(found: Estimate) -> list[str]:
    head = f"# {found.name.replace('_', ' ')}: "
    note = [f"# {found.note}"] if found.note else []
    if found.is_range:
        return [
            f"{head}ASSUMED, possible from {found.low:.6g} to {found.high:.6g} {found.unit}.",
            f"# {found.how}",
            *note,
        ]
    return [
        f"{head}{found.value:.6g} {found.unit} [{found.low:.6g}, {found.high:.6g}],"
        f" n = {found.n} ({found.of})",
        *note,
    ]


__all__ = [
    "LEAST_RTT_S",
    "ack_hold",
    "directions",
    "duration_s",
    "loss",
    "radio_delay",
    "rate",
    "receive_window",
    "text",
    "values",
]
