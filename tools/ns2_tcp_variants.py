"""Run the losses of ns-2's test suite tcpVariants in ns-2.35 and write fixtures of the exact
comparison.

    python3 tools/ns2_tcp_variants.py OUT_DIR

Two fixtures per list of losses, each with and without limited transmit: the settings of the suite
(version=tcpVariants), and the defaults of ns-2.26. Needs the program `ns`. The suite has a link of
8 Mbit/s without delay, then one of 800 kbit/s and 100 ms with a queue of eight packets, and a
window of 28. Packets are lost before that queue; they are counted from the SYN.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ns2_random import SCRIPT, condense, events

VARIANTS = ("Tahoe", "Reno", "Newreno", "Sack1")
LOSSES = {
    "onedrop": [14],
    "twodrops": [14, 28],
    "threedrops": [14, 26, 28],
    "fourdrops": [14, 24, 26, 28],
    "multiple": [11, 12, 13, 14, 16, 17, 18, 19],
    "multiple2": [11, 12, 13, 14, 16],
}
SETTINGS = {
    "wired_rate": "8Mb",
    "wired_delay": "0ms",
    "hop_rate": "0.8Mb",
    "hop_delay": "100ms",
    "segments": "120",
    "window": "28",
    "timestamps": "false",
    "dupthresh": "3",
    "delack": "0",
    "bugfix": "true",
    "queue": "8",
    "before_queue": "1",
}
#: Settings with different names in the script and in a fixture.
RENAMED = {
    "tick_s": ("tick", "0.01"),
    "minrto_s": ("minrto", "1.0"),
    "initial_ssthresh": ("ssthresh", "28"),
}


def scripted(sent: list[tuple[float, int]], packets: list[int]) -> str:
    """The lost packets, as segment:transmission."""
    copies: Counter[int] = Counter()
    lost = []
    for n, (_, number) in enumerate(sent):
        copies[number] += 1
        if n in packets:
            lost.append(f"{number}:{copies[number]}")
    return " ".join(lost)


def fixtures(packets: list[int], version: str, limited: str) -> dict[str, str]:
    """One fixture per variant, since the same packets are different segments in each."""
    lines: dict[str, list[str]] = {}
    for variant in VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "t"
            given = {
                **SETTINGS,
                **dict(RENAMED.values()),
                "variant": variant,
                "version": version,
                "limited": limited,
            }
            words = [f"{k}={v}" for k, v in given.items()]
            lost = ",".join(str(n) for n in packets)
            subprocess.run(
                ["ns", str(SCRIPT), f"out={out}", f"data={lost}", *words],
                check=True,
                capture_output=True,
            )
            snd, ack = events(out.with_suffix(".snd"), "+"), events(out.with_suffix(".ack"), "r")
        end = next(i for i, (_, number) in enumerate(ack) if number == int(SETTINGS["segments"]))
        ack = ack[: end + 1]
        rows = [
            f"{variant} snd {condense([s for s in snd if s[0] <= ack[-1][0] + 1e-9])}",
            f"{variant} ack {condense(ack)}",
        ]
        settings = {
            "data_drops": scripted(snd, packets),
            "ack_drops": "",
            **SETTINGS,
            **{k: v for k, (_, v) in RENAMED.items()},
        }
        lines[variant] = [
            *(
                f"{k}={v}"
                for k, v in {**settings, "limited_transmit": limited, "version": version}.items()
            ),
            *rows,
        ]
    return {variant: "\n".join(rows) + "\n" for variant, rows in lines.items()}


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name, packets in LOSSES.items():
        for version in ("tcpVariants", "2.26"):
            for limited in ("0", "1"):
                for variant, text in fixtures(packets, version, limited).items():
                    (
                        out / f"{name}{'_SA' if limited == '1' else ''}_{variant}_{version}.txt"
                    ).write_text(text)


if __name__ == "__main__":
    main()
