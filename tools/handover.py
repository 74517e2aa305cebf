"""The cost of a handover: bytes that move and the gap in delivery, docs/handover.md: `python
tools/handover.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lasthop import __version__, _native
from lasthop.analysis.statistics import summarise
from lasthop.experiments.store import write_whole

ROOT = Path(__file__).parents[1]
SEEDS = 40
CORES = 2

SCENARIO = """
duration = "30 s"
[[link]]
between = ["server", "bs"]
rate = "100 Mbps"
delay = "20 ms"
queue = "250 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "5 Mbps"
delay = "20 ms"
loss = "{loss}"
queue = "100 packets"
[[flow]]
from = "server"
to = "phone"
app = "bulk"
[tcp]
profile = "rfc"
scheme = "{scheme}"
receive_window = "64 kB"
{handover}
"""

#: Scheme, whether its state moves.
ROWS: Sequence[tuple[str, str]] = (
    ("newreno", "moved"),
    ("packet-control:sender=newreno", "moved"),
    ("packet-control:sender=newreno", "lost"),
    ("snoop:sender=newreno", "moved"),
    ("snoop:sender=newreno", "lost"),
    ("i-tcp:sender=newreno:buffer=16000B", "moved"),
    ("i-tcp:sender=newreno:buffer=64000B", "moved"),
    ("i-tcp:sender=newreno:buffer=256000B", "moved"),
    ("i-tcp:sender=newreno:buffer=64000B", "lost"),
)
LINES = (("1 Mbps", "20 ms"), ("10 Mbps", "20 ms"), ("100 Mbps", "5 ms"))
TEXT = """\
# The cost of a handover

Made by `tools/handover.py` with lasthop {version}; do not edit.
Means of {seeds} runs, ± half-width of the 95 % CI.

Server – 100 Mbit/s, 20 ms – base station – 5 Mbit/s, 20 ms – phone. A bulk flow with NewReno has a
receive window of 64 kB, so that no queue overflows. At 10 s another machine takes the place of the
base station. The state of the flow moves to it over a line between the two machines, of 1 Mbit/s
and 20 ms, 10 Mbit/s and 20 ms, or 100 Mbit/s and 5 ms: the state of the agents, or, for a split
connection, its two sockets and its buffer. Until the state has arrived, no packet passes.

*moved* is the size of that state, *took* the time until it has arrived. *gap* is the longest time
without a delivery from the handover on; it includes the time that the flow's own loss recovery
takes. Packets queued at the radio link can bridge a short interruption. *acknowledged but lost* are
bytes that were acknowledged to the server and never delivered. Snoop moves its sequence state and
its round-trip estimate, but not its cached segments. *no end* marks a dead connection.
"""
HEAD = """\
| scheme | state | moved, bytes | took, ms: 1 Mbit/s | 10 | 100 | gap, ms: 1 Mbit/s | 10 | 100 | \
acknowledged but lost, kB |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""


def _cell(values: Sequence[float], factor: float) -> str:
    s = summarise(list(values))
    half = 0.0 if s.ci95 is None or s.mean is None else (s.ci95[1] - s.mean) * factor
    return f"{(s.mean or 0.0) * factor:.0f} ± {half:.0f}"


def row(scheme: str, state: str, loss: str) -> str:
    """A row of a table: the three lines beside each other."""
    dead = scheme.startswith("i-tcp") and state == "lost"
    moved = lost = ""
    took, gaps = [], []
    for rate, delay in LINES:
        handover = (
            f'[[handover]]\nnode = "bs"\nat = "10 s"\nrate = "{rate}"\ndelay = "{delay}"\nstate ='
            f' "{state}"'
        )
        scenario = _native.Scenario(SCENARIO.format(scheme=scheme, handover=handover, loss=loss))
        with ThreadPoolExecutor(CORES) as pool:
            runs = [r.to_dict() for r in pool.map(scenario.run, range(1, SEEDS + 1))]
        found = [r["handovers"][0] for r in runs]
        took.append(_cell([h["took_s"] for h in found], 1e3))
        gaps.append("no end" if dead else _cell([h["gap_s"] for h in found], 1e3))
        # What is there at the time of the handover does not depend on the line.
        moved = _cell([h["moved_bytes"] for h in found], 1.0)
        undelivered = [r["flows"][0].get("acknowledged_undelivered_bytes", 0) for r in runs]
        lost = _cell(undelivered, 1e-3) if dead else "0"
    return f"| `{scheme}` | {state} | {moved} | {' | '.join(took + gaps)} | {lost} |"


def main() -> None:
    """Write the page."""
    text = TEXT.format(version=__version__, seeds=SEEDS)
    for loss, title in (("none", "No loss"), ("1 %", "Loss of 1 % in both directions")):
        rows = "\n".join(row(scheme, state, loss) for scheme, state in ROWS)
        text += f"\n## {title}\n\n{HEAD}{rows}\n"
    write_whole(ROOT / "docs/handover.md", text)


if __name__ == "__main__":
    main()
