"""`lasthop sweep` and `lasthop merge`: axes, resuming, shards, stop rules."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from busy import PATIENCE, undecided
from processes import pause, started, wait_for

from lasthop.cli.main import main
from lasthop.errors import InputError
from lasthop.experiments import axes, parts, stop_rule, sweep, workers

HOP = ["--rate", "2Mbps", "--rtt", "40ms", "--loss", "1%", "--set", "duration=1s"]
SMALL = ["sweep", *HOP, "--schemes", "reno,snoop", "--vary", "last_hop.rtt=20..60..20ms"]
SMALL += ["--seeds", "8"]
TABLES = ("runs.parquet", "table.parquet", "table.csv")


def parts_of(folder: Path) -> list[Path]:
    return [p for p in (folder / "parts").glob("*.parquet") if not p.name.startswith(".")]


def more_parts_than(folder: Path, count: int) -> Callable[[], bool]:
    return lambda: len(parts_of(folder)) > count


def tables(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in TABLES}


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "table.csv").open() as file:
        return list(csv.DictReader(file))


def children(pid: int) -> list[int]:
    """Worker processes of a sweep."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            line = Path(f"/proc/{child}/cmdline").read_bytes()
            if b"spawn_main" in line:
                found.append(int(child))
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small sweep, undisturbed."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert main([*SMALL, "--out", str(folder), "--quiet"]) == 0
    return folder


# Axes


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1..4..1", ["1", "2", "3", "4"]),
        ("1..3", ["1", "2", "3"]),
        ("20..60..20ms", ["20 ms", "40 ms", "60 ms"]),
        ("20 ms..60 ms..20 ms", ["20 ms", "40 ms", "60 ms"]),
        ("0.1..0.3..0.1 %", ["0.1 %", "0.2 %", "0.3 %"]),
        ("5..1..-2", ["5", "3", "1"]),
        ("1..10..4", ["1", "5", "9"]),
        ("linspace(1 Mbps, 3 Mbps, 5)", ["1 Mbps", "1.5 Mbps", "2 Mbps", "2.5 Mbps", "3 Mbps"]),
        ("logspace(0.1 %, 10 %, 3)", ["0.1 %", "1 %", "10 %"]),
        ("1%,2%", ["1%", "2%"]),
        ("../my.down", ["../my.down"]),
        ('{discipline="codel"},"250 packets"', ['{discipline="codel"}', '"250 packets"']),
    ],
)
def test_values_of_an_axis(text: str, values: list[str]) -> None:
    assert axes.values(text, "--vary x") == values


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1 ms..2 s..1 ms", "a range needs one unit, found ms and s"),
        ("1..2..0", "has no values"),
        ("5..1..1", "has no values"),
        ("1..1e9..1", "has more than 100000 values"),
        ("linspace(1, 2)", r"write linspace\(START, STOP, COUNT\)"),
        ("logspace(0, 2, 3)", "must be above 0"),
        ("1,2,1", "has the value `1` twice"),
        ("1..x", "`x` is not a number"),
    ],
)
def test_wrong_axes_are_refused(text: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        axes.values(text, "--vary x")


def test_keys_that_change_together() -> None:
    found = axes.read_zip("a=1..3..1 & b=10,20,30 packets")
    assert found == ("a & b", ["1 & 10", "2 & 20", "3 & 30 packets"])
    with pytest.raises(InputError, match="equally many values, found a 3, b 2"):
        axes.read_zip("a=1..3..1 & b=10,20")


@pytest.mark.parametrize(("text", "seeds"), [("3", range(1, 4)), ("5..7", range(5, 8))])
def test_seeds(text: str, seeds: range) -> None:
    assert axes.read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["0", "-1", "3..1", "x", "1..2..3"])
def test_wrong_seeds(text: str) -> None:
    with pytest.raises(InputError, match="--seeds"):
        axes.read_seeds(text)


# Results


def test_a_sweep_has_the_numbers_of_a_comparison(whole: Path, tmp_path: Path) -> None:
    words = ["compare", *SMALL[1:-4], "--vary", "last_hop.rtt=20ms,40ms,60ms", "--seeds", "8"]
    assert main([*words, "--out", str(tmp_path / "c"), "--json"]) == 0
    ours, theirs = (rows_of(folder) for folder in (whole, tmp_path / "c"))
    assert len(ours) == len(theirs) > 100
    for a, b in zip(ours, theirs, strict=True):
        for key in ("scheme", "metric"):
            assert a[key] == b[key]
        for key in list(a)[4:]:
            one, two = (float(row[key]) if row[key] else math.nan for row in (a, b))
            assert one == two or (math.isnan(one) and math.isnan(two)), (key, a, b)


def test_a_table_in_the_file_says_the_same_as_options(whole: Path, tmp_path: Path) -> None:
    file = tmp_path / "cell.toml"
    file.write_text(
        'title = "last hop: 2 Mbps, RTT 40 ms, loss 1 %"\nduration = "1 s"\n'
        '[last_hop]\nrate = "2Mbps"\nrtt = "40ms"\nloss = "1%"\n'
        '[sweep]\nschemes = ["reno", "snoop"]\nseeds = "1..8"\n'
        'vary = { "last_hop.rtt" = "20..60..20 ms" }\n'
    )
    assert main(["sweep", str(file), "--out", str(tmp_path / "o"), "--quiet"]) == 0
    assert tables(tmp_path / "o") == tables(whole)
    assert main(["run", str(file), "--json"]) == 0


def test_wrong_keys_of_the_table_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cell.toml"
    file.write_text('[last_hop]\nrate = "2Mbps"\nrtt = "40ms"\n[sweep]\nscheme = ["reno"]\n')
    assert main(["sweep", str(file), "--out", str(tmp_path / "o")]) == 2
    assert "unknown key `scheme` (did you mean `schemes`?)" in capsys.readouterr().err


def test_the_same_command_does_only_what_is_missing(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fewer = [w if w != "8" else "3" for w in SMALL]
    assert main([*fewer, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 18
    assert main([*SMALL, "--out", str(out), "--json", "--progress", "json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["runs"], found["reused"], found["missing"]) == (48, 18, 0)
    events = [json.loads(line) for line in captured.err.splitlines()]
    assert events[0]["message"] == f"18 of 48 runs reused from {out}"
    assert [e["done"] for e in events[1:]] == sorted(e["done"] for e in events[1:])
    last = {k: v for k, v in events[-1].items() if k in ("done", "total", "failed")}
    assert last == {"done": 48, "total": 48, "failed": 0}
    assert tables(out) == tables(whole)
    before = len(parts_of(out))
    assert main([*SMALL, "--out", str(out), "--quiet"]) == 0
    assert len(parts_of(out)) == before
    assert capsys.readouterr() == ("", "")
    assert main(["sweep", "--out", str(out), "--status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["runs"], status["missing"], status["running"]) == (48, 0, False)


def test_an_altered_part_is_not_used(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main([*SMALL, "--out", str(out), "--quiet"]) == 0
    part = parts_of(out)[0]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    for name in TABLES:
        (out / name).unlink()
    assert main([*SMALL, "--out", str(out)]) == 0
    assert "1 parts of" in capsys.readouterr().err
    assert tables(out) == tables(whole)


# Failures


@pytest.mark.parametrize(
    "kills",
    [
        2,
        pytest.param(4, marks=pytest.mark.more("test_kills_while_parts_are_written")),
        pytest.param(10, marks=pytest.mark.long),
    ],
)
def test_kills_while_parts_are_written(kills: int, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    # After each kill: finished parts, their bytes, and bytes of unfinished ones.
    sizes: list[tuple[int, int, list[int]]] = []
    folder = out / "parts"
    words = [*SMALL, "--out", str(out), "--jobs", "2", "--chunk", "1us"]
    # More kills if none has met a part yet.
    while len(sizes) < kills or not any(s[2] for s in sizes):
        before = len(parts_of(out))
        process = started(*words)
        # After one or two new parts, as soon as another part is being written.
        wait_for(more_parts_than(out, before + len(sizes) % 2), process)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and process.poll() is None:
            if folder.exists() and any(n.endswith(".partial") for n in os.listdir(folder)):
                break
        workers = children(process.pid)
        process.kill()
        process.communicate()
        unfinished = [p.stat().st_size for p in folder.glob(".*.partial")]
        sizes.append((len(parts_of(out)), sum(p.stat().st_size for p in parts_of(out)), unfinished))
        for pid in workers:  # no worker outlives its sweep
            end = time.monotonic() + PATIENCE
            while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
                time.sleep(0.05)
            assert not Path(f"/proc/{pid}").exists()
        assert all(parts._digest(p.read_bytes()) == p.stem for p in parts_of(out))
        if len(parts_of(out)) > 40:
            break
    assert [s[:2] for s in sizes] == sorted(s[:2] for s in sizes)
    assert main([*words, "--quiet"]) == 0
    assert tables(out) == tables(whole)
    assert not list(folder.glob(".*.partial"))
    if len(sizes) < kills or not any(s[2] for s in sizes):
        undecided(f"{len(sizes)} kills (parts, bytes, bytes of unfinished parts): {sizes}")


def test_a_full_disk_loses_no_finished_part(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*SMALL, "--out", str(out), "--jobs", "1", "--chunk", "1us"]
    process = started(*words)
    pause(lambda: len(parts_of(out)) >= 3, process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (2000, 2000))
    is_late = len(parts_of(out)) > 40
    process.send_signal(signal.SIGCONT)
    _, stderr = process.communicate(timeout=PATIENCE)
    if is_late:
        undecided("the sweep was nearly done when its disk became full")
    assert process.returncode == 2
    assert f"cannot write {out}/parts/" in stderr
    assert "File too large" in stderr
    assert 3 <= len(parts_of(out)) < 48
    assert not list((out / "parts").glob(".*.partial"))
    assert main([*words, "--quiet"]) == 0
    assert tables(out) == tables(whole)


def test_two_sweeps_into_one_folder(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = [*SMALL, "--out", str(out), "--jobs", "1", "--chunk", "1us"]
    process = started(*words)
    pause(lambda: bool(parts_of(out)), process)
    try:
        assert main([*words]) == 2
        assert f"another lasthop is writing to {out}" in capsys.readouterr().err
        assert main(["sweep", "--out", str(out), "--status"]) == 0
        assert "a sweep is running" in capsys.readouterr().out
    finally:
        os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert tables(out) == tables(whole)


def test_an_interrupt_keeps_finished_runs(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*SMALL, "--out", str(out), "--jobs", "2", "--chunk", "1us"]
    process = started(*words)
    pause(lambda: len(parts_of(out)) >= 2, process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"runs are saved in {out}; repeat the command to continue" in stderr
    assert main([*words, "--quiet"]) == 0
    assert tables(out) == tables(whole)


def test_an_interrupt_while_tables_are_written_names_the_finished_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    words = [*SMALL, "--seeds", "2", "--out", str(out), "--jobs", "1", "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr("lasthop.experiments.sweep.write_tables", interrupted)
        assert main(words) == 130
    found = capsys.readouterr().err
    assert f"interrupted; 12 runs are saved in {out}; repeat the command to continue" in found
    assert main(words) == 0
    assert (out / "table.csv").exists()


def test_a_dead_worker_loses_only_its_chunk(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started(*SMALL, "--out", str(out), "--jobs", "2", "--chunk", "1us")
    pause(lambda: bool(parts_of(out)), process)
    workers = children(process.pid)
    if not workers or len(parts_of(out)) > 40:
        process.kill()
        undecided("the sweep was nearly done when a worker should have died")
    os.kill(workers[0], signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, stderr
    assert "a worker died; its chunk is repeated" in stderr
    assert tables(out) == tables(whole)


def test_failed_runs_are_reported_and_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule, out = tmp_path / "mine.py", tmp_path / "out"
    rule.write_text(
        "import lasthop\nclass Rule(lasthop.CongestionControl):\n"
        "    def on_ack(self, window, ack):\n        raise ValueError('no idea')\n"
    )
    words = ["sweep", *HOP, "--schemes", f"reno,{rule}:Rule", "--seeds", "2", "--out", str(out)]
    assert main([*words, "--json"]) == 1
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [(f["scheme"], f["seed"]) for f in found["failed"]] == [("Rule", 1), ("Rule", 2)]
    assert "ValueError: no idea" in captured.err
    rule.write_text(rule.read_text().replace("raise ValueError('no idea')", "pass"))
    # Another rule is another case; the runs of reno are reused.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = started(*words, "--json", env=environment)
    text, _ = process.communicate(timeout=PATIENCE)
    again = json.loads(text)
    assert (process.returncode, again["reused"], again["runs"]) == (0, 2, 4)


# Shards


def test_merged_shards_are_the_whole_sweep(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards = [str(tmp_path / f"s{i}") for i in (1, 2, 3)]
    for i, folder in enumerate(shards, 1):
        assert main([*SMALL, "--shard", f"{i}/3", "--out", folder, "--quiet"]) == 0
    assert main(["merge", *shards[:2], "--out", str(tmp_path / "part")]) == 1
    assert "16 runs are missing" in capsys.readouterr().err
    assert main(["merge", *shards, "--out", str(tmp_path / "all"), "--quiet"]) == 0
    assert tables(tmp_path / "all") == tables(whole)
    # A merged folder is a sweep: the missing runs can be done there.
    assert main([*SMALL, "--out", str(tmp_path / "part"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reused"] == 32
    assert tables(tmp_path / "part") == tables(whole)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("8", "9"), "they use other seeds"),
        (("reno,snoop", "reno,cubic"), "they compare other schemes"),
        (("last_hop.rtt=20..60..20ms", "last_hop.rtt=20..80..20ms"), "they vary other keys"),
        (("duration=1s", "duration=2s"), "they have other scenarios, traces or rules"),
    ],
)
def test_other_sweeps_are_not_merged(
    change: tuple[str, str],
    why: str,
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [change[1] if w == change[0] else w for w in SMALL]
    other = tmp_path / "other"
    assert main([*words, "--shard", "2/40", "--out", str(other), "--quiet"]) == 0
    assert main(["merge", str(whole), str(other), "--out", str(tmp_path / "all")]) == 2
    stderr = capsys.readouterr().err
    assert "do not belong together" in stderr
    assert why in stderr


@pytest.mark.parametrize("text", ["0/3", "4/3", "x", "1"])
def test_wrong_shards(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--shard", text, "--out", str(tmp_path)]) == 2
    assert "--shard must be i/N" in capsys.readouterr().err


# Stop rules


def test_a_sweep_ends_when_intervals_are_narrow(tmp_path: Path) -> None:
    words = [*SMALL[:-2], "--until", "goodput ± 8 %", "--max-seeds", "40"]
    assert main([*words, "--out", str(tmp_path / "a"), "--quiet"]) == 0
    rows = rows_of(tmp_path / "a")
    goodput = [r for r in rows if r["metric"] == "goodput_bps"]
    assert len(goodput) == 6
    counts = {r["point"]: int(float(r["runs"])) for r in goodput}
    for row in goodput:
        half = (float(row["ci95_high"]) - float(row["ci95_low"])) / 2
        assert half <= 0.08 * float(row["mean"]) or counts[row["point"]] == 40
        assert float(row["runs"]) == counts[row["point"]]  # paired: equally many of each scheme
    assert all(10 <= n <= 40 for n in counts.values())
    assert len(set(counts.values())) > 1


@pytest.mark.more("test_merged_shards_are_the_whole_sweep")
def test_killed_shards_with_a_stop_rule_are_the_whole_sweep(tmp_path: Path) -> None:
    words = [*SMALL[:-2], "--until", "goodput ± 8 %", "--max-seeds", "40"]
    assert main([*words, "--out", str(tmp_path / "a"), "--quiet"]) == 0
    shards = [str(tmp_path / f"s{i}") for i in (1, 2)]
    for i, folder in enumerate(shards, 1):
        process = started(*words, "--shard", f"{i}/2", "--out", folder, "--chunk", "1us")
        wait_for(more_parts_than(Path(folder), 3), process)
        process.kill()
        process.communicate()
        assert main([*words, "--shard", f"{i}/2", "--out", folder, "--quiet"]) == 0
    assert main(["merge", *shards, "--out", str(tmp_path / "b"), "--quiet"]) == 0
    assert tables(tmp_path / "b") == tables(tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "metric", "half", "is_share"),
    [
        ("goodput ± 2 %", "goodput_bps", 0.02, True),
        ("delay +- 3 ms", "one_way_delay_s_p95", 0.003, False),
        ("timeouts±0.5", "timeouts", 0.5, False),
    ],
)
def test_stop_rules(text: str, metric: str, half: float, is_share: bool) -> None:
    known = ["goodput_bps", "one_way_delay_s_p95", "timeouts"]
    rule = stop_rule.read(text, known)
    assert (rule.metric, rule.is_share) == (metric, is_share)
    assert rule.half == pytest.approx(half)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("goodput", "must be METRIC ± X"),
        ("goodputt ± 2 %", "there is no metric `goodputt`"),
        ("goodput ± 0 %", "must be above 0"),
        ("goodput ± x", "must be a number"),
    ],
)
def test_wrong_stop_rules(text: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        stop_rule.read(text, ["goodput_bps"])


def test_rounds_grow_until_the_largest_number() -> None:
    rule = stop_rule.StopRule("x", 0.02, True)
    assert stop_rule.next_round(rule, 10, 0.9, 100) == 10
    assert stop_rule.next_round(rule, 10, 1.01, 100) == 13
    assert stop_rule.next_round(rule, 10, math.inf, 100) == 20
    assert stop_rule.next_round(rule, 90, 2.0, 100) == 100
    assert stop_rule.next_round(rule, 100, 2.0, 100) == 100


def test_an_interrupt_just_before_a_chunk_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def submit(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        raise RuntimeError("cannot schedule new futures after shutdown")

    for kind in (workers.Threads, workers.Processes):
        monkeypatch.setattr(kind, "submit", submit)
    assert main([*SMALL, "--out", str(tmp_path / "o"), "--quiet"]) == 130


@pytest.mark.parametrize("given", [None, "3"])
def test_worker_processes_have_one_blas_thread(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command sets it for itself; a program that calls `lasthop.sweep` does not.
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    processes = workers.Processes(1)
    try:
        found = processes._pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result()
    finally:
        processes.close()
    assert found == (given or "1")
    assert os.environ.get("OPENBLAS_NUM_THREADS") == given


def test_the_last_chunks_are_short_so_that_workers_end_together() -> None:
    for total, count in itertools.product((3.0, 22.0, 45.0, 300.0, 9000.0), (1, 2, 16)):
        left, busy_until = total, [0.0] * count
        while left > 0:
            chunk = min(sweep.chunk_seconds(total, left, count), left)
            assert chunk <= sweep.CHUNK_S[1]
            left -= chunk
            busy_until[busy_until.index(min(busy_until))] += chunk
        assert max(busy_until) - min(busy_until) <= sweep.LAST_CHUNK_S
        assert max(busy_until) <= total / count + sweep.LAST_CHUNK_S


def test_a_sweep_ends_with_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", "--rate", "1Mbps", "--rtt", "40ms", "--loss", "1%", "--duration", "1s"]
    words += ["--schemes", "reno,cubic", "--seeds", "1", "--out", str(tmp_path / "s")]
    assert main([*words, "--vary", "last_hop.rtt=20..220..20ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(i for i, line in enumerate(lines) if "last_hop.rtt  scheme" in line)
    assert "goodput (kbit/s)" in lines[head]
    assert len(lines) == head + 1 + 20 + 1
    assert lines[-1].startswith("2 more rows of points and schemes: ")
    assert lines[-1].endswith(f"lasthop report {tmp_path / 's'}")
