"""The reference results of ns-2.35: recovery traces and tables."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from lasthop import _native
from lasthop.validation.agreement import ROOT, Cell, Table, cell, cell_of, known_scheme, measure

REFERENCE = ROOT / "tests/reference/ns2"
FIXTURES = ROOT / "crates/lasthop-sim/tests/fixtures/ns2"
#: Folders with settings or agents that the tables' scenarios do not have; tests/sim/ns2_exact.rs
#: and tests/sim/ns2_snoop.rs run them.
OTHER_FIXTURES = {"snoop", "2.26", "tcpVariants"}
#: Depends on the random phase of ns-2's clock.
NOT_EXACT = {"rtotick"}

BULK = """
duration = "200 s"
[[link]]
between = ["fh", "bs"]
rate = "10 Mbps"
delay = "20 ms"
queue = "499 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{rate}"
delay = "{delay}"
queue = "{queue} packets"
{loss}
[[flow]]
from = "fh"
to = "mh"
app = "bulk"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
"""

ZENG = """
duration = "20 s"
[[link]]
between = ["fh", "bs"]
rate = "1 Mbps"
delay = "5 ms"
queue = "49 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "250 kbps"
delay = {delay}
queue = "49 packets"
{loss}
[[flow]]
from = "fh"
to = "mh"
app = "bulk"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
{keys}
"""

TRACE = """
duration = "2000 s"
[[link]]
between = ["fh", "bs"]
rate = "{wired_rate}"
delay = "{wired_delay}"
queue = "999 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "{hop_rate}"
delay = "{hop_delay}"
queue = "999 packets"
forward.loss = {{ model = "scripted", data = {data} }}
backward.loss = {{ model = "scripted", acks = {acks} }}
[[flow]]
from = "fh"
to = "mh"
app = {{ kind = "transfer", size = "{bytes} B" }}
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "ns-2.35"
scheme = "{scheme}"
receive_window = "{window} segments"
initial_ssthresh = "{initial_ssthresh} segments"
min_rto = "{minrto_s} s"
clock_granularity = "{tick_s} s"
dupack_threshold = {dupthresh}
limited_transmit = {limited_transmit}
timestamps = {timestamps}
guard_after_rto = {bugfix}
delayed_ack = {delayed_ack}
"""


#: ns-2's variants, and the schemes that are the same.
SCHEMES = {
    "Tahoe": "tahoe",
    "Reno": "reno",
    "Newreno": "newreno",
    "Sack1": "sack",
    "Vegas": "vegas",
    "Fack": "fack",
}
EXACT = ("Tahoe", "Reno", "Newreno", "Sack1")


def read(name: str) -> list[dict[str, str]]:
    with open(REFERENCE / name, newline="") as f:
        return list(csv.DictReader(f))


def settings(row: dict[str, str]) -> tuple[str, ...]:
    """What identifies a row: all before its number of runs."""
    return tuple(list(row.values())[: list(row).index("runs")])


def rows(name: str) -> list[dict[str, str]]:
    """A table; a row that was run with more seeds (`tools/ns2_more.py`) takes the place of the
    table's.
    """
    more = name.replace(".csv", "_more.csv")
    again = {settings(row): row for row in read(more)} if (REFERENCE / more).exists() else {}
    return [again.get(settings(row), row) if again else row for row in read(name)]


def air_loss(loss: str, both: bool = True) -> str:
    if float(loss) == 0:
        return ""
    # ns-2 draws once per packet, so the ordinal of the frame addresses our draws here.
    value = f'{{ model = "uniform", rate = {loss}, index = "frame" }}'
    return f"loss = {value}" if both else f"forward.loss = {value}"


def row_label(row: dict[str, str]) -> str:
    scheme, loss = SCHEMES[row["variant"]], float(row["loss"])
    if "bugFix" not in row:
        return f"{scheme}, {row['wireless_delay']}, loss {loss:.1%} {row['dir']}"
    switches = (
        f"bugFix {row['bugFix']}, limited transmit {row['limited_transmit']}, min RTO"
        f" {row['minrto_s']} s"
    )
    return f"{scheme}, {row['wireless_delay']}, loss {loss:.0%}, {switches}"


def bulk_text(row: dict[str, str], window: int, queue: int) -> str:
    """The scenario of a row of a bulk table; `queue` without the frame being sent."""
    loss = air_loss(row["loss"], row.get("dir") == "both")
    text = BULK.format(
        rate="2 Mbps",
        delay=row["wireless_delay"],
        queue=queue,
        window=window,
        scheme=SCHEMES[row["variant"]],
        loss=loss,
    )
    if "bugFix" in row:
        limited = "true" if row["limited_transmit"] == "1" else "false"
        text += (
            f'min_rto = "{row["minrto_s"]} s"\nguard_after_rto = {row["bugFix"]}\nlimited_transmit'
            f" = {limited}"
        )
    return text


def bulk(
    name: str, about: str, window: int, queue: int, seeds: int, variants: tuple[str, ...] = EXACT
) -> Table:
    cells = []
    for row in rows(name):
        if row["variant"] not in variants:
            continue
        scheme = SCHEMES[row["variant"]]
        text = bulk_text(row, window, queue)
        cells.append(
            cell(
                row_label(row),
                scheme,
                row,
                "goodput_bps_mean",
                text,
                seeds,
                float(row["goodput_ci95_half"]),
            )
        )
    return Table(f"`{name}`", about, cells)


def alone(name: str, variant: str, known: str, window: int, queue: int, seeds: int) -> list[Table]:
    """A variant that is ns-2's own version of its scheme, in separate tables."""

    def make(name: str) -> Table:
        table = bulk(name, "The same path.", window, queue, seeds, (variant,))
        table.title += f", {variant}"
        table.known, table.counted = known, False
        return table

    table = make(name)
    return [table] if table.cells else []


def switches(name: str, seeds: int, variants: tuple[str, ...] = EXACT) -> Table:
    cells = []
    for row in rows(name):
        if row["variant"] not in variants:
            continue
        scheme = SCHEMES[row["variant"]]
        cells.append(
            cell(
                row_label(row),
                scheme,
                row,
                "goodput_bps_mean",
                bulk_text(row, 100, 149),
                seeds,
                float(row["ci95_half"]),
            )
        )
    return Table(
        f"`{name}`",
        "The same path with one switch of the profile changed at a time: `guard_after_rto`,"
        " `limited_transmit`, `min_rto`.",
        cells,
    )


def zeng_text(config: str) -> tuple[str, str] | None:
    """The scenario of a row of zeng.csv and its scheme; None for what is not there yet."""
    if "every_0.5ms" in config:
        return None
    keys, window = [], "20"
    delay = '{ base = "170 ms", table = "zeng2006", from = "0.5 s", index = "frame" }'
    if config.startswith("0_"):
        delay = '"170 ms"'
    if config.startswith("III"):
        spans = (
            'added = [{ from = "5 s", length = "6 s", extra = "6 s" }]'
            if "plus6s" in config
            else 'stalls = [{ from = "5 s", length = "6 s" }], in_order = true'
        )
        delay = f'{{ base = "170 ms", {spans} }}'
    if "inorder" in config:
        delay = delay.replace(" }", ", in_order = true }")
    if "minrto1" in config:
        keys.append('min_rto = "1 s"')
    if "window64" in config:
        window = "64"
    if "nolimtx" in config:
        keys.append("limited_transmit = false")
    if "numdupacks" in config:
        keys.append(f"dupack_threshold = {config.split('numdupacks')[1].split('_')[0]}")
    sender = next((v for v in ("newreno", "tahoe", "sack") if v in config.lower()), "reno")
    scheme = sender
    if "ackfilter" in config:
        threshold = config.split("ackfilter")[1].split("_")[0]
        # The reference lets every second identical retransmission through instead of answering it.
        data = "forward_even=true" if "datafilter" in config else "data_filter=false"
        scheme = f"packet-control:dupack_threshold={threshold}:{data}:sender={sender}"
    loss = air_loss("0.01") if config.startswith("II_") else ""
    return (
        ZENG.format(delay=delay, loss=loss, scheme=scheme, window=window, keys="\n".join(keys)),
        scheme.split(":")[0],
    )


def zeng(seeds: int) -> list[Table]:
    drawn: list[Cell] = []
    fixed: list[Cell] = []
    for row in rows("zeng.csv"):
        made = zeng_text(row["config"])
        if made is None:
            continue
        text, scheme = made
        half = float(row["ci95_half"]) * 8000 / 20
        cells = fixed if row["config"].startswith("III") else drawn
        cells.append(cell(row["config"], scheme, row, "goodput_bps", text, seeds, half))
    about = (
        "Path and delays of zeng2006: scenario I (delay variation), II (1 % loss in addition), with"
        " the ACK filter written in Tcl for ns-2, and the sender's own threshold in its place."
    )
    third = Table(
        "`zeng.csv`, scenario III",
        "One deterministic run each: a stall of six seconds; within 3 %.",
        fixed,
        limit=0.03,
    )
    return [Table("`zeng.csv`, scenarios I and II", about, drawn), third]


def exact(variants: tuple[str, ...] = EXACT) -> tuple[dict[str, list[int]], list[str]]:
    """Per scheme [agreeing, all] traces, and the differences."""
    score: dict[str, list[int]] = {}
    differences = []
    for path in sorted(p for p in FIXTURES.rglob("*.txt") if p.parent.name not in OTHER_FIXTURES):
        if path.stem in NOT_EXACT:
            continue
        settings, sequences = read_fixture(path)
        for variant in (v for v in variants if (v, "snd") in sequences):
            good = _same(settings, variant, sequences)
            tally = score.setdefault(SCHEMES[variant], [0, 0])
            tally[0] += good
            tally[1] += 1
            if not good:
                differences.append(f"{path.stem} {variant}")
    return score, differences


def read_fixture(path: Path) -> tuple[dict[str, str], dict[tuple[str, str], list[tuple[int, int]]]]:
    """Settings, and per (variant, event) the numbers with their times in microseconds."""
    settings: dict[str, str] = {}
    sequences: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for line in path.read_text().splitlines():
        head, _, rest = line.partition("=")
        if " " not in head.split("(")[0]:
            settings[head.split("(")[0]] = rest
            continue
        variant, event, *items = line.split(" ")
        t, out = 0, []
        for item in items:
            number, step = item.split("@")
            t += int(step)
            out.append((int(number), t))
        sequences[variant, event] = out
    return settings, sequences


def trace_scenario(settings: dict[str, str], scheme: str) -> _native.Scenario:
    s = {k: v.replace("Mb", " Mbps") if k.endswith("rate") else v for k, v in settings.items()}
    s |= {
        "limited_transmit": "true" if s["limited_transmit"] == "1" else "false",
        "delayed_ack": '"100 ms"' if s["delack"] == "1" else "false",
    }
    data, acks = (
        json.dumps(s["data_drops"].split()),
        json.dumps([int(a) for a in s["ack_drops"].split()]),
    )
    return _native.Scenario(
        TRACE.format(**s, data=data, acks=acks, bytes=1000 * int(s["segments"]), scheme=scheme)
    )


def apart(variants: tuple[str, ...]) -> Iterator[str]:
    """Recovery traces of variants that need not be equal: when the last ACK comes, and how much
    is sent again.
    """
    yield (
        "| scenario | "
        + " | ".join(f"{v}: ns-2, s | here, s | sent again ns-2 / here" for v in variants)
        + " |"
    )
    yield "| --- |" + " ---: |" * (3 * len(variants))
    theirs = {(r["scenario"], r["variant"]): r for r in rows("trace_summary.csv")}
    for path in sorted(FIXTURES.glob("*.txt")):
        settings, _ = read_fixture(path)
        line = f"| {path.stem} |"
        for variant in variants:
            result, columns = trace_scenario(settings, SCHEMES[variant]).run_series(
                1, ["ack_received"]
            )
            again = json.loads(result)["flows"][0]["retransmissions"]["total"]
            last = columns["t_ns"][int(columns["ack"].argmax())] / 1e9
            row = theirs[path.stem, variant]
            line += (
                f" {float(row['t_last_ack_s']):.3f} | {last:.3f} | {row['retransmissions']} /"
                f" {again} |"
            )
        yield line
    yield ""


def _same(
    settings: dict[str, str], variant: str, sequences: dict[tuple[str, str], list[tuple[int, int]]]
) -> bool:
    scenario = trace_scenario(settings, SCHEMES[variant])
    _, columns = scenario.run_series(1, ["data_sent", "ack_received"])
    sent, acked = [], []
    for t, code, seq, length, ack in zip(
        *(columns[k].tolist() for k in ("t_ns", "event", "seq", "len", "ack")), strict=True
    ):
        if code == 0:
            sent.append((seq // 1000 + 1 if length else 0, t))
        else:
            acked.append((ack // 1000, t))
    theirs_acked = sequences[variant, "ack"]
    theirs_sent = sequences[variant, "snd"]
    acked = acked[: len(theirs_acked)]
    sent = [x for x in sent if x[1] <= theirs_acked[-1][1] * 1000 + 1000]
    return all(
        len(a) == len(b)
        and all(x[0] == y[0] and abs(x[1] - 1000 * y[1]) <= 1000 for x, y in zip(a, b, strict=True))
        for a, b in ((sent, theirs_sent), (acked, theirs_acked))
    )


#: Congestion-control modules of Linux 2.6 in ns-2's `Agent/TCP/Linux`, and the schemes nearest to
#: them.
LINUX = {
    "linux-reno": ("reno", "reno:recovery=sack+prr"),
    "linux-veno": ("veno", "veno:recovery=sack+prr"),
    "linux-vegas": ("vegas", "vegas:variant=linux:recovery=sack+prr"),
    "linux-westwood": ("westwood+", "westwood+:recovery=sack+prr"),
    "linux-cubic": ("cubic", "cubic:recovery=sack+prr"),
}


def hints(seeds: int) -> Table:
    """What Linux' modules got in ns-2: a third opinion where ns-3 and lasthop differ."""
    cells = []
    for row in rows("bulk_w100.csv"):
        scheme, settings = LINUX.get(row["variant"], ("", ""))
        if not known_scheme(scheme):
            continue
        text = BULK.format(
            rate="2 Mbps",
            delay=row["wireless_delay"],
            queue=149,
            window=100,
            scheme=settings,
            loss=air_loss(row["loss"], False),
        )
        label = f"{row['variant']}, {row['wireless_delay']}, loss {float(row['loss']):.1%}"
        keys = (
            'timestamps = true\nhalving = "window"\nclock = "rfc"\nclock_granularity = "1'
            ' ms"\nmin_rto_rule = "deviation"\n'
        )
        half = float(row["goodput_ci95_half"])
        o = measure(text + keys, seeds)
        cells.append(
            cell_of(label, scheme, int(row["runs"]), float(row["goodput_bps_mean"]), half, o, {})
        )
    about = (
        "The path of `bulk_w100.csv` with `Agent/TCP/Linux`; here each rule runs over SACK and PRR,"
        " with timestamps and Linux' rule for the smallest timeout."
    )
    known = (
        "a hint: code of 2006, its own recovery, and `linux-westwood` is unsound at 2 % and above"
        " (stalled runs left out)"
    )
    return Table(
        "`bulk_w100.csv`, modules of Linux", about, cells, known=known, counted=False, kind="hint"
    )
