"""What the kernel's receiver discards, beside the profile `linux`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from busy import OtherPrograms
from test_live import measures_time, pytestmark, run

import lasthop

__all__ = ["pytestmark"]

SIZE = 3_000_000
# Prints how many segments were discarded because of an old timestamp, and the time of the
# transfer, as JSON.
CLIENT = r"""
import json, os, socket, sys, time
open("/proc/sys/net/ipv4/tcp_timestamps", "w").write(sys.argv[1])
def discarded():
    names, values = [l.split() for l in open("/proc/net/netstat") if l.startswith("TcpExt:")]
    return int(values[names.index("PAWSEstab")])
before, begin = discarded(), time.monotonic()
s = socket.create_connection((os.environ["LASTHOP_SERVER"], 9000))
received = 0
while data := s.recv(1 << 20):
    received += len(data)
print(json.dumps({
    "received": received,
    "discarded": discarded() - before,
    "seconds": time.monotonic() - begin,
}))
"""
SERVER = f"""
import socket
s = socket.create_server(("", 9000))
while True:
    c, _ = s.accept()
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    c.sendall(bytes({SIZE}))
    c.close()
"""
LINKS = """
[[link]]
between = ["server", "bs"]
rate = "1 Gbps"
delay = "20 ms"
queue = "1000 packets"

[[link]]
name = "radio"
radio = true
between = ["bs", "phone"]
rate = "10 Mbps"
delay = "10 ms"
queue = "100 packets"
forward.delay = { distribution = { kind = "exponential", min = "10 ms", mean = "3 ms" } }
"""


def transfer(tmp_path: Path, timestamps: int) -> dict[str, Any]:
    """A transfer of the kernel over a link whose frames overtake each other."""
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "live.toml").write_text(LINKS)
    server = f"{sys.executable} {tmp_path / 'server.py'}"
    client = [sys.executable, str(tmp_path / "client.py"), str(timestamps)]
    done = run(str(tmp_path / "live.toml"), "--server", server, "--", *client)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.partition("\n")[0])
    return found


def simulate(seed: int, timestamps: int) -> dict[str, Any]:
    """The flow of such a transfer, simulated."""
    tcp = f"[tcp]\ntimestamps = {'true' if timestamps else 'false'}\n"
    app = f"app = {{ kind = 'transfer', size = '{SIZE} B' }}\n"
    flow = f"[[flow]]\nfrom = 'server'\nto = 'phone'\nscheme = 'reno'\n{app}"
    done = lasthop.run(text=f"duration = '30 s'\n{LINKS}{tcp}{flow}", seed=seed)
    found: dict[str, Any] = done.data["flows"][0]
    return found


@pytest.mark.parametrize("timestamps", [1, 0])
@measures_time
def test_overtaken_segments_are_discarded_as_by_the_kernel(tmp_path: Path, timestamps: int) -> None:
    others = OtherPrograms()
    real = transfer(tmp_path, timestamps)
    ours = [simulate(seed, timestamps) for seed in range(1, 9)]
    discarded = [flow.get("discarded", {}).get("old_timestamp", 0) for flow in ours]
    assert real["received"] == SIZE
    if timestamps:
        # Reno halves its window up to four times because of them: 2.7 to 4.1 s.
        assert real["discarded"] > 0
        assert sum(n > 0 for n in discarded) >= 6
        assert max(flow["completed_s"] for flow in ours) > 3
    else:
        assert real["discarded"] == 0
        assert discarded == [0] * 8
        # The window of a receiver without timestamps grows by the time that a window takes.
        mean = sum(flow["completed_s"] for flow in ours) / len(ours)
        assert mean == pytest.approx(2.72, abs=0.1)
        near = abs(real["seconds"] - mean) < 0.15
        others.decide(near, f"{real['seconds']:.2f} s, {mean:.2f} s simulated")
