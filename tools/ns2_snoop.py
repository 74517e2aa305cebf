"""Run random scenarios with Snoop in ns-2.35 and write fixtures of the exact comparison.

    python3 tools/ns2_snoop.py OUT_DIR [--count N] [--first SEED] [--variants Reno,Newreno]
    LASTHOP_NS2_SNOOP_FIXTURES=OUT_DIR cargo test -p lasthop-sim --test sim ns2_snoop

Needs the program `ns`. Losses are drawn by the order of packets on the last hop and written as
segment:transmission.
"""

import argparse
import random
from pathlib import Path

from ns2_random import condense, events, named, traced

SCRIPT = Path(__file__).resolve().parent.parent / "bench/ns2_snoop.tcl"


def draw(rng: random.Random) -> dict[str, object]:
    """Draw a scenario.

    The minimum RTO is above every RTT, so the random phase of ns-2's clock has no effect.
    """
    loss, ack_loss = rng.choice([0.005, 0.01, 0.03, 0.06, 0.1]), rng.choice([0, 0, 0, 0.02, 0.1])
    data = {n for n in range(1, 600) if rng.random() < loss}
    if rng.random() < 0.3:  # a burst
        start = rng.randrange(1, 80)
        data |= {n for n in range(start, start + rng.randrange(2, 10)) if rng.random() < 0.7}
    return {
        "wired_rate": rng.choice(["10Mb", "2Mb"]),
        "wired_delay": rng.choice(["10ms", "3ms", "25ms"]),
        "hop_rate": rng.choice(["1Mb", "2Mb", "2Mb", "3Mb"]),
        "hop_delay": rng.choice(["40ms", "10ms", "20ms", "100ms"]),
        "segments": rng.choice([60, 150, 150, 300]),
        "window": rng.choice([4, 8, 20, 20, 30, 60, 90, 100, 130]),
        "tick": "0.01",
        "minrto": rng.choice(["4.0", "6.0"]),
        "limited": rng.choice([0, 1]),
        "queue": rng.choice([150, 150, 20]),
        "snooptick": rng.choice(["0.1", "0.0231", "0.3"]),
        "data": ",".join(str(n) for n in sorted(data)),
        "acks": ",".join(str(n) for n in range(1, 600) if rng.random() < ack_loss),
    }


def tied(out: Path) -> bool:
    """True if two events at the base station coincide, so that rounding decides their order in
    ns-2.

    Either a segment arrives when Snoop retransmits, or a segment arrives at a full queue when
    another one leaves it.
    """
    seen: dict[str, set[tuple[int, str]]] = {kind: set() for kind in "h+-dr"}
    for f in map(str.split, out.with_suffix(".hop").read_text().splitlines()):
        seen[f[0]].add((round(float(f[1]) * 1e6), f[-1]))
    came = {t for t, _ in seen["h"]}
    repairs, departures = ({t for t, _ in seen[a] - seen[b]} for a, b in (("+", "h"), ("-", "+")))
    return any(
        t + step in came
        for t in repairs | (departures if seen["d"] else set())
        for step in (-1, 0, 1)
    )


def fixture(options: dict[str, object], variant: str) -> str | None:
    """The fixture of one run; None if the transfer does not end or the run depends on rounding."""
    with traced(SCRIPT, variant, options) as out:
        snd, ack = events(out.with_suffix(".snd"), "+"), events(out.with_suffix(".ack"), "r")
        offered, hop = events(out.with_suffix(".hop"), "+"), events(out.with_suffix(".hop"), "-")
        if tied(out):
            return None
    done = next((i for i, (_, number) in enumerate(ack) if number == options["segments"]), None)
    if done is None:
        return None
    ack = ack[: done + 1]
    end = ack[-1][0] + 1e-9
    lost = named((number for _, number in hop), str(options["data"]))
    settings = {
        "data_drops": " ".join(lost),
        "ack_drops": " ".join(str(int(n) + 1) for n in str(options["acks"]).split(",") if n),
        **{
            k: options[k]
            for k in (
                "wired_rate",
                "wired_delay",
                "hop_rate",
                "hop_delay",
                "segments",
                "window",
                "queue",
            )
        },
        "tick_s": options["tick"],
        "minrto_s": options["minrto"],
        "snooptick_s": options["snooptick"],
        "limited_transmit": options["limited"],
    }
    lines = [f"{k}={v}" for k, v in settings.items()]
    for name, rows in (("snd", snd), ("ack", ack), ("hop", offered)):
        lines.append(f"{variant} {name} {condense([r for r in rows if r[0] <= end])}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--variants", default="Reno,Newreno")
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    for seed in range(o.first, o.first + o.count):
        for variant in o.variants.split(","):
            text = fixture(draw(random.Random(seed)), variant)
            if text is not None:
                (o.out / f"snoop{seed}{variant}.txt").write_text(text)


if __name__ == "__main__":
    main()
