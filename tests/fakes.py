"""Fake scenarios without a simulator: metrics are simple functions of scheme, setting and seed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lasthop import _native
from lasthop.errors import InputError, Interrupted
from lasthop.experiments.plan import Scheme, Source

#: A spread of times.
SPREAD = {"mean": 0.1, "p50": 0.1, "p95": 0.2, "p99": 0.3}


def _flow_json(goodput: float, scheme: str) -> dict[str, Any]:
    count = {"total": 4, "spurious": 1}
    return {
        "id": "flow 1",
        "group": "flow 1",
        "role": "candidate",
        "app": "bulk",
        "from": "server",
        "to": "phone",
        "scheme": scheme,
        "slots": f"window {scheme}",
        "goodput_bps": goodput,
        "delivered_bytes": round(goodput * 10),
        "completed_s": None,
        "sent_segments": 100,
        "retransmissions": count,
        "timeouts": {**count, "ack_loss": 0},
        "fast_retransmits": count,
        "cwnd_reductions": 5,
        "rtt_s": SPREAD,
        "one_way_delay_s": SPREAD,
    }


def run_json(goodput: float, scheme: str = "reno", seed: int = 1) -> dict[str, Any]:
    """The JSON of a run with one flow over one radio link."""
    counts = {
        "offered_frames": 100,
        "delivered_frames": 99,
        "lost_on_air": 1,
        "dropped_at_queue": 0,
        "marked_frames": 0,
    }
    used = {"utilisation": 0.5, "busy_s": 2.0}
    links = [
        {
            "from": a,
            "to": b,
            "radio": True,
            "capacity_bps": 2e6,
            "queue_delay_s": SPREAD,
            **counts,
            **used,
        }
        for a, b in (("phone", "bs"), ("bs", "phone"))
    ]
    return {
        "lasthop": "0",
        "scenario": "fake",
        "scheme": scheme,
        "seed": seed,
        "duration_s": 80.0,
        "measured_s": 80.0,
        "warnings": [],
        "flows": [_flow_json(goodput, scheme)],
        "links": links,
        "traffic_bits": {
            **dict.fromkeys(("before", "injected", "duplicates", "acks", "control"), 0),
            **dict.fromkeys(("queue_drops", "at_agents", "in_flight"), 0),
            **{"offered": 4000, "data": 2000, "bit_errors": 400, "collisions": 200},
        },
        "agents": [{"node": "bs", "scheme": scheme, "counters": {"kept_back": 3}}],
        "classifier": None,
    }


def classified(*flows: tuple[int, int, int, int, int, int]) -> dict[str, Any]:
    """`classifier` of a run.

    Per flow: wireless losses classified as wireless and as congestion, then the same for congestion
    losses and for segments not lost.
    """
    rows = []
    for i, (a, b, c, d, e, f) in enumerate(flows, 1):
        matrix = {
            "wireless": {"wireless": a, "congestion": b},
            "congestion": {"wireless": c, "congestion": d},
            "not_lost": {"wireless": e, "congestion": f},
        }
        losses = a + b + c + d
        rows.append(
            {
                "id": f"flow {i}",
                "scheme": "veno",
                "matrix": matrix,
                "accuracy": (a + d) / losses if losses else None,
            }
        )
    return {"flows": rows}


#: Family and group -> names of schemes.
SECTIONS = {
    ("end-to-end", "loss-recovery"): "tahoe reno newreno sack fack rack",
    ("end-to-end", "spurious-loss"): "eifel f-rto ncr dcr",
    (
        "end-to-end",
        "bandwidth-estimation",
    ): "westwood westwood+ tibet jersey ideal-bwe tcp-real wtcp",
    (
        "end-to-end",
        "loss-discrimination",
    ): "vegas veno newreno-ff santa-cruz jtcp casablanca noor-aer noor-eaer",
    ("end-to-end", "explicit-notification"): "esack",
    ("end-to-end", "today"): "cubic bbr bbr3",
    ("link-layer", None): "packet-control snoop balakrishnan-eln ll-elsn",
    ("split", None): "i-tcp",
}
CATALOGUE = {name: section for section, names in SECTIONS.items() for name in names.split()}


class FakeScenario:
    """Goodput: (1000 + 100 per character of the label + seed) times the setting `gain`."""

    title = "fake"
    # Blocks of one run: tests interrupt between runs.
    estimated_frames = 1_000_000
    assumed: tuple[str, ...] = ()
    bounds: tuple[dict[str, str], ...] = ()
    groups: tuple[tuple[str, int], ...] = (("flow 1", 1),)
    group_roles: tuple[tuple[str, str, str], ...] = (("flow 1", "candidate", "reno"),)
    has_users = False
    inputs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    random_starts: str | None = None
    draws_processing_times = False

    def __init__(
        self,
        source: Source,
        scheme: Scheme | None,
        random: bool,
        before: Callable[[str, int], None],
    ) -> None:
        self.label = (
            scheme if isinstance(scheme, str) else "none" if scheme is None else scheme.__name__
        )
        self.of_class = [scheme] if isinstance(scheme, type) else []
        self.settings = dict(source.settings)
        self.random = random
        self.before = before
        self.done: list[int] = []
        if self.label == "wrong":
            raise InputError("there is no scheme `wrong`")

    @property
    def classes(self) -> list[Any]:
        return self.of_class

    def without_candidates(self) -> None:
        return None

    def fingerprint(self) -> int:
        return 0

    def counters(self) -> list[tuple[str, list[str]]]:
        return []

    @property
    def filled(self) -> str:
        return f'duration = "10 s"\n# {self.label} {sorted(self.settings.items())}\n'

    @property
    def scheme(self) -> dict[str, Any]:
        family, group = CATALOGUE.get(self.label.split(":")[0], (None, None))
        return {
            "label": self.label,
            "name": self.label,
            "settings": {},
            "family": family,
            "group": group,
        }

    @property
    def slots(self) -> list[str]:
        return [f"window {self.label}"]

    def run(self, seed: int, cancel: Any = None) -> _native.Run:
        self.before(self.label, seed)
        if cancel is not None and cancel.cancelled.is_set():
            raise Interrupted
        self.done.append(seed)
        goodput = (1000.0 + 100 * len(self.label) + (seed if self.random else 0)) * float(
            self.settings.get("gain", "1")
        )
        return _native.Run.from_json(json.dumps(run_json(goodput, self.label, seed)))

    def run_many(
        self, seeds: list[int], names: list[str], alone: Any = None, cancel: Any = None
    ) -> NDArray[np.float64]:
        rows: list[list[float | None]] = []
        for seed in seeds:
            try:
                rows.append(self.run(seed, cancel).metrics(names))
            except Interrupted:
                break
        return np.array(rows, dtype=float).reshape(len(rows), len(names))


class FakeCancel:
    """A token that records its cancellation."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()


#: Whether a scenario is random, or a function that decides.
Randomness = bool | Callable[[Source, Scheme | None], bool]


class FakeLoader:
    """Creates fake scenarios and counts their runs."""

    def __init__(
        self,
        random: Randomness = True,
        before: Callable[[str, int], None] = lambda *_: None,
        assumed: Callable[[Scheme | None], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self.random = random
        self.before = before
        self.assumed = assumed
        self.made: list[FakeScenario] = []

    def __call__(self, source: Source, scheme: Scheme | None) -> Any:
        random = self.random if isinstance(self.random, bool) else self.random(source, scheme)
        self.made.append(FakeScenario(source, scheme, random, self.before))
        self.made[-1].assumed = self.assumed(scheme)
        return self.made[-1]

    @property
    def runs(self) -> int:
        return sum(len(s.done) for s in self.made)
