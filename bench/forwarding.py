"""Forwarding of a live link beside plain virtual Ethernet and rattan: goodput, CPU time and delay.

    python bench/forwarding.py [--rattan PROGRAM] [--seconds S] [CASE ...]

Needs root and iproute2; rattan is `cargo install rattan`. Runs in network and mount namespaces that
vanish with it, with four CUBIC connections over 20 ms. The machine should do nothing else. CPU time
is that of the emulator's process, without the traffic's; the work of the kernel's TCP for a packet
is partly done in the emulator's name, partly in that of others.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

PORT = 8000


def large_buffers() -> None:
    """Let the windows of this network namespace grow up to 64 MiB."""
    for way in "rw":
        Path(f"/proc/sys/net/ipv4/tcp_{way}mem").write_text("4096 131072 67108864")


def serve() -> None:
    """Send to every client for ever, and return datagrams."""
    large_buffers()
    server = socket.create_server(("", PORT))
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("", PORT))
    block, clients = bytes(1 << 18), []
    while True:
        readable, writable, _ = select.select([server, echo], clients, [])
        if server in readable:
            client, _ = server.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            client.setblocking(False)
            clients.append(client)
        if echo in readable:
            data, address = echo.recvfrom(2000)
            echo.sendto(data, address)
        for client in writable:
            try:
                client.send(block)
            except OSError:
                clients.remove(client)


def fetch(address: str, connections: int, begin: float, end: float) -> None:
    """Print the rate (bit/s) at which data arrives between two times (s)."""
    large_buffers()
    start, size = time.monotonic(), 0
    sockets = [socket.create_connection((address, PORT)) for _ in range(connections)]
    buffer = bytearray(1 << 18)
    while (now := time.monotonic() - start) < end:
        for s in select.select(sockets, [], [], 0.1)[0]:
            got = s.recv_into(buffer)
            size += got if now >= begin else 0
    print(8 * size / (end - begin))


def probe(address: str) -> None:
    """Print p50 and p99 of the round-trip time (s) of 1000 datagrams per second."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect((address, PORT))
    s.setblocking(False)
    start, sent, times = time.monotonic(), {}, []
    for i in range(3000):
        while (now := time.monotonic() - start) < i / 1000 or i == 2999:
            if select.select([s], [], [], 0.0001)[0]:
                times.append(time.monotonic() - start - sent[s.recv(2000)[:8]])
            if now > 4:
                break
        key = i.to_bytes(8, "big")
        sent[key] = time.monotonic() - start
        s.send(key + bytes(964))
    times = sorted(times[500:])
    print(times[len(times) // 2], times[len(times) * 99 // 100])


def cpu(pid: int) -> tuple[float, float]:
    """User and kernel time of a process, s."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return tuple(int(fields[i]) / os.sysconf("SC_CLK_TCK") for i in (11, 12))


def measure(words: list[str], report: bool = False) -> dict:
    """Run an emulator whose command is a client."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    used = (0.0, 0.0)
    # The last value while it runs; the times of its commands are theirs.
    while process.poll() is None:
        try:
            used = cpu(process.pid)
        except (OSError, IndexError):
            break
        time.sleep(0.05)
    out, _ = process.communicate()
    numbers, _, document = out.partition("\n")
    found = {"values": [float(x) for x in numbers.split()], "user_s": used[0], "kernel_s": used[1]}
    if report:
        data = json.loads(document)
        found |= {"lateness_us": data["lateness_us"], "valid": data["valid"]}
        found |= {"packets": data["packets"], "own_drops": data["own_drops"]}
    return found


def lasthop(rate: str, rtt: str, queue: int, client: list[str], *more: str) -> dict:
    """A live link."""
    words = [sys.executable, "-m", "lasthop", "link", "--rate", rate, "--rtt", rtt, "--json"]
    words += ["--queue", f"{queue} packets", *more]
    words += ["--server", f"{sys.executable} {__file__} serve", "--"]
    return measure([*words, sys.executable, __file__, *client], report=True)


def rattan(program: str, rate: str, queue: int, client: list[str]) -> dict:
    """The same link by rattan; the server is in the present namespace."""
    server = subprocess.Popen([sys.executable, __file__, "serve"])
    os.environ["RUST_LOG"] = "off"  # its log goes to standard output
    words = [program, "link", "--uplink-delay", "10ms", "--downlink-delay", "10ms"]
    words += ["--uplink-bandwidth", rate, "--downlink-bandwidth", rate]
    for way in ("uplink", "downlink"):
        words += [f"--{way}-queue", "droptail"]
        words += [f"--{way}-queue-args", json.dumps({"packet_limit": queue})]
    try:
        return measure([*words, "--", sys.executable, __file__, *client])
    finally:
        server.kill()
        server.wait()


def veth(setup: list[str], client: list[str]) -> dict:
    """Two namespaces with virtual Ethernet between them; `setup` are commands for both ends."""
    end = subprocess.Popen(["unshare", "-n", "sleep", "600"])
    time.sleep(0.3)
    inside = ["nsenter", "-t", str(end.pid), "-n"]
    run = lambda *words: subprocess.run(words, check=True)  # noqa: E731
    run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0", "netns", str(end.pid))
    for prefix, device, address in (([], "a0", "10.9.0.1/24"), (inside, "b0", "10.9.0.2/24")):
        run(*prefix, "ip", "address", "add", address, "dev", device)
        run(*prefix, "ip", "link", "set", device, "up")
        for command in setup:
            run(*prefix, *command.replace("DEVICE", device).split())
    server = subprocess.Popen([sys.executable, __file__, "serve"])
    time.sleep(0.3)
    try:
        return measure([*inside, sys.executable, __file__, *client])
    finally:
        for process in (server, end):
            process.kill()
            process.wait()
        # The pair of devices vanishes with the other namespace, a moment later.
        while Path("/sys/class/net/a0").exists():
            time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rattan", default=shutil.which("rattan"))
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    span = ["1", str(1 + options.seconds)]
    off = ["ip link set DEVICE gso_max_segs 1"]
    cases = {
        "veth": lambda: veth([], ["fetch", "10.9.0.1", "4", *span]),
        "veth offloads-off": lambda: veth(off, ["fetch", "10.9.0.1", "4", *span]),
        "veth probe": lambda: veth([], ["probe", "10.9.0.1"]),
        "lasthop 720 80ms": lambda: lasthop(
            "720Mbps", "80ms", 4800, ["fetch", "$LASTHOP_SERVER", "8", "5", "30"]
        ),
        "lasthop unlimited": lambda: lasthop(
            "10Gbps", "2ms", 4000, ["fetch", "$LASTHOP_SERVER", "4", *span], "--bound", "1s"
        ),
        "lasthop probe": lambda: lasthop("100Mbps", "20ms", 200, ["probe", "$LASTHOP_SERVER"]),
    }
    if options.rattan:
        found = options.rattan
        cases["rattan probe"] = lambda: rattan(found, "100Mbps", 200, ["probe", "10.2.1.1"])
    for rate in (10, 100, 1000):
        queue = max(50, 2 * rate)
        tbf = f"tc qdisc replace dev DEVICE root tbf rate {rate}mbit burst 64kb limit {queue}kb"
        client = ["fetch", "10.9.0.1", "4", *span]
        cases[f"veth+tbf {rate}"] = lambda tbf=tbf, client=client: veth([tbf], client)
        client = ["fetch", "$LASTHOP_SERVER", "4", *span]
        cases[f"lasthop {rate}"] = lambda rate=rate, queue=queue, client=client: lasthop(
            f"{rate}Mbps", "20ms", queue, client
        )
        client = ["fetch", "10.2.1.1", "4", *span]
        if options.rattan:
            cases[f"rattan {rate}"] = lambda rate=rate, queue=queue, client=client: rattan(
                options.rattan, f"{rate}Mbps", queue, client
            )
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name, case in cases.items():
        if options.cases and name not in options.cases:
            continue
        result = case()
        values = result.pop("values")
        if "probe" in name:
            shown = f"RTT p50 {1e3 * values[0]:.3f} ms, p99 {1e3 * values[1]:.3f} ms"
        else:
            shown = f"{values[0] / 1e6:.1f} Mbit/s"
            packets = result.get("packets") or values[0] / 8 / 1448 * 1.5 * float(span[1])
            micros = [1e6 * result[key] / packets for key in ("user_s", "kernel_s")]
            shown += f", {micros[0]:.2f} + {micros[1]:.2f} us/packet (user + kernel)"
        print(f"{name:<20}{shown} {json.dumps(result)}", flush=True)


if __name__ == "__main__":
    roles = {"serve": serve, "fetch": fetch, "probe": probe}
    if sys.argv[1:2] and sys.argv[1] in roles:
        kinds = {"serve": (), "fetch": (str, int, float, float), "probe": (str,)}[sys.argv[1]]
        given = map(os.path.expandvars, sys.argv[2:])  # $LASTHOP_SERVER
        words = [kind(word) for kind, word in zip(kinds, given, strict=True)]
        roles[sys.argv[1]](*words)
    elif "LASTHOP_BENCH_INSIDE" in os.environ:
        main()
    else:
        # /run is where rattan keeps names of its namespaces.
        inside = 'mount -t tmpfs none /run && exec "$@"'
        os.environ["LASTHOP_BENCH_INSIDE"] = "1"
        words = ["unshare", "--net", "--mount", "sh", "-c", inside, "sh", sys.executable]
        os.execvp("unshare", [*words, *sys.argv])
