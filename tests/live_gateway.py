"""A network with a router for tests of `lasthop gateway`, inside a link of lasthop's.

    server -- 100 Mbit/s, 40 ms -- wire -- (veth) -- router -- the radio link -- client

The links are `lasthop link`, one inside the other; router, wire and server are network namespaces.
The role is the first word:

router SCHEME FOLDER [WAIT SIGNAL]: runs as the server's command of the radio link. Builds the
network behind it, and runs a gateway with SCHEME ("none": without one). WAIT seconds after the
client has begun, the gateway gets a signal; STOP is followed by CONT 1.5 s later. When the client
has ended, so does the gateway; FOLDER/report.json has its report, and FOLDER/changed.json what it
has left.
client SIZE FOLDER VERSION: runs as the command of the radio link. Fetches SIZE bytes by IPv4 or
IPv6 (4, 6); prints JSON with their SHA-256 and the seconds, and waits until the router has ended.
server, wire: run by the router.
"""

import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gateway_bed import rules, state, until_equal

HERE = str(Path(__file__).resolve())
LASTHOP = [sys.executable, "-m", "lasthop"]
PORT = 5001
#: Addresses of the pair between router and wire, of the server of the inner link, and of the mobile
#: of the outer one, for IPv4 and IPv6.
ROUTER, WIRE = ("192.0.2.1", "fd00::1"), ("192.0.2.2", "fd00::2")
SERVER = ("100.64.1.1", "fd6c:6173:7468:1::1")
MOBILE = ("100.64.0.2", "fd6c:6173:7468::2")
TICK = 0.02


def data(size: int) -> bytes:
    return random.Random(1).randbytes(size)


def ip(*words: str, fds: tuple[int, ...] = ()) -> None:
    subprocess.run(["ip", *words], check=True, pass_fds=fds)


def join(
    device: str, own: tuple[str, str], other: tuple[str, str], beyond: tuple[str, str]
) -> None:
    """Forward packets, those to an address beyond this device over it."""
    # Packets do not wait until the link-local address is known to be unique.
    Path(f"/proc/sys/net/ipv6/conf/{device}/accept_dad").write_text("0")
    ip("link", "set", device, "up")
    for address, length, gateway, to in zip(own, ("30", "64"), other, beyond, strict=True):
        nodad = ["nodad"] if ":" in address else []
        ip("addr", "add", f"{address}/{length}", "dev", device, *nodad)
        ip("route", "add", to, "via", gateway)
    for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        Path(f"/proc/sys/net/{setting}").write_text("1")


def server() -> None:
    family = socket.AF_INET6
    with socket.create_server(("", PORT), family=family, dualstack_ipv6=True) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(data(int(connection.makefile().readline())))


def client(size: str, folder: str, version: str) -> None:
    start = time.monotonic()
    with socket.create_connection((SERVER[version == "6"], PORT), timeout=50) as connection:
        connection.sendall(f"{size}\n".encode())
        digest = hashlib.sha256()
        while part := connection.recv(65536):
            digest.update(part)
    print(json.dumps({"sha256": digest.hexdigest(), "s": time.monotonic() - start}), flush=True)
    (Path(folder) / "fetched").touch()
    until((Path(folder) / "ended").exists)


def wire(router: str) -> None:
    """Join the inner link's mobile to the router, whose namespace has this descriptor."""
    fd = int(router)
    peer = ["peer", "name", "eth0", "netns", f"/proc/self/fd/{fd}"]
    ip("link", "add", "w0", "type", "veth", *peer, fds=(fd,))
    join("w0", WIRE, ROUTER, MOBILE)
    print("ready", flush=True)
    sys.stdin.read()


def router(scheme: str, folder: str, wait: str = "0", name: str = "") -> None:
    namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
    python = f"{sys.executable} {HERE}"
    inner = ["--rate", "100Mbps", "--rtt", "40ms", "--ends", "reno", "--bound", "10s"]
    call = [*LASTHOP, "link", *inner, "--server", f"{python} server", "--"]
    call += [*python.split(), "wire", str(namespace)]
    with open(Path(folder) / "wire.stderr", "wb") as errors:
        behind = subprocess.Popen(
            call,
            pass_fds=[namespace],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert behind.stdout is not None
    assert behind.stdout.readline() == b"ready\n"
    join("eth0", ROUTER, WIRE, SERVER)
    before = state()
    gateway = start(scheme, folder)
    # The outer link starts the client when a socket here accepts connections.
    with socket.create_server(("", PORT)):
        if gateway is not None and name:
            until_forwarding()
            time.sleep(float(wait))
            disturb(gateway, name)
        until((Path(folder) / "fetched").exists)
    if gateway is not None:
        gateway.terminate()
        gateway.wait()
    (Path(folder) / "changed.json").write_text(json.dumps(until_equal(before)))
    (Path(folder) / "ended").touch()
    time.sleep(3600)


def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        time.sleep(TICK)


def until_forwarding() -> None:
    """Wait for packets of the server."""

    def received() -> int:
        lines = Path("/proc/net/dev").read_text().splitlines()
        return next(int(line.split()[2]) for line in lines if line.strip().startswith("eth0:"))

    begun = received() + 10
    until(lambda: received() >= begun)


def start(scheme: str, folder: str) -> "subprocess.Popen[bytes] | None":
    if scheme == "none":
        return None
    call = [*LASTHOP, "gateway", "--scheme", scheme, "--wireless", "lasthop", "--json"]
    log = Path(folder) / "gateway.stderr"
    with open(Path(folder) / "report.json", "wb") as file, open(log, "wb") as errors:
        gateway = subprocess.Popen(call, stdout=file, stderr=errors)
    while "elements" not in rules():
        assert gateway.poll() is None, log.read_text()
        time.sleep(TICK)
    return gateway


def disturb(gateway: "subprocess.Popen[bytes]", name: str) -> None:
    gateway.send_signal(getattr(signal, f"SIG{name}"))
    if name == "STOP":
        # Longer than the rules last.
        time.sleep(1.5)
        gateway.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {
        "router": router,
        "client": client,
        "server": server,
        "wire": wire,
    }
    roles[sys.argv[1]](*sys.argv[2:])
