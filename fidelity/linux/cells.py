"""The cells of the comparison with Linux, read from cells.toml, and the scenario of each."""

from __future__ import annotations

import itertools
import json
import math
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop import _native

FILE = Path(__file__).with_name("cells.toml")
#: Keys of a block that are no factors.
ABOUT = ("name", "measure", "cells", "n", "longest")
#: The factors, in the order of a cell's name.
FACTORS = (
    "rate",
    "rtt",
    "queue",
    "loss",
    "reordering",
    "size",
    "think",
    "upload",
    "ipv6",
    "ecn",
    "sender",
    "scheme",
)
#: What is compared: goodput, percentiles of the completion time, or response times.
MEASURES = ("goodput", "percentiles", "responses")
#: Responses of a connection.
RESPONSES = 20
#: Roughly the seconds until a live link has started and ended.
STARTS_IN_S = 0.5
#: Of the simulation of a transfer, and of a connection with responses.
DURATION_S = (900, 200)
#: Bytes of a full packet, and of the payload of a segment with timestamps over IPv4.
PACKET, SEGMENT = 1500, 1448
#: An IPv6 header has 20 bytes more.
IPV6_EXTRA = 20
#: One-way delay of the radio link where segments overtake each other.
REORDERING_DELAY_S = 0.01
DEFAULTS = {"loss": "0 %", "upload": False, "ipv6": False, "ecn": False, "scheme": "none"}


@dataclass(frozen=True)
class Cell:
    """Transfers of one kind over one path."""

    block: str
    measure: str
    #: Number of transfers.
    n: int
    #: Bytes of a transfer or response.
    size: int
    factors: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The factors in words; stored transfers have it."""
        words = [_word(f, self.factors[f]) for f in FACTORS if f in self.factors and f != "size"]
        shown = f"{self.size // 1000} kB" if self.size % 1000 == 0 else f"{self.size} B"
        return ", ".join(word for word in [*words, shown] if word)

    @property
    def sender(self) -> str:
        """The congestion control."""
        return str(self.factors["sender"])

    @property
    def scheme(self) -> str:
        """A scheme with an agent, or "none"."""
        return str(self.factors["scheme"])

    @property
    def upload(self) -> bool:
        """True if the mobile sends."""
        return bool(self.factors["upload"])

    @property
    def segment(self) -> int:
        """Payload of a full segment, bytes."""
        return SEGMENT - (IPV6_EXTRA if self.factors["ipv6"] else 0)

    def scenario(self) -> str:
        """The scenario with one flow."""
        text = f"duration = '{DURATION_S[self.measure == 'responses']} s'\n" + self._links()
        ends = ("phone", "server") if self.upload else ("server", "phone")
        text += "[[flow]]\nfrom = '{}'\nto = '{}'\n".format(*ends)
        text += f"app = {self._app()}\n"
        if self.factors["ipv6"]:
            text += f"segment = '{self.segment} B'\nheaders = '{40 + IPV6_EXTRA} B'\n"
        return text + ("[tcp]\necn = true\n" if self.factors["ecn"] else "")

    @property
    def expected_s(self) -> float:
        """Seconds that a transfer takes, roughly: for the time that is left of a run."""
        carried = self.size / largest(self.factors, 1.0) + 4 * _parsed(self.factors["rtt"])
        if self.measure == "responses":
            return RESPONSES * (carried + _parsed(self.factors["think"]))
        return carried + STARTS_IN_S

    def _app(self) -> str:
        if self.measure == "responses":
            think = self.factors["think"]
            return f"{{ kind = 'requests', response = '{self.size} B', think = '{think}' }}"
        return f"{{ kind = 'transfer', size = '{self.size} B' }}"

    def _links(self) -> str:
        """The last hop; both links, if segments overtake each other on the radio link."""
        rate, rtt, loss = (self.factors[key] for key in ("rate", "rtt", "loss"))
        queue = toml(self.factors["queue"])
        if "reordering" not in self.factors:
            return f"[last_hop]\nrate = '{rate}'\nrtt = '{rtt}'\nloss = '{loss}'\nqueue = {queue}\n"
        radio = f"{REORDERING_DELAY_S} s"
        wired = f"{_parsed(rtt) / 2 - REORDERING_DELAY_S:.6f} s"
        mean = self.factors["reordering"]
        delay = f"{{ kind = 'exponential', min = '{radio}', mean = '{mean}' }}"
        return (
            f"[[link]]\nbetween = ['server', 'bs']\nrate = '1 Gbps'\ndelay = '{wired}'\n"
            "queue = '1000 packets'\n[[link]]\nname = 'radio'\nradio = true\n"
            f"between = ['bs', 'phone']\nrate = '{rate}'\ndelay = '{radio}'\nqueue = {queue}\n"
            f"forward.delay = {{ distribution = {delay} }}\n"
        )


def read(file: Path = FILE) -> list[Cell]:
    """The cells of a file, in its order."""
    text = tomllib.loads(file.read_text(encoding="utf-8"))
    found = [
        cell
        for block in text["block"]
        for cell in _block(
            {"longest": text["longest"]} | block, text["draw"], text["shortest_queue"]
        )
    ]
    names = [cell.name for cell in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two blocks have the cell `{twice[0]}`")
    return found


def _block(block: Mapping[str, Any], draw: int, packets: int) -> Iterator[Cell]:
    levels = {key: block[key] for key in block if key not in ABOUT}
    if unknown := sorted(levels.keys() - set(FACTORS)):
        raise ValueError(f"block `{block['name']}`: unknown factor `{unknown[0]}`")
    measure = block.get("measure", MEASURES[0])
    if measure not in MEASURES:
        raise ValueError(f"block `{block['name']}`: unknown measure `{measure}`")
    product = [dict(zip(levels, row, strict=True)) for row in itertools.product(*levels.values())]
    count = block.get("cells", len(product))
    rows = product if count == len(product) else fraction(levels, count, f"{draw} {block['name']}")
    for row in rows:
        factors: dict[str, Any] = DEFAULTS | row
        most = largest(factors, seconds(block["longest"]))
        size = min(octets(factors["size"]), max(1000, int(most) // 1000 * 1000))
        factors["queue"] = in_packets(factors, packets)
        yield Cell(block["name"], measure, block["n"], size, factors)


def fraction(levels: Mapping[str, list[Any]], count: int, draw: str) -> list[dict[str, Any]]:
    """`count` different rows of the product, with each level of a factor equally often (± 1)."""
    rng = random.Random(draw)
    for _ in range(1000):
        columns = []
        for values in levels.values():
            order = rng.sample(values, len(values))
            column = [order[i % len(order)] for i in range(count)]
            rng.shuffle(column)
            columns.append(column)
        rows = [dict(zip(levels, row, strict=True)) for row in zip(*columns, strict=True)]
        if len({json.dumps(row) for row in rows}) == count:
            return rows
    raise ValueError(f"no {count} different cells")


def largest(factors: Mapping[str, Any], longest: float) -> float:
    """Bytes that the link, or Reno with random losses (Mathis et al.), carries in this time; BBR
    does not slow down for losses.
    """
    loss = _parsed(factors["loss"])
    bps = _parsed(factors["rate"])
    if loss > 0 and factors["sender"] != "bbr":
        bps = min(bps, 8 * SEGMENT / _parsed(factors["rtt"]) * math.sqrt(1.5 / loss))
    return bps * longest / 8


def in_packets(factors: Mapping[str, Any], least: int) -> Any:
    """The queue; in packets if it is given in BDP."""
    queue = factors["queue"]
    if not (isinstance(queue, str) and queue.endswith("BDP")):
        return queue
    bdp = _parsed(factors["rate"]) * _parsed(factors["rtt"]) / 8 / PACKET
    return f"{max(least, round(float(queue.split()[0]) * bdp))} packets"


def seconds(text: str) -> float:
    """A time."""
    return _parsed(text)


def octets(text: str) -> int:
    """A size."""
    return round(_parsed(text))


def _parsed(text: str) -> float:
    if text.endswith("%"):
        return float(text.removesuffix("%")) / 100
    found = _native.quantity(text)
    if found is None:
        raise ValueError(f"no quantity: `{text}`")
    return float(found[3])


def _word(factor: str, value: Any) -> str:
    """A level in words; empty for a default that needs none."""
    if factor in ("upload", "ipv6", "ecn"):
        return {"upload": "upload", "ipv6": "IPv6", "ecn": "ECN"}[factor] if value else ""
    if factor == "queue":
        return f"queue {value if isinstance(value, str) else _table(value)}"
    if value == DEFAULTS.get(factor):
        return ""
    forms = {
        "rtt": "RTT {}",
        "loss": "loss {}",
        "reordering": "random delay {}",
        "think": "think time {}",
    }
    return forms.get(factor, "{}").format(str(value).replace("Mbps", "Mbit/s"))


def _table(value: Mapping[str, Any]) -> str:
    return str(value["discipline"]) + (" that marks" if value.get("ecn") else "")


def toml(value: Any) -> str:
    """A string, or a table with strings and booleans, as TOML."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml(v)}" for key, v in value.items()) + " }"
    return json.dumps(value)
