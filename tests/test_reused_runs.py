"""Runs that are taken over from an earlier command, and folders with two writers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from busy import PATIENCE
from fakes import FakeLoader
from processes import LONG, PROGRAM, SHORT, ended, rows_of, started, wait_for

import lasthop
from lasthop.errors import InputError
from lasthop.experiments import plan, provenance, store
from lasthop.experiments.comparison import compare

# Reused runs


def key_of(scheme: type[lasthop.CongestionControl] | str, build: str = "") -> str:
    return (
        plan.plan(plan.Source("x"), [scheme], 1, version="1", build=build, loader=FakeLoader())
        .cases[0]
        .key
    )


def test_the_key_covers_all_imports_of_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "rule_main.py": (
            "import lasthop\nfrom rule_helper import BETA\nK = 1\nclass"
            " Mine(lasthop.CongestionControl):\n    def on_ack(self, window, ack):\n        import"
            " rule_late\n"
        ),
        "rule_helper.py": "import json\nfrom rule_package import deep\nBETA = deep.VALUE\n",
        "rule_package/__init__.py": "",
        "rule_package/deep.py": "from . import deeper\nVALUE = 1\n",
        "rule_package/deeper.py": "",
        "rule_late.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import rule_main  # type: ignore[import-not-found]

    (tmp_path / "other.py").write_text("")
    keys = [key_of(rule_main.Mine)]
    for name, text in files.items():
        (tmp_path / name).write_text(text + "# changed\n")
        keys.append(key_of(rule_main.Mine))
    assert len(set(keys)) == 1 + len(files)
    assert key_of(rule_main.Mine) == keys[-1]


def test_another_build_has_another_key() -> None:
    assert key_of("reno", "a") != key_of("reno", "b")
    assert provenance.build_id() == provenance.build_id()


def test_code_without_a_file_never_has_the_same_key() -> None:
    made = type("Made", (lasthop.CongestionControl,), {"__module__": "no_such_module"})
    assert key_of(made) != key_of(made)


def test_a_changed_constant_invalidates_old_runs(rules: Path, tmp_path: Path) -> None:
    rules.write_text(
        "import lasthop\nfrom beside import BETA\nclass Mine(lasthop.CongestionControl):\n    def"
        " on_ack(self, window, ack):\n        window.cwnd = BETA\n"
    )
    found = []
    for beta in (3000.0, 30000.0):
        (tmp_path / "beside.py").write_text(f"BETA = {beta}\n")
        words = [*PROGRAM, "compare", *SHORT, "--schemes", f"{rules}:Mine", "--seeds", "2"]
        words += ["--no-figure", "--json", "--out", str(tmp_path / "out")]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = ended(words, env=environment)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout)["points"][0]["schemes"][0]["goodput_bps"]["mean"])
    assert found[1] > 2 * found[0]
    assert "2 rows of" in done.stderr
    assert (
        "belong to another scenario, rule or build of lasthop and are not reused; they are saved in"
        " runs.previous.csv" in done.stderr
    )


def again(out: Path, schemes: tuple[str, ...] = ("reno", "snoop")) -> int:
    """Compare with output to `out`; return the number of runs done."""
    loader = FakeLoader()
    compare(
        plan.plan(plan.Source("x"), schemes, 3, version="1", loader=loader), version="1", out=out
    )
    return loader.runs


def test_the_number_of_reused_runs_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(tmp_path, ("reno",)) == 3
    assert capsys.readouterr().err == ""
    assert again(tmp_path) == 3
    assert capsys.readouterr().err == f"lasthop: 3 of 6 runs reused from {tmp_path}/runs.csv\n"


def test_tables_are_made_again_only_for_new_runs(tmp_path: Path) -> None:
    def written(schemes: tuple[str, ...]) -> int:
        the_plan = plan.plan(plan.Source("x"), schemes, 3, version="1", loader=FakeLoader())
        compare(the_plan, version="1", out=tmp_path).write(tmp_path, ["x"], figure=False)
        assert pl.read_parquet(tmp_path / "runs.parquet").height == 3 * len(schemes)
        table, rows = ((tmp_path / n).stat().st_mtime_ns for n in ("table.csv", "runs.parquet"))
        assert table < rows
        return table

    first = written(("reno",))
    assert written(("reno",)) == first
    more = written(("reno", "snoop"))
    assert more > first
    assert written(("reno",)) > more
    (tmp_path / "runs.parquet").unlink()
    written(("reno",))


@pytest.mark.parametrize(
    "alter",
    [
        lambda row: row.replace(b"1401", b"1402"),
        lambda row: row.replace(b"1401", b"nan"),
        lambda row: row.replace(b"1401", b""),
        lambda row: row.replace(b"1401", b"14\xff01"),
        lambda row: row.replace(b"1401", b'"1401'),
        lambda row: row.replace(b"1401,", b"1401,7,"),
        lambda row: row.replace(b"1401", b"14\x0001"),
        lambda row: b"\xff\xfe" + row,
    ],
)
def test_an_altered_row_is_not_reused(
    tmp_path: Path, alter: Callable[[bytes], bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(tmp_path) == 6
    file = tmp_path / "runs.csv"
    good = file.read_bytes()
    lines = good.splitlines(keepends=True)
    assert b"1401" in lines[1]
    altered = b"".join([lines[0], alter(lines[1]), *lines[2:]])
    assert altered != good
    file.write_bytes(altered)
    assert again(tmp_path) == 1
    stderr = capsys.readouterr().err
    assert (
        f"1 rows of {file} were altered or damaged after they were written and are not reused; they"
        " are saved in runs.previous.csv" in stderr
    )
    assert "5 of 6 runs reused" in stderr
    assert file.read_bytes() == good
    assert (tmp_path / "runs.previous.csv").read_bytes() == altered


def test_rows_of_an_older_version_are_saved_separately(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert again(tmp_path) == 6
    file = tmp_path / "runs.csv"
    old = "".join(line.rpartition(",")[0] + "\n" for line in file.read_text().splitlines())
    file.write_text(old)
    assert again(tmp_path) == 6
    assert (
        capsys.readouterr().err
        == f"lasthop: 6 rows of {file} belong to an older version and are not reused; they are"
        " saved in runs.previous.csv\n"
    )
    assert (tmp_path / "runs.previous.csv").read_text() == old


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00\x01\x80", b"name,value\n1,2\n", "größe".encode("utf-16")]
)
def test_a_file_that_is_not_a_table_of_runs_is_not_changed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "runs.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match="is not a table of runs"):
        again(tmp_path)
    assert file.read_bytes() == content


# Two writers


def test_a_second_writer_is_rejected_and_the_first_continues(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    words = ("compare", *LONG, "--schemes", "reno", "--seeds", "10000", "--out", out)
    first = started(*words)
    try:
        wait_for(
            lambda: (
                rows_of(tmp_path / "out" / "runs.csv") >= 0
                and (tmp_path / "out" / "runs.csv").exists()
            ),
            first,
        )
        for second in (words, ("reproduce", "zeng2006/fig15", "--quick", "--out", out)):
            refused = ended([*PROGRAM, *second])
            assert refused.returncode == 2
            assert (
                refused.stderr
                == f"lasthop: another lasthop is writing to {out}; wait for it, or give another"
                " --out\n"
            )
            assert first.poll() is None
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=PATIENCE)
    finally:
        first.kill()
    assert first.returncode == 130


def interrupted(process: subprocess.Popen[str]) -> str:
    """Send SIGINT; return what the process writes to stderr. Python loses an interrupt that it gets
    in a callback of its import system, so it is sent once more if nothing happens.
    """
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=20)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=PATIENCE)[1]


def test_only_one_of_two_simultaneous_writers_writes(tmp_path: Path) -> None:
    words = (
        "compare",
        *LONG,
        "--schemes",
        "reno",
        "--seeds",
        "10000",
        "--out",
        str(tmp_path / "new"),
    )
    both = [started(*words) for _ in range(2)]
    deadline = time.monotonic() + PATIENCE
    try:
        while all(p.poll() is None for p in both) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        ended = [p for p in both if p.poll() is not None]
        stderr = [interrupted(p) for p in both]
        for process in both:
            process.kill()
    assert len(ended) == 1
    assert sorted(p.returncode for p in both) == [2, 130]
    assert sum("another lasthop is writing" in text for text in stderr) == 1


def test_tables_and_figures_are_written_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def intrude(*_: object) -> None:
        with pytest.raises(InputError) as refused, store.sole_writer(tmp_path):
            pass
        found.append(str(refused.value))

    monkeypatch.setattr("lasthop.plotting.styles.save", intrude)
    lasthop.compare(
        text='duration = "1 s"\n[last_hop]\nrate = "1 Mbps"\n',
        schemes=["reno"],
        seeds=1,
        out=tmp_path,
    )
    assert "another lasthop" in found[0]
    with store.sole_writer(tmp_path):
        pass
