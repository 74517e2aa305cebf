"""Run random recovery scenarios in ns-2.35 and write fixtures of the exact comparison.

    python3 tools/ns2_random.py OUT_DIR [--count N] [--first SEED] [--variants Sack1,Reno]
        [--timestamps] [--no-reset-rto] [--late] [--heuristic ack]
        [--version 2.26]
    LASTHOP_NS2_FIXTURES=OUT_DIR cargo test -p lasthop-sim --test sim ns2_exact

One file per scenario and variant. Needs the program `ns`. Losses are drawn by the order of packets
on the last hop and written as segment:transmission.
"""

import argparse
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "bench/ns2_trace.tcl"


def draw(
    rng: random.Random, timestamps: bool, reset_rto: bool, late: bool, heuristic: str, version: str
) -> dict[str, object]:
    """Draw a scenario.

    The minimum RTO is above every RTT, so the random phase of ns-2's clock has no effect.
    """
    window = rng.choice([3, 4, 6, 8, 12, 20, 20, 30, 60])
    loss, ack_loss = (
        rng.choice([0.005, 0.01, 0.03, 0.06, 0.1, 0.2]),
        rng.choice([0, 0, 0, 0.02, 0.1, 0.3]),
    )
    data = {n for n in range(1, 600) if rng.random() < loss}
    if rng.random() < 0.5:  # a burst
        start = rng.randrange(1, 80)
        data |= {n for n in range(start, start + rng.randrange(2, 15)) if rng.random() < 0.7}
    # ns-2.26 differs after the loss of the SYN and of the first segment.
    early = {rng.randrange(2)} if version == "2.26" and rng.random() < 0.3 else set()
    return {
        "wired_rate": rng.choice(["10Mb", "2Mb"]),
        "wired_delay": rng.choice(["10ms", "3ms", "25ms"]),
        "hop_rate": rng.choice(["1Mb", "1Mb", "2Mb", "3Mb"]),
        "hop_delay": rng.choice(["40ms", "5ms", "20ms", "100ms"]),
        "segments": rng.choice([30, 60, 150, 150, 300]),
        "window": window,
        "tick": rng.choice(["0.001", "0.01"]) if timestamps else "0.01",
        "minrto": rng.choice(["0.2", "0.4", "1.0"]) if timestamps else rng.choice(["1.0", "1.5"]),
        "timestamps": "true" if timestamps else "false",
        "reset_rto": "true" if timestamps and reset_rto else "false",
        "limited": rng.choice([0, 1]),
        "dupthresh": rng.choice([3, 3, 3, 1, 2, 4, 6, 9]),
        "delack": rng.choice([0, 0, 1]),
        "ssthresh": rng.choice([window, window, 2, 4, 8]),
        "bugfix": "true" if heuristic else rng.choice(["true", "true", "false"]),
        **({f"bugfix_{heuristic}": "true"} if heuristic else {}),
        "version": version,
        "late": ",".join(str(n) for n in sorted(rng.sample(range(1, 60), 4))) if late else "",
        "late_by": rng.choice(["0.02", "0.05", "0.13"]) if late else "0.05",
        "data": ",".join(str(n) for n in sorted(data | early)),
        "acks": ",".join(str(n) for n in range(1, 600) if rng.random() < ack_loss),
    }


def events(path: Path, wanted: str) -> list[tuple[float, int]]:
    lines = (line.split() for line in path.read_text().splitlines())
    return [(float(f[1]), int(f[10])) for f in lines if f[0] == wanted]


def condense(rows: list[tuple[float, int]]) -> str:
    out, last = [], 0
    for t, number in rows:
        us = round(t * 1e6)
        out.append(f"{number}@{us - last}")
        last = us
    return " ".join(out)


def named(sent: Iterable[int], packets: str) -> list[str]:
    """The packets with these numbers, in the order of sending, as segment:transmission."""
    copies: Counter[int] = Counter()
    wanted, found = {int(n) for n in packets.split(",") if n}, []
    for n, number in enumerate(sent):
        copies[number] += 1
        if n in wanted:
            found.append(f"{number}:{copies[number]}")
    return found


def tied(arrived: list[float]) -> bool:
    """True if a segment arrives when a delayed ACK is due; in ns-2 rounding decides the order."""
    micros = {round(t * 1e6) for t in arrived}
    return any(t + 100_000 + step in micros for t in micros for step in (-1, 0, 1))


@contextmanager
def traced(script: Path, variant: str, options: dict[str, object]) -> Iterator[Path]:
    """The traces of a run of ns-2, by their name without suffix."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "t"
        words = [f"{k}={v}" for k, v in options.items()]
        subprocess.run(
            ["ns", str(script), f"variant={variant}", f"out={out}", *words],
            check=True,
            capture_output=True,
        )
        yield out


def fixture(options: dict[str, object], variant: str) -> str | None:
    """The fixture of one run; None if the transfer does not end or the run depends on rounding."""
    with traced(SCRIPT, variant, options) as out:
        snd, ack, hop = (
            events(out.with_suffix(".snd"), "+"),
            events(out.with_suffix(".ack"), "r"),
            events(out.with_suffix(".hop"), "-"),
        )
        arrived = sorted(t for t, _ in events(out.with_suffix(".hop"), "r"))
    if options["delack"] and tied(arrived):
        return None
    done = next((i for i, (_, number) in enumerate(ack) if number == options["segments"]), None)
    if done is None:
        return None
    ack = ack[: done + 1]
    snd = [s for s in snd if s[0] <= ack[-1][0] + 1e-9]
    late = named((number for _, number in snd), str(options["late"]))
    lost = named((number for _, number in hop), str(options["data"]))
    acks = " ".join(str(int(n) + 1) for n in str(options["acks"]).split(",") if n)
    settings = {
        "data_drops": " ".join(lost),
        "ack_drops": acks,
        **({"data_delays": " ".join(f"{c}+{options['late_by']}s" for c in late)} if late else {}),
        **{
            k: options[k]
            for k in ("wired_rate", "wired_delay", "hop_rate", "hop_delay", "segments", "window")
        },
        "tick_s": options["tick"],
        "minrto_s": options["minrto"],
        "timestamps": options["timestamps"],
        "limited_transmit": options["limited"],
        "dupthresh": options["dupthresh"],
        "delack": options["delack"],
        "initial_ssthresh": options["ssthresh"],
        "bugfix": options["bugfix"],
    }
    for heuristic in ("bugfix_ack", "bugfix_ts"):
        if heuristic in options:
            settings[heuristic] = "true"
    if options["timestamps"] == "true" and options["reset_rto"] == "false":
        settings["reset_rto"] = "false"
    if options["version"] != "2.35":
        settings["version"] = options["version"]
    lines = [f"{k}={v}" for k, v in settings.items()]
    return (
        "\n".join([*lines, f"{variant} snd {condense(snd)}", f"{variant} ack {condense(ack)}"])
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--variants", default="Sack1")
    parser.add_argument(
        "--timestamps", action="store_true", help="with timestamps and small timeouts"
    )
    parser.add_argument(
        "--no-reset-rto",
        action="store_true",
        help="with timestamps: ts_resetRTO_ off, as in ns-default.tcl",
    )
    parser.add_argument(
        "--late", action="store_true", help="four packets come late to the last hop"
    )
    parser.add_argument(
        "--heuristic",
        choices=["ack", "ts"],
        default="",
        help="bugFix_ack_ or bugFix_ts_, with bugFix_; the latter needs --timestamps",
    )
    parser.add_argument(
        "--version",
        default="2.35",
        choices=["2.35", "2.26"],
        help="version whose defaults ns-2.35 uses",
    )
    o = parser.parse_args()
    o.out.mkdir(parents=True, exist_ok=True)
    for seed in range(o.first, o.first + o.count):
        for variant in o.variants.split(","):
            options = draw(
                random.Random(seed),
                o.timestamps,
                not o.no_reset_rto,
                o.late,
                o.heuristic,
                o.version,
            )
            text = fixture(options, variant)
            if text is not None:
                marks = [("ts", o.timestamps), ("backoff", o.no_reset_rto), ("late", o.late)]
                marks.append((f"{o.heuristic}heuristic", bool(o.heuristic)))
                name = "random" + "".join(mark for mark, given in marks if given)
                (o.out / f"{name}{seed}{variant}.txt").write_text(text)


if __name__ == "__main__":
    main()
