"""Conversations of two programs over one live link, all at once: what each end does, and what the
client finds. `serve` runs at the server; `call` at the mobile, which prints the findings as JSON.

Usage: live_cases.py serve|call ADDRESS
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

SIZE = 300_000
BYTES = random.Random(1).randbytes(SIZE)
ROUNDS = int(os.environ.get("ROUNDS", "100"))
IDLE = float(os.environ.get("IDLE", "0.5"))
#: `struct linger` of a socket whose end resets the connection.
RESETS = struct.pack("ii", 1, 0)
#: What both ends say of their streams.
WHOLE = hashlib.sha256(BYTES).hexdigest()
PATIENCE = 60.0
#: Bits of `tcpi_options` (linux/tcp.h).
OPTIONS = {"timestamps": 1, "sack": 2, "window_scaling": 4}


def received(peer: socket.socket) -> str:
    """The hash of everything up to the end of the stream."""
    digest = hashlib.sha256()
    while data := peer.recv(65536):
        digest.update(data)
    return digest.hexdigest()


def send_file(peer: socket.socket) -> None:
    peer.sendall(BYTES)


def fetch(peer: socket.socket) -> str:
    return received(peer)


def store(peer: socket.socket) -> None:
    peer.sendall(received(peer).encode())


def upload(peer: socket.socket) -> str:
    """The client half-closes; the answer comes after that."""
    peer.sendall(BYTES)
    peer.shutdown(socket.SHUT_WR)
    return b"".join(iter(lambda: peer.recv(100), b"")).decode()


def echo(peer: socket.socket) -> None:
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := peer.recv(65536):
        peer.sendall(data)


def ping_pong(peer: socket.socket) -> bool:
    """Writes of one byte, each of which is answered."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answers = bytearray()
    for i in range(ROUNDS):
        peer.sendall(bytes([i % 256]))
        answers += peer.recv(1)
    return answers == bytes(i % 256 for i in range(ROUNDS))


def idle(peer: socket.socket) -> list[str]:
    """Data, silence, and data again."""
    answers = []
    for question in (b"before", b"after"):
        peer.sendall(question)
        answers.append(peer.recv(100).decode())
        if not answers[1:]:
            time.sleep(IDLE)
    return answers


def slow_reader(peer: socket.socket) -> str:
    """The window of the client closes, and opens again."""
    time.sleep(IDLE)
    return received(peer)


def reset(peer: socket.socket) -> None:
    peer.recv(1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)


def is_reset(peer: socket.socket) -> str:
    """A reset that is lost on the link is repeated only if the client sends again."""
    peer.settimeout(0.3)
    while True:
        try:
            peer.sendall(b"?")
            return repr(peer.recv(100))
        except TimeoutError:
            pass
        except OSError as error:
            return type(error).__name__


def both_ways(peer: socket.socket) -> None:
    sender = threading.Thread(target=send_and_close, args=[peer])
    sender.start()
    digest = received(peer)
    sender.join()
    assert digest == WHOLE


def send_and_close(peer: socket.socket) -> None:
    peer.sendall(BYTES)
    peer.shutdown(socket.SHUT_WR)


def exchange(peer: socket.socket) -> str:
    """Both ends send at once."""
    sender = threading.Thread(target=send_and_close, args=[peer])
    sender.start()
    digest = received(peer)
    sender.join()
    return digest


#: What the server's connections with clients that were killed or went away are.
ABANDONED: dict[str, str] = {}


def send_for_ever(peer: socket.socket) -> None:
    ABANDONED["killed"] = "open"
    try:
        while True:
            peer.sendall(BYTES)
    except (BrokenPipeError, ConnectionResetError):
        ABANDONED["killed"] = "ended"


KILLED = threading.Event()


def killed(peer: socket.socket) -> int:
    """A process that reads is killed in the middle of the transfer."""
    peer.setblocking(True)
    code = "import socket, sys; s = socket.socket(fileno=0); print(len(s.recv(1000)), flush=True)\n"
    code += "while s.recv(1000): pass"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=peer.fileno(), stdout=subprocess.PIPE
    ) as reader:
        peer.close()
        assert reader.stdout is not None
        reader.stdout.readline()
        reader.send_signal(signal.SIGKILL)
        status = reader.wait()
    KILLED.set()
    return -status


def wait_for_end(peer: socket.socket) -> None:
    """A client that goes away while the connection is opened.

    A reset that is lost is not sent again, so the server asks now and then.
    """
    ABANDONED["gone"] = "open"
    peer.settimeout(0.2)
    with suppress(ConnectionResetError, BrokenPipeError):
        while True:
            try:
                if not peer.recv(100):
                    break
            except TimeoutError:
                peer.sendall(b"?")
    ABANDONED["gone"] = "ended"


def report_abandoned(peer: socket.socket) -> None:
    peer.recv(1)
    deadline = time.monotonic() + 10
    while "open" in ABANDONED.values() and time.monotonic() < deadline:
        time.sleep(0.01)
    peer.sendall(json.dumps(ABANDONED).encode())


def abandoned(peer: socket.socket) -> dict[str, str]:
    """What has become of them half a second after the client was killed."""
    KILLED.wait(PATIENCE)
    time.sleep(0.5)
    peer.sendall(b"?")
    answer: dict[str, str] = json.loads(peer.recv(1000))
    return answer


def options(peer: socket.socket) -> list[str]:
    """What the client's kernel has negotiated."""
    found = peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[5]
    return [name for name, bit in OPTIONS.items() if found & bit]


Case = tuple[Callable[[socket.socket], Any], Callable[[socket.socket], Any]]
CASES: dict[str, Case] = {
    "download": (send_file, fetch),
    "second_download": (send_file, fetch),
    "upload": (store, upload),
    "both_ways": (both_ways, exchange),
    "ping_pong": (echo, ping_pong),
    "idle": (echo, idle),
    "slow_reader": (send_file, slow_reader),
    "reset": (reset, is_reset),
    "killed": (send_for_ever, killed),
    "options": (echo, options),
    "gone": (wait_for_end, lambda _: None),
    "abandoned": (report_abandoned, abandoned),
}
PORTS = {name: 8000 + i for i, name in enumerate(CASES)}
CLOSED = 7999


def serve() -> None:
    # Its options are those of this namespace, as those of the client are.
    listeners = [
        socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        for port in PORTS.values()
    ]

    def accept(listener: socket.socket, act: Callable[[socket.socket], Any]) -> None:
        while True:
            peer, _ = listener.accept()
            with peer:
                act(peer)

    for listener, (act, _) in zip(listeners, CASES.values(), strict=True):
        threading.Thread(target=accept, args=[listener, act]).start()


def call_one(address: str, name: str) -> Any:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as peer:
        peer.settimeout(PATIENCE)
        if name == "gone":
            # Closed before the answer to the SYN can have come.
            peer.setblocking(False)
            peer.connect_ex((address, PORTS[name]))
            return None
        if name == "slow_reader":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        if segment := os.environ.get("SEGMENT"):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(segment))
        peer.connect((address, PORTS.get(name, CLOSED)))
        return CASES[name][1](peer)


def call(address: str) -> None:
    def attempt(name: str) -> Any:
        try:
            return call_one(address, name)
        except OSError as error:
            return type(error).__name__

    names = [*CASES, "refused"]
    with ThreadPoolExecutor(len(names)) as pool:
        print(json.dumps(dict(zip(names, pool.map(attempt, names), strict=True))), flush=True)


def switch_off(names: str) -> None:
    """Switches settings of TCP off in this namespace, such as `tcp_sack`."""
    for name in names.split():
        with open(f"/proc/sys/net/ipv4/{name}", "w") as file:
            file.write("0")


if __name__ == "__main__":
    switch_off(os.environ.get("OFF", ""))
    serve() if sys.argv[1] == "serve" else call(sys.argv[2])
