"""Which end of a link a capture was taken at, and which addresses are those of the mobile end."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import numpy as np

from lasthop.errors import InputError
from lasthop.traces.packets import Addresses, Flags, Packets
from lasthop.traces.table import Integers
from lasthop.traces.tcp_flows import Flows

# The capturing host takes part in most packets: in more than any other host by this factor.
_MOST = 1.25
# An end answers its own packets at once: the other one takes longer by at least this factor.
_FARTHER = 4
#: Values of the field TTL of packets that have passed no router (RFC 1700, and Windows).
_FRESH_TTL = (64, 128, 255)
#: Most packets that a one-sided test uses.
_SAMPLE = 200_000


@dataclass
class Ends:
    """The addresses of the mobile end and of the capturing end, by index."""

    addresses: Addresses
    #: Network of the mobile end, if it was given.
    mobile: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    #: Addresses of the capturing end, if no network was given.
    near: frozenset[int]
    #: True if the mobile end captured; with a network only.
    mobile_is_near: bool = True
    #: True if `near` is the other end.
    is_far: bool = False

    def _is_mobile(self) -> Flags:
        if self.mobile is None:
            count = len(self.addresses.texts)
            return np.array([(i in self.near) != self.is_far for i in range(count)], dtype=bool)
        network = self.mobile
        return np.array(
            [
                version == network.version and ipaddress.ip_address(text) in network
                for text, version in zip(self.addresses.texts, self.addresses.versions, strict=True)
            ],
            dtype=bool,
        )

    def of(self, packets: Packets) -> tuple[Flags, Flags]:
        """Which packets are uplink, and which pass between the two ends at all."""
        mobile = self._is_mobile()
        up = mobile[packets.source]
        return up, up != mobile[packets.target]

    def is_sent(self, up: Flags) -> Flags:
        """Which packets the capturing end sent."""
        return up if self.mobile_is_near else ~up


def find(
    packets: Packets,
    addresses: Addresses,
    mobile: str | None,
    where: str,
    hop: tuple[str, ...] = (),
) -> Ends:
    """The ends of a capture by its first packets.

    `hop` has the addresses of the two nodes of a simulated hop, of which an end captured.
    Raises `InputError` if they are not certain, or if `mobile` is no address or network.
    """
    packets = packets.select(np.arange(min(len(packets.seq), _SAMPLE)))
    if mobile is not None:
        try:
            network = ipaddress.ip_network(mobile, strict=False)
        except ValueError:
            raise InputError(
                f"--mobile must be an address or a network such as 10.0.0.0/8, found `{mobile}`"
            ) from None
        ends = Ends(addresses, network, frozenset())
        up, passes = ends.of(packets)
        if not passes.any():
            raise InputError(
                f"{where}: no packet passes between {mobile} and another host; the capture has"
                f" packets of {_listed(packets, addresses)}"
            )
        # Between the ends, the round trip over the last hop is measured from its wired side.
        ends.mobile_is_near = _nearer(packets.select(passes), up[passes]) is True
        return ends
    present = np.union1d(packets.source, packets.target).tolist()
    near = {i for i in present if addresses.texts[i] in hop}
    if len(near) == 1:
        return Ends(addresses, None, frozenset(near))
    near = set()
    for version in (4, 6):
        own = np.array(addresses.versions)[packets.source] == version
        if own.any():
            near.add(_capturing(packets.select(own), addresses, where))
    return Ends(addresses, None, frozenset(near))


def _capturing(packets: Packets, addresses: Addresses, where: str) -> int:
    """The address of the capturing host among packets of one version of IP."""
    order, counts = _by_packets(packets)
    if len(order) == 1 or counts[0] >= _MOST * counts[1]:
        return int(order[0])
    first, second = int(order[0]), int(order[1])
    between = (np.minimum(packets.source, packets.target) == min(first, second)) & (
        np.maximum(packets.source, packets.target) == max(first, second)
    )
    pair = packets.select(between)
    sent = pair.source == first
    nearer = _nearer(pair, sent) if between.any() else None
    if nearer is not None:
        return first if nearer else second
    raise InputError(
        f"{where}: the capture does not say which end it was taken at; say which host is the mobile"
        f" one with --mobile ADDRESS; it has packets of {_listed(packets, addresses)}"
    )


def _by_packets(packets: Packets) -> tuple[Integers, Integers]:
    """The addresses by their number of packets, most first."""
    both = np.bincount(np.concatenate([packets.source, packets.target]))
    order = np.argsort(-both, kind="stable")
    order = order[both[order] > 0]
    return order, both[order]


def _nearer(packets: Packets, sent: Flags) -> bool | None:
    """True if the senders of the packets `sent` captured, False if the others, else `None`."""
    fresh = [
        len(ttl) > 0 and np.isin(ttl, _FRESH_TTL).all()
        for ttl in (packets.ttl[sent], packets.ttl[~sent])
    ]
    if fresh[0] != fresh[1]:
        return bool(fresh[0])
    least: list[int | None] = []
    for side in (sent, ~sent):
        tcp = packets.is_tcp
        found = Flows().analyse(packets.select(tcp), side[tcp]).rtt_ns
        least.append(int(found.min()) if len(found) else None)
    own, other = least
    if own is None or other is None or max(own, other) < _FARTHER * min(own, other):
        return None
    return own > other


def _listed(packets: Packets, addresses: Addresses) -> str:
    order, _ = _by_packets(packets)
    shown = ", ".join(addresses.texts[i] for i in order[:4].tolist())
    return shown + (f" and {len(order) - 4} more" if len(order) > 4 else "")


__all__ = ["Ends", "find"]
