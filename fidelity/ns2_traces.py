"""Recovery traces of ns-2.35, compared with lasthop segment by segment and ACK by ACK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from fidelity.references import ROOT, ns2_rows
from lasthop import _native

FIXTURES = ROOT / "crates/lasthop-sim/tests/fixtures/ns2"
#: Folders with settings or agents that the tables' scenarios do not have; tests/sim/ns2_exact.rs
#: and tests/sim/ns2_snoop.rs run them.
OTHER_FIXTURES = {"snoop", "2.26", "tcpVariants"}
#: Depends on the random phase of ns-2's clock.
NOT_EXACT = {"rtotick"}

TRACE = """
duration = "2000 s"
[[link]]
between = ["fh", "bs"]
rate = "{wired_rate}"
forward.delay = {{ base = "{wired_delay}", scripted = {{ data = {late} }} }}
backward.delay = "{wired_delay}"
queue = "999 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{hop_rate}"
delay = "{hop_delay}"
queue = "999 packets"
forward.loss = {{ model = "scripted", data = {data} }}
backward.loss = {{ model = "scripted", acks = {acks} }}
[[flow]]
from = "fh"
to = "mh"
app = {{ kind = "transfer", size = "{bytes} B" }}
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
initial_ssthresh = "{initial_ssthresh} segments"
min_rto = "{minrto_s} s"
clock_granularity = "{tick_s} s"
dupack_threshold = {dupthresh}
limited_transmit = {limited_transmit}
timestamps = {timestamps}
guard_after_rto = {bugfix}
guard_ack_heuristic = {ack_heuristic}
guard_timestamp_heuristic = {bugfix_ts}
timestamp_ends_backoff = {reset_rto}
delayed_ack = {delayed_ack}
"""


#: ns-2's variants, and the schemes that are the same.
SCHEMES = {
    "Tahoe": "tahoe",
    "Reno": "reno",
    "Newreno": "newreno",
    "Sack1": "sack",
    "Vegas": "vegas",
    "Fack": "fack",
}
EXACT = ("Tahoe", "Reno", "Newreno", "Sack1")


def exact(variants: tuple[str, ...] = EXACT) -> tuple[dict[str, list[int]], list[str]]:
    """Per scheme [agreeing, all] traces, and the differences."""
    score: dict[str, list[int]] = {}
    differences = []
    for path in sorted(p for p in FIXTURES.rglob("*.txt") if p.parent.name not in OTHER_FIXTURES):
        if path.stem in NOT_EXACT:
            continue
        settings, sequences = read_fixture(path)
        for variant in (v for v in variants if (v, "snd") in sequences):
            good = _same(settings, variant, sequences)
            tally = score.setdefault(SCHEMES[variant], [0, 0])
            tally[0] += good
            tally[1] += 1
            if not good:
                differences.append(f"{path.stem} {variant}")
    return score, differences


def read_fixture(path: Path) -> tuple[dict[str, str], dict[tuple[str, str], list[tuple[int, int]]]]:
    """Settings, and per (variant, event) the numbers with their times in microseconds."""
    settings: dict[str, str] = {}
    sequences: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for line in path.read_text().splitlines():
        head, _, rest = line.partition("=")
        if " " not in head.split("(")[0]:
            settings[head.split("(")[0]] = rest
            continue
        variant, event, *items = line.split(" ")
        t, out = 0, []
        for item in items:
            number, step = item.split("@")
            t += int(step)
            out.append((int(number), t))
        sequences[variant, event] = out
    return settings, sequences


def trace_scenario(settings: dict[str, str], scheme: str) -> _native.Scenario:
    """The path, the losses and the sender of a fixture."""
    s = {k: v.replace("Mb", " Mbps") if k.endswith("rate") else v for k, v in settings.items()}
    # ns-2's default of `reset_rto` is off; fixtures with timestamps switch it on unless they say
    # otherwise.
    s = {"bugfix_ts": "false", "reset_rto": "true"} | s
    s |= {
        "ack_heuristic": s["dupthresh"] if s.get("bugfix_ack") == "true" else "0",
        "late": json.dumps(s.get("data_delays", "").split()),
        "limited_transmit": "true" if s["limited_transmit"] == "1" else "false",
        "delayed_ack": '"100 ms"' if s["delack"] == "1" else "false",
    }
    data, acks = (
        json.dumps(s["data_drops"].split()),
        json.dumps([int(a) for a in s["ack_drops"].split()]),
    )
    return _native.Scenario(
        TRACE.format(**s, data=data, acks=acks, bytes=1000 * int(s["segments"]), scheme=scheme)
    )


def apart(variants: tuple[str, ...]) -> Iterator[str]:
    """Recovery traces of variants that need not be equal: when the last ACK comes, and how much
    is sent again.
    """
    yield (
        "| scenario | "
        + " | ".join(f"{v}: ns-2, s | here, s | sent again ns-2 / here" for v in variants)
        + " |"
    )
    yield "| --- |" + " ---: |" * (3 * len(variants))
    theirs = {(r["scenario"], r["variant"]): r for r in ns2_rows("trace_summary.csv")}
    for path in sorted(FIXTURES.glob("*.txt")):
        settings, _ = read_fixture(path)
        line = f"| {path.stem} |"
        for variant in variants:
            result, columns = trace_scenario(settings, SCHEMES[variant]).run_series(
                1, ["ack_received"]
            )
            again = result.to_dict()["flows"][0]["retransmissions"]["total"]
            last = columns["t_ns"][int(columns["ack"].argmax())] / 1e9
            row = theirs[path.stem, variant]
            line += (
                f" {float(row['t_last_ack_s']):.3f} | {last:.3f} | {row['retransmissions']} /"
                f" {again} |"
            )
        yield line
    yield ""


def _same(
    settings: dict[str, str], variant: str, sequences: dict[tuple[str, str], list[tuple[int, int]]]
) -> bool:
    scenario = trace_scenario(settings, SCHEMES[variant])
    _, columns = scenario.run_series(1, ["data_sent", "ack_received"])
    sent, acked = [], []
    for t, code, seq, length, ack in zip(
        *(columns[k].tolist() for k in ("t_ns", "event", "seq", "len", "ack")), strict=True
    ):
        if code == 0:
            sent.append((seq // 1000 + 1 if length else 0, t))
        else:
            acked.append((ack // 1000, t))
    theirs_acked = sequences[variant, "ack"]
    theirs_sent = sequences[variant, "snd"]
    acked = acked[: len(theirs_acked)]
    sent = [x for x in sent if x[1] <= theirs_acked[-1][1] * 1000 + 1000]
    return all(
        len(a) == len(b)
        and all(x[0] == y[0] and abs(x[1] - 1000 * y[1]) <= 1000 for x, y in zip(a, b, strict=True))
        for a, b in ((sent, theirs_sent), (acked, theirs_acked))
    )
