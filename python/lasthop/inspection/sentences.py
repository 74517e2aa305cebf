"""The cause of a stall as a sentence in the terms of the RFCs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from lasthop.inspection.gap import Gap
from lasthop.inspection.record import Connection

#: Duplicate ACKs that start a fast retransmit (RFC 5681, section 3.2).
DUPACK_THRESHOLD: Final = 3
#: A time at a link that a sentence names is longer than twice this, seconds.
QUEUED_S: Final = 0.05
#: Kind of loss detection -> name and specification of the repair.
RECOVERIES: Final = {
    "tahoe": ("Tahoe", "RFC 5681"),
    "reno": ("Reno", "RFC 5681, section 3.2"),
    "newreno": ("NewReno", "RFC 6582"),
    "sack": ("SACK recovery", "RFC 6675"),
    "sack-ns2": ("SACK recovery", "RFC 6675"),
    "rack": ("RACK", "RFC 8985"),
}
#: Fates of lost copies in sentences: singular, plural.
LOSS_WORDS: Final = {
    "dropped at the queue": "dropped by the queue of {}",
    "lost on the air": "lost on the air",
    "lost in a collision": "lost in collisions",
    "lost in an outage": "lost in a link outage",
    "lost to bit errors": "lost to bit errors",
    "suppressed by an agent": "suppressed by an agent",
    "discarded by the receiver": "discarded by the receiver",
}


def duration(seconds: float) -> str:
    """A duration with three digits: "1.12 s", "40.0 ms"."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def count(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def of_stall(gaps: Sequence[Gap], cause: str, connection: Connection) -> str:
    """Time, cause and consequence of a stall."""
    mine = [g for g in gaps if g.cause == cause]
    text = SENTENCES[cause](mine, connection)
    others = Counter(g.cause for g in gaps if g.cause != cause)
    if others:
        rest = ", ".join(f"{c.replace('-', ' ')} ({count(n, 'gap')})" for c, n in others.items())
        text += f"; also: {rest}"
    return f"{gaps[0].start_s:.3f} s: {text}."


def losses(gap: Gap) -> str:
    """What was lost since the first copy of the missing byte: "41 segments dropped by …"."""
    parts = []
    for fate, number in gap.losses.items():
        words = LOSS_WORDS[fate].format(" and ".join(gap.queues))
        part = f"{count(number, 'segment')} {words}"
        if fate == "dropped at the queue" and gap.slow_start_drops:
            all_of = gap.slow_start_drops == number
            part += (
                ", an overshoot of slow start (RFC 5681, section 3.1)"
                if all_of
                else f", {gap.slow_start_drops} of them sent in slow start"
            )
        parts.append(part)
    return " and ".join(parts) if parts else "no segment lost"


def _recovery(connection: Connection) -> tuple[str, str]:
    kind = connection.record.recovery.split("+")[0]
    return RECOVERIES.get(kind, (kind or "loss recovery", ""))


def _cite(source: str) -> str:
    return f" ({source})" if source else ""


def _largest(gaps: Sequence[Gap]) -> Gap:
    return max(gaps, key=lambda g: (sum(g.losses.values()), g.end_s - g.start_s))


def _timeout(gaps: Sequence[Gap], connection: Connection) -> str:
    gap = _largest(gaps)
    timeouts = sum(g.timeouts for g in gaps)
    if timeouts == 0:
        return (
            f"{losses(gap)}; after the timeout before (RFC 6298), the missing segments were"
            " retransmitted as cwnd opened"
        )
    why = _why_timeout(gap, connection)
    if timeouts == 1:
        return f"{losses(gap)}; {why}, so that the sender waited {_waited(gap)}"
    sent = [t for g in gaps for t in g.timeout_retransmissions]
    lost = sum(t.fate.startswith(("lost", "dropped")) for t in sent)
    repeats = sum(g.timeout_repeats for g in gaps)
    text = (
        f"{losses(gap)}; {why}; {timeouts} retransmission timeouts with exponential back-off (RFC"
        f" 6298, section 5.5)"
    )
    if lost:
        text += f", {lost} of these retransmissions lost"
    if repeats:
        text += f", {repeats} of a segment that had arrived and whose ACK was lost"
    after = [t for t in sent if gap.outage is not None and t.sent_s > gap.outage[2]]
    if gap.outage is not None and after:
        text += (
            f"; the outage of {gap.outage[0]} ended at {gap.outage[2]:.3f} s, the next timeout"
            f" came {duration(after[0].sent_s - gap.outage[2])} later"
        )
    return text


def _waited(gap: Gap) -> str:
    """The wait for the retransmission timer, from the last copy before the timeout."""
    later = [t.sent_s for t in gap.transmissions if t.reason == "timeout"]
    before = [t.sent_s for t in gap.transmissions if later and t.sent_s < later[0]]
    if not before:
        return "for its retransmission timer (RFC 6298)"
    return (
        f"for its retransmission timer (RFC 6298), which expired {duration(later[0] - before[-1])}"
        " after the last transmission of the segment"
    )


def _why_timeout(gap: Gap, connection: Connection) -> str:
    lost_again = [
        t
        for t in gap.transmissions[1:]
        if t.reason != "timeout" and t.fate.startswith(("lost", "dropped"))
    ]
    if lost_again:
        return (
            f"the retransmission at {lost_again[0].sent_s:.3f} s was lost as well"
            f" ({lost_again[0].fate})"
        )
    acks = f"; {count(gap.lost_acks, 'ACK')} lost" if gap.lost_acks else ""
    reached = f"{count(gap.duplicate_acks, 'duplicate ACK')} reached the sender{acks}"
    if gap.duplicate_acks < DUPACK_THRESHOLD <= gap.repeated_acks:
        return (
            f"{gap.repeated_acks} ACKs repeated its number, but only {gap.duplicate_acks} of them"
            " were duplicate ACKs, because the others changed the receive window (RFC 5681,"
            f" section 2){acks}"
        )
    if gap.duplicate_acks < DUPACK_THRESHOLD:
        return f"{reached}, fewer than the 3 of a fast retransmit (RFC 5681, section 3.2)"
    name, _ = _recovery(connection)
    if gap.covered_by_reduction_s is not None and name == "NewReno":
        return (
            f"{reached}, but the segment had been sent before the reduction at"
            f" {gap.covered_by_reduction_s:.3f} s, and NewReno starts no second fast retransmit for"
            " that window (RFC 6582, section 3.2)"
        )
    return f"{reached}, but {name} sent the segment only at the timeout; the events do not show why"


def _fast_recovery(gaps: Sequence[Gap], connection: Connection) -> str:
    gap = _largest(gaps)
    name, source = _recovery(connection)
    if name == "NewReno" and len(gaps) > 1:
        span = duration(gaps[-1].end_s - gaps[0].start_s)
        longest = duration(max(g.end_s - g.start_s for g in gaps))
        how = (
            "NewReno retransmits one segment per round trip (RFC 6582, section 3.2):"
            f" {len(gaps)} gaps of up to {longest} in {span}"
        )
    else:
        how = _repair(gap, name, source)
    timeouts = sum(g.timeouts for g in gaps)
    if timeouts:
        how += f"; {count(timeouts, 'timeout')} in between"
    again = [t for t in gap.transmissions[1:] if t.fate.startswith(("lost", "dropped"))]
    if again:
        how += f"; the retransmission at {again[0].sent_s:.3f} s was lost as well"
    return f"{losses(gap)}; {how}"


def _repair(gap: Gap, name: str, source: str) -> str:
    """How a single gap was repaired."""
    if len(gap.transmissions) < 2:
        return f"repaired by {name}{_cite(source)}"
    first, last = gap.transmissions[0], gap.transmissions[-1]
    arrived = f"it arrived {duration(gap.end_s - last.sent_s)} later"
    if gap.link is not None and gap.link_s is not None and gap.link_s > 2 * QUEUED_S:
        arrived += (
            f" ({duration(gap.link_s)} of the stall in the queue of {gap.link} or on that link)"
        )
    evidence = (
        f", after {count(gap.duplicate_acks, 'duplicate ACK')}" if gap.duplicate_acks > 0 else ""
    )
    return (
        f"{name}{_cite(source)} retransmitted the missing one"
        f" {duration(last.sent_s - first.sent_s)} after its first transmission{evidence}; {arrived}"
    )


def _probe(gaps: Sequence[Gap], _: Connection) -> str:
    gap = _largest(gaps)
    return f"{losses(gap)}; repaired by a tail loss probe (RFC 8985, section 7)"


def _notice(gaps: Sequence[Gap], _: Connection) -> str:
    return f"{losses(_largest(gaps))}; retransmitted after an explicit loss notification"


def _agent(gaps: Sequence[Gap], _: Connection) -> str:
    return f"{losses(_largest(gaps))}; an agent on the path retransmitted the segment"


def _ack_loss(gaps: Sequence[Gap], _: Connection) -> str:
    gap = max(gaps, key=lambda g: g.end_s - g.start_s)
    text = (
        "all data had arrived, and the ACKs that the sender waited for were lost"
        f" ({count(gap.lost_acks, 'ACK')}"
    )
    if gap.outage is not None:
        text += f"; outage of {gap.outage[0]} from {gap.outage[1]:.3f} s to {gap.outage[2]:.3f} s"
    return f"{text}); the sender waited for its retransmission timer (RFC 6298)"


def _outage(gaps: Sequence[Gap], _: Connection) -> str:
    gap = max(gaps, key=lambda g: g.end_s - g.start_s)
    where, start, end = gap.outage or (gap.link, gap.start_s, gap.end_s)
    lost = f"; {losses(gap)}" if gap.losses else "; no segment lost"
    return f"outage of {where} from {start:.3f} s to {end:.3f} s held the frames{lost}"


def _link(what: str) -> Callable[[Sequence[Gap], Connection], str]:
    def text(gaps: Sequence[Gap], _: Connection) -> str:
        gap = max(gaps, key=lambda g: g.link_s or 0.0)
        if gap.link is None or gap.link_s is None:
            return what.format("a link", duration(gap.end_s - gap.start_s))
        text = what.format(gap.link, duration(gap.link_s))
        if gap.duplicates_received:
            had = count(gap.duplicates_received, "segment")
            text += f", while {had} arrived that the receiver already had"
        elif gap.beyond_received:
            later = count(gap.beyond_received, "later segment")
            text += f", and {later} overtook it"
        return text

    return text


def _sender(what: str) -> Callable[[Sequence[Gap], Connection], str]:
    def text(gaps: Sequence[Gap], _: Connection) -> str:
        return f"{what} for {duration(sum(g.end_s - g.start_s for g in gaps))}"

    return text


def _cwnd(gaps: Sequence[Gap], connection: Connection) -> str:
    gap = max(gaps, key=lambda g: g.end_s - g.start_s)
    states = connection.states
    i = max(states.at(gap.start_s), 0)
    return (
        f"the next segment waited for the congestion window: cwnd {states.cwnd[i] / 1e3:.4g} kB,"
        f" {states.flight[i] / 1e3:.4g} kB in flight, until ACKs arrived"
        + (f"; {count(gap.lost_acks, 'ACK')} lost" if gap.lost_acks else "")
    )


def _not_repaired(gaps: Sequence[Gap], _: Connection) -> str:
    gap = gaps[-1]
    tried = len(gap.transmissions) - 1
    again = f" after {count(tried, 'retransmission')}" if tried else ""
    return f"{losses(gap)}; the run ended before the missing segment was delivered{again}"


def _handshake(gaps: Sequence[Gap], _: Connection) -> str:
    span = duration(sum(g.end_s - g.start_s for g in gaps))
    return f"the handshake was not complete for {span} (RFC 9293, section 3.5)"


def _undecided(gaps: Sequence[Gap], _: Connection) -> str:
    span = duration(sum(g.end_s - g.start_s for g in gaps))
    return f"no in-order delivery for {span}; the recorded events do not decide the cause"


SENTENCES: Final[dict[str, Callable[[Sequence[Gap], Connection], str]]] = {
    "timeout": _timeout,
    "fast-recovery": _fast_recovery,
    "tail-loss-probe": _probe,
    "link-layer-notice": _notice,
    "agent": _agent,
    "ack-loss": _ack_loss,
    "link-outage": _outage,
    "link-retransmission": _link(
        "the link layer of {} retransmitted the segment; it took {} over that link"
    ),
    "link-delay": _link(
        "no loss of the missing segment: it was in the queue of {} or on that link for {}"
    ),
    "receive-window": _sender(
        "the receive window was full (RFC 9293, section 3.8.6), the sender waited"
    ),
    "application": _sender("the application gave the sender no data"),
    "pacing": _sender("the pacing rate held back the next segment"),
    "cwnd": _cwnd,
    "handshake": _handshake,
    "frozen": _sender("a notice of a link outage froze the sender"),
    "not-repaired": _not_repaired,
    "undecided": _undecided,
}

__all__ = ["SENTENCES", "count", "duration", "losses", "of_stall"]
