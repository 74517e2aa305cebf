"""Every scheme on real packets: what programs do over `lasthop link --scheme`, and a table of it.

Usage: live_schemes.py [--jobs N] [SCHEME …]
       live_schemes.py serve | call FOLDER (at the ends of a link)

Four links for each scheme, whose ends have lasthop's own TCP where the scheme needs it:
`files`: curl fetches and sends files of 20 MB, two downloads by IPv4, one by IPv6 and an upload by
each at once, over 2 % loss. `conversations`: those of `live_cases.py`, with 10,000 writes of one
byte and a half-closed download. `plain`: kernels without SACK, timestamps and window scaling, over
1 % loss. `small`: kernels with an MSS of 536, over 1 % loss. Without real-time scheduling, which
several links at once would not share.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from live_cases import OPTIONS
from live_conversations import check, converse

HERE = str(Path(__file__).resolve())
SIZE = int(os.environ.get("SIZE", "20000000"))
ROUNDS = os.environ.get("ROUNDS", "10000")
LOSSY = ("--rate", "100Mbps", "--rtt", "10ms", "--loss", "2%")
TALK = ("--rate", "20Mbps", "--rtt", "2ms", "--loss", "0.1%")
SHORT = ("--rate", "20Mbps", "--rtt", "4ms", "--loss", "1%")
PORT = 8080


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


def serve() -> None:
    Server(("::", PORT), Handler).serve_forever()


def call(folder: str) -> None:
    """Print the seconds of each transfer, or what was wrong with it."""
    sent = Path(folder) / "sent"
    sent.write_bytes(file_of(SIZE))
    whole = hashlib.sha256(sent.read_bytes()).hexdigest()
    v4, v6 = os.environ["LASTHOP_SERVER"], f"[{os.environ['LASTHOP_SERVER6']}]"

    def transfer(name: str, address: str, *words: str) -> float | str:
        begun, got = time.monotonic(), Path(folder) / name
        call = ["curl", "-sS", "-g", "-o", str(got), "-H", "Expect:", *words]
        # On a busy machine the command may start before the server does.
        call += ["--retry", "20", "--retry-delay", "1", "--retry-connrefused"]
        done = subprocess.run(
            [*call, f"http://{address}:{PORT}/20MB"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return done.stderr.strip()
        data = got.read_bytes()
        digest = data.decode() if words else hashlib.sha256(data).hexdigest()
        return time.monotonic() - begun if digest == whole else f"other bytes, {len(data)} of them"

    upload = ("-T", str(sent))
    transfers = {
        "download": (v4,),
        "second download": (v4,),
        "download by IPv6": (v6,),
        "upload": (v4, *upload),
        "upload by IPv6": (v6, *upload),
    }
    with ThreadPoolExecutor(len(transfers)) as pool:
        found = pool.map(lambda name: transfer(name, *transfers[name]), transfers)
        print(json.dumps(dict(zip(transfers, found, strict=True))))


def files(scheme: str) -> str:
    """The seconds of the transfers, the first and the last one to end."""
    with tempfile.TemporaryDirectory() as folder:
        link = [sys.executable, "-m", "lasthop", "link", *LOSSY, "--bound", "10s", "--json"]
        link += ["--scheme", scheme, "--server", f"{sys.executable} {HERE} serve", "--"]
        link += [sys.executable, HERE, "call", folder]
        done = subprocess.run(link, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.partition("\n")[0])
    wrong = {name: what for name, what in found.items() if isinstance(what, str)}
    assert not wrong, wrong
    return f"{min(found.values()):.0f} to {max(found.values()):.0f} s"


def conversations(scheme: str) -> str:
    begun = time.monotonic()
    found, report = converse(*TALK, "--scheme", scheme, ROUNDS=ROUNDS)
    # Some schemes do not use SACK.
    check(found, report, options=found["options"])
    return f"{time.monotonic() - begun:.0f} s"


def plain(scheme: str) -> str:
    off = " ".join(f"tcp_{name}" for name in OPTIONS)
    found, report = converse(*SHORT, "--scheme", scheme, OFF=off)
    check(found, report, options=[])
    return "yes"


def small(scheme: str) -> str:
    found, report = converse(*SHORT, "--scheme", scheme, SEGMENT="536")
    check(found, report, options=found["options"])
    return "yes"


LINKS: dict[str, Callable[[str], str]] = {
    "files": files,
    "conversations": conversations,
    "plain": plain,
    "small": small,
}


def attempt(scheme: str, name: str) -> tuple[bool, str]:
    """Whether the link carried everything, and how long it took or what was wrong."""
    try:
        return True, LINKS[name](scheme)
    except (AssertionError, subprocess.TimeoutExpired, ValueError) as error:
        return False, f"{type(error).__name__}: {error}"


def all_schemes() -> list[str]:
    call = [sys.executable, "-m", "lasthop", "schemes", "--json"]
    found: list[Any] = json.loads(subprocess.run(call, capture_output=True, check=True).stdout)
    return [scheme["name"] for scheme in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("schemes", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    schemes = asked.schemes or all_schemes()
    failed = []
    print(f"| scheme | {' | '.join(LINKS)} |\n|---|{'---|' * len(LINKS)}", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        rows = {s: {n: pool.submit(attempt, s, n) for n in LINKS} for s in schemes}
        for scheme, row in rows.items():
            cells = []
            for name, future in row.items():
                good, text = future.result()
                cells.append(text if good else "**failed**")
                failed += [] if good else [f"{scheme}, {name}: {text}"]
                if not good:
                    print(failed[-1], file=sys.stderr, flush=True)
            print(f"| {scheme} | {' | '.join(cells)} |", flush=True)
    print("\n".join(["", *failed, f"{len(failed)} of {len(schemes) * len(LINKS)} links failed"]))
    return int(bool(failed))


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif sys.argv[1:2] == ["call"]:
        call(sys.argv[2])
    else:
        # Several links with real-time scheduling would hold each other up.
        if os.environ.get("LASTHOP_SCHEMES") is None and os.geteuid() == 0:
            os.environ["LASTHOP_SCHEMES"] = "1"
            ordinary = ["setpriv", "--bounding-set=-sys_nice", sys.executable]
            os.execvp("setpriv", [*ordinary, HERE, *sys.argv[1:]])
        sys.exit(main())
