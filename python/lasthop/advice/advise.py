"""What the schemes that a user can deploy would change on a fitted link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lasthop import catalogue, runs
from lasthop.advice import draws
from lasthop.traces import summary
from lasthop.traces.fit import scenario
from lasthop.traces.fit.fit import Fit

#: The sender of today's hosts, with which all schemes are compared.
BASELINE = "cubic"
#: What a user can change: keys of `changes` in the catalogue. The box before the last hop is an
#: access point, a home router with one, or a base station.
CAN: dict[str, frozenset[str]] = {
    "sender": frozenset({"sender"}),
    "cpe": frozenset({"base_station"}),
    "ap": frozenset({"base_station"}),
    "base-station": frozenset({"base_station", "proxy", "link"}),
    "both-ends": frozenset({"sender", "receiver", "wire"}),
}
#: Gain from which a scheme helps.
HELPS = 0.05
# Schemes whose effect on a competing flow is simulated: those with the largest gains.
_WITH_COMPETITOR = 3
# Measured rate, as a share of the baseline's median in the draws, from which losses explain it.
_EXPLAINED = 0.5
# Share of the draws in which another scheme is better by `HELPS` from which it may be the best.
_RIVAL = 0.25
# Percentiles of an interval over the draws.
_LOW, _HIGH = 5, 95
_MEASURE = {
    "capacity": "saturate the link: a bulk or UDP transfer, captured at the receiver",
    "base_rtt": "ping the idle link for a minute",
    "queue": "capture a bulk transfer at the receiver until the queue overflows several times",
    "air_loss": "capture more packets at low load (a paced UDP stream, or a longer capture)",
    "good_to_good": "capture a longer transfer at the receiver",
    "bad_to_bad": "capture a longer transfer at the receiver",
    "radio_share": "ping the hop before the radio link from both ends",
}


@dataclass
class Option:
    """A scheme on the fitted link, over all draws; shares are relative to the baseline."""

    scheme: str
    #: Median change of goodput and its 5th and 95th percentile over the draws.
    goodput: tuple[float, float, float]
    #: The same for the 95th percentile of the one-way delay.
    delay: tuple[float, float, float]
    #: Change of the goodput of a competing CUBIC flow; `None` if not simulated.
    competitor: tuple[float, float, float] | None
    changes: list[str]
    reads_tcp: bool
    warnings: list[str]
    draws: int

    @property
    def is_unsafe(self) -> bool:
        """Whether the scheme is unsafe beside others, so that it is never recommended."""
        return any(w.startswith("unsafe") for w in self.warnings)


@dataclass
class Advice:
    """The answer, and what it rests on."""

    can: str
    #: "helps", "nothing helps" or "cannot tell".
    verdict: str
    text: str
    options: list[Option] = field(default_factory=list)
    #: Parameter that explains most of the best scheme's spread, and how to measure it.
    narrows: str | None = None
    measurement: str | None = None
    #: The scheme that helps; `None` with other verdicts.
    scheme: str | None = None

    def document(self) -> dict[str, Any]:
        """The advice as JSON."""
        return asdict(self)


def deployable(can: str) -> list[Mapping[str, Any]]:
    """The entries of the catalogue that need nothing beyond what `can` may change."""
    allowed = CAN[can]
    return [
        e
        for e in catalogue.entries()
        if not e["simulation_only"]
        and e["name"] != BASELINE
        and {place for place, changes in e["changes"].items() if changes} <= allowed
    ]


def advise(
    fit: Fit, can: str, count: int = 20, step: Callable[[int], None] = lambda _: None
) -> Advice:
    """Simulate the deployable schemes over `count` scenarios drawn from the fit.

    Draw k has seed k, so that an interval over the draws is one over fit and channel together, and
    all schemes see the same channel realisation. `step` is called after each scheme.
    """
    sets = draws.draw(fit, count)
    texts = [scenario.text(fit, s) for s in sets]
    entries = deployable(can)
    base = _simulate(texts, BASELINE)
    found, gains = [], {}
    for entry in entries:
        values = _simulate(texts, entry["name"])
        gains[entry["name"]] = _change(values[:, 0], base[:, 0])
        found.append(_option(entry, gains[entry["name"]], _change(values[:, 1], base[:, 1])))
        step(1)
    found.sort(key=lambda o: -o.goodput[0])
    alone = _simulate(texts, BASELINE, against=True)[:, 2]
    for option in found[:_WITH_COMPETITOR]:
        beside = _simulate(texts, option.scheme, against=True)[:, 2]
        option.competitor = _spread(_change(beside, alone))
        step(1)
    answer = _verdict(can, found, gains, sets)
    return _with_unknown_capacity(answer, fit, base[:, 0])


def runs_of(can: str) -> int:
    """How often `advise` calls `step`."""
    schemes = len(deployable(can))
    return schemes + min(schemes, _WITH_COMPETITOR)


def _simulate(texts: Sequence[str], scheme: str, against: bool = False) -> np.ndarray:
    """Goodput, p95 of the one-way delay, and goodput of the competitor; one row per scenario."""
    rows = []
    flows = {"against": BASELINE} if against else None
    for seed, text in enumerate(texts, 1):
        flow = runs.run(text=text, scheme=scheme, seed=seed, flows=flows).data["flows"]
        delay = (flow[0].get("one_way_delay_s") or {}).get("p95")
        other = flow[1]["goodput_bps"] if against else None
        rows.append([flow[0]["goodput_bps"], delay, other])
    return np.array(rows, dtype=float)


def _change(values: np.ndarray, base: np.ndarray) -> np.ndarray:
    return values / np.where(base > 0, base, np.nan) - 1


def _spread(change: np.ndarray) -> tuple[float, float, float]:
    """Median, and the interval over the draws; unknown values are left out."""
    known = change[np.isfinite(change)]
    if not len(known):
        return (0.0, 0.0, 0.0)
    middle, low, high = np.percentile(known, [50, _LOW, _HIGH])
    return float(middle), float(low), float(high)


def _option(entry: Mapping[str, Any], goodput: np.ndarray, delay: np.ndarray) -> Option:
    warnings = [f"unsafe {entry['unsafe_where']}"] if entry["unsafe"] else []
    changes = [place.replace("_", " ") for place, c in entry["changes"].items() if c]
    # An agent or relay at the base station reads and changes TCP headers, which QUIC encrypts.
    reads = bool(entry["changes"]["base_station"] or entry["changes"]["proxy"])
    if reads:
        warnings.append("does nothing for encrypted transport (QUIC, VPN): it reads TCP headers")
    spreads = (_spread(goodput), _spread(delay))
    return Option(entry["name"], *spreads, None, changes, reads, warnings, len(goodput))


def _verdict(
    can: str,
    found: list[Option],
    gains: Mapping[str, np.ndarray],
    sets: Sequence[Mapping[str, float]],
) -> Advice:
    safe = [o for o in found if not o.is_unsafe]
    if not safe:
        return Advice(can, "cannot tell", "cannot tell, because no scheme can be deployed there")
    best = safe[0]
    middle, low, high = best.goodput
    name = _narrows(gains[best.scheme], sets)
    how = None if name is None else _MEASURE[name]
    shown = f"{middle:+.0%} [{low:+.0%}, {high:+.0%}] goodput, n = {best.draws} draws"
    if low > HELPS:
        verdict, text = "helps", f"{best.scheme} helps: {shown}"
        helping = [o.scheme for o in safe if o.goodput[1] > HELPS]
        if rivals := _rivals(best.scheme, helping, gains):
            text += f"; the draws do not tell whether it is better than {', '.join(rivals)}"
    elif max(o.goodput[2] for o in safe) < HELPS:
        verdict, text = "nothing helps", f"no scheme gains 5 %; the best is {best.scheme}: {shown}"
    else:
        verdict = "cannot tell"
        cause = f"it depends on the {name.replace('_', ' ')}" if name else "the draws differ"
        text = f"cannot tell, because {cause}: {best.scheme} gives {shown}"
    scheme = best.scheme if verdict == "helps" else None
    return Advice(can, verdict, text, found, name, how, scheme)


def _rivals(first: str, names: Sequence[str], gains: Mapping[str, np.ndarray]) -> list[str]:
    """The schemes that have clearly more goodput than `first` in a quarter of the draws."""
    goodput = {name: 1 + np.nan_to_num(gains[name], nan=-1.0) for name in names}
    ahead = {name: g > (1 + HELPS) * goodput[first] for name, g in goodput.items()}
    return [name for name, a in ahead.items() if a.mean() >= _RIVAL]


def _with_unknown_capacity(answer: Advice, fit: Fit, base: np.ndarray) -> Advice:
    """The answer if the capacity is a range.

    If the sender was far slower than the baseline in the draws, losses do not explain its rate: it
    was limited by the link, or by what the scenarios do not have, its application or a window.
    """
    if not fit.capacity.estimate.is_range:
        return answer
    seen = fit.seen
    rate = (summary.mean_rate_bps(seen.found.rates(seen.direction)) or 0.0) * seen.scale
    middle, low, high = np.percentile(base, [50, _LOW, _HIGH])
    beside = (
        f"the measured rate, {rate / 1e6:.3g} Mbit/s, beside {middle / 1e6:.3g}"
        f" [{low / 1e6:.3g}, {high / 1e6:.3g}] of CUBIC in the draws"
    )
    limited = seen.window_limited()
    if limited > _EXPLAINED:
        text = (
            "cannot tell, because the receiver's window limited the sender in"
            f" {100 * limited:.0f} % of the time; {beside}"
        )
        how = "let the receiver have a larger window (Linux: net.ipv4.tcp_rmem), and measure again"
        return Advice(answer.can, "cannot tell", text, answer.options, "capacity", how)
    if rate < _EXPLAINED * middle:
        text = (
            "cannot tell, because the capacity is unknown and losses do not explain"
            f" {beside}: the link, the application or a window may have limited the sender"
        )
        how = _MEASURE["capacity"]
        return Advice(answer.can, "cannot tell", text, answer.options, "capacity", how)
    if answer.verdict == "helps":
        answer.text += f"; the capacity is unknown and assumed, but losses explain {beside}"
    return answer


def _narrows(gain: np.ndarray, sets: Sequence[Mapping[str, float]]) -> str | None:
    """The parameter with the largest rank correlation (Spearman) with the gain."""
    usable = np.isfinite(gain)
    best, largest = None, 0.3
    for name in _MEASURE:
        values = np.array([s.get(name, np.nan) for s in sets])
        if usable.sum() < 5 or not np.isfinite(values).all() or np.ptp(values) == 0:
            continue
        one, other = (np.argsort(np.argsort(c[usable])).astype(float) for c in (values, gain))
        correlation = abs(float(np.corrcoef(one, other)[0, 1]))
        if correlation > largest:
            best, largest = name, correlation
    return best


__all__ = ["BASELINE", "CAN", "Advice", "Option", "advise", "deployable", "runs_of"]
