"""Whether packets are lost on the air independently, or in bursts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import erfc, log, sqrt

import numpy as np

from lasthop.traces.fit.bursts import burst_sizes, clustering
from lasthop.traces.fit.estimate import Estimate, share_interval
from lasthop.traces.fit.observed import Observed
from lasthop.traces.packets import Flags
from lasthop.traces.table import Integers

# p below which bursts are accepted, losses needed for the test, most packets that are used.
_ACCEPTED_P, _LEAST_LOSSES, _MOST = 0.01, 10, 5_000_000
# Packets of a row with losses, above which their order in the row matters too much.
_LONGEST_ROW = 50.0


@dataclass(frozen=True)
class LossProcess:
    """Independent losses, or the two-state chain (Gilbert 1960: each packet of "bad" is lost)."""

    is_bursty: bool
    good_to_good: Estimate | None
    bad_to_bad: Estimate | None
    #: p of independence by the likelihood ratio; `None` if it was not tested.
    p: float | None
    text: str
    #: Losses, those that are known to follow one another counted once.
    events: int = 0
    #: Variance of the number of losses over that of independent ones (Kish's design effect).
    effect: float = 1.0


def find(seen: Observed, is_air: Flags, seed: int = 1) -> LossProcess:
    """Compare independence with a first-order Markov chain of lost and delivered packets.

    Twice the log-likelihood ratio is chi-square distributed with 1 degree of freedom under
    independence (Anderson and Goodman 1957). What a receiver saw is a hole, whose packets follow
    one another. Otherwise the order of the packets within a row (a millisecond of a capture) is
    not known: for the test it is drawn, and the intervals reach from this order to that with as
    few bursts as possible.
    """
    if (seen.lost[is_air] % 1 > 0).any():
        # A reader of shares has weighted the rows by their spread.
        text = "uniform assumed: losses are given as shares, without their order"
        return _untested(text, round(float(seen.lost[is_air].sum())))
    sent = np.round(seen.sent[is_air]).astype(np.int64)
    lost = np.minimum(np.round(seen.lost[is_air]).astype(np.int64), sent)
    if not lost.any():
        return _untested("uniform assumed: no losses", 0)
    if float(np.median(sent[lost > 0])) > _LONGEST_ROW or sent.sum() > _MOST:
        text = "uniform assumed: losses are counted by interval, without their order"
        return _untested(text, int(lost.sum()), _dispersion(sent, lost))
    chain = _clustered(sent, lost, seen.has_holes)
    sizes = burst_sizes(chain.astype(float))
    together = _transitions(chain)
    effect = clustering(sizes)
    if lost.sum() < _LEAST_LOSSES:
        text = f"uniform assumed: {int(lost.sum())} losses are too few for a test"
        return _untested(text, len(sizes), effect)
    rng = np.random.default_rng(seed)
    bb, bg, gb, gg = together if seen.has_holes else _transitions(_drawn(sent, lost, rng))
    ratio = _log(bb, bg) + _log(gb, gg) - _log(bb + gb, bg + gg)
    p = erfc(sqrt(max(ratio, 0.0)))
    if p > _ACCEPTED_P or bb * (gb + gg) <= gb * (bb + bg):
        text = f"uniform (likelihood ratio against two states: p = {p:.2g})"
        return LossProcess(False, None, None, p, text, len(sizes))
    how = "transitions between lost and delivered packets; Wilson"
    return LossProcess(
        True,
        _transition("good_to_good", (gg, gb), (together[3], together[2]), how),
        _transition("bad_to_bad", (bb, bg), (together[0], together[1]), how),
        p,
        f"bursts: two states (likelihood ratio against independence: p = {p:.2g})",
        len(sizes),
        effect,
    )


def _untested(text: str, events: int, effect: float = 1.0) -> LossProcess:
    return LossProcess(False, None, None, None, text, events, effect)


def _dispersion(sent: Integers, lost: Integers) -> float:
    """Variance of the losses of the rows over that of independent ones (Pearson's statistic over
    its degrees of freedom; McCullagh and Nelder 1989, section 4.5); at least 1.
    """
    rows = sent > 0
    share, degrees = float(lost.sum()) / float(sent.sum()), int(rows.sum()) - 1
    if degrees < 1 or share >= 1:
        return 1.0
    squares = (lost[rows] - share * sent[rows]) ** 2 / (share * (1 - share) * sent[rows])
    return max(float(squares.sum()) / degrees, 1.0)


def _transitions(chain: Flags) -> tuple[int, int, int, int]:
    """How often a lost packet follows a lost one, a delivered a lost one, and so on."""
    now, then = chain[:-1], chain[1:]
    bad, good = (now & then, now & ~then), (~now & then, ~now & ~then)
    return int(bad[0].sum()), int(bad[1].sum()), int(good[0].sum()), int(good[1].sum())


def _drawn(sent: Integers, lost: Integers, rng: np.random.Generator) -> Flags:
    """One value per packet: whether it was lost; in a random order within each row."""
    chain = np.zeros(int(sent.sum()), dtype=bool)
    starts = np.cumsum(sent) - sent
    for row in np.flatnonzero(lost).tolist():
        places = rng.choice(int(sent[row]), size=int(lost[row]), replace=False)
        chain[starts[row] + places] = True
    return chain


def _clustered(sent: Integers, lost: Integers, has_holes: bool) -> Flags:
    """The same with the losses of a row together: first in it, or last before a row that starts
    with a loss and after one that ended without.
    """
    chain = np.zeros(int(sent.sum()), dtype=bool)
    ends = np.cumsum(sent)
    rows = np.flatnonzero(lost).tolist()
    follows = dict(pairwise(rows))
    for row in rows:
        start, end = int(ends[row] - sent[row]), int(ends[row])
        before = start > 0 and chain[start - 1]
        is_last = not has_holes and not before and follows.get(row) == row + 1
        first = end - int(lost[row]) if is_last else start
        chain[first : first + int(lost[row])] = True
    return chain


def _log(a: int, b: int) -> float:
    """Log-likelihood of a binary sample at its own share."""
    return sum(k * log(k / (a + b)) for k in (a, b) if k)


def _transition(name: str, drawn: tuple[int, int], together: tuple[int, int], how: str) -> Estimate:
    """A probability with the counts (stays, leaves) of both orders within rows."""
    n = sum(together)
    bounds = [b for c in (drawn, together) for b in share_interval(c[0], sum(c))]
    value = (drawn[0] / sum(drawn) + together[0] / n) / 2
    return Estimate(name, "share", value, min(bounds), max(bounds), n, "packets", how)


__all__ = ["LossProcess", "find"]
