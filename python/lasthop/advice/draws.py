"""Scenarios drawn from the uncertainty of a fit."""

from __future__ import annotations

import numpy as np

from lasthop.traces.fit import scenario
from lasthop.traces.fit.estimate import Estimate, Z
from lasthop.traces.fit.fit import Fit

# Parameters of a scenario; the others of a fit describe the measurement only.
_DRAWN = (
    *("capacity", "base_rtt", "queue", "air_loss", "good_to_good", "bad_to_bad"),
    *("ack_bunching", "radio_share"),
)


def draw(fit: Fit, count: int, seed: int = 1) -> list[dict[str, float]]:
    """`count` sets of parameters, each independent of the others, with two exceptions. If queue
    and capacity are unknown, the time that the queue takes to empty is drawn, as links with a
    larger capacity have larger buffers. Unknown bursts of losses keep the drawn loss rate.

    Within an interval, times, rates and sizes are log-normal and shares normal, with the interval
    as their central 90 %. Within a range (unknown), times, rates and sizes are log-uniform and
    shares uniform.
    """
    rng = np.random.default_rng(seed)
    columns = {e.name: _values(e, count, rng) for e in fit.estimates() if e.name in _DRAWN}
    found = {e.name: e for e in fit.estimates()}
    capacity, queue = found["capacity"], found["queue"]
    if capacity.is_range and queue.is_range:
        low, high = queue.low / capacity.low, queue.high / capacity.high
        share = np.log(columns["queue"] / queue.low) / np.log(queue.high / queue.low)
        columns["queue"] = columns["capacity"] * low * (high / low) ** share
    chain = found.get("bad_to_bad")
    if chain is not None and chain.is_range:
        # Unknown bursts have the loss rate that was drawn.
        air, stays = columns["air_loss"], columns["bad_to_bad"]
        columns["good_to_good"] = 1 - np.clip(air / (1 - air) * (1 - stays), 0.0, 1.0)
    fixed = scenario.values(fit)
    return [fixed | {n: float(c[i]) for n, c in columns.items()} for i in range(count)]


def _values(found: Estimate, count: int, rng: np.random.Generator) -> np.ndarray:
    if found.unit == "share":
        if found.is_range:
            return rng.uniform(found.low, found.high, count)
        spread = (found.high - found.low) / (2 * Z)
        return np.clip(rng.normal(found.value, spread, count), 0.0, 0.999999)
    if found.value == 0:
        return np.zeros(count)
    low, high = np.log(found.low), np.log(found.high)
    if found.is_range:
        return np.exp(rng.uniform(low, high, count))
    return np.exp(rng.normal((low + high) / 2, (high - low) / (2 * Z), count))


__all__ = ["draw"]
