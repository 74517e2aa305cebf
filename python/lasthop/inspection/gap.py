"""An interval without in-order delivery."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Transmission:
    """A copy of the missing byte. Times in seconds; `at_s` is the time of `fate`, if known."""

    sent_s: float
    reason: str
    fate: str
    at_s: float | None
    link: str | None


@dataclass(frozen=True)
class Gap:
    """An interval without in-order delivery."""

    start_s: float
    end_s: float
    #: Offset of the byte that the receiver waited for.
    next_byte: int
    #: Key of `stalls.CAUSES`.
    cause: str
    transmissions: tuple[Transmission, ...]
    #: Copies of data that were lost, among those sent since the first copy of the missing byte, by
    #: fate.
    losses: dict[str, int]
    #: Those dropped by a queue that were sent in slow start (cwnd < ssthresh).
    slow_start_drops: int
    #: Queues that dropped them.
    queues: tuple[str, ...]
    #: ACKs that repeat the number of the missing byte and reached the sender before its first
    #: retransmission, and those of them that count as duplicate ACKs (RFC 5681, section 2: the same
    #: window; with SACK: RFC 6675, section 2).
    repeated_acks: int
    duplicate_acks: int
    #: Time of the last reduction before, if the missing byte had been sent by then: NewReno then
    #: starts no further fast retransmit (RFC 6582, section 3.2, step 2).
    covered_by_reduction_s: float | None
    #: Packets of the receiver lost between the first copy of the missing byte and its
    #: retransmission.
    lost_acks: int
    timeouts: int
    #: Segments that timeouts in the gap retransmitted, and those of them that had arrived before.
    timeout_retransmissions: tuple[Transmission, ...]
    timeout_repeats: int
    #: Segments that arrived in the gap: with bytes that the receiver had, or with later ones.
    duplicates_received: int
    beyond_received: int
    srtt_s: float | None
    #: Link on which the copy that ended the gap spent most of it, queueing included, and how long.
    link: str | None = None
    link_s: float | None = None
    #: Outage of a link that overlaps the gap: start and end in seconds.
    outage: tuple[str, float, float] | None = None
    #: True if the gap ends with the run or the connection, not with a delivery.
    open: bool = False
    #: Share of the gap by what limited the sender.
    limits: dict[str, float] = field(default_factory=dict)
