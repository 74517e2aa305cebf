"""Generate the traces that lasthop ships, in Mahimahi format (CC0).

Writes python/lasthop/data/traces/*.down and *.up, each with a description in .json.

    python3 tools/make_traces.py [--out DIR]            write the traces
    python3 tools/make_traces.py --check [--out DIR]    generate them and compare byte for byte

The traces are synthetic, not measured. The models have the features that matter to TCP (drifting
and fading rates, frame aggregation, gaps), with round numbers. All parameters are in MODELS and are
written to the .json. The seeds were chosen by eye: a mean rate near the nominal one, fades spread
over the trace.

The output has the same bytes on all platforms: the only random source is `random.Random.random`,
whose sequence Python guarantees; normal deviates are sums of it, and results of `exp` and `log` are
rounded coarsely.
"""

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path
from random import Random
from typing import Any

OPPORTUNITY_BITS = 1500 * 8
OUT = Path(__file__).parent.parent / "python" / "lasthop" / "data" / "traces"

LTE_FORMULAS = {
    "log_rate": (
        "ln(rate) = ln(mean_rate) - (slow_sd^2 + fast_sd^2) / 2 + slow + fast + fade, then clipped"
        " to [min_rate, max_rate]"
    ),
    "slow, fast": (
        "Ornstein-Uhlenbeck: x' = a x + sd sqrt(1 - a^2) n, a = exp(-step / time), n normal (sum of"
        " 12 uniform numbers - 6)"
    ),
    "fade": (
        "-depth while a fade lasts; fades begin after exponential pauses of mean fade_every_s, last"
        " fade_min_s to fade_max_s (uniform), and are the same in both directions (fade_seed)"
    ),
    "opportunities": (
        "credit grows by rate x 1 ms; in a millisecond in which the user is scheduled (probability"
        " scheduled) every 12000 bits of it are one opportunity"
    ),
    "end": "one opportunity at duration_ms, so that the period is exactly that",
}
LTE: dict[str, Any] = {
    "duration_ms": 120_000,
    "step_ms": 10,
    "slow_time_s": 4.0,
    "slow_sd": 0.6,
    "fast_time_s": 0.15,
    "fast_sd": 0.4,
    "fade_seed": 10,
    "fade_every_s": 20.0,
    "fade_min_s": 0.3,
    "fade_max_s": 1.5,
    "fade_depth_neper": 3.0,
    "scheduled": 0.5,
    "min_rate_bps": 300_000,
}
WIFI_FORMULAS = {
    "states": (
        "the medium is quiet or contended in turn; exponential lengths of mean quiet_s and"
        " contended_s"
    ),
    "aggregate": (
        "the station sends 1 to max_frames frames (uniform) at phy_rate in one go, with overhead_ms"
        " of preamble, acknowledgment and spacing; all arrive at its end, rounded up to the"
        " millisecond"
    ),
    "gap": (
        "until its next turn it waits an exponential time of mean quiet_gap_ms or contended_gap_ms"
    ),
    "end": "one opportunity at duration_ms, so that the period is exactly that",
}
MODELS: dict[str, dict[str, Any]] = {
    "synthetic-lte.down": {
        "model": "lte",
        "formulas": LTE_FORMULAS,
        "seed": 5,
        "mean_rate_bps": 10_000_000,
        "max_rate_bps": 30_000_000,
        **LTE,
    },
    "synthetic-lte.up": {
        "model": "lte",
        "formulas": LTE_FORMULAS,
        "seed": 1,
        "mean_rate_bps": 4_000_000,
        "max_rate_bps": 15_000_000,
        **LTE,
    },
    "synthetic-wifi.down": {
        "model": "wifi",
        "formulas": WIFI_FORMULAS,
        "seed": 3,
        "duration_ms": 60_000,
        "quiet_s": 1.5,
        "contended_s": 0.5,
        "max_frames": 32,
        "phy_rate_bps": 65_000_000,
        "overhead_ms": 0.3,
        "quiet_gap_ms": 4.0,
        "contended_gap_ms": 30.0,
    },
}


def normal(random: Random) -> float:
    # Summed as integers: since Python 3.12 `sum` adds floats with compensation.
    return sum(int(random.random() * 2**32) for _ in range(12)) / 2**32 - 6.0


def exponential(random: Random, mean: float) -> float:
    return -mean * math.log(1.0 - random.random())


def fades(p: dict[str, Any]) -> list[tuple[float, float]]:
    """Begin and end of each fade in milliseconds."""
    random, spans, t = Random(p["fade_seed"]), [], 0.0
    while True:
        t += exponential(random, p["fade_every_s"] * 1000)
        length = (p["fade_min_s"] + (p["fade_max_s"] - p["fade_min_s"]) * random.random()) * 1000
        if t >= p["duration_ms"]:
            return spans
        spans.append((t, t + length))
        t += length


def lte(p: dict[str, Any]) -> list[int]:
    random = Random(p["seed"])
    spans = fades(p)
    parts = [
        (math.exp(-p["step_ms"] / (p[f"{part}_time_s"] * 1000)), p[f"{part}_sd"])
        for part in ("slow", "fast")
    ]
    slow, fast = (sd * normal(random) for _, sd in parts)
    median = math.log(p["mean_rate_bps"]) - (p["slow_sd"] ** 2 + p["fast_sd"] ** 2) / 2
    times: list[int] = []
    bits = credit = 0
    for ms in range(p["duration_ms"]):
        if ms % p["step_ms"] == 0:
            slow, fast = (
                a * x + sd * math.sqrt(1 - a * a) * normal(random)
                for x, (a, sd) in zip((slow, fast), parts)
            )
            fade = p["fade_depth_neper"] if any(begin <= ms < end for begin, end in spans) else 0.0
            rate = math.exp(median + slow + fast - fade)
            bits = round(min(max(rate, p["min_rate_bps"]), p["max_rate_bps"]) / 1000)
        credit += bits
        if random.random() < p["scheduled"]:
            times += [ms] * (credit // OPPORTUNITY_BITS)
            credit %= OPPORTUNITY_BITS
    return [*times, p["duration_ms"]]


def wifi(p: dict[str, Any]) -> list[int]:
    random = Random(p["seed"])
    times: list[int] = []
    contended, until, t = False, exponential(random, p["quiet_s"] * 1000), 0.0
    while True:
        frames = 1 + int(random.random() * p["max_frames"])
        t += exponential(random, p["contended_gap_ms"] if contended else p["quiet_gap_ms"])
        t += p["overhead_ms"] + frames * OPPORTUNITY_BITS / p["phy_rate_bps"] * 1000
        if t >= p["duration_ms"]:
            return [*times, p["duration_ms"]]
        times += [math.ceil(t)] * frames
        while t >= until:
            contended = not contended
            until += exponential(random, (p["contended_s"] if contended else p["quiet_s"]) * 1000)


def describe(name: str, p: dict[str, Any], times: list[int], text: str) -> str:
    """The .json of a trace: description, parameters and statistics."""
    duration = p["duration_ms"]
    seconds = [0] * (duration // 1000)
    for t in times:
        seconds[min(t // 1000, len(seconds) - 1)] += 1
    result = {
        "trace": name,
        "about": (
            "Synthetic: no link was measured. Mahimahi format: one opportunity for 1500 bytes per"
            " line, milliseconds."
        ),
        "licence": "CC0-1.0",
        "made_by": "tools/make_traces.py",
        "parameters": p,
        "opportunities": len(times),
        "result_mean_rate_bps": round(len(times) * OPPORTUNITY_BITS * 1000 / duration),
        "result_lowest_second_bps": min(seconds) * OPPORTUNITY_BITS,
        "result_highest_second_bps": max(seconds) * OPPORTUNITY_BITS,
        "result_longest_silence_ms": max(b - a for a, b in zip(times, times[1:])),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    return json.dumps(result, indent=2) + "\n"


def files() -> dict[str, str]:
    """All files of the folder: name -> text."""
    made = {}
    for name, p in MODELS.items():
        times = lte(p) if p["model"] == "lte" else wifi(p)
        text = "".join(f"{t}\n" for t in times)
        made[name] = text
        made[f"{name}.json"] = describe(name, p, times, text)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the files in the folder instead of writing them",
    )
    parser.add_argument(
        "--out", type=Path, default=OUT, help="the folder (default: python/lasthop/data/traces)"
    )
    args = parser.parse_args()
    wrong = []
    for name, text in files().items():
        path: Path = args.out / name
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        elif not path.is_file() or path.read_bytes() != text.encode():
            wrong.append(name)
    for name in wrong:
        print(
            f"{args.out / name}: missing, or not what tools/make_traces.py makes", file=sys.stderr
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
