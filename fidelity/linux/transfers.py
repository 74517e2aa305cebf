"""The real half: transfers of this machine's kernel over live links, each stored when it ends."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from fidelity.linux import exchange, simulated
from fidelity.linux.cells import Cell
from fidelity.linux.exchange import PAUSES, RESPONSES
from fidelity.references import REFERENCES
from lasthop.live import link, transfer
from lasthop.live.transfer import RECEIVED, REPORT
from lasthop.live.validation import LATE, SocketUse

#: Where transfers are stored: a file with JSON lines for each block, and the machine.
STORE = REFERENCES / "linux/transfers"
PORT = 8000
#: Seconds between two looks of a sender at its socket: often enough that the last data carry the
#: FIN at 100 Mbit/s.
INTERVAL = 0.005
RECORD = "record.json"
#: Without the modules of the environment, a program starts in a third of the time.
PYTHON = [sys.executable, "-I", "-S"]
#: Seconds after which a transfer is given up.
LONGEST_S = 300.0
#: Bytes of each write.
WRITES = 64 << 10
USE_ECN = ["sh", "-c", 'echo 1 > /proc/sys/net/ipv4/tcp_ecn && exec "$@"', "sh"]

Record = dict[str, Any]


@dataclass
class Store:
    """The transfers that have ended."""

    folder: Path = STORE
    records: dict[tuple[str, int], Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        for file in sorted(self.folder.glob("*.jsonl")):
            for line in file.read_text(encoding="utf-8").splitlines():
                # A process that was killed may leave a part of a line.
                if line.endswith("}"):
                    record = json.loads(line)
                    self.records[record["cell"], record["seed"]] = record

    def missing(self, cells: Iterable[Cell]) -> list[tuple[Cell, int]]:
        """Transfers of the cells that have not ended, or failed."""
        pairs = ((cell, seed) for cell in cells for seed in range(1, cell.n + 1))
        return [
            (cell, seed)
            for cell, seed in pairs
            if "s" not in self.records.get((cell.name, seed), ())
        ]

    def of(self, cell: Cell) -> list[Record]:
        """The transfers of a cell, by seed."""
        seeds = range(1, cell.n + 1)
        return [self.records[cell.name, s] for s in seeds if (cell.name, s) in self.records]

    def add(self, cell: Cell, record: Record) -> None:
        """Store a transfer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in cell.block.lower())
        line = json.dumps(record, separators=(",", ":"))
        with self._lock:
            file = self.folder / f"{name}.jsonl"
            is_whole = not file.exists() or file.read_bytes()[-1:] in (b"", b"\n")
            with file.open("a", encoding="utf-8") as out:
                out.write(("" if is_whole else "\n") + line + "\n")
            self.records[cell.name, record["seed"]] = record

    def machine(self, write: bool) -> Mapping[str, Any]:
        """The machine of the stored transfers; of this one, if there are none and `write`.

        Raises `ValueError` if `write` and this machine has another kernel or other buffers.
        """
        file = self.folder / "machine.json"
        stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
        if not write:
            if stored is None:
                raise ValueError(f"{file} is missing: no real transfers are stored")
            return dict(stored)
        mine = this_machine()
        if stored is not None and stored != mine:
            raise ValueError(f"{self.folder} has transfers of another machine: {stored}")
        self.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(mine, indent=1) + "\n", encoding="utf-8")
        return mine


def this_machine() -> dict[str, Any]:
    """The kernel, and what it gives the sockets of most programs."""
    sysctls = Path("/proc/sys/net/ipv4")
    read = (sysctls / "tcp_rmem").read_text(encoding="ascii").split()
    return {
        "kernel": platform.release().split("-")[0],
        "processors": os.cpu_count(),
        "tcp_rmem": [int(word) for word in read],
        "settings": [list(pair) for pair in (*SocketUse().settings(), *headers())],
    }


def headers(config: Path = Path("/proc/config.gz")) -> simulated.Settings:
    """`MAX_TCP_HEADER` of this kernel: smaller if it was built without wireless LANs
    (docs/scenario.md); nothing, if the kernel does not say so.
    """
    if not config.exists():
        return []
    built = gzip.decompress(config.read_bytes()).decode().splitlines()
    with_wlan = any(line.startswith("CONFIG_WLAN=") for line in built)
    return [] if with_wlan else [("tcp.max_tcp_header", "256")]


def carry_all(
    store: Store, cells: list[Cell], jobs: int, report: Callable[[str], None] = print
) -> None:
    """Carry the transfers that are missing, `jobs` at a time, and store each when it ends."""
    machine = store.machine(write=True)
    for cell in cells:
        simulated.load(cell, machine["settings"])
    tasks = store.missing(cells)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fidelity.linux.suite"])
    start, left = time.monotonic(), sum(cell.expected_s for cell, _ in tasks)
    total, missing = left, {cell.name: len(store.of(cell)) for cell in cells}

    def one(task: tuple[Cell, int]) -> tuple[Cell, Record]:
        cell, seed = task
        found: Record = {}
        for _ in range(2):
            found = attempt(context, cell, seed, machine["settings"])
            if found.get("error") != LATE:
                break
        return cell, {"cell": cell.name, "seed": seed, **found}

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, task) for task in tasks]
        try:
            for future in as_completed(futures):
                cell, record = future.result()
                store.add(cell, record)
                left -= cell.expected_s
                missing[cell.name] += 1
                if missing[cell.name] == cell.n:
                    passed = time.monotonic() - start
                    rest = passed * left / (total - left) if total > left else 0.0
                    report(f"{cell.name}: {cell.n} transfers; {rest / 60:.0f} min left in all")
        finally:
            pool.shutdown(cancel_futures=True)


def attempt(context: ForkServerContext, cell: Cell, seed: int, settings: list[list[str]]) -> Record:
    """Carry a transfer in a separate process: a link gives up the rights to make another one."""
    with tempfile.TemporaryDirectory(prefix="lasthop-") as name:
        folder = Path(name)
        process = context.Process(target=_carry, args=(cell, seed, settings, folder))
        process.start()
        process.join(LONGEST_S)
        if process.is_alive():
            process.kill()
            process.join()
        file = folder / RECORD
        if not file.exists():
            raise RuntimeError(f"{cell.name}: the live link ended with {process.exitcode}")
        return dict(json.loads(file.read_text(encoding="utf-8")))


def _carry(cell: Cell, seed: int, settings: list[list[str]], folder: Path) -> None:
    """Carry a transfer, and write its record to the folder."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(silent, stream)
    found = carry(cell, seed, [(key, value) for key, value in settings], folder)
    (folder / RECORD).write_text(json.dumps(found), encoding="utf-8")


def carry(cell: Cell, seed: int, settings: simulated.Settings, folder: Path) -> Record:
    """A real transfer: when it began, how late packets were (p99, µs), and its seconds, or those
    of its responses; or an error.
    """
    file = folder / "cell.toml"
    file.write_text(cell.scenario(), encoding="utf-8")
    if cell.measure == "responses":
        pauses = simulated.responses(cell, settings, seed).pauses
        (folder / PAUSES).write_text(json.dumps(pauses), encoding="ascii")
    server, mobile = programs(cell, folder)
    report = link.link(mobile, file, server=server, scheme=cell.scheme, seed=seed)
    if not report["valid"]:
        return {"error": LATE}
    late = report["lateness_us"]["p99"]
    found = {"start": report["first_connection_s"], "late_us": round(late)}
    if cell.measure == "responses":
        if (folder / RESPONSES).exists():
            times = json.loads((folder / RESPONSES).read_text(encoding="ascii"))
            return found | {"s": [round(t, 6) for t in times]}
    elif (folder / RECEIVED).exists() and (folder / REPORT).exists():
        size, arrived = json.loads((folder / RECEIVED).read_text(encoding="ascii"))
        if size == cell.size:
            begin = json.loads((folder / REPORT).read_text(encoding="ascii"))["start"]
            return found | {"s": round(arrived - begin, 6)}
    return {"error": "the real transfer was not complete"}


def programs(cell: Cell, folder: Path) -> tuple[list[str], list[str]]:
    """The commands of server and mobile."""
    six = "6" if cell.factors["ipv6"] else ""
    if cell.measure == "responses":
        run = [*PYTHON, exchange.__file__]
        serve = [*run, "serve", str(PORT), cell.sender]
        return serve, [
            *run,
            "request",
            f"$LASTHOP_SERVER{six}",
            str(PORT),
            str(cell.size),
            str(folder),
        ]
    run = [*PYTHON, transfer.__file__]
    receive = [*run, "receive", str(PORT), str(cell.size), str(folder)]
    to = f"$LASTHOP_{'SERVER' if cell.upload else 'MOBILE'}{six}"
    send = [*run, "send", to, str(PORT), str(cell.size), cell.sender, str(folder), str(INTERVAL)]
    send += ["0", str(WRITES)]
    if cell.factors["ecn"]:
        send = [*USE_ECN, *send]
    return (receive, send) if cell.upload else (send, receive)
