"""Connections that a gateway divides, between two hosts joined by virtual Ethernet.

Usage: unshare -n python gateway_splits.py SCHEME short COUNT TOGETHER | slow | nat | killed | rnf

The network is that of gateway_bed.py. `short`: COUNT connections, TOGETHER at a time, in which the
client sends a line and the server answers with the address that it sees, and a few kilobytes.
`slow`: a client that does not read, and what the gateway holds for it. `nat`: a firewall that drops
what connection tracking finds invalid, and addresses that are translated. `killed`: what is left of
a gateway that was killed. `rnf`: the queue of a radio link whose rate changes. All print JSON.
"""

import array
import asyncio
import fcntl
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway_bed import CLIENT, SERVER, Host, rules, run, state, until_equal

HERE = str(Path(__file__).resolve())
GATEWAY = os.environ.get("LASTHOP_GATEWAY", f"{sys.executable} -m lasthop gateway").split()
PORT, RADIO = 5001, 5005
TICK = 0.02
#: What the server answers to each line.
ANSWER = random.Random(3).randbytes(4000)


class Bed:
    """The router (this namespace), a server and a client."""

    def __init__(self) -> None:
        for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            Path(f"/proc/sys/net/{setting}").write_text("1")
        run("ip", "link", "set", "lo", "up")
        self.server, self.client = Host("eth0", "10.2.0"), Host("wlan0", "10.1.0")
        for host in (self.server, self.client):
            # A port that was used a moment ago is used again.
            settings = "net.ipv4.ip_local_port_range=1024 65535"
            run(*host.inside("sysctl", "-q", "-w", settings))

    def start(self, host: Host, *words: str) -> "subprocess.Popen[str]":
        call = host.inside(sys.executable, HERE, "-", *words)
        return subprocess.Popen(call, stdout=subprocess.PIPE, text=True)

    def serve(self, role: str) -> "subprocess.Popen[str]":
        process = self.start(self.server, role)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process


@contextmanager
def gateway(scheme: str, *words: str) -> Any:
    call = [*GATEWAY, "--scheme", scheme, "--wireless", "wlan0", *words]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while "elements" not in rules():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(TICK)
    try:
        yield process
    finally:
        process.terminate()


def ended(process: "subprocess.Popen[str]") -> Any:
    process.terminate()
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(out) if out.startswith("{") else out


def answers() -> None:
    """Answer each line with the address of the client, and some data."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            host, port, *_ = writer.get_extra_info("peername")
            writer.write(f"{host} {port} ".encode() + line + ANSWER)
            await writer.drain()
            writer.close()
        except OSError as error:
            print(error, file=sys.stderr)

    async def main() -> None:
        server = await asyncio.start_server(answer, SERVER, PORT, backlog=4096)
        print("ready", flush=True)
        await server.serve_forever()

    asyncio.run(main())


def short(count: str, together: str) -> None:
    """Open connections; print failures by kind, and the addresses that the server saw wrongly."""
    failures: dict[str, int] = {}
    left = iter(range(int(count)))

    async def one(i: int) -> None:
        try:
            reader, writer = await asyncio.open_connection(SERVER, PORT)
            own = writer.get_extra_info("sockname")
            writer.write(f"{i}\n".encode())
            got = await reader.read(-1)
            writer.close()
            expected = f"{own[0]} {own[1]} {i}\n".encode() + ANSWER
            kind = None if got == expected else f"another answer: {got[:40]!r}"
        except OSError as error:
            kind = str(error)
        if kind is not None:
            failures[kind] = failures.get(kind, 0) + 1

    async def some() -> None:
        for i in left:
            await one(i)

    async def main() -> None:
        await asyncio.gather(*(some() for _ in range(int(together))))

    begun = time.monotonic()
    asyncio.run(main())
    print(json.dumps({"failures": failures, "s": time.monotonic() - begun}))


def pending(connection: socket.socket, request: int) -> int:
    number = array.array("i", [0])
    fcntl.ioctl(connection, request, number)
    return number[0]


def endless() -> None:
    """Send to the client; print how many bytes were acknowledged, when they get no more."""
    with socket.create_server((SERVER, PORT)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
        connection.setblocking(False)
        written, since = 0, time.monotonic()
        while time.monotonic() < since + 1.5:
            try:
                written += connection.send(bytes(1 << 16))
                since = time.monotonic()
            except BlockingIOError:
                time.sleep(TICK)
        print(written - pending(connection, termios.TIOCOUTQ), flush=True)
        sys.stdin.read()


def unread() -> None:
    """Connect and do not read; print how many bytes have arrived, once for each line of input."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        connection.connect((SERVER, PORT))
        for _ in sys.stdin:
            print(pending(connection, termios.FIONREAD), flush=True)


def try_short(bed: Bed, scheme: str, count: str, together: str) -> dict[str, Any]:
    before = state()
    server = bed.serve("answers")
    with gateway(scheme, "--json") as process:
        out = bed.start(bed.client, "short", count, together).communicate()[0]
        memory = Path(f"/proc/{process.pid}/status").read_text()
        report = ended(process)
    server.kill()
    peak = next(int(x.split()[1]) for x in memory.splitlines() if x.startswith("VmHWM"))
    return {
        **json.loads(out),
        "report": report,
        "memory_kib": peak,
        "changed": until_equal(before),
    }


def main(scheme: str, role: str, *words: str) -> None:
    if scheme == "-":
        here: dict[str, Callable[..., None]] = {
            "answers": answers,
            "short": short,
            "endless": endless,
            "unread": unread,
        }
        return here[role](*words)
    tries: dict[str, Callable[..., dict[str, Any]]] = {"short": try_short}
    bed = Bed()
    try:
        print(json.dumps(tries[role](bed, scheme, *words)))
    finally:
        for host in (bed.server, bed.client):
            host.process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
