"""Tahoe to SACK, Vegas and FACK beside ns-2.35: bulk flows over a lossy last hop, and the delays
of zeng2006.
"""

from __future__ import annotations

from dataclasses import replace

from fidelity import ns2_traces
from fidelity.agreement import Table
from fidelity.ns2_traces import SCHEMES
from fidelity.references import Row, ns2_rows
from fidelity.suite import Columns, Comparison, Reference, Suite, known_scheme

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

W100 = "One endless flow for 200 s; window 100, queue 150, so that only random loss matters."
W10000 = "The same with window 10000 and a queue of 50: both kinds of loss."
VEGAS = (
    "ns-2's Vegas doubles the timeout at every fast retransmit (in trace rtx1 the back-off goes to"
    " 2 at 0.679 s and to 4 at 0.905 s, both fast retransmits), so that timeouts, which many losses"
    " bring, last longer; here only a timeout backs off (RFC 6298, section 5). It has no limited"
    " transmit, takes one more segment off its send limit for the SYN, and does not take a segment"
    " that was sent again for overdue unless its own timer says so for both ACKs that follow"
)
FACK = (
    "ns-2's Fack stops sending when SACK tells that a retransmission was lost, until the timer"
    " fires (trace rtx1: nothing between 0.748 s and 1.748 s), which costs a second or more for"
    " every segment lost twice: 5 and 9 % of the retransmissions. It sets cwnd to one segment when"
    " recovery begins and opens it again with each ACK (rtx1: 1, 2, 3 … 7 between 0.555 and 0.605"
    " s), and each ACK, duplicates too, restarts its timer. None of this is in the paper, which"
    " halves the window and leaves lost retransmissions open; here they are left to the timer too,"
    " but sending goes on until it fires"
)


def air_loss(loss: str, both: bool = True) -> str:
    """The losses of the radio link, or none."""
    if float(loss) == 0:
        return ""
    # ns-2 draws once per packet, so the ordinal of the frame addresses our draws here.
    value = f'{{ model = "uniform", rate = {loss}, index = "frame" }}'
    return f"loss = {value}" if both else f"forward.loss = {value}"


def row_label(row: dict[str, str]) -> str:
    """The name of a cell of a bulk table."""
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


#: Columns of the two tables of bulk flows.
BULK_COLUMNS = Columns(half="goodput_ci95_half", counts=("retrans_mean", "timeouts_mean"))


def scheme_of(row: Row) -> str:
    """The scheme of a row."""
    return SCHEMES[row["variant"]]


def bulk(
    name: str,
    about: str,
    seeds: int,
    variants: tuple[str, ...],
    path: tuple[int, int] = (100, 149),
    columns: Columns = BULK_COLUMNS,
) -> Table:
    """A table of endless flows; `path` has the window and the queue of the last hop."""
    comparison = Comparison(row_label, scheme_of, lambda row: bulk_text(row, *path), columns)
    rows = [row for row in ns2_rows(name) if row["variant"] in variants]
    return Table(f"`{name}`", about, comparison.cells(rows, seeds))


def alone(variant: str, known: str, seeds: int) -> list[Table]:
    """A variant that is ns-2's own version of its scheme, in a separate table."""
    table = bulk("bulk_w100.csv", "The same path.", seeds, (variant,))
    table.title += f", {variant}"
    table.known, table.counted = known, False
    return [table] if table.cells else []


def zeng_text(config: str) -> tuple[str, str] | None:
    """The scenario of a row of zeng.csv and its scheme; None for what lasthop does not have."""
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


def zeng_scenario(row: Row) -> tuple[str, str]:
    """The scenario of a row that lasthop has, and its scheme."""
    made = zeng_text(row["config"])
    assert made
    return made


def zeng_reference(row: Row) -> Reference:
    """The interval of zeng.csv is in segments of 1000 bytes in 20 s."""
    return replace(Columns(goodput="goodput_bps")(row), half=float(row["ci95_half"]) * 8000 / 20)


def zeng(seeds: int) -> list[Table]:
    """The scenarios of zeng2006."""
    comparison = Comparison(
        lambda row: row["config"],
        lambda row: zeng_scenario(row)[1],
        lambda row: zeng_scenario(row)[0],
        zeng_reference,
    )
    rows = [row for row in ns2_rows("zeng.csv") if zeng_text(row["config"])]
    fixed = [row for row in rows if row["config"].startswith("III")]
    about = (
        "Path and delays of zeng2006: scenario I (delay variation), II (1 % loss in addition), with"
        " the ACK filter written in Tcl for ns-2, and the sender's own threshold in its place."
    )
    return [
        Table(
            "`zeng.csv`, scenarios I and II",
            about,
            comparison.cells([row for row in rows if row not in fixed], seeds),
        ),
        Table(
            "`zeng.csv`, scenario III",
            "One deterministic run each: a stall of six seconds; within 3 %.",
            comparison.cells(fixed, seeds),
            limit=0.03,
        ),
    ]


#: Congestion-control modules of Linux 2.6 in ns-2's `Agent/TCP/Linux`, and the schemes nearest to
#: them.
LINUX = {
    "linux-reno": ("reno", "reno:recovery=sack+prr"),
    "linux-veno": ("veno", "veno:recovery=sack+prr"),
    "linux-vegas": ("vegas", "vegas:variant=linux:recovery=sack+prr"),
    "linux-westwood": ("westwood+", "westwood+:recovery=sack+prr"),
    "linux-cubic": ("cubic", "cubic:recovery=sack+prr"),
}


#: Keys of the profile for modules of Linux.
LINUX_KEYS = """timestamps = true
halving = "window"
clock = "rfc"
clock_granularity = "1 ms"
min_rto_rule = "deviation"
"""


def linux_text(row: Row) -> str:
    """The scenario of a row with a module of Linux."""
    return (
        BULK.format(
            rate="2 Mbps",
            delay=row["wireless_delay"],
            queue=149,
            window=100,
            scheme=LINUX[row["variant"]][1],
            loss=air_loss(row["loss"], False),
        )
        + LINUX_KEYS
    )


def hints(seeds: int) -> Table:
    """What Linux' modules got in ns-2: a third opinion where ns-3 and lasthop differ."""
    comparison = Comparison(
        lambda r: f"{r['variant']}, {r['wireless_delay']}, loss {float(r['loss']):.1%}",
        lambda r: LINUX[r["variant"]][0],
        linux_text,
        replace(BULK_COLUMNS, counts=None),
        as_many_runs=False,
    )
    rows = [
        row
        for row in ns2_rows("bulk_w100.csv")
        if row["variant"] in LINUX and known_scheme(LINUX[row["variant"]][0])
    ]
    about = (
        "The path of `bulk_w100.csv` with `Agent/TCP/Linux`; here each rule runs over SACK and PRR,"
        " with timestamps and Linux' rule for the smallest timeout."
    )
    known = (
        "a hint: code of 2006, its own recovery, and `linux-westwood` is unsound at 2 % and above"
        " (stalled runs left out)"
    )
    return Table(
        "`bulk_w100.csv`, modules of Linux",
        about,
        comparison.cells(rows, seeds),
        known=known,
        counted=False,
        kind="hint",
    )


SWITCHES = (
    "The same path with one switch of the profile changed at a time: `guard_after_rto`,"
    " `limited_transmit`, `min_rto`."
)


def bulk_tables(seeds: int, variants: tuple[str, ...]) -> list[Table]:
    """The tables of endless flows for some variants of ns-2."""
    return [
        bulk("bulk_w100.csv", W100, seeds, variants),
        bulk("bulk_w10000_q50.csv", W10000, seeds, variants, (10_000, 49)),
        bulk("bulk_reno_variants.csv", SWITCHES, seeds, variants, columns=Columns()),
    ]


def dupack_tables(seeds: int) -> list[Table]:
    """Tahoe, Reno and NewReno."""
    return [*bulk_tables(seeds, DUPACK), *zeng(seeds)]


def sack_tables(seeds: int) -> list[Table]:
    """SACK, Vegas and FACK."""
    return [
        *bulk_tables(seeds, SACK),
        *alone("Vegas", VEGAS, seeds),
        *alone("Fack", FACK, seeds),
    ]


def traces_apart() -> str:
    """The section on recovery traces that need not be equal."""
    head = (
        "## Recovery traces of Vegas and Fack\n\nns-2's own versions of these, not matched on"
        f" purpose. Vegas: {VEGAS}. Fack: {FACK}.\n\n"
    )
    return head + "\n".join(ns2_traces.apart(("Vegas", "Fack")))


DUPACK, SACK = ("Tahoe", "Reno", "Newreno"), ("Sack1",)
DUPACK_SUITE = Suite("fidelity", "How lasthop compares with ns-2.35", dupack_tables, DUPACK)
SACK_SUITE = Suite(
    "fidelity-sack", "SACK, Vegas and FACK beside ns-2.35", sack_tables, SACK, traces_apart
)
