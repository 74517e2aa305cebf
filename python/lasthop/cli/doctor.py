"""The command `lasthop doctor`: what this machine provides, how to install what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from lasthop.cli import options as common
from lasthop.cli.options import Options
from lasthop.experiments.pool import cores
from lasthop.extras import EXTRAS


def add_parser(commands: Any) -> None:
    """Add `doctor` to the command line."""
    doctor = commands.add_parser(
        "doctor",
        help="check what this machine provides",
        description=(
            "Show what lasthop can use on this machine, and how to install what is missing."
        ),
        **common.examples("lasthop doctor"),
    )
    common.add_json(doctor)


def doctor(options: Options, words: list[str]) -> int:
    """`lasthop doctor`."""
    found = run_checks()
    if options.json:
        link = any(c.what == "link" and c.ok for c in found)
        document = {"schema_version": 1, "link": link, "checks": [c.__dict__ for c in found]}
        common.print_document(document, options, words)
    else:
        print(text(found))
    return 0


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    what: str
    ok: bool
    found: str
    #: How to install it if it is missing; empty if nothing can be done.
    remedy: str = ""


def _package(name: str, needed_for: str) -> Check:
    if find_spec(name) is None:
        return Check(name, False, "not installed", f"pip install {name}   ({needed_for})")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return Check(name, True, f"{version(name)} ({needed_for})")
    except PackageNotFoundError:
        return Check(name, True, needed_for)


def _extra(extra: str) -> Check:
    module, what = EXTRAS[extra]
    if find_spec(module) is None:
        return Check(module, False, "not installed", f"pip install 'lasthop[{extra}]'   ({what})")
    return _package(module, what)


def _program(name: str, argument: str, package: str, needed_for: str) -> Check:
    path = shutil.which(name)
    if path is None:
        return Check(name, False, f"not installed ({needed_for})", f"apt-get install {package}")
    try:
        result = subprocess.run(
            [path, argument],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Check(name, True, f"{path} ({needed_for})")
    first = (result.stdout or result.stderr).strip().splitlines()
    # Only the name and the version: brackets behind them describe the build.
    found = first[0].split(" (Git")[0].rstrip(".") if first else path
    return Check(name, True, f"{found} ({needed_for})")


def _native() -> Check:
    try:
        from lasthop import _native

        found = f"lasthop {_native.version()}"
        if _native.is_dev_build():
            found += ", the slow build of `make test-module`; `make build` makes the fast one"
        return Check("simulator", True, found)
    except ImportError as error:
        return Check(
            "simulator",
            False,
            str(error),
            "build it: make build (needs Rust), or pip install the wheel",
        )


def _link() -> list[Check]:
    """What `lasthop link` needs, each tried."""
    try:
        from lasthop import _native
    except ImportError:
        return []
    rows, _ = _native.link_abilities()
    rights = "run as root, or in a container with CAP_SYS_ADMIN, CAP_NET_ADMIN and /dev/net/tun"
    remedies = {"outer_network": "apt-get install nftables"}
    checks = [
        Check(
            purpose,
            missing is None,
            missing or "available",
            rights if required else remedies.get(name, ""),
        )
        for name, purpose, missing, required in rows
    ]
    ready = not any(missing and required for _, _, missing, required in rows)
    head = Check("link", ready, "lasthop link can run" if ready else "see below")
    return [head, *checks, _tcp_probe()]


def _gateway() -> list[Check]:
    """What `lasthop gateway` needs, each tried."""
    try:
        from lasthop import _native
    except ImportError:
        return []
    rows = _native.gateway_abilities()
    remedies = {
        "queues": "run as root; the kernel needs nfnetlink_queue, nf_tables and nft_queue",
        "rights": "run as root, or with CAP_NET_ADMIN and CAP_NET_RAW",
    }
    checks = [
        Check(purpose, missing is None, missing or "available", remedies.get(name, ""))
        for name, purpose, missing, _ in rows
    ]
    ready = not any(missing and required for _, _, missing, required in rows)
    head = Check("gateway", ready, "lasthop gateway can run" if ready else "see below")
    return [head, *checks]


def _tcp_probe() -> Check:
    """The kernel's tracepoint for congestion windows, which is opened."""
    from lasthop.live import windows

    try:
        windows.TcpProbe(1)
        found = "available"
    except OSError as error:
        found = f"{error}; TCP_INFO is read instead"
    what = "cwnd at each ACK for lasthop validate (tracepoint tcp_probe)"
    return Check(what, found == "available", found, "run as root, or with CAP_PERFMON")


def _writable() -> Check:
    here = os.getcwd()
    try:
        with tempfile.TemporaryFile(dir=here):
            free = shutil.disk_usage(here).free
    except OSError as error:
        return Check(
            "current folder",
            False,
            f"{here}: {error.strerror}",
            "change to a folder you may write to, or use --out",
        )
    return Check("current folder", True, f"{here} is writable, {free / 1e9:.1f} GB free")


def run_checks() -> list[Check]:
    """Run all checks."""
    return [
        Check(
            "python",
            sys.version_info >= (3, 11),
            f"{platform.python_version()} on {platform.machine()}",
            "use Python 3.11 or later",
        ),
        _native(),
        Check("processors", True, f"{cores()}; one run per processor at a time"),
        _package("numpy", "comparisons, figures"),
        *(_extra(name) for name in EXTRAS),
        _writable(),
        _program("tshark", "--version", "tshark", "to inspect captures"),
        _program("ns", "-version", "ns2", "to repeat the reference runs"),
        *_link(),
        *_gateway(),
    ]


def text(checks: list[Check]) -> str:
    """Format the checks as text."""
    width = max(len(c.what) for c in checks)
    lines = []
    for check in checks:
        lines.append(f"{'ok' if check.ok else '--'}  {check.what:<{width}}  {check.found}")
        if not check.ok and check.remedy:
            lines.append(f"    {'':<{width}}  → {check.remedy}")
    return "\n".join(lines)
