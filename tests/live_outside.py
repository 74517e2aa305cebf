"""A network outside for tests of live links: servers for TCP and UDP at addresses that exist only
in the network namespace of this process, and a link whose command talks to them.

Usage: unshare -n python live_outside.py [OPTION OF lasthop link ...]

Prints JSON: what the command has found, the report of the link, and what of the namespace the link
has changed.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

V4, V6 = "192.0.2.7", "2001:db8::7"
SIZE = 300_000

# The command at the mobile: asks each server, and addresses where there is none.
VISIT = f"""
import hashlib, json, os, socket, sys
port, closed = int(sys.argv[1]), int(sys.argv[2])
found = {{}}
def connect(address, to):
    return socket.create_connection((address, to), timeout=120)
for address in ({V4!r}, {V6!r}, os.environ['LASTHOP_SERVER'], os.environ['LASTHOP_SERVER6']):
    with connect(address, port) as s:
        peer = s.getpeername()[:2]
        s.sendall(bytes(range(256)) * 400)
        s.shutdown(socket.SHUT_WR)
        digest, size = hashlib.sha256(), 0
        while data := s.recv(65536):
            digest.update(data); size += len(data)
        found[address] = [digest.hexdigest(), size, peer]
try:
    with connect({V4!r}, closed) as s: found['closed'] = len(s.recv(1))
except OSError as e: found['closed'] = type(e).__name__
for address in ({V4!r}, {V6!r}, os.environ['LASTHOP_SERVER']):
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.connect((address, port)); s.settimeout(120); s.send(b'question')
        found['datagram ' + address] = s.recv(100).decode()
        s.connect((address, closed)); s.send(b'question')
        try: found['refused ' + address] = len(s.recv(100))
        except OSError as e: found['refused ' + address] = type(e).__name__
# Echo requests to anybody but the server's end are refused. A socket without IP_RECVERR (11) does
# not report an unreachable host.
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
    s.settimeout(60)
    s.setsockopt(socket.IPPROTO_IP, 11, 1)
    for address in ('198.51.100.1', os.environ['LASTHOP_SERVER']):
        s.connect((address, 1)); s.send(bytes([8, 0, 0, 0, 0, 0, 0, 0]))
        try: found['echo ' + address] = s.recv(100)[0]
        except OSError as e: found['echo ' + address] = type(e).__name__
print(json.dumps(found))
"""


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def serve_tcp(server: socket.socket) -> None:
    while True:
        client, _ = server.accept()
        with client:
            size = 0
            while data := client.recv(65536):
                size += len(data)
            client.sendall(bytes([size % 251]) * SIZE)


def serve_udp(server: socket.socket) -> None:
    while True:
        data, client = server.recvfrom(2000)
        server.sendto(data[::-1], client)


def state() -> list[str]:
    """What a link could have changed here."""
    commands = ("ip -br link", "ip route show table all", "nft list ruleset", "ip -br address")
    keys = ("net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding", "net.ipv4.conf.all.rp_filter")
    values = [Path(f"/proc/sys/{key.replace('.', '/')}").read_text() for key in keys]
    return [run(*command.split()) for command in commands] + values


def main() -> None:
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{V4}/32", "dev", "lo")
    run("ip", "address", "add", f"{V6}/128", "dev", "lo", "nodad")
    tcp = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    port = tcp.getsockname()[1]
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    udp.bind(("", port))
    with socket.create_server(("", 0)) as closed:
        closed_port = closed.getsockname()[1]
    for serve, server in ((serve_tcp, tcp), (serve_udp, udp)):
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    # The kernel adds the routes of an address some time after the address.
    earlier: list[str] = []
    before = state()
    for _ in range(20):
        if before == earlier:
            break
        time.sleep(0.3)
        earlier, before = before, state()
    words = [sys.executable, "-m", "lasthop", "link", *sys.argv[1:], "--json", "--bound", "10s"]
    words += ["--", sys.executable, "-c", VISIT, str(port), str(closed_port)]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found, _, report = done.stdout.partition("\n")
    if done.returncode != 0:
        sys.exit(f"status {done.returncode}: {done.stdout}{done.stderr}")
    changed = [[a, b] for a, b in zip(before, state(), strict=True) if a != b]
    result = {"found": json.loads(found), "report": json.loads(report), "changed": changed}
    print(json.dumps({**result, "port": port}))


main()
