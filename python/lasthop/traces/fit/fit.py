"""All parameters of a link together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lasthop.renderers import renderer
from lasthop.traces.fit import (
    ack_bunching,
    base_rtt,
    capacity,
    jumps,
    loss_process,
    losses,
    observed,
)
from lasthop.traces.fit.capacity import Capacity
from lasthop.traces.fit.estimate import Estimate, share_interval
from lasthop.traces.fit.jumps import Jumps
from lasthop.traces.fit.loss_process import LossProcess
from lasthop.traces.fit.losses import Losses
from lasthop.traces.fit.observed import Observed
from lasthop.traces.table import CAPTURE, DIRECTIONS, Measurement

# Independent losses below which the exact 99 % interval of a Poisson count (Garwood 1936) reaches
# beyond half or twice of it.
_FEW_LOSSES = 19
# Largest probability that a loss follows a loss, where it is not known.
_LONGEST_BURST = 0.95


@dataclass(frozen=True)
class Fit:
    """The parameters of the direction that carried the data."""

    seen: Observed
    base_rtt: Estimate
    jumps: Jumps
    capacity: Capacity
    losses: Losses
    loss_process: LossProcess
    reordering: Estimate
    ack_bunching: Estimate

    @property
    def radio_share(self) -> Estimate:
        """The share of the base RTT that the radio link has: no capture of one end tells it."""
        return Estimate(
            *("radio_share", "share", 0.5, 0.0, 1.0, 0, "pings of the hop before the radio link"),
            "share of the base RTT on the radio link: a measurement between the two ends cannot"
            " tell it (ping the hop before the radio link from both)",
            is_range=True,
        )

    def estimates(self) -> list[Estimate]:
        """All parameters with intervals."""
        process = self.loss_process
        chain = (process.good_to_good, process.bad_to_bad)
        return [
            *(self.capacity.estimate, self.base_rtt, self.losses.queue, self.losses.air),
            *(e for e in chain if e is not None),
            *(self.losses.overflow, self.reordering, self.ack_bunching, self.radio_share),
        ]

    def scenario(self) -> str:
        """The link as a scenario file, with what is assumed as comments."""
        text: str = renderer("fit: scenario")(self)
        return text

    def document(self) -> dict[str, Any]:
        """The fit as JSON."""
        return {
            "direction": DIRECTIONS[self.seen.direction],
            "busy_share": self.capacity.busy_share,
            "capacity_is_constant": self.capacity.is_constant,
            "parameters": [e.document() for e in self.estimates()],
            "loss_process": {"text": self.loss_process.text, "p": self.loss_process.p},
            "jumps": {
                "text": self.jumps.text,
                "period_s": self.jumps.period_s,
                "p": self.jumps.p,
            },
        }


def fit(found: Measurement) -> Fit:
    """Estimate the parameters of the link that a measurement crossed.

    Raises `InputError` if there are neither rates nor round-trip times.
    """
    seen = observed.of(found)
    link = capacity.find(seen)
    floor = base_rtt.floor_s(seen)
    split = losses.split(seen, link, floor)
    if split.air.value > 0 and not split.air.is_range and not seen.is_round_trip:
        # Frames lost on the air took capacity: once more, with their share.
        link = capacity.find(seen, split.air.value)
        split = losses.split(seen, link, floor)
    if split.air.is_range and CAPTURE not in seen.found.format and not seen.is_round_trip:
        # Losses that may be of the air took capacity; in captures they are a small share of it.
        rate = link.estimate
        link = replace(link, estimate=replace(rate, high=rate.high / (1 - split.air.high)))
    process = loss_process.find(seen, split.is_air)
    if split.air.is_range:
        process = _doubted(process, split.air)
    bunching = ack_bunching.find(seen, link)
    base = base_rtt.estimate(seen, link.estimate)
    if bunching.value > 0:
        # The smallest sample may have waited with the other ACKs.
        base = replace(base, low=max(base.low - bunching.value, base.value / 2))
    return Fit(
        seen,
        base,
        jumps.find(seen, link.busy_share),
        link,
        replace(split, air=_widened(split.air, process, 2 if seen.is_round_trip else 1)),
        process,
        _reordering(seen),
        bunching,
    )


def _doubted(process: LossProcess, air: Estimate) -> LossProcess:
    """The loss process if some of its losses may be overflows, as ranges.

    If at least the share w of the losses is of the air, the transitions that were counted are a
    mixture: p = w x + (1 - w) y with any y from 0 to 1 (Manski, "Partial Identification of
    Probability Distributions", 2003).
    """
    good, bad = process.good_to_good, process.bad_to_bad
    if good is None or bad is None:
        return process
    share = air.low / air.value if air.value > 0 else 0.0
    low = max(bad.low - (1 - share), 0.0) / share if share > 0 else 0.0
    high = min(bad.high, share * _LONGEST_BURST) / share if share > 0 else _LONGEST_BURST
    how = "transitions between lost and delivered packets; overflows may be among these losses"
    low, high = min(low, bad.low), max(high, bad.high)
    bad = replace(bad, low=low, high=high, how=how, is_range=True)
    good = replace(good, how=how, is_range=True)
    return replace(process, good_to_good=good, bad_to_bad=bad)


def _widened(air: Estimate, process: LossProcess, parts: int) -> Estimate:
    """The loss rate with the interval of as many packets as are independent, and a note if it
    rests on few losses.

    `parts` is 2 if the rate is half of that of round trips, otherwise 1.
    """
    if air.is_range and (not air.n or air.value >= air.high):
        return air
    n = max(air.n / process.effect, 1.0)
    lost = parts * air.value * n
    low, high = (bound / parts for bound in share_interval(lost, n))
    independent = min(float(process.events), lost)
    note = ""
    if process.events == 0:
        note = "no such loss was seen: losses in rare bursts do not show in so short a time"
    elif 0 < independent < _FEW_LOSSES:
        note = (
            f"few losses (as many as {independent:.0f} independent ones): over a longer time the"
            " rate may be less than half or more than twice of this"
        )
    if air.is_range:
        return replace(air, low=min(air.low, low), high=max(air.high, high), note=note)
    how = air.how + (", for losses in bursts" if process.effect > 1 else "")
    return replace(air, low=low, high=high, how=how, note=note)


def _reordering(seen: Observed) -> Estimate:
    sent, count = int(seen.sent.sum()), seen.found.reordered
    if count is None or not sent:
        how = "not counted (captures count it); none is assumed"
        return Estimate("reordering", "share", 0.0, 0.0, 0.0, 0, "packets", how, is_range=True)
    low, high = share_interval(min(count, sent), sent)
    how = "segments that filled a hole sooner than a retransmission could; Wilson"
    return Estimate("reordering", "share", count / sent, low, high, sent, "packets", how)


__all__ = ["Fit", "fit"]
