"""What the schemes that a user can deploy would change on a fitted link."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from lasthop import catalogue, runs
from lasthop.advice import draws
from lasthop.analysis import metrics
from lasthop.traces import summary
from lasthop.traces.fit import scenario
from lasthop.traces.fit import traffic as applications
from lasthop.traces.fit.fit import Fit
from lasthop.traces.fit.traffic import Traffic
from lasthop.traces.table import CAPTURE

#: The sender of today's hosts, with which all schemes are compared.
BASELINE = "cubic"
#: Gain from which a scheme helps.
HELPS = 0.05
# Schemes whose effect on a competing flow is simulated: those with the largest gains.
_WITH_COMPETITOR = 3
# Smaller one of the measured rate and the baseline's median in the draws, as a share of the larger
# one, from which losses explain the rate.
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
    #: Median change of what the user's traffic gains (`Traffic.gain`), and its 5th and 95th
    #: percentile over the draws; for bulk transfers it is that of goodput.
    gain: tuple[float, float, float]
    #: The same for goodput.
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
    #: Schemes of which one is the best, as far as the draws tell; with "helps", `scheme` and those
    #: that may be better, otherwise also `BASELINE`.
    candidates: list[str] = field(default_factory=list)
    #: Kind of the simulated traffic, what the capture has of it, and what `Option.gain` is of.
    traffic: dict[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The advice as JSON."""
        return asdict(self)


def deployable(can: str) -> list[Mapping[str, Any]]:
    """The entries of the catalogue that need nothing beyond what `can` may change."""
    allowed = catalogue.CAN[can]
    return [
        e
        for e in catalogue.entries()
        if not e["simulation_only"]
        and e["name"] != BASELINE
        and {place for place, changes in e["changes"].items() if changes} <= allowed
    ]


def advise(
    fit: Fit,
    can: str,
    count: int = 20,
    step: Callable[[int], None] = lambda _: None,
    traffic: str = "measured",
) -> Advice:
    """Simulate the deployable schemes over `count` scenarios drawn from the fit.

    Draw k has seed k, so that an interval over the draws is one over fit and channel together, and
    all schemes see the same channel realisation. `step` is called after each scheme. `traffic` is
    "measured" (what the capture has) or "bulk" (one bulk transfer).
    """
    seen = fit.seen
    own = applications.of(seen)
    if traffic == "bulk":
        own = applications.bulk(seen.direction, "one bulk transfer, as requested")
    sets = draws.draw(fit, count)
    texts = [scenario.text(fit, s, own) for s in sets]
    entries = deployable(can)
    base = _simulate(texts, BASELINE, own)
    found, gains = [], {}
    for entry in entries:
        values = _simulate(texts, entry["name"], own)
        changes = [_change(values[:, i], base[:, i]) for i in range(3)]
        gains[entry["name"]] = changes[0]
        found.append(_option(entry, changes))
        step(1)
    found.sort(key=lambda o: -o.gain[0])
    alone = _simulate(texts, BASELINE, own, against=True)[:, 3]
    for option in found[:_WITH_COMPETITOR]:
        beside = _simulate(texts, option.scheme, own, against=True)[:, 3]
        option.competitor = _spread(_change(beside, alone))
        step(1)
    answer = _verdict(can, found, gains, sets, own.gain)
    answer.traffic = {"kind": own.kind, "text": own.text, "gain": own.gain}
    if answer.verdict == "helps" and fit.losses.air.is_range and not fit.losses.air.n:
        text = f"cannot tell, because losses were not counted: {answer.text}"
        answer = _open(answer, text, "air_loss", _MEASURE["air_loss"])
    else:
        answer = _with_unknown_capacity(answer, fit, base[:, 1])
    return _without_evidence(answer, fit)


def _without_evidence(answer: Advice, fit: Fit) -> Advice:
    """ "Cannot tell" instead of an answer that rests on what was assumed only."""
    step, rtt_s = fit.seen.found.clock_step_s, fit.base_rtt.value
    if step > rtt_s / 2:
        text = (
            f"cannot tell, because the clock of the capture counts in steps of {step:g} s: it does"
            " not show round-trip times"
        )
        return _open(answer, text, "base_rtt", "capture with a clock of microseconds (tcpdump)")
    if fit.seen.found.format == CAPTURE and not len(fit.seen.rtt_s):
        text = f"cannot tell, because {_why_untimed(fit)}: neither round-trip times nor a queue"
        return _open(answer, f"{text} can be seen", "capacity", "capture one bulk transfer of TCP")
    air = fit.losses.air
    is_unknown = bool(air.note) or (air.is_range and air.low == 0)
    if answer.verdict != "cannot tell" and fit.capacity.estimate.is_range and is_unknown:
        text = (
            "cannot tell, because neither the capacity nor the losses on the air are known after"
            f" {fit.seen.duration_s:.2g} s of this measurement"
        )
        return _open(answer, text, "capacity", _MEASURE["capacity"])
    return answer


def _why_untimed(fit: Fit) -> str:
    seen = fit.seen
    if not np.nansum(seen.found.rates(1 - seen.direction).bytes):
        return "the capture has packets of one direction only"
    if seen.found.reordered is None:
        return "the capture has no TCP (QUIC, a VPN and other UDP hide what was lost)"
    return "no packet of the capture was answered"


def runs_of(can: str) -> int:
    """How often `advise` calls `step`."""
    schemes = len(deployable(can))
    return schemes + min(schemes, _WITH_COMPETITOR)


def _simulate(
    texts: Sequence[str], scheme: str, traffic: Traffic, against: bool = False
) -> np.ndarray:
    """What the traffic gains, goodput, p95 of the one-way delay, and goodput of the competitor;
    one row per scenario.
    """
    rows = []
    flows = {"against": BASELINE} if against else None
    parts = [traffic.metric, "goodput_bps", "one_way_delay_s_p95", "rebuffer_ratio"]
    names = [*(f"roles.candidate.{part}" for part in parts), "roles.competitor.goodput_bps"]
    for seed, text in enumerate(texts, 1):
        run = runs.run(text=text, scheme=scheme, seed=seed, flows=flows)
        found = metrics.values(run.data, names)
        gain, goodput, delay, stalled, other = (found[name] for name in names)
        if gain and traffic.is_time:
            gain = 1 / gain
        elif gain is not None and stalled is not None:
            gain *= 1 - stalled
        rows.append([gain, goodput, delay, other])
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


def _option(entry: Mapping[str, Any], found: Sequence[np.ndarray]) -> Option:
    warnings = [f"unsafe {entry['unsafe_where']}"] if entry["unsafe"] else []
    changes = [place.replace("_", " ") for place, c in entry["changes"].items() if c]
    # An agent or relay at the base station reads and changes TCP headers, which QUIC encrypts.
    reads = bool(entry["changes"]["base_station"] or entry["changes"]["proxy"])
    if reads:
        warnings.append("does nothing for encrypted transport (QUIC, VPN): it reads TCP headers")
    gain, goodput, delay = (_spread(change) for change in found)
    return Option(
        entry["name"], gain, goodput, delay, None, changes, reads, warnings, len(found[0])
    )


def _verdict(
    can: str,
    found: list[Option],
    gains: Mapping[str, np.ndarray],
    sets: Sequence[Mapping[str, float]],
    of: str = "goodput",
) -> Advice:
    safe = [o for o in found if not o.is_unsafe]
    if not safe:
        return Advice(can, "cannot tell", "cannot tell, because no scheme can be deployed there")
    best = safe[0]
    middle, low, high = best.gain
    name = _narrows(gains[best.scheme], sets)
    how = None if name is None else _MEASURE[name]
    shown = f"{middle:+.0%} [{low:+.0%}, {high:+.0%}] {of}, n = {best.draws} draws"
    rivals = _rivals(best.scheme, [o.scheme for o in safe], gains)
    candidates = [best.scheme, *rivals]
    if low > HELPS:
        verdict, text = "helps", f"{best.scheme} helps: {shown}"
        if rivals:
            text += f"; the draws do not tell whether it is better than {', '.join(rivals)}"
            if narrower := _between(best.scheme, rivals, gains, sets):
                text += f", which depends on the {narrower.replace('_', ' ')}"
                name, how = narrower, _MEASURE[narrower]
    elif max(o.gain[2] for o in safe) < HELPS:
        verdict, text = "nothing helps", f"no scheme gains 5 %; the best is {best.scheme}: {shown}"
        candidates = [BASELINE]
    else:
        verdict = "cannot tell"
        cause = f"it depends on the {name.replace('_', ' ')}" if name else "the draws differ"
        text = f"cannot tell, because {cause}: {best.scheme} gives {shown}"
        candidates = [BASELINE, *candidates]
    scheme = best.scheme if verdict == "helps" else None
    return Advice(can, verdict, text, found, name, how, scheme, candidates)


def _between(
    first: str,
    rivals: Sequence[str],
    gains: Mapping[str, np.ndarray],
    sets: Sequence[Mapping[str, float]],
) -> str | None:
    """The parameter that most decides which of the schemes is better."""
    best = np.max([gains[name] for name in rivals], axis=0)
    return _narrows((1 + gains[first]) / (1 + best), sets)


def _rivals(first: str, names: Sequence[str], gains: Mapping[str, np.ndarray]) -> list[str]:
    """The schemes that gain clearly more than `first` in a quarter of the draws."""
    gained = {name: 1 + np.nan_to_num(gains[name], nan=-1.0) for name in names}
    ahead = {name: g > (1 + HELPS) * gained[first] for name, g in gained.items()}
    return [name for name, a in ahead.items() if a.mean() >= _RIVAL]


def _with_unknown_capacity(answer: Advice, fit: Fit, base: np.ndarray) -> Advice:
    """The answer if the capacity is a range.

    If the sender was far slower than the baseline in the draws, losses do not explain its rate: it
    was limited by the link, or by what the scenarios do not have, its application or a window. If
    it was far faster, the draws have losses that its transfer did not meet.
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
    elif rate < _EXPLAINED * middle:
        text = (
            "cannot tell, because the capacity is unknown and losses do not explain"
            f" {beside}: the link, the application or a window may have limited the sender"
        )
        how = _MEASURE["capacity"]
    elif answer.verdict == "helps" and middle < _EXPLAINED * rate:
        text = (
            f"cannot tell, because {beside}, is far above what one transfer reaches with such"
            " losses: it was measured with several connections or without TCP, or the lost packets"
            " were not those of the transfer"
        )
        return _open(answer, text, "air_loss", "capture one bulk transfer at the receiver")
    else:
        if answer.verdict == "helps":
            answer.text += "; the capacity is unknown and assumed, but this traffic and the losses"
            answer.text += f" explain {beside}"
        return answer
    return _open(answer, text, "capacity", how)


def _open(answer: Advice, text: str, narrows: str, how: str) -> Advice:
    """The answer as "cannot tell"."""
    candidates = list(dict.fromkeys([BASELINE, *answer.candidates]))
    return replace(
        answer,
        verdict="cannot tell",
        text=text,
        narrows=narrows,
        measurement=how,
        scheme=None,
        candidates=candidates,
    )


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


__all__ = ["BASELINE", "Advice", "Option", "advise", "deployable", "runs_of"]
