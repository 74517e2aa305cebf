"""How connections of the kernel begin and are given up, beside the profile `linux`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from busy import PATIENCE, OtherPrograms, undecided
from processes import ended
from test_live import measures_time, pytestmark, run

import lasthop

__all__ = ["pytestmark"]

# They wait for timers of seconds, which other tests do not hold up.
waits = pytest.mark.xdist_group("handshake")

# Prints the state of a connection to the server, or how long it took to fail, as JSON.
CLIENT = r"""
import json, os, socket, struct, sys, time
for key, value in [s.split("=") for s in sys.argv[3:]]:
    open("/proc/sys/net/ipv4/" + key, "w").write(value)
NAMES = ("rto ato snd_mss rcv_mss unacked sacked lost retrans fackets last_data_sent last_ack_sent"
    " last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss"
    " reordering rcv_rtt rcv_space total_retrans").split()
begin = time.monotonic()
try:
    s = socket.create_connection((os.environ["LASTHOP_SERVER"], 9000))
    info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    found = dict(zip(NAMES, struct.unpack("=24I", info[8:104])))
    end = begin + float(sys.argv[1])
    while time.monotonic() < end:
        s.sendall(b"x" * int(sys.argv[2]))
        time.sleep(0.02)
    if float(sys.argv[1]) > 0:
        s.recv(1)
except OSError as error:
    found = {"error": type(error).__name__}
print(json.dumps({**found, "seconds": time.monotonic() - begin}))
"""
SERVER = r"""
import socket
s = socket.create_server(("", 9000))
c, _ = s.accept()
while c.recv(65536): pass
"""


# Reads nothing.
DEAF_SERVER = SERVER.replace("while c.recv(65536): pass", "import time; time.sleep(60)")


def connect(
    tmp_path: Path, hop: str, write_s: float, *sysctls: str, server: str = SERVER, block: int = 1000
) -> dict[str, Any]:
    """What the client saw over a link of these keys."""
    (tmp_path / "client.py").write_text(CLIENT)
    (tmp_path / "server.py").write_text(server)
    (tmp_path / "live.toml").write_text(f"last_hop = {{ rate = '10 Mbps', {hop} }}\n")
    program = f"{sys.executable} {tmp_path / 'server.py'}"
    client = [sys.executable, str(tmp_path / "client.py"), str(write_s), str(block), *sysctls]
    try:
        done = run(str(tmp_path / "live.toml"), "--server", program, "--", *client)
    except subprocess.TimeoutExpired:
        undecided(f"the client did not end within {PATIENCE} s")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.partition("\n")[0])
    return found


def simulate(
    hop: str, tcp: str, app: str, ends: tuple[str, str] = ("phone", "server"), seed: int = 1
) -> dict[str, Any]:
    """The flow of the same connection, simulated."""
    text = f"duration = '60 s'\nlast_hop = {{ rate = '10 Mbps', {hop} }}\n[tcp]\n{tcp}\n[[flow]]\n"
    text += f"from = '{ends[0]}'\nto = '{ends[1]}'\n{app}"
    run = lasthop.run(text=text, seed=seed)
    flow: dict[str, Any] = run.data["flows"][0]
    return flow


# On an idle machine the kernel takes as long as the simulation; that does not depend on the load.
GIVEN_UP_S = {"syn": 4.04, "data": 4.97, "probe": 5.39}


def given_up(flow: dict[str, Any], unanswered: str) -> float:
    """When the simulated connection is given up, and that this has not changed."""
    assert flow["gave_up"]["unanswered"] == unanswered
    at_s: float = flow["gave_up"]["at_s"]
    assert at_s == pytest.approx(GIVEN_UP_S[unanswered], abs=0.05)
    return at_s


def decide_time(others: OtherPrograms, real: float, ours: float, within: float) -> None:
    others.decide(abs(real - ours) < within, f"{real:.3f} s real, {ours:.3f} s simulated")


@waits
def test_connecting_is_given_up_as_by_the_kernel(tmp_path: Path) -> None:
    hop = "rtt = '40 ms', outage = { from = '0 s', length = '50 s', frames = 'lost-at-sending' }"
    sysctls = ("tcp_syn_linear_timeouts=1", "tcp_syn_retries=1")
    others = OtherPrograms()
    real = connect(tmp_path, hop, 0, *sysctls)
    ours = simulate(hop, "syn_linear_timeouts = 1\nsyn_retries = 1", "app = 'bulk'")
    assert real["error"] == "TimeoutError"
    at_s = given_up(ours, "syn")
    decide_time(others, real["seconds"], at_s, 0.3)


@waits
def test_data_are_given_up_as_by_the_kernel(tmp_path: Path) -> None:
    hop = "rtt = '40 ms', outage = { from = '1 s', length = '50 s', frames = 'lost-at-sending' }"
    # `tcp_model_timeout`: (2^4 - 1) times 200 ms.
    others = OtherPrograms()
    real = connect(tmp_path, hop, 1.5, "tcp_retries2=3")
    ours = simulate(
        hop,
        "user_timeout = '3 s'",
        "app = { kind = 'on-off', rate = '400 kbps', mean_on = '900 s', mean_off = '1 s' }",
    )
    at_s = given_up(ours, "data")
    # On a busy machine the client may connect when the outage has begun.
    others.decide(real.get("error") == "TimeoutError", f"{real}")
    decide_time(others, real["seconds"], at_s, 0.5)


@waits
def test_probes_are_given_up_as_by_the_kernel(tmp_path: Path) -> None:
    hop = "rtt = '40 ms', outage = { from = '3 s', length = '50 s', frames = 'lost-at-sending' }"
    others = OtherPrograms()
    real = connect(tmp_path, hop, 30, "tcp_retries2=2", server=DEAF_SERVER, block=1 << 20)
    ours = simulate(
        hop,
        "probe_retries = 2",
        "app = 'bulk'\nreader = { pauses = [{ from = '0 s', length = '60 s' }] }",
    )
    assert real["error"] == "TimeoutError"
    at_s = given_up(ours, "probe")
    decide_time(others, real["seconds"], at_s, 0.5)


@waits
@pytest.mark.parametrize(("rtt_s", "timeouts"), [(2.5, 2), (4.0, 3)])
def test_a_spurious_timeout_of_the_syn_is_undone_as_by_the_kernel(
    tmp_path: Path, rtt_s: float, timeouts: int
) -> None:
    others = OtherPrograms()
    real = connect(tmp_path, f"rtt = '{rtt_s} s'", 0)
    ours = simulate(f"rtt = '{rtt_s} s'", "", "app = { kind = 'transfer', size = '14480 B' }")
    assert ours["retransmissions"]["total"] == timeouts
    # The handshake, then one flight.
    assert ours["completed_s"] == pytest.approx(1.5 * rtt_s, abs=0.1)
    assert real["snd_cwnd"] == 10
    found = real["total_retrans"]
    others.decide(found == timeouts, f"{found} retransmissions")
    decide_time(others, real["rtt"] / 1e6, rtt_s, 0.1)


# Sends ten segments to a client, and writes cwnd before that and the retransmissions to a file.
SENDING_SERVER = r"""
import json, os, socket, struct, sys
for key, value in [s.split("=") for s in sys.argv[2:]]:
    open("/proc/sys/net/ipv4/" + key, "w").write(value)
s = socket.create_server(("", 9000))
open(sys.argv[1] + ".ready", "w").close()
c, _ = s.accept()
def word(i):
    return struct.unpack_from("=I", c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), i)[0]
cwnd = word(80)
c.sendall(bytes(14480))
c.recv(1)
with open(sys.argv[1], "w") as file:
    json.dump({"cwnd": cwnd, "retransmissions": word(100)}, file)
"""
READING_CLIENT = r"""
import os, pathlib, socket, sys, time
while not pathlib.Path(sys.argv[1] + ".ready").exists():
    time.sleep(0.001)
s, size = socket.create_connection((os.environ["LASTHOP_SERVER"], 9000)), 0
while size < 14480:
    size += len(s.recv(65536)) or sys.exit("closed")
s.close()
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


longer = pytest.mark.more("test_a_passive_open_is_that_of_the_kernel")


@waits
@pytest.mark.parametrize("rtt_s", [0.5, 1.5, *(pytest.param(s, marks=longer) for s in (2.5, 4.0))])
@pytest.mark.parametrize("timestamps", [True, False])
def test_a_passive_open_is_that_of_the_kernel(
    tmp_path: Path, rtt_s: float, timestamps: bool
) -> None:
    hop = f"rtt = '{rtt_s} s'"
    (tmp_path / "client.py").write_text(READING_CLIENT)
    (tmp_path / "server.py").write_text(SENDING_SERVER)
    (tmp_path / "live.toml").write_text(f"last_hop = {{ rate = '10 Mbps', {hop} }}\n")
    found = tmp_path / "server.json"
    others = OtherPrograms()
    server = f"{sys.executable} {tmp_path / 'server.py'} {found} tcp_timestamps={int(timestamps)}"
    client = [sys.executable, str(tmp_path / "client.py"), str(found)]
    done = run(str(tmp_path / "live.toml"), "--server", server, "--", *client)
    assert done.returncode == 0, done.stderr
    real = json.loads(found.read_text())
    # The timers of SYN and SYN-ACK take 1 s each: the phases of two clocks decide which of a
    # repeated SYN and a timeout comes first, and only timeouts reduce cwnd.
    flows = [
        simulate(
            hop,
            f"timestamps = {str(timestamps).lower()}",
            "app = { kind = 'transfer', size = '14480 B' }\nopens = 'receiver'",
            ("server", "phone"),
            seed,
        )
        for seed in range(1, 17)
    ]
    outcomes = {(f["retransmissions"]["total"], f["completed_s"] < 2.5 * rtt_s) for f in flows}
    assert real["cwnd"] in (1, 10)
    others.decide((real["retransmissions"], real["cwnd"] == 10) in outcomes, f"{real}")


@measures_time
def test_the_first_ten_segments_of_bbr_are_not_paced_as_by_the_kernel() -> None:
    available = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    if "bbr" not in available:
        pytest.skip("the kernel has no congestion control bbr (module tcp_bbr)")
    words = [sys.executable, "-m", "lasthop", "validate", "--rate", "20Mbps", "--rtt", "200ms"]
    words += ["--senders", "bbr", "--schemes", "none", "--seeds", "1", "--size", "14 kB", "--json"]
    others = OtherPrograms()
    done = ended(words)
    document = json.loads(done.stdout)
    if document["failed"]:
        undecided(f"{document['failed']}")
    cell = document["cells"][0]
    # Paced from the first segment on, the ten segments take 50 ms more.
    (real,), (simulated,) = cell["real_s"], cell["simulated_s"]
    assert simulated == pytest.approx(0.306, abs=0.001)
    others.decide(abs(real - simulated) < 0.02, f"{real:.3f} s real, {simulated:.3f} s simulated")
