"""Records a TCP transfer of this machine's stack between namespaces (server, lossy relay, mobile).

usage: namespaces.py DIR [merged]

Needs root, ip, tcpdump and AF_PACKET sockets. Addresses exist only inside the namespaces, which are
removed at the end. Leaves in DIR: micro.pcap (Ethernet, microseconds), nano.pcap (Ethernet,
nanoseconds, headers only), any.pcap (Linux cooked). With "merged" there is no relay and the
offloads are enabled, so that the captures contain merged segments.
"""

import array
import fcntl
import os
import random
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable

SERVER, RELAY, MOBILE = (f"lasthop-{role}-{os.getpid()}" for role in ("s", "r", "m"))
BYTES = 400_000
# ethtool requests (linux/ethtool.h): TX checksums, scatter-gather, TSO, GSO, GRO.
OFFLOADS = (0x17, 0x19, 0x1F, 0x24, 0x2C)


def sh(command: str) -> None:
    subprocess.run(command.split(), check=True)


def inside(namespace: str, *role: str) -> subprocess.Popen:
    return subprocess.Popen(["ip", "netns", "exec", namespace, sys.executable, __file__, *role])


def offloads_off(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for request in OFFLOADS:
            value = array.array("B", struct.pack("II", request, 0))
            fcntl.ioctl(s, 0x8946, struct.pack("16sP", interface.encode(), value.buffer_info()[0]))


def serve() -> None:
    server = socket.create_server(("::", 5001), family=socket.AF_INET6, dualstack_ipv6=True)
    with server as listener:
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                connection.sendall(bytes(BYTES))


def fetch() -> None:
    for address in ("10.77.0.1", "fd77::1"):
        with socket.create_connection((address, 5001), timeout=60) as s:
            received = 0
            while block := s.recv(65536):
                received += len(block)
        assert received == BYTES, received


def relay() -> None:
    """Forwards frames between the two interfaces. Towards the mobile it drops 2 % of the frames and
    delays 10 % by 10 ms.
    """
    draw = random.Random(1)
    up, down = (socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3)) for _ in range(2))
    up.bind(("up0", 0))
    down.bind(("down0", 0))
    selector = selectors.DefaultSelector()
    selector.register(up, selectors.EVENT_READ, down)
    selector.register(down, selectors.EVENT_READ, up)
    late: list[tuple[float, bytes]] = []
    while True:
        for key, _ in selector.select(0.001):
            frame, address = key.fileobj.recvfrom(70_000)
            if address[2] == socket.PACKET_OUTGOING:
                continue
            if key.fileobj is up and len(frame) > 200:
                fate = draw.random()
                if fate < 0.02:
                    continue
                if fate < 0.12:
                    late.append((time.monotonic() + 0.01, frame))
                    continue
            key.data.send(frame)
        while late and late[0][0] <= time.monotonic():
            down.send(late.pop(0)[1])


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "tcpdump records nothing"
        time.sleep(0.02)


def record(folder: str, merged: bool) -> None:
    for namespace in (SERVER, RELAY, MOBILE):
        sh(f"ip netns add {namespace}")
    if merged:
        sh(f"ip -n {SERVER} link add net0 netns {MOBILE} type veth peer name net0")
    else:
        sh(f"ip -n {SERVER} link add up0 netns {RELAY} type veth peer name net0")
        sh(f"ip -n {MOBILE} link add down0 netns {RELAY} type veth peer name net0")
        ends = ((SERVER, "net0"), (MOBILE, "net0"), (RELAY, "up0"), (RELAY, "down0"))
        for namespace, interface in ends:
            sh(f"ip netns exec {namespace} {sys.executable} {__file__} offloads-off {interface}")
            sh(f"ip -n {namespace} link set {interface} up")
    for namespace, number in ((SERVER, 1), (MOBILE, 2)):
        sh(f"ip -n {namespace} addr add 10.77.0.{number}/24 dev net0")
        sh(f"ip -n {namespace} addr add fd77::{number}/64 dev net0 nodad")
        sh(f"ip -n {namespace} link set net0 up")
    where, interface = (MOBILE, "net0") if merged else (RELAY, "up0")
    tcpdump = ["ip", "netns", "exec", where, "tcpdump", "-q", "-U", "-B", "20000", "-Z", "root"]
    captures = (
        ("micro", ["-i", interface]),
        ("nano", ["-i", interface, "--nano", "-s", "128"]),
        ("any", ["-i", "any"]),
    )
    helpers = [
        subprocess.Popen(
            [*tcpdump, *how, "-w", f"{folder}/{name}.pcap"], stderr=subprocess.DEVNULL
        )
        for name, how in captures
    ]
    if not merged:
        helpers.append(inside(RELAY, "relay"))
    helpers.append(inside(SERVER, "serve"))
    files = [f"{folder}/{name}.pcap" for name, _ in captures]
    try:
        # tcpdump writes the head of a file (24 bytes) when it begins to record.
        wait_until(lambda: all(os.path.exists(f) and os.path.getsize(f) >= 24 for f in files))
        time.sleep(1)
        fetched = inside(MOBILE, "fetch").wait(120)
        wait_until(lambda: all(os.path.getsize(file) > 5000 for file in files))
        time.sleep(1)
    finally:
        for helper in helpers:
            helper.send_signal(signal.SIGINT if helper.args[4] == "tcpdump" else signal.SIGTERM)
            helper.wait()
    assert fetched == 0, "the transfer failed"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["fetch"]:
            fetch()
        case ["relay"]:
            relay()
        case ["offloads-off", interface]:
            offloads_off(interface)
        case [folder, *rest]:
            try:
                record(folder, rest == ["merged"])
            finally:
                for namespace in (SERVER, RELAY, MOBILE):
                    subprocess.run(["ip", "netns", "del", namespace], check=False)
        case _:
            sys.exit(__doc__)
