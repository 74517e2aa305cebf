"""README, CONTRIBUTING and docs: the snippets run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from busy import undecided
from optional import needs_those_in
from pages import PAGES, ROOT, SCENARIO_PAGE, Block, all_of, blocks, commands, ids, inline_code, of

from lasthop import _native, own_schemes, quantities
from lasthop.cli import arguments
from lasthop.cli.main import main
from lasthop.cli.options import scenario_file
from lasthop.experiments import chart_spec, plan, sweep_table
from lasthop.live import link as live
from lasthop.plotting import styles
from lasthop.reproduction import figures
from lasthop.scenarios import experiment

KINDS = {"python", "rust", "sh", "toml", "text", "mermaid", "yaml"}

#: Command lines that are not run, and why. Targets of `make` must exist all the same.
NOT_RUN = {
    "make demo": "builds for minutes",
    "make fuzz SECONDS=60": "builds with nightly Rust, then runs for ten minutes",
    "tools/fuzz.sh 600 sender": "the same",
    "make test": "runs these tests",
    "cargo +1.88.0 check --workspace --locked": "needs another compiler",
    "cargo semver-checks --baseline-rev v0.2.0 --workspace --exclude lasthop-fuzz "
    "--exclude lasthop-native --exclude lasthop-python": "needs the tag and cargo-semver-checks",
    "cargo publish --workspace --dry-run": "builds for minutes",
    "LASTHOP_PACKETDRILL=/path/to/scripts cargo test -p lasthop-endpoint --test endpoint "
    "packetdrill_scripts -- --ignored --nocapture": "needs the scripts of packetdrill",
    "LASTHOP_PACKETDRILL=/path/to/scripts cargo test -p lasthop --test scripted "
    "packetdrill_scripts -- --ignored --nocapture": "needs the scripts",
    "tcpdump -i eth1 -s 134 -w in.pcap tcp": (
        "needs a network and the right to listen; in.pcap is made here"
    ),
}
#: Command lines that are parsed with their scenarios but not run, and why.
ONLY_READ = {
    "lasthop replay IN.pcapng --mobile ADDR[/LEN] --scheme S --out OUT.pcapng "
    "[--interface NAME] [--json]": "a synopsis",
    "lasthop compare --down NAME.down --up NAME.up --rtt 40ms --loss LOSS "
    "--set last_hop.start=random --schemes ALL": "a synopsis; 660 runs",
    "lasthop reproduce zeng2006/fig15 --quick --out figures": "an example of `report` runs it",
    "lasthop gateway --scheme snoop --wireless wlan0": "runs on a router until a signal",
    "lasthop gateway --scheme rate-control --wireless wlan0 --wired eth0 --rate 20Mbps": "the same",
    "lasthop gateway --scheme i-tcp:buffer=256000B --wireless wlan0": "the same",
    "lasthop gateway --scheme rnf --wireless wlan0 --radio 5005": "the same",
    "lasthop gateway --wireless wlan0 --remove": "changes rules of the machine",
}
#: Command lines that only `make test-long` runs, and why.
LONG = {
    "lasthop evaluate bbr3": "6000 runs, 205 s of CPU time",
    "lasthop reproduce zeng2006": "13 figures",
    "lasthop reproduce zeng2006/fig15": "1000 runs",
    "lasthop reproduce zeng2006/fig15 --out out": "1000 runs",
    "lasthop reproduce zeng2006/fig15 --also newreno --seeds 100": "600 runs",
    "lasthop reproduce --all --quick": "all figures",
    "lasthop validate --rate 10Mbps --rtt 44ms --loss 2% --all --seeds 3 --size 500kB "
    "--out validation": "144 transfers over live links, three minutes",
    "lasthop advise in.pcap --mobile 192.0.2.7 --can base-station --out advice.html": "200 runs",
    "lasthop advise in.pcap --mobile 192.0.2.7 --can base-station": "200 runs",
    "lasthop advise drive.csv --can base-station --out advice.html": "200 runs",
    "lasthop advise iperf3.json ping.txt --can sender --out advice.html": "340 runs",
    "lasthop sweep --rate 2Mbps --rtt 40ms --schemes cubic,bbr --vary "
    "'last_hop.loss=logspace(0.1 %, 10 %, 7)' --until 'goodput ± 2 %' --out results": "2000 runs",
}
#: Values for the placeholders in those.
PLACEHOLDERS = {
    "NAME.down": "synthetic-lte.down",
    "NAME.up": "synthetic-lte.up",
    "LOSS": "1%",
    "ALL": "cubic,snoop",
    "S": "snoop",
}


def capture(file: Path, mobile: str) -> None:
    """A capture of raw IP packets: three segments to the mobile and their ACKs."""

    def packet(
        source: bytes,
        target: bytes,
        ports: tuple[int, int],
        seq: int,
        ack: int,
        flags: int,
        payload: bytes = b"",
    ) -> bytes:
        tcp = struct.pack("!HHIIBBHHH", *ports, seq, ack, 5 << 4, flags, 65535, 0, 0) + payload
        return (
            struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, source, target)
            + tcp
        )

    server, phone = bytes([198, 51, 100, 1]), bytes(int(x) for x in mobile.split("."))
    frames = [
        packet(server, phone, (80, 5000), 0, 1, 0x02),
        packet(phone, server, (5000, 80), 0, 1, 0x12),
    ]
    for seq in (1, 101, 201):
        frames.append(packet(server, phone, (80, 5000), seq, 1, 0x10, b"x" * 100))
        frames.append(packet(phone, server, (5000, 80), 1, seq + 100, 0x10))
    records = [struct.pack("<IIII", 0, 1000 * i, len(f), len(f)) + f for i, f in enumerate(frames)]
    file.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101) + b"".join(records)
    )


def measurements(folder: Path) -> None:
    """Files that `lasthop trace` reads: 8 Mbit/s for ten seconds, and three pings."""
    rows = "".join(f"{t},8000\n" for t in range(10))
    (folder / "drive.csv").write_text(f"time_s,download_kbps\n{rows}", encoding="utf-8")
    (folder / "log.csv").write_text(f"time_s,rate\n{rows}", encoding="utf-8")
    streams = [{"start": t, "seconds": 1, "bytes": 1e6, "sender": False} for t in range(10)]
    document = {"start": {"connected": []}, "intervals": [{"streams": [s]} for s in streams]}
    (folder / "iperf3.json").write_text(json.dumps(document), encoding="utf-8")
    answers = (f"64 bytes from 192.0.2.1: icmp_seq={n} ttl=9 time=40 ms\n" for n in range(3))
    (folder / "ping.txt").write_text("".join(answers), encoding="utf-8")
    (folder / "my.delay").write_text("0 21.5\n15000 33\n30000 24.25\n", encoding="utf-8")
    (folder / "my.loss").write_text("0 0\n15000 0.02\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that snippets need, and `lasthop` on the path."""
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, command in (
        ("lasthop", f"{shlex.quote(sys.executable)} -m lasthop"),
        ("python3", shlex.quote(sys.executable)),
    ):
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    shipped = ROOT / "python/lasthop/data/traces"
    for name in ("down", "up"):
        (tmp_path / f"my.{name}").write_bytes((shipped / f"synthetic-lte.{name}").read_bytes())
    (tmp_path / "my.toml").write_text(
        of("docs/scenario.md", "toml", "[last_hop]").text, encoding="utf-8"
    )
    for name in ("long.toml", "cell.toml"):
        (tmp_path / name).write_text(
            of("docs/scenario.md", "toml", 'name    = "radio"').text, encoding="utf-8"
        )
    (tmp_path / "figure.toml").write_text(of("docs/figures.md", "toml").text, encoding="utf-8")
    papers = tmp_path / "python/lasthop/papers"
    papers.parent.mkdir(parents=True)
    papers.symlink_to(ROOT / "python/lasthop/papers")
    (tmp_path / "deep-buffer.toml").write_text(of("docs/inspect.md", "toml").text, encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "scenario.toml").write_text(
        of("docs/scenario.md", "toml", 'name    = "radio"').text, encoding="utf-8"
    )
    rule = of("README.md", "python").text.split("\nprint")[0]
    (tmp_path / "mine.py").write_text(
        f"{rule}\nclass MyRule(Gentle):\n    pass\n", encoding="utf-8"
    )
    for block in NAMED:
        name = block.text.split()[1]
        (tmp_path / name).write_text(block.text, encoding="utf-8")
    (tmp_path / "to_trace.py").write_text(of("docs/traces.md", "python").text, encoding="utf-8")
    capture(tmp_path / "in.pcap", "192.0.2.7")
    capture(tmp_path / "in.pcapng", "10.0.0.2")
    measurements(tmp_path)
    # A second of each log that docs/traces.md converts, ten times: 1 MB/s, 8 Mbit/s.
    (tmp_path / "log").write_text("0 0 0 0 1000000 1000\n" * 10, encoding="utf-8")
    (tmp_path / "bus57.csv").write_text("8.0,Mbits/sec\n" * 10, encoding="utf-8")
    return tmp_path


#: Blocks of the tutorial and of recipes whose first line is a comment with the name of a file.
NAMED = [
    block
    for block in (*all_of("toml"), *all_of("python"))
    if re.match(r"# [\w-]+\.(toml|py)\n", block.text)
]


def read(line: str) -> None:
    """Parse a `lasthop` command and load what it names, without a run."""
    words = [
        PLACEHOLDERS.get(word, word)
        for word in shlex.split(
            re.sub(r"\[(--[^]]*)\]", r"\1", line.split(" > ")[0]).replace("[/LEN]", "")
        )
    ][1:]
    options = arguments.parse(words)
    if options.command == "reproduce":
        assert experiment.load(options.figures)
    elif options.command in ("run", "compare"):
        hop = {
            key: given
            for key in ("down", "up", "rtt", "loss", "rate", "queue")
            if (given := getattr(options, key)) is not None
        }
        settings = [quantities.key_value(text, "--set") for text in options.set]
        source = plan.source(scenario_file(options), settings=settings, last_hop=hop)
        named = (
            [options.scheme] if options.command == "run" else (options.schemes or "reno").split(",")
        )
        for scheme in named:
            plan.load(source, None if scheme is None else own_schemes.load_scheme(scheme))


#: Characters that a shell interprets.
SHELL = set("|&;<>$~*?{}()`#\\\n")


def called(text: str) -> str:
    """The output of a `lasthop` command called in this process, which has imported everything."""
    words = shlex.split(text)[1:]
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main(words)
    assert status == 0, errors.getvalue()
    return output.getvalue()


def shell(text: str, folder: Path) -> str:
    is_live = text.startswith(("lasthop link", "lasthop validate"))
    unquoted = re.sub(r"'[^']*'|\"[^\"$`]*\"", "", text)
    if text.startswith("lasthop ") and not is_live and not SHELL & set(unquoted):
        return called(text)
    reason = live.missing() if is_live else None
    if reason is not None:
        pytest.skip(reason)
    home = {"HOME": str(folder)} if "~/" in text else {}
    late = []
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=folder,
            env={**os.environ, **home},
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if not (is_live and "INVALID" in done.stderr):
            assert done.returncode == 0, done.stderr
            return done.stdout
        late.append(done.stderr.splitlines()[-1])
    undecided(f"packets of the link came late: {late}")


def test_every_kind_of_block_is_known() -> None:
    assert {block.kind for page in PAGES for block in blocks(page)} == KINDS


def runs(line: str) -> bool:
    """Whether a command line of a page is run, not only read."""
    return line not in (*NOT_RUN, *ONLY_READ, *LONG)


def with_few_runs(line: str) -> str:
    """The command with 3 seeds, if it is one that takes 20 or as many as it says."""
    if not re.match(r"lasthop (compare|sweep) (?!.*(--until|--status))", line):
        return line
    if "--seeds " in line:
        return re.sub(r"--seeds \d+", "--seeds 3", line)
    return re.sub(r"^lasthop \w+", r"\g<0> --seeds 3", line)


#: Pages that a new user follows; `make test` runs their snippets, `make test-rest` those of all.
FIRST_PAGES = ("README.md", "tutorial.md")


def rest(is_first: bool, sibling: str) -> list[pytest.MarkDecorator]:
    return [] if is_first else [pytest.mark.more(sibling)]


def in_two_scales(values: Iterable[tuple[Any, str, str, list[Any]]], sibling: str) -> list[Any]:
    """Value, its name, its commands and marks: as it is, and with few runs if that is less."""
    found = []
    for value, name, text, marks in values:
        if text == "\n".join(map(with_few_runs, text.split("\n"))):
            found.append(pytest.param(value, str, id=name, marks=marks))
            continue
        if not any(mark.name == "more" for mark in marks):
            few = pytest.param(value, with_few_runs, id=f"{name} with few runs", marks=marks)
            found.append(few)
            marks = [*marks, pytest.mark.more(sibling)]
        found.append(pytest.param(value, str, id=name, marks=marks))
    return found


def shell_blocks() -> list[Any]:
    """Blocks of shell commands, with the optional programs that they need."""
    sibling = "test_shell_snippets_run"
    texts = [(b, "\n".join(filter(runs, commands(b.text)))) for b in all_of("sh")]
    return in_two_scales(
        (
            (b, b.id, text, [*needs_those_in(text), *rest(b.page.name in FIRST_PAGES, sibling)])
            for b, text in texts
        ),
        sibling,
    )


def test_commands_of_all_pages_are_read(folder: Path) -> None:
    # `lasthop new` makes files that later lines of its block name.
    for block in (b for b in all_of("sh") if "lasthop new " not in b.text):
        for line in commands(block.text):
            if line.startswith("lasthop "):
                read(line)


@pytest.mark.parametrize(("block", "scaled"), shell_blocks())
def test_shell_snippets_run(block: Block, scaled: Callable[[str], str], folder: Path) -> None:
    output = ""
    for line in commands(block.text):
        if line.startswith("lasthop "):
            read(line)
        if runs(line):
            output += shell(scaled(line), folder)
    following = [
        b for b in blocks(block.page) if b.kind == "text" and block.line < b.line < block.line + 8
    ]
    for shown in following:
        assert_shows(shown.text, output)
    for trace in set(re.findall(r"> (\w+\.down)", block.text)):
        # The logs have 8 Mbit/s.
        run = json.loads(
            shell(f"lasthop run --down {trace} --rtt 40ms --set duration=1s --json", folder)
        )
        assert [link for link in run["links"] if link["radio"] and 7e6 < link["capacity_bps"] < 9e6]


def test_commands_that_are_not_run_are_in_the_pages() -> None:
    shown = [line for block in all_of("sh") for line in commands(block.text)] + [
        line for _, line in help_examples()
    ]
    assert set(NOT_RUN) | set(ONLY_READ) | set(LONG) <= set(shown)
    targets = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {line.split()[1] for line in NOT_RUN if line.startswith("make ")} <= set(targets)


def without_numbers(line: str) -> str:
    """The line up to numbers; a p below a bound is a number too."""
    return re.sub(r"<?[+-]?\d+(\.\d+)?(e[+-]?\d+)?", "#", " ".join(line.split()))


def assert_shows(shown: str, output: str) -> None:
    """Assert that the output has the shown lines, up to numbers and column widths; "…" is any
    line.
    """
    printed = {without_numbers(line) for line in output.splitlines()}
    for line in shown.splitlines():
        assert line == "…" or without_numbers(line) in printed, (
            f"{line!r} is not in the output:\n{output}"
        )


PROGRAMS = [block for block in all_of("python") if block.page.name != "traces.md"]


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b, id=b.id, marks=rest(b.page.name in FIRST_PAGES, "test_python_snippets_run"))
        for b in PROGRAMS
    ],
)
def test_python_snippets_run(block: Block, folder: Path) -> None:
    done = subprocess.run(
        # Another test may have a cluster with the usual port.
        [sys.executable, "-W", "error", "-W", "ignore:Port", "-c", block.text],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if block.page.name == "own-schemes.md":
        found = [*blocks(block.page), None]
        shown = found[found.index(block) + 1]
        if shown is not None and shown.kind == "text":
            assert_shows(shown.text, done.stdout)


SCENARIOS = [
    b
    for b in all_of("toml")
    if b.page.name in ("scenario.md", "traffic.md", "tutorial.md")
    or b.page.parent.name == "recipes"
]


@pytest.mark.parametrize("block", SCENARIOS, ids=ids(SCENARIOS))
def test_scenarios_run(block: Block, folder: Path) -> None:
    scenario = _native.Scenario(block.text, str(folder / "snippet.toml"), [("duration", "5s")])
    run = scenario.run(1).to_dict()
    assert sum(flow["delivered_bytes"] for flow in run["flows"]) > 0


def test_the_figure_of_the_page_is_a_figure() -> None:
    figure = experiment.read(ROOT / "figure.toml", text=of("docs/figures.md", "toml").text)
    assert figure.plot is not None
    names = [claim.id for claim in figure.claims]
    assert names == ["snoop-wins", "falls-with-loss", "half-0_1", "half-1"]
    runs = figures.figure_plan(figure, figures.Options(), version="test")
    assert runs.size() == 3 * 6 * 12


def test_the_page_of_figures_has_every_key() -> None:
    text = (ROOT / "docs/figures.md").read_text(encoding="utf-8")
    in_plot = {f.name for f in fields(experiment.Plot)} - {"vectors", "references"}
    in_claim = {f.name for f in fields(experiment.Claim)} - {"least_is_share"}
    for key in {*in_plot, *in_claim, "each", "vector", "reference", *chart_spec.KINDS}:
        assert f"`{key}`" in text, key
    assert all(f"`{name}`" in text for name in styles.PRESETS)


def test_the_table_of_sweeps_is_read() -> None:
    text = of("docs/sweeps.md", "toml").text
    found = sweep_table.read(text, "sweeps.md", experiment.Experiment())
    assert list(found.vary) == ["last_hop.loss", "last_hop.rate & last_hop.rtt"]
    assert found.vary["last_hop.loss"][0] == "0.1 %"
    assert (found.until, found.max_seeds) == ("goodput ± 2 %", 100)


def test_pages_with_toml_python_and_text_blocks_are_known() -> None:
    where = {
        kind: {block.page.name for block in all_of(kind)}
        for kind in ("toml", "python", "text", "mermaid")
    }
    assert where == {
        "toml": {
            *("scenario.md", "figures.md", "inspect.md", "sweeps.md"),
            *("traffic.md", "traces.md", "tutorial.md"),
            *("two-flows.md", "aqm.md", "satellite.md", "wifi.md"),
        },
        "python": {
            *("README.md", "own-schemes.md", "traces.md", "figures.md", "inspect.md"),
            *("python.md", "sweeps.md"),
            *("tutorial.md", "own-scheme.md", "own-agent.md", "notebook.md"),
        },
        "text": {
            *("README.md", "own-schemes.md", "traces.md", "architecture.md", "inspect.md"),
            *("tutorial.md", "install.md", "cluster.md", "gateway.md", "live-schemes.md"),
        },
        "mermaid": {"architecture.md"},
    }


def test_the_trace_of_the_format_is_a_trace(tmp_path: Path) -> None:
    lines = of("docs/traces.md", "text", "two opportunities").text.splitlines()
    (tmp_path / "t").write_text("".join(line.split()[0] + "\n" for line in lines), encoding="utf-8")
    where = plan.source(last_hop={"down": str(tmp_path / "t")}, settings=[("duration", "1s")])
    run = plan.load(where).run(1).to_dict()
    # Four opportunities of 1500 bytes in 10 ms.
    assert 4.8e6 in [link["capacity_bps"] for link in run["links"] if link["radio"]]


def test_modules_in_the_diagram_of_the_architecture_exist() -> None:
    picture = of("docs/architecture.md", "mermaid", "subgraph core").text
    core = picture.split("subgraph core")[1].split("end")[0]
    names = re.findall(r"^\s+([\w-]+)", core, re.MULTILINE)
    assert len(names) > 5
    for name in names:
        assert (ROOT / "crates" / name / "src/lib.rs").is_file(), name


def test_pages_with_rust_are_doctests() -> None:
    included = set()
    for file in (ROOT / "crates").glob("*/src/lib.rs"):
        for path in re.findall(
            r"#\[cfg\(doctest\)\]\n#\[doc = include_str!\(\"([^\"]+)\"\)\]",
            file.read_text(encoding="utf-8"),
        ):
            included.add((file.parent / path).resolve())
    assert included == {block.page for block in all_of("rust")}


def help_examples() -> list[tuple[str, str]]:
    top = arguments.parser()
    (subcommands,) = [action.choices for action in top._actions if isinstance(action.choices, dict)]
    found = []
    for name, parser in {"lasthop": top, **subcommands}.items():
        lines = (parser.epilog or "").replace("%%", "%").splitlines()[1:]
        found += [(name, line.strip()) for line in lines]
    return found


SMALL_SWEEP = (
    "lasthop sweep cell.toml --schemes reno,snoop --seeds 2 --set duration=2s --out {} --quiet"
)
BASELINE = (
    "lasthop check baseline.json --update --rate 2Mbps --rtt 40ms --loss 1% --set duration=5s"
    " --schemes mine.py:MyRule"
)
#: Example -> the commands that make the files it reads.
PREPARED = {
    "lasthop sweep --out results --status": f"rm -r results; {SMALL_SWEEP.format('results')}",
    "lasthop merge results-1 results-2 --out results": "rm -r results; "
    + " && ".join(SMALL_SWEEP.format(f"results-{i} --shard {i}/2") for i in (1, 2)),
    "lasthop check baseline.json": BASELINE,
    "lasthop check baseline.json --gate 'goodput >= 0.98' --gate 'delay <= 1.05' --junit "
    "check.xml": BASELINE,
    "lasthop report results": (
        "rm -r results; lasthop compare cell.toml --schemes reno,snoop --seeds 2 --set"
        " duration=2s --out results"
    ),
    "lasthop report out --out zeng2006.html": "lasthop reproduce zeng2006/fig15 --quick --out out",
}


def first_examples() -> set[str]:
    """The first example of each command that does not take minutes. `evaluate` and `validate`, of
    which even those take seconds, have separate tests.
    """
    short = [(name, line) for name, line in help_examples() if line not in LONG]
    first = dict(reversed(short))
    return {line for name, line in first.items() if name not in ("evaluate", "validate")}


def test_all_examples_are_read(folder: Path) -> None:
    for line in {line for _, line in help_examples()} | set(LONG):
        read(line)


EXAMPLES = "test_examples_of_help_run"
FIRST = first_examples()


@pytest.mark.parametrize(
    ("line", "scaled"),
    in_two_scales(
        (
            (
                line,
                line,
                line,
                [
                    *needs_those_in(line),
                    *([pytest.mark.long] if line in LONG else rest(line in FIRST, EXAMPLES)),
                ],
            )
            for line in sorted({line for _, line in help_examples()} | set(LONG))
        ),
        EXAMPLES,
    ),
)
def test_examples_of_help_run(line: str, scaled: Callable[[str], str], folder: Path) -> None:
    read(line)
    if line in PREPARED:
        for command in re.split("; | && ", PREPARED[line]):
            shell(command, folder)
    if line not in ONLY_READ:
        shell(scaled(line), folder)


def test_the_command_that_writes_the_schema(folder: Path) -> None:
    (command,) = [code for code in inline_code(SCENARIO_PAGE) if code.startswith("python -c")]
    shell(command.replace("python", "python3", 1), folder)
    assert json.loads((folder / "lasthop.schema.json").read_text(encoding="utf-8"))["properties"]
