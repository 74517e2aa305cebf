"""Every scheme on real packets: what programs do over `lasthop link --scheme`, and a table of it.

Usage: live_schemes.py [--jobs N] [--rate R] [--rtt T] [--loss P] [SCHEME …]
       live_schemes.py serve | transfer FOLDER | write (at the ends of a link)

Six links for each scheme, whose ends have lasthop's own TCP where the scheme needs it, and the
seconds of each. `alone`: curl fetches a file of 20 MB from `python3 -m http.server`. `files`: six
transfers of 20 MB at once: two downloads and an upload by IPv4, one of each by IPv6, and an upload
by `nc -N`, which closes its direction before the answer comes. `writes`: ten connections at once,
with 1000 writes of one byte each, all answered. `conversations`: those of `live_cases.py` over
2 ms, with 10,000 writes of one byte in one connection. `plain`: kernels without SACK, timestamps
and window scaling. `small`: kernels with an MSS of 536. Without real-time scheduling, which several
links at once would not share.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from live_cases import OPTIONS, echo, ping_pong, store
from live_conversations import check, converse

HERE = str(Path(__file__).resolve())
SIZE = int(os.environ.get("SIZE", "20000000"))
ROUNDS = int(os.environ.get("ROUNDS", "10000"))
#: Connections at once with writes of one byte.
WRITERS = 10
#: The link, unless options say otherwise.
LINK = ("--rate", "100Mbps", "--rtt", "10ms", "--loss", "2%")
TALK = ("--rate", "20Mbps", "--rtt", "2ms", "--loss", "0.1%")
PORT, HALF_CLOSED, ECHO = 8080, 8081, 8082


def file_of(size: int) -> bytes:
    return random.Random(1).randbytes(size)


class Handler(SimpleHTTPRequestHandler):
    """A server of one file, which answers an upload with its hash."""

    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(file_of(SIZE))

    def do_PUT(self) -> None:
        digest, left = hashlib.sha256(), int(self.headers["Content-Length"])
        while left > 0 and (data := self.rfile.read(min(left, 1 << 16))):
            digest.update(data)
            left -= len(data)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(digest.hexdigest().encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """By IPv4 and IPv6."""

    address_family = 10
    request_queue_size = 64


def accept(port: int, act: Callable[[socket.socket], None]) -> None:
    def one(peer: socket.socket) -> None:
        with peer:
            act(peer)

    listener = socket.create_server(("", port), backlog=64)
    while True:
        threading.Thread(target=one, args=[listener.accept()[0]]).start()


def serve() -> None:
    for port, act in ((HALF_CLOSED, store), (ECHO, echo)):
        threading.Thread(target=accept, args=[port, act]).start()
    Server(("::", PORT), Handler).serve_forever()


def transfer(folder: str) -> None:
    """Print the seconds of each transfer, or what was wrong with it."""
    sent = Path(folder) / "sent"
    sent.write_bytes(file_of(SIZE))
    whole = hashlib.sha256(sent.read_bytes()).hexdigest()
    v4, v6 = os.environ["LASTHOP_SERVER"], f"[{os.environ['LASTHOP_SERVER6']}]"
    # On a busy machine the command may start before the server does.
    curl = ["curl", "-sSg", "-H", "Expect:", "--retry", "20", "--retry-delay", "1"]
    curl += ["--retry-connrefused"]
    upload = ["-T", str(sent)]

    def one(call: list[str]) -> float | str:
        begun = time.monotonic()
        with sent.open("rb") as stdin:
            done = subprocess.run(call, stdin=stdin, capture_output=True, check=False)
        if done.returncode != 0:
            return f"{call[0]} {done.returncode}: {done.stderr.decode().strip()}"
        found = {done.stdout, hashlib.sha256(done.stdout).hexdigest().encode()}
        took = time.monotonic() - begun
        return took if whole.encode() in found else f"other bytes, {len(done.stdout)} of them"

    calls = {
        "download": [*curl, f"http://{v4}:{PORT}/"],
        "second download": [*curl, f"http://{v4}:{PORT}/"],
        "download by IPv6": [*curl, f"http://{v6}:{PORT}/"],
        "upload": [*curl, *upload, f"http://{v4}:{PORT}/"],
        "upload by IPv6": [*curl, *upload, f"http://{v6}:{PORT}/"],
        "half-closed": ["nc", "-N", v4, str(HALF_CLOSED)],
    }
    with ThreadPoolExecutor(len(calls)) as pool:
        print(json.dumps(dict(zip(calls, pool.map(one, calls.values()), strict=True))))


def write() -> None:
    """Print whether all writes were answered."""

    def one(_: int) -> bool:
        with socket.create_connection((os.environ["LASTHOP_SERVER"], ECHO)) as peer:
            return ping_pong(peer)

    with ThreadPoolExecutor(WRITERS) as pool:
        print(json.dumps(all(pool.map(one, range(WRITERS)))))


def carry(words: list[str], server: str, *command: str, **environment: str) -> str:
    """The output of a command at the mobile."""
    link = [sys.executable, "-m", "lasthop", "link", "--bound", "10s", *words]
    done = subprocess.run(
        [*link, "--server", server, "--", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def alone(words: list[str]) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "20MB").write_bytes(file_of(SIZE))
        got = f"{folder}/got"
        server = f"{sys.executable} -m http.server 80 --directory {folder}"
        begun = time.monotonic()
        carry(words, server, "curl", "-so", got, "http://$LASTHOP_SERVER/20MB")
        took = time.monotonic() - begun
        assert Path(got).read_bytes() == file_of(SIZE), Path(got).stat().st_size
    return [took]


def files(words: list[str]) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        server = f"{sys.executable} {HERE} serve"
        output = carry(words, server, sys.executable, HERE, "transfer", folder)
    found = json.loads(output)
    wrong = {name: what for name, what in found.items() if isinstance(what, str)}
    assert not wrong, wrong
    return list(found.values())


def writes(words: list[str]) -> list[float]:
    begun = time.monotonic()
    server, rounds = f"{sys.executable} {HERE} serve", str(ROUNDS // WRITERS)
    output = carry(words, server, sys.executable, HERE, "write", ROUNDS=rounds)
    assert json.loads(output) is True
    return [time.monotonic() - begun]


def conversations(words: list[str]) -> list[float]:
    return talk([*words, *TALK], ROUNDS=str(ROUNDS))


def plain(words: list[str]) -> list[float]:
    return talk(words, no_options=True, OFF=" ".join(f"tcp_{name}" for name in OPTIONS))


def small(words: list[str]) -> list[float]:
    return talk(words, SEGMENT="536")


def talk(words: list[str], no_options: bool = False, **environment: str) -> list[float]:
    begun = time.monotonic()
    found, report = converse(*words, v6=False, **environment)
    # Some schemes do not use SACK.
    check(found, report, options=[] if no_options else found["options"])
    return [time.monotonic() - begun]


#: What runs over each link, and the columns of its times.
LINKS: dict[str, tuple[Callable[[list[str]], list[float]], list[str]]] = {
    "alone": (alone, ["download alone"]),
    "files": (files, ["download", "second", "by IPv6", "upload", "by IPv6", "half-closed"]),
    "writes": (writes, ["writes"]),
    "conversations": (conversations, ["conversations"]),
    "plain": (plain, ["no options"]),
    "small": (small, ["MSS 536"]),
}


def attempt(scheme: str, name: str, link: tuple[str, ...] = LINK) -> tuple[list[float], str]:
    """The seconds that the link took to carry everything, or what was wrong."""
    try:
        return LINKS[name][0]([*link, "--scheme", scheme]), ""
    except (AssertionError, subprocess.TimeoutExpired, ValueError) as error:
        return [], f"{type(error).__name__}: {error}"


def all_schemes() -> list[str]:
    call = [sys.executable, "-m", "lasthop", "schemes", "--json"]
    found: list[Any] = json.loads(subprocess.run(call, capture_output=True, check=True).stdout)
    return [scheme["name"] for scheme in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schemes", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    for option, default in zip(LINK[::2], LINK[1::2], strict=True):
        parser.add_argument(option, default=default)
    asked = parser.parse_args()
    link = ("--rate", asked.rate, "--rtt", asked.rtt, "--loss", asked.loss)
    schemes = asked.schemes or all_schemes()
    failed = []
    heads = [head for _, columns in LINKS.values() for head in columns]
    print(f"| scheme | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        rows = {s: {n: pool.submit(attempt, s, n, link) for n in LINKS} for s in schemes}
        for scheme, row in rows.items():
            cells = []
            for name, future in row.items():
                seconds, wrong = future.result()
                cells += [f"{s:.0f}" for s in seconds] or ["**failed**"] * len(LINKS[name][1])
                if wrong:
                    failed.append(f"{scheme}, {name}: {wrong}")
                    print(failed[-1], file=sys.stderr, flush=True)
            print(f"| {scheme} | {' | '.join(cells)} |", flush=True)
    print("\n".join(["", *failed, f"{len(failed)} of {len(schemes) * len(LINKS)} links failed"]))
    return int(bool(failed))


ENDS: dict[str, Callable[..., None]] = {"serve": serve, "transfer": transfer, "write": write}

if __name__ == "__main__":
    if end := ENDS.get("".join(sys.argv[1:2])):
        end(*sys.argv[2:])
    else:
        # Several links with real-time scheduling would hold each other up.
        if os.environ.get("LASTHOP_SCHEMES") is None and os.geteuid() == 0:
            os.environ["LASTHOP_SCHEMES"] = "1"
            ordinary = ["setpriv", "--bounding-set=-sys_nice", sys.executable]
            os.execvp("setpriv", [*ordinary, HERE, *sys.argv[1:]])
        sys.exit(main())
