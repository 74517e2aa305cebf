"""Connections that a gateway divides, between two hosts joined by virtual Ethernet.

Usage: unshare -n python gateway_splits.py SCHEME
    short COUNT TOGETHER | slow | nat COUNT TOGETHER | killed | stopped | rnf PERIOD PHASE RATE …

The network is that of gateway_bed.py, by IPv6 where the variable VERSION of the environment is 6.
`short`: COUNT connections, TOGETHER at a time, in which the client sends a line and the server
answers with the address that it sees, and a few kilobytes; then one with 20 MB.
`slow`: a client that does not read, and what the gateway holds for it. `nat`: a firewall that drops
what connection tracking finds invalid, and addresses that are translated. `killed`, `stopped`: what
becomes of connections. `rnf`: the queue of a radio link whose rate changes. All print JSON.
"""

import array
import asyncio
import fcntl
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
from contextlib import suppress
from pathlib import Path
from typing import Any

from gateway_bed import SERVER, Host, rules, run, started, state, until_equal, v6_network

HERE = str(Path(__file__).resolve())
GATEWAY = os.environ.get("LASTHOP_GATEWAY", f"{sys.executable} -m lasthop gateway").split()
#: Of IPv6, if VERSION says so.
ADDRESS = f"{v6_network('10.2.0')}2" if os.environ.get("VERSION") == "6" else SERVER
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


def gateway(scheme: str, *words: str) -> Any:
    return started(*GATEWAY, "--scheme", scheme, "--wireless", "wlan0", *words)


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
            if line.startswith(b"bulk"):
                writer.write(ANSWER * int(line.split()[1]))
                line = b""
            host, port, *_ = writer.get_extra_info("peername")
            writer.write(f"{host} {port} ".encode() + line + ANSWER)
            await writer.drain()
            writer.close()
        except OSError as error:
            print(error, file=sys.stderr)

    async def main() -> None:
        server = await asyncio.start_server(answer, ADDRESS, PORT, backlog=4096)
        print("ready", flush=True)
        await server.serve_forever()

    asyncio.run(main())


def short(count: str, together: str, seen_as: str = "") -> None:
    """Open connections; print failures by kind, one of which is another address at the server."""
    failures: dict[str, int] = {}
    left = iter(range(int(count)))

    async def one(i: int) -> None:
        try:
            reader, writer = await asyncio.open_connection(ADDRESS, PORT)
            own = writer.get_extra_info("sockname")
            writer.write(f"{i}\n".encode())
            got = await reader.read(-1)
            writer.close()
            if seen_as:
                # The port is translated.
                got = got.partition(b" ")[0] + b" " + got.split(b" ", 2)[2]
                expected = f"{seen_as} {i}\n".encode() + ANSWER
            else:
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


def bulk(count: str) -> None:
    """Fetch COUNT answers on one connection; print whether they are right, and the time (s)."""
    begun = time.monotonic()
    with socket.create_connection((ADDRESS, PORT)) as connection:
        connection.sendall(f"bulk {count}\n".encode())
        got = connection.makefile("rb").read()
    right = got.startswith(ANSWER * int(count)) and got.endswith(ANSWER)
    print(json.dumps({"right": right, "s": time.monotonic() - begun}))


def pending(connection: socket.socket, request: int) -> int:
    number = array.array("i", [0])
    fcntl.ioctl(connection, request, number)
    return number[0]


def until_full() -> None:
    """Send to the client; print how many bytes were acknowledged, when they get no more."""
    with socket.create_server((ADDRESS, PORT)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
        connection.setblocking(False)
        written, since = 0, time.monotonic()
        while time.monotonic() < since + 1:
            try:
                written += connection.send(bytes(1 << 16))
                since = time.monotonic()
            except BlockingIOError:
                time.sleep(TICK)
        print(written - pending(connection, termios.TIOCOUTQ), flush=True)
        sys.stdin.read()


def endless() -> None:
    """Send to the client for ever."""
    with socket.create_server((ADDRESS, PORT)) as listener:
        print("ready", flush=True)
        connection, _ = listener.accept()
        with suppress(ConnectionError):
            while True:
                connection.sendall(bytes(1 << 16))


def unread() -> None:
    """Connect and do not read; print how many bytes have arrived, once for each line of input."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        connection.connect((ADDRESS, PORT))
        for _ in sys.stdin:
            print(pending(connection, termios.FIONREAD), flush=True)


def try_short(
    bed: Bed, scheme: str, count: str, together: str, seen_as: str = ""
) -> dict[str, Any]:
    before = state()
    server = bed.serve("answers")
    with gateway(scheme, "--json") as process:
        out = bed.start(bed.client, "short", count, together, seen_as).communicate()[0]
        large = bed.start(bed.client, "bulk", "5000").communicate()[0]
        memory = Path(f"/proc/{process.pid}/status").read_text()
        report = ended(process)
    server.kill()
    peak = next(int(x.split()[1]) for x in memory.splitlines() if x.startswith("VmHWM"))
    return {
        **json.loads(out),
        "bulk": json.loads(large),
        "report": report,
        "memory_kib": peak,
        "changed": until_equal(before),
    }


def try_slow(bed: Bed, scheme: str) -> dict[str, Any]:
    """What the gateway holds: acknowledged to the server, and not arrived at the client."""
    server = bed.serve("until_full")
    with gateway(scheme, "--json") as process:
        call = bed.client.inside(sys.executable, HERE, "-", "unread")
        pipe = subprocess.PIPE
        client = subprocess.Popen(call, stdin=pipe, stdout=pipe, text=True)
        assert server.stdout is not None
        assert client.stdin is not None
        assert client.stdout is not None
        acknowledged = int(server.stdout.readline())
        client.stdin.write("\n")
        client.stdin.flush()
        arrived = int(client.stdout.readline())
        process.send_signal(signal.SIGUSR1)
        assert process.stderr is not None
        shown = json.loads(process.stderr.readline())
        report = ended(process)
        client.kill()
        server.kill()
    found = {"acknowledged": acknowledged, "arrived": arrived, "report": report}
    return {**found, "state": shown}


def try_nat(bed: Bed, scheme: str, count: str, together: str) -> dict[str, Any]:
    """As `short`, behind a firewall whose counters are part of the result."""
    firewall = """table ip firewall {
        chain filter { type filter hook forward priority 0; policy drop;
            ct state invalid counter drop
            ct state established,related accept
            iifname wlan0 ct state new accept; }
        chain nat { type nat hook postrouting priority 100; oifname eth0 masquerade; }; }"""
    subprocess.run(["nft", "-f", "-"], input=firewall, text=True, check=True)
    result = try_short(bed, scheme, count, together, seen_as="10.2.0.1")
    invalid = rules().split("ct state invalid counter packets ")[1].split()[0]
    # The counters of the firewall are not of the gateway.
    changed = [name for name in result["changed"] if name != "rules"]
    return {**result, "invalid": int(invalid), "changed": changed}


def try_killed(bed: Bed, scheme: str) -> dict[str, Any]:
    """Kill a gateway that holds a connection; then open others."""
    before = state()
    server = bed.serve("answers")
    with gateway(scheme) as process:
        call = bed.start(bed.client, "waiting")
        assert call.stdout is not None
        assert call.stdout.readline() == "open\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
        changed = until_equal(before)
        out = bed.start(bed.client, "short", "20", "4").communicate()[0]
    call.kill()
    server.kill()
    return {**json.loads(out), "changed": changed}


def try_stopped(bed: Bed, scheme: str) -> dict[str, Any]:
    """Stop a gateway that holds a connection; the others pass, and the one is reset afterwards."""
    server = bed.serve("answers")
    with gateway(scheme, "--json") as process:
        call = bed.start(bed.client, "waiting")
        assert call.stdout is not None
        assert call.stdout.readline() == "open\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        out = bed.start(bed.client, "short", "20", "4").communicate()[0]
        process.send_signal(signal.SIGCONT)
        waited = call.communicate()[0]
        report = ended(process)
    server.kill()
    return {**json.loads(out), "waiting": waited, "report": report}


def waiting() -> None:
    """Open a connection, wait for its end, and print that."""
    with socket.create_connection((ADDRESS, PORT)) as connection:
        print("open", flush=True)
        try:
            print(f"{len(connection.recv(1))} bytes")
        except OSError as error:
            print(error)


def qdisc(*words: str) -> None:
    tbf = ("root", "handle", "1:", "tbf", "burst", "3000", "limit", "300000")
    run("tc", "qdisc", words[0], "dev", "wlan0", *tbf, "rate", words[1])


def backlog() -> int:
    """Bytes in the queue of the wireless interface."""
    call = ["tc", "-s", "-j", "qdisc", "show", "dev", "wlan0"]
    shown = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    return int(json.loads(shown)[0]["backlog"])


def try_rnf(bed: Bed, scheme: str, period: str, phase: str, *rates: str) -> dict[str, Any]:
    """The mean queue (bytes) of the second half of each phase, in which the radio link has a rate
    (Mbit/s) that it reports with its queue once per period (s)."""
    qdisc("add", f"{rates[0]}mbit")
    server = bed.serve("endless")
    queues: list[float] = []
    late = 0.0
    with (
        gateway(scheme, "--json", "--radio", str(RADIO)) as process,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as radio,
    ):
        radio.connect(("127.0.0.1", RADIO))
        client = bed.start(bed.client, "reads")
        begun = due = time.monotonic()
        for i, rate in enumerate(rates):
            qdisc("change", f"{rate}mbit")
            end, seen = begun + (i + 1) * float(phase), []
            while (now := time.monotonic()) < end:
                queue = backlog()
                if now >= due:
                    late = max(late, now - due)
                    radio.send(f"rate={rate}Mbps queue={queue}".encode())
                    due += float(period)
                if now > end - float(phase) / 2:
                    seen.append(queue)
                time.sleep(TICK)
            queues.append(sum(seen) / len(seen))
        client.kill()
        report = ended(process)
    server.kill()
    return {"queues": queues, "late_s": late, "report": report}


def reads() -> None:
    """Read for ever."""
    with socket.create_connection((ADDRESS, PORT)) as connection:
        while connection.recv(1 << 16):
            pass


def main(scheme: str, role: str, *words: str) -> None:
    if scheme == "-":
        here: dict[str, Callable[..., None]] = {
            "answers": answers,
            "short": short,
            "bulk": bulk,
            "until_full": until_full,
            "endless": endless,
            "unread": unread,
            "waiting": waiting,
            "reads": reads,
        }
        return here[role](*words)
    tries: dict[str, Callable[..., dict[str, Any]]] = {
        "short": try_short,
        "slow": try_slow,
        "nat": try_nat,
        "killed": try_killed,
        "stopped": try_stopped,
        "rnf": try_rnf,
    }
    bed = Bed()
    try:
        print(json.dumps(tries[role](bed, scheme, *words)))
    finally:
        for host in (bed.server, bed.client):
            host.process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
