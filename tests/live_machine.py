"""What a link leaves of the machine around it, for tests of live links.

Usage: unshare --mount --net --pid --fork --mount-proc python live_machine.py

Runs a link whose commands change what they can, to its end and killed. Prints JSON: what has
changed after each, and what the command has seen.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

# The command at the mobile: changes mounts, addresses and settings, and leaves a process behind.
CHANGE = """
import json, os, subprocess, sys, time
subprocess.Popen(['sleep', '3600'])
subprocess.run(['mount', '-t', 'tmpfs', 'lasthop-test', '/mnt'], check=True)
for setting in ('ip_forward', 'tcp_sack', 'tcp_fin_timeout'):
    open(f'/proc/sys/net/ipv4/{setting}', 'w').write('1')
processes = [int(name) for name in os.listdir('/proc') if name.isdigit()]
commands = [open(f'/proc/{n}/cmdline').read().split(chr(0))[0] for n in processes]
print(json.dumps([os.getpid(), processes, sorted(commands)]), flush=True)
time.sleep(float(sys.argv[1]))
"""
#: Settings that change without anybody changing them.
VOLATILE = ("kernel/random", "kernel/ns_last_pid", "kernel/pty", "fs/")


def settings() -> dict[str, str]:
    found = {}
    for path in sorted(Path("/proc/sys").rglob("*")):
        name = str(path.relative_to("/proc/sys"))
        if name.startswith(VOLATILE) or path.is_dir():
            continue
        try:
            found[name] = path.read_text(errors="replace")
        except OSError:
            continue
    return found


def namespaces(process: Path) -> list[str]:
    try:
        return [os.readlink(namespace) for namespace in (process / "ns").iterdir()]
    except OSError:
        return []


def state() -> dict[str, object]:
    """What a link could have changed here."""
    processes = [Path("/proc") / name for name in os.listdir("/proc") if name.isdigit()]
    network = ("dev", "route", "ipv6_route", "fib_trie", "if_inet6")
    texts = {name: Path(f"/proc/net/{name}").read_text() for name in network}
    # The number of packets of a device is not what it is.
    texts["dev"] = "".join(line.split(":")[0] for line in texts["dev"].splitlines())
    rules = ["nft", "list", "ruleset"] if shutil.which("nft") else ["true"]
    return {
        **texts,
        "processes": sorted(p.name for p in processes),
        "namespaces": sorted({n for p in processes for n in namespaces(p)}),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "rules": subprocess.run(rules, check=True, capture_output=True, text=True).stdout,
        "settings": settings(),
    }


def reap() -> None:
    """Collect processes whose parents have ended, as the first process of a machine does."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def changed(before: dict[str, object]) -> list[str]:
    """What differs, once processes that were killed have had time to end."""
    for _ in range(100):
        reap()
        after = state()
        if after == before:
            break
        time.sleep(0.05)
    return [name for name in before if before[name] != after[name]]


def link(seconds: float) -> subprocess.Popen[str]:
    words = ["--rate", "5Mbps", "--rtt", "10ms", "--bound", "10s"]
    server = f"{sys.executable} -m http.server 80"
    words += ["--server", server, "--", sys.executable, "-c", CHANGE, str(seconds)]
    call = [sys.executable, "-m", "lasthop", "link", *words]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def main() -> None:
    before = state()
    with link(0) as ended:
        seen = json.loads(ended.communicate(timeout=30)[0])
    result = {"status": ended.returncode, "seen": seen, "ended": changed(before)}
    with link(60) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        os.kill(killed.pid, signal.SIGKILL)
    print(json.dumps({**result, "killed": changed(before)}))


main()
