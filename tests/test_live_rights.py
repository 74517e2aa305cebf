"""Whose rights a live link uses, and what its commands see and change of the machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from processes import PROGRAM, ended

from lasthop.live import link as live

HERE = Path(__file__).parent
REASON = live.missing()
NOBODY = 65534
HOP = ["--rate", "5Mbps", "--rtt", "10ms", "--bound", "10s"]

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which sudo gives")

AGENT = """
import os, pathlib
import lasthop

seen = list(os.getresuid()) + list(os.getresgid()) + os.getgroups()
try:
    os.seteuid(0)
    seen.append("is root again")
except PermissionError:
    pass
pathlib.Path("seen").write_text(repr(seen))

class Passes(lasthop.Agent):
    def on_segment(self, ctx, segment):
        return None
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of the user who calls sudo."""
    folder = tmp_path / "home"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    # Folders of pytest are closed to other users.
    for above in (tmp_path, *tmp_path.parents):
        if above == Path(tempfile.gettempdir()):
            break
        above.chmod(0o755)
    return folder


def sudo(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run lasthop as `sudo lasthop` does for a user without rights."""
    return ended(
        [*PROGRAM, *words],
        timeout=60,
        env={**os.environ, "SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)},
        cwd=home,
    )


@needs_root
@pytest.mark.parametrize("way", ["name", "link", "dangling link", "hard link"])
def test_under_sudo_a_capture_replaces_no_file_of_root(home: Path, way: str) -> None:
    secret = home.parent / "secret"
    if way != "dangling link":
        secret.write_text("of root")
        secret.chmod(0o644)
    if way == "name":
        target = secret
    else:
        target = home / "link.pcapng"
        (target.hardlink_to if way == "hard link" else target.symlink_to)(secret)
    done = sudo(home, "link", *HOP, "--pcap", str(target), "--", "true")
    assert done.returncode == 2
    assert done.stderr == f"lasthop: cannot write {target}: Permission denied (os error 13)\n"
    if way == "dangling link":
        assert not secret.exists()
    else:
        assert secret.read_text() == "of root"
        assert secret.stat().st_uid == 0


@needs_root
def test_under_sudo_results_go_only_where_the_user_may_write(home: Path) -> None:
    done = sudo(home, "link", *HOP, "--out", str(home.parent / "out"), "--", "true")
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert not (home.parent / "out").exists()


@needs_root
def test_under_sudo_inputs_are_read_as_the_user(home: Path) -> None:
    secret = home.parent / "secret.toml"
    secret.write_text("password = 'of root'")
    secret.chmod(0o600)
    done = sudo(home, "link", str(secret), "--bound", "10s", "--", "true")
    assert done.returncode == 2
    assert done.stderr == f"lasthop: {secret}: Permission denied\n"
    done = sudo(home, "link", "--down", str(secret), "--rtt", "20ms", "--", "true")
    assert done.returncode == 2
    assert "of root" not in done.stderr
    assert "Permission denied" in done.stderr


@needs_root
def test_under_sudo_agents_are_loaded_without_the_rights_of_root(home: Path) -> None:
    (home / "mine.py").write_text(AGENT)
    done = sudo(home, "link", *HOP, "--scheme", "mine.py:Passes", "--", "true")
    assert done.returncode == 0, done.stderr
    assert (home / "seen").read_text() == repr([NOBODY] * 7)


def python_is_closed() -> str | None:
    """Why the user who calls sudo cannot run this Python; None if he can."""
    if os.geteuid() != 0:
        return "needs root, which sudo gives"
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, user=NOBODY)
    except OSError as error:
        return f"needs a Python that all users can run: {error}"
    return None


VALIDATE = ["--senders", "reno", "--schemes", "none", "--seeds", "1", "--size", "20 kB", "--json"]


@pytest.mark.skipif(python_is_closed() is not None, reason=str(python_is_closed()))
def test_under_sudo_a_validation_runs_as_the_user(home: Path) -> None:
    done = sudo(home, "validate", "--rate", "5Mbps", "--rtt", "10ms", *VALIDATE)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    if document["failed"]:
        pytest.skip("undecided: machine too busy")
    assert [cell["n"] for cell in document["cells"] + document["controls"]] == [1, 1]


@needs_root
def test_under_sudo_a_validation_reads_files_as_the_user(home: Path) -> None:
    secret = home.parent / "secret.toml"
    secret.write_text("password = 'of root'")
    secret.chmod(0o600)
    done = sudo(home, "validate", str(secret), *VALIDATE)
    assert (done.returncode, done.stderr) == (2, f"lasthop: {secret}: Permission denied\n")


@needs_root
@pytest.mark.parametrize("place", ["option", "scenario"])
def test_under_sudo_a_validation_loads_no_agents(home: Path, place: str) -> None:
    (home / "mine.py").write_text(AGENT)
    (home / "s.toml").write_text(
        '[last_hop]\nrate = "5 Mbps"\n[[flow]]\n[[flow]]\nscheme = "mine.py:Passes"\n'
    )
    words = [*VALIDATE, "--schemes", "mine.py:Passes"] if place == "option" else VALIDATE
    hop = ["--rate", "5Mbps"] if place == "option" else ["s.toml"]
    done = sudo(home, "validate", *hop, *words)
    assert done.returncode == 2
    assert "under sudo, `validate` loads no schemes in Python" in done.stderr
    assert not (home / "seen").exists()


def in_namespaces(*flags: str, program: str) -> Any:
    done = ended(["unshare", *flags, sys.executable, str(HERE / program)], timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("user", ["root", "user namespace"])
def test_a_link_changes_nothing_on_the_machine(user: str) -> None:
    flags = ["--mount", "--net", "--pid", "--fork", "--mount-proc"]
    if user != "root":
        flags = ["--user", "--map-root-user", *flags]
    if subprocess.run(["unshare", *flags, "true"], check=False, capture_output=True).returncode:
        pytest.skip("the machine does not allow such namespaces")
    result = in_namespaces(*flags, program="live_machine.py")
    assert (result["status"], result["ended"], result["killed"]) == (0, [], [])
    # The command sees lasthop's first process, itself, and what it has started.
    own, processes, commands = result["seen"]
    assert own in processes
    assert len(processes) == 3
    assert "sleep" in commands


def test_commands_find_and_end_their_own_processes_only() -> None:
    if shutil.which("pkill") is None:
        pytest.skip("needs pkill (package procps)")
    other = subprocess.Popen(["sleep", "3600.25"])
    try:
        # `pkill -f` would find the shell, too.
        script = "sleep 3600.5 & until pkill -x sleep; do :; done; wait $!; echo $?"
        done = ended([*PROGRAM, "link", *HOP, "--", "sh", "-c", script], timeout=60)
        assert done.stdout == "143\n", done.stderr
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
