"""Draw docs/img/live-schemes.png: five schemes of the papers on real packets beside simulations.

Usage: live_figures.py [--seeds N] [--jobs N] [--out FILE]

Each curve is what the mobile has acknowledged since the connection began, read from the captures
of both worlds; a live transfer and its simulation have the same seed. Both ends have lasthop's own
TCP under the profile of the figure, on real packets between two programs. Needs what `lasthop link`
needs, and takes about SEEDS times a minute.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lasthop.analysis import statistics
from lasthop.experiments import plan
from lasthop.live.first_difference import acknowledged
from lasthop.plotting import styles

ROOT = Path(__file__).resolve().parent.parent
PAPERS = ROOT / "papers"
#: The sender opens the connection, as in a simulation, so that frames have the same numbers.
SEND = """
import os, socket, sys, time
ready = socket.create_server(("", 9001))
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
c = socket.create_connection((os.environ["LASTHOP_MOBILE"], 9000))
try:
    while True: c.sendall(bytes(65536))
except OSError: pass
"""
RECEIVE = """
import socket, sys, time
listener = socket.create_server(("", 9000))
open(sys.argv[2], "w").close()
c, _ = listener.accept()
c.settimeout(1)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    try: c.recv(65536)
    except TimeoutError: pass
"""
LOSSY = """
last_hop = {{ rate = "{rate}", rtt = "{rtt}", loss = "{loss}" }}
[tcp]
profile = "{profile}"
"""


@dataclass(frozen=True)
class Panel:
    """A scenario and the schemes that are compared in it, by their names in the figure."""

    title: str
    #: A figure of a paper, or the text of a scenario.
    scenario: Path | str
    schemes: dict[str, str]
    seconds: float
    #: Links of the path.
    links: int = 2


def at(figure: str, key: str, value: str) -> str:
    """The scenario of a figure, as text, with another value of a key that its points vary."""
    text = (PAPERS / figure).read_text()
    changed, count = re.subn(
        rf"({re.escape(key)} = )[^,}} ]+( %\")?", rf"\g<1>{value}", text, count=1
    )
    assert count == 1, key
    return changed


PANELS = (
    Panel(
        "packet control: zeng2006, figure 15",
        PAPERS / "zeng2006/fig15.toml",
        {
            "reno": "Reno",
            "packet-control:sender=reno:dupack_threshold=12:strict=true": "packet control, D = 12",
        },
        20,
    ),
    Panel(
        "LL-ELSN: yun2009, figure 13, 10 % of frames with errors",
        at("yun2009/fig13.toml", 'model = "frame-errors", rate', '"10 %"'),
        {"ll-elsn:ersn=false": "without ERSN", "ll-elsn": "LL-ELSN"},
        30,
        links=3,
    ),
    Panel(
        "Selective-TCP: the radio link of paul2005, 1 % loss",
        LOSSY.format(rate="1 Mbps", rtt="16 ms", loss="1 %", profile="ns-2.27"),
        {"newreno": "NewReno", "selective-tcp": "Selective-TCP"},
        20,
    ),
    Panel(
        "EAER: bit errors of noor, figure 2, behind a wired link",
        at("noor/i-tcp.toml", "bad_rate", "1e-3"),
        {"reno": "Reno", "noor-eaer": "EAER"},
        20,
    ),
    Panel(
        "RNF: janevski2009, figure 2 (an outage of 14.5 s)",
        PAPERS / "janevski2009/fig02.toml",
        {"reno": "Reno", "rnf:sender=reno:queue=15 segments": "RNF"},
        40,
        links=3,
    ),
)


def both(panel: Panel, scheme: str, seed: int) -> tuple[Any, Any]:
    """Bytes acknowledged each tenth of a second, real and simulated."""
    with tempfile.TemporaryDirectory(prefix="lasthop-") as name:
        folder = Path(name)
        file = panel.scenario
        if isinstance(file, str):
            file = folder / "scenario.toml"
            file.write_text(str(panel.scenario))
        real, simulated = folder / "real.pcapng", folder / "simulated.pcapng"
        listening = str(folder / "listening")
        (folder / "send.py").write_text(SEND)
        call = [sys.executable, "-m", "lasthop", "link", str(file), "--scheme", scheme]
        call += ["--seed", str(seed), "--ends", "own", "--bound", "100s", "--pcap", str(real)]
        call += ["--json", "--server", f"{sys.executable} {folder / 'send.py'} {listening}", "--"]
        call += [sys.executable, "-c", RECEIVE, str(panel.seconds), listening]
        done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        # Outages and rates that change meet both at the same time of the connection.
        start = json.loads(done.stdout)["first_connection_s"]
        settings = [("duration", f"{start + panel.seconds + 1} s"), ("flow.1.app", '"bulk"')]
        settings += [("flow.1.start", f"{start:.9f} s")]
        scenario: Any = plan.load(plan.source(file, settings=settings), scheme)
        scenario.draw_by_frame().run_recorded(seed, False, str(simulated))
        grid = np.arange(0, panel.seconds, 0.1)
        seen = acknowledged(real, 1), acknowledged(simulated, panel.links - 1)
        return sampled(seen[0], grid), sampled(seen[1], grid)


def sampled(steps: list[tuple[float, int]], grid: Any) -> Any:
    """The last value at each time."""
    times = [time for time, _ in steps]
    values = np.maximum.accumulate([0, *(value for _, value in steps)])
    return values[np.searchsorted(times, grid, side="right")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/img/live-schemes.png")
    asked = parser.parse_args()
    seeds = range(1, asked.seeds + 1)
    runs = {}
    with ThreadPoolExecutor(asked.jobs) as pool:
        for panel in PANELS:
            for scheme in panel.schemes:
                runs[panel.title, scheme] = [
                    pool.submit(both, panel, scheme, seed) for seed in seeds
                ]
        with styles.use("page"), styles.style():
            figure, axes = styles.new_figure(10.5, len(PANELS))
            for panel, axis in zip(PANELS, axes, strict=True):
                found = {s: [f.result() for f in runs[panel.title, s]] for s in panel.schemes}
                draw(axis, panel, found)
            axes[-1].set_xlabel("time since the connection began (s)")
            title = f"Real packets beside simulations: means of {asked.seeds} seeds, 95 % intervals"
            figure.suptitle(title)
            styles.save(figure, [asked.out])


def draw(axis: Any, panel: Panel, found: dict[str, list[tuple[Any, Any]]]) -> None:
    grid = np.arange(0, panel.seconds, 0.1)
    for color, (scheme, label) in enumerate(panel.schemes.items()):
        for world, (name, line) in enumerate((("real", "-"), ("simulated", "--"))):
            curves = np.array([pair[world] for pair in found[scheme]]) / 1e6
            mean = curves.mean(axis=0)
            half = statistics.t_quantile(len(curves)) * curves.std(axis=0, ddof=1)
            half /= np.sqrt(len(curves))
            axis.plot(grid, mean, line, color=f"C{color}", label=f"{label}, {name}")
            axis.fill_between(grid, mean - half, mean + half, color=f"C{color}", alpha=0.12)
            print(f"{panel.title}; {label}, {name}: {mean[-1]:.3f} ± {half[-1]:.3f} MB")
    axis.set_title(panel.title, fontsize="medium")
    axis.set_ylabel("acknowledged (MB)")
    axis.set_xlim(0, panel.seconds)
    axis.set_ylim(bottom=0)
    axis.legend(fontsize="small")


if __name__ == "__main__":
    main()
