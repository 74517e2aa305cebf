"""A router between two hosts, joined by virtual Ethernet: tests and measurements of `lasthop
gateway` that need no lossy link.

Usage: unshare -n python gateway_bed.py rules | flood COUNT SIZE [--plain] | speed SECONDS

    server 10.2.0.2 -- eth0, router (this process), wlan0 -- client 10.1.0.2

`rules`: what starting, a second start, signals and `--remove` do to the rules. `flood`: a transfer
of SIZE bytes without and with COUNT SYNs of as many connections beside it, and the gateway's
memory; with --plain also without a gateway. `speed`: the rate of one connection with and without a
gateway, three times each in turn. All print JSON.
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve())
GATEWAY = [sys.executable, "-m", "lasthop", "gateway", "--wireless", "wlan0"]
CLIENT, SERVER, PORT = "10.1.0.2", "10.2.0.2", 5001
TICK = 0.02


def run(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def v6_network(network: str) -> str:
    """The IPv6 network beside one of IPv4, such as fd00:2:: beside 10.2.0."""
    return f"fd00:{network.split('.')[1]}::"


class Host:
    """A network namespace with one device, joined to the router."""

    def __init__(self, device: str, network: str) -> None:
        self.process = subprocess.Popen(["unshare", "-n", "sleep", "3600"])
        here = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.process.pid}/ns/net") == here:
            time.sleep(TICK)
        pid = str(self.process.pid)
        run("ip", "link", "add", device, "type", "veth", "peer", "name", "uplink", "netns", pid)
        run("ip", "addr", "add", f"{network}.1/24", "dev", device)
        run("ip", "link", "set", device, "up")
        v6 = v6_network(network)
        run("ip", "addr", "add", f"{v6}1/64", "dev", device, "nodad")
        for words in (
            ("addr", "add", f"{network}.2/24", "dev", "uplink"),
            ("addr", "add", f"{v6}2/64", "dev", "uplink", "nodad"),
            ("link", "set", "uplink", "up"),
            ("route", "add", "default", "via", f"{network}.1"),
            ("route", "add", "default", "via", f"{v6}1"),
        ):
            run(*self.inside("ip", *words))

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", "-t", str(self.process.pid), "-n", *words]

    def start(self, *words: str) -> "subprocess.Popen[str]":
        call = self.inside(sys.executable, HERE, *words)
        return subprocess.Popen(call, stdout=subprocess.PIPE, text=True)


def serve() -> None:
    """Send each client what it asks for: bytes, or for ever (0)."""
    block = bytes(1 << 18)
    with socket.create_server(("", PORT)) as listener:
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            with client, suppress(OSError):
                left = int(client.makefile().readline()) or 1 << 60
                while left > 0:
                    left -= client.send(block[: min(left, len(block))])


def fetch(size: str, seconds: str) -> None:
    """Print bytes received and the time (s)."""
    buffer, received = bytearray(1 << 20), 0
    start = time.monotonic()
    with socket.create_connection((SERVER, PORT), timeout=100) as server:
        server.sendall(f"{size}\n".encode())
        while time.monotonic() < start + float(seconds) and (n := server.recv_into(buffer)):
            received += n
    print(json.dumps([received, time.monotonic() - start]))


def flood(count: str) -> None:
    """Send SYNs of as many connections to the client."""
    addresses = socket.inet_aton("0.0.0.0") + socket.inet_aton(CLIENT)
    ip = bytearray(struct.pack("!BBHHHBBH8s", 0x45, 0, 44, 0, 0, 64, 6, 0, addresses))
    tcp = struct.pack("!HHIIBBHHHBB", 40000, 80, 1, 0, 0x60, 2, 64240, 0, 0, 2, 4)
    packet = ip + tcp + struct.pack("!H", 1460)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as out:
        for i in range(int(count)):
            struct.pack_into("!I", packet, 12, 0x0B000000 + i)
            with suppress(OSError):
                out.sendto(packet, (CLIENT, 0))


def gateway(*words: str) -> Any:
    return started(*GATEWAY, "--scheme", "snoop", "--json", *words)


@contextmanager
def started(*call: str) -> Any:
    """A gateway, once it has its rules."""
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "elements" not in rules():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(TICK)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.terminate()


def rules() -> str:
    call = ["nft", "list", "ruleset"]
    return subprocess.run(call, capture_output=True, text=True, check=True).stdout


def state() -> dict[str, Any]:
    """What a gateway has and changes here: rules, queues and sockets."""
    found = {"rules": rules()}
    for name in ("netfilter/nfnetlink_queue", "raw", "raw6"):
        found[name] = Path(f"/proc/net/{name}").read_text()
    # Sockets of netfilter have the protocol 12.
    sockets = Path("/proc/net/netlink").read_text().splitlines()
    return {**found, "netlink": sum(line.split()[1] == "12" for line in sockets)}


def until_equal(before: dict[str, Any]) -> list[str]:
    """What differs, once a process that was killed has had time to end."""
    for _ in range(200):
        after = state()
        if after == before:
            break
        time.sleep(TICK)
    return [name for name in before if before[name] != after[name]]


def try_rules() -> dict[str, Any]:
    run("nft", "add", "table", "ip", "mine")
    before = state()
    result: dict[str, Any] = {}
    with gateway() as process:
        result["installed"] = rules()
        second = subprocess.run(
            [*GATEWAY, "--scheme", "snoop"], capture_output=True, text=True, check=False
        )
        result["second"] = [second.returncode, second.stderr]
        remove = subprocess.run([*GATEWAY, "--remove"], capture_output=True, text=True, check=False)
        result["remove_running"] = [remove.returncode, remove.stderr]
        process.send_signal(signal.SIGUSR1)
        status = Path(f"/proc/{process.pid}/status").read_text()
        wanted = ("Uid", "CapEff", "CapPrm", "NoNewPrivs")
        lines = [line.split(":") for line in status.splitlines()]
        result["rights"] = {k: v.split() for k, v in lines if k in wanted}
        time.sleep(0.5)
        process.terminate()
        out, err = process.communicate(timeout=20)
        result["report"], result["state"] = json.loads(out), err
        result["status"] = process.returncode
    result["ended"] = until_equal(before)
    with gateway() as process:
        process.kill()
        process.wait()
    result["killed"] = until_equal(before)
    # What a kernel without owned tables leaves.
    for family in ("ip", "ip6"):
        run("nft", "add", "table", family, "lasthop-wlan0")
    with gateway():
        pass
    result["replaced"] = until_equal(before)
    run("nft", "add", "table", "ip", "lasthop-wlan0")
    run(*GATEWAY, "--remove")
    result["removed"] = until_equal(before)
    # What --dry-run prints, except for the queue, which not every kernel can have from nft.
    printed = subprocess.run([*GATEWAY, "--dry-run"], capture_output=True, text=True, check=True)
    text = printed.stdout.replace("queue flags bypass to 2040", "")
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    result["printed"] = rules()
    return result


def memory(pid: int) -> int:
    """The most memory that a process has had, KiB."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in status if line.startswith("VmHWM")))


def transfer(client: Host, size: str) -> tuple[int, float]:
    out, _ = client.start("fetch", size, "100").communicate(timeout=120)
    received, seconds = json.loads(out)
    return received, seconds


def beside(client: Host, server: Host, count: str, size: str) -> dict[str, Any]:
    """A transfer alone, and beside a flood."""
    alone = transfer(client, size)
    start = time.monotonic()
    flooding = server.start("flood", count)
    flooded = transfer(client, size)
    lasted = flooding.poll() is None
    flooding.wait()
    rate = int(count) / (time.monotonic() - start)
    return {"alone": alone, "flooded": flooded, "flood_lasted": lasted, "syns_per_s": rate}


def try_flood(client: Host, server: Host, count: str, size: str) -> dict[str, Any]:
    plain = beside(client, server, count, size) if "--plain" in sys.argv else None
    with gateway() as process:
        before = cpu(process.pid)
        snoop = beside(client, server, count, size)
        used = cpu(process.pid) - before
        time.sleep(0.3)
        most = memory(process.pid)
        process.terminate()
        report = json.loads(process.communicate(timeout=20)[0])
    found = {"plain": plain, "snoop": snoop, "memory_kib": most, "cpu_s": used}
    return {**found, "report": report}


def cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def speed(client: Host, seconds: str) -> dict[str, Any]:
    """Rates in Mbit/s, and processor time of the gateway per second."""

    def once() -> float:
        out, _ = client.start("fetch", "0", seconds).communicate(timeout=100)
        received, took = json.loads(out)
        return float(received) * 8 / float(took) / 1e6

    plain, snoop, used, bypassed = [], [], [], []
    for _ in range(3):
        plain.append(once())
        with gateway() as process:
            before = cpu(process.pid)
            snoop.append(once())
            used.append((cpu(process.pid) - before) / float(seconds))
            process.terminate()
            bypassed.append(json.loads(process.communicate(timeout=20)[0])["bypassed"])
    return {"plain": plain, "snoop": snoop, "gateway_cpu": used, "bypassed": bypassed}


def main(what: str, *words: str) -> None:
    if what in ("serve", "fetch", "flood") and "LASTHOP_BED" in os.environ:
        inside: dict[str, Callable[..., None]] = {"serve": serve, "fetch": fetch, "flood": flood}
        inside[what](*words)
        return
    os.environ["LASTHOP_BED"] = "1"
    run("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    client, server = Host("wlan0", "10.1.0"), Host("eth0", "10.2.0")
    serving = server.start("serve")
    try:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "ready\n"
        if what == "rules":
            found = try_rules()
        elif what == "flood":
            found = try_flood(client, server, *words[:2])
        else:
            found = speed(client, *words)
        print(json.dumps(found))
    finally:
        for process in (serving, client.process, server.process):
            process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
