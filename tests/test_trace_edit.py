"""`lasthop trace cut` and `scale`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_files import file, info

from lasthop.cli.main import main
from lasthop.traces import edit, formats
from lasthop.traces.source import ReadOptions

TABLE = "time_s,download_mbps,upload_mbps,rtt_ms\n" + "".join(
    f"{t},{10 + t},{1 + t / 10},{40 + t}\n" for t in range(10)
)
PING = "".join(
    f"[{1_700_000_000 + 0.5 * n:.3f}] 64 bytes from 192.0.2.1: icmp_seq={n + 1} ttl=9"
    f" time={20 + n} ms\n"
    for n in range(20)
    if n != 7
)


def test_a_part_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, out = file(tmp_path, TABLE), tmp_path / "part.down"
    assert main(["trace", "cut", name, "--from", "2.5s", "--to", "5s", "--out", str(out)]) == 0
    assert f"written: {out}, {out.with_suffix('.up')}" in capsys.readouterr().out
    found = info(capsys, out)
    assert found["duration_s"] == pytest.approx(2.5)
    mean = (0.5 * 12 + 13 + 14) / 2.5
    assert found["mean_rate_bps"]["down"] == pytest.approx(mean * 1e6, rel=1e-3)
    up = info(capsys, out.with_suffix(".up"))
    assert up["mean_rate_bps"]["up"] == pytest.approx((0.5 * 1.2 + 1.3 + 1.4) / 2.5 * 1e6, rel=5e-3)


def test_a_part_of_a_log_with_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times count gaps; --gaps says whether the trace has them, also at its start."""
    name = file(tmp_path, "time_s,mbps\n0,1\n1,2\n2,3\n10,4\n11,5\n")
    out = str(tmp_path / "x.down")
    for words, length, mean in (
        (("--from", "1s", "--to", "11s"), 3, 3),
        (("--from", "1s", "--to", "11s", "--gaps", "zero"), 10, 0.9),
        (("--from", "5s", "--gaps", "zero"), 7, 9 / 7),
        (("--from", "5s"), 2, 4.5),
    ):
        assert main(["trace", "cut", name, *words, "--out", out]) == 0
        capsys.readouterr()
        found = info(capsys, out)
        assert found["duration_s"] == pytest.approx(length)
        assert found["mean_rate_bps"]["down"] == pytest.approx(mean * 1e6, rel=0.01)


def test_a_part_of_a_ping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = file(tmp_path, PING)
    delay, loss = tmp_path / "x.delay", tmp_path / "x.loss"
    words = ["--from", "0.9s", "--to", "4.9s", "--out-delay", str(delay), "--out-loss", str(loss)]
    assert main(["trace", "cut", name, *words]) == 0
    capsys.readouterr()
    rows = [line.split() for line in delay.read_text().splitlines()[1:]]
    assert len(rows) == 7
    assert rows[0][1] == "11"
    assert float(loss.read_text().splitlines()[1].split()[1]) == pytest.approx(1 / 8)
    # A delay trace can be cut again.
    assert main(["trace", "cut", str(delay), "--to", "1s", "--out-delay", str(tmp_path / "y")]) == 0
    cut = [line.split()[1] for line in (tmp_path / "y").read_text().splitlines()[1:]]
    assert cut == ["11", "11.5", "12"]


@settings(deadline=None, max_examples=40)
@given(st.floats(0.1, 9.9), st.floats(0, 10), st.floats(0, 10))
def test_parts_add_up(
    tmp_path_factory: pytest.TempPathFactory, at: float, a: float, b: float
) -> None:
    name = file(tmp_path_factory.getbasetemp(), TABLE, "parts.csv")
    whole = formats.read(name, ReadOptions())
    parts = [edit.cut(whole, 0, at), edit.cut(whole, at)]
    for direction in (0, 1):
        sums = [p.rates(direction).bytes.sum() for p in parts]
        assert sum(sums) == pytest.approx(whole.rates(direction).bytes.sum())
    low, high = sorted((a, b))
    if high - low > 0.01:
        part = edit.cut(whole, low, high)
        assert part.time_s.min() >= 0
        assert part.rates(0).span_s.sum() == pytest.approx(high - low)


def test_faster_and_slower_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name, out = file(tmp_path, TABLE), tmp_path / "x.down"
    for rate, down, up in (("0.5", 7.25, 0.725), ("29Mbps", 29, 2.9), ("2", 29, 2.9)):
        assert main(["trace", "scale", name, "--scale-rate", rate, "--out", str(out)]) == 0
        capsys.readouterr()
        assert info(capsys, out)["mean_rate_bps"]["down"] == pytest.approx(down * 1e6, rel=1e-3)
        up_bps = info(capsys, out.with_suffix(".up"))["mean_rate_bps"]["up"]
        assert up_bps == pytest.approx(up * 1e6, rel=0.01)
    for delay, first in (("2", 40), ("10 ms", 10 * 40 / 44.5)):
        file_out = str(tmp_path / "x.delay")
        assert main(["trace", "scale", name, "--scale-delay", delay, "--out-delay", file_out]) == 0
        capsys.readouterr()
        assert float(Path(file_out).read_text().splitlines()[1].split()[1]) == pytest.approx(first)


def test_a_trace_is_scaled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = file(tmp_path, "".join(f"{t}\n" for t in range(1, 2001)), "a.down")
    out = str(tmp_path / "b.down")
    assert main(["trace", "scale", trace, "--scale-rate", "3Mbps", "--out", out]) == 0
    capsys.readouterr()
    found = info(capsys, out)
    assert found["duration_s"] == 2
    assert found["mean_rate_bps"]["down"] == pytest.approx(3e6)


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = file(tmp_path, TABLE), str(tmp_path / "x.down")
    ping = file(tmp_path, PING, "ping")
    for words, what in (
        (("cut", table, "--out", out), "needs --from T, --to T or both"),
        (("cut", table, "--from", "1s"), "trace cut needs --out"),
        (("cut", table, "--from", "5s", "--to", "2s", "--out", out), "--to must be after --from"),
        (("cut", table, "--from", "20s", "--to", "30s", "--out", out), "nothing was measured"),
        (("cut", table, "--from", "5", "--out", out), "--from must be a time"),
        (("scale", table, "--out", out), "needs --scale-rate X, --scale-delay X or both"),
        (
            ("scale", table, "--scale-rate", "0", "--out", out),
            "--scale-rate must be a factor above 0",
        ),
        (
            ("scale", table, "--scale-rate", "3ms", "--out", out),
            "--scale-rate must be a factor above 0",
        ),
        (
            ("scale", table, "--scale-delay", "3Mbps", "--out", out),
            "--scale-delay must be a factor above 0",
        ),
        (("scale", ping, "--scale-rate", "3Mbps", "--out", out), "there is none to scale"),
        (
            ("import", table, "--scale-rate", "2", "--out", out),
            "--scale-rate does not go with lasthop trace import",
        ),
        (
            ("scale", table, "--from", "2s", "--scale-rate", "2", "--out", out),
            "--from does not go with",
        ),
    ):
        assert main(["trace", *words]) == 2
        assert what in capsys.readouterr().err, words
    assert not Path(out).exists()


def test_an_output_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = file(tmp_path, "1\n2\n", "a.down")
    link = tmp_path / "b.down"
    link.symlink_to(trace)
    for out in (trace, str(link)):
        for words in (("cut", trace, "--to", "1ms"), ("scale", trace, "--scale-rate", "2")):
            assert main(["trace", *words, "--out", out]) == 2
            assert "would overwrite" in capsys.readouterr().err
    assert Path(trace).read_text() == "1\n2\n"
