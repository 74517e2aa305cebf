"""Senders beside ns-3.44: one flow over a lossy last hop (PPP links, SACK and PRR, minimum RTO
1 s).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fidelity import ns2, ns3_mimics
from fidelity.agreement import Cell, Table
from fidelity.measuring import Measured
from fidelity.ns3_variants import VARIANTS, Variant
from fidelity.references import NS3, Row, read
from fidelity.suite import Comparison, Reference, Suite, known_scheme

REFERENCE = NS3 / "goodput.csv"
#: The same with rules of ns-3 replaced by those here (tools/ns3_replaced.py).
REPLACED = NS3 / "replaced.csv"

LOSSY_HOP = """
duration = "{end} s"
[measure]
from = "20 s"
[[link]]
between = ["fh", "bs"]
rate = "10 Mbps"
delay = "20 ms"
overhead = "2 B"
queue = "1000 packets"
[[link]]
name = "radio"
radio = true
between = ["bs", "mh"]
rate = "2 Mbps"
delay = "{delay} ms"
overhead = "2 B"
queue = "1000 packets"
{loss}
[[flow]]
from = "fh"
to = "mh"
app = "bulk"
start = "0.1 s"
segment = "1000 B"
headers = "40 B"
[tcp]
profile = "rfc"
scheme = "{scheme}"
receive_window = "500 segments"
initial_window = "2 segments"
delayed_ack = false
min_rto = "1 s"
{keys}
"""


def text(variant: Variant, row: Row) -> str:
    """The scenario of a row."""
    delay, loss = row["last_hop_delay_ms"], row["loss"]
    air = (
        f'forward.loss = {{ model = "uniform", rate = {loss}, index = "frame" }}'
        if float(loss) > 0
        else ""
    )
    end = 20 + int(row["measured_s"])
    return LOSSY_HOP.format(
        end=end, delay=delay, loss=air, scheme=variant.settings, keys=variant.keys
    )


#: Seeds of a mimic, whose runs in Python take ten times as long.
MIMIC_SEEDS = 12
#: Columns that make a cell.
CELL_KEYS = ("last_hop_delay_ms", "loss", "measured_s")
#: Units of retransmissions and timeouts.
PER = ("1000 segments", "100 s")


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows by delay and loss."""
    return sorted(rows, key=lambda r: (float(r["last_hop_delay_ms"]), float(r["loss"])))


def rows_of(variant: Variant) -> list[Row]:
    """The rows of a variant."""
    key = ("3.44", variant.name, str(int(variant.sack)))
    return in_order(
        r for r in read(REFERENCE) if (r["ns3_version"], r["variant"], r["sack"]) == key
    )


def replaced_rows(variant: Variant) -> list[Row]:
    """The rows of ns-3 with rules replaced; none if the variant was not run so."""
    if not REPLACED.exists():
        return []
    key = (variant.name, str(int(variant.sack)))
    return in_order(r for r in read(REPLACED) if (r["variant"], r["sack"]) == key)


def reference(row: Row) -> Reference:
    """The results of a row; without losses its runs are equal."""
    goodput, half = (1000 * float(row[k]) for k in ("goodput_kbps_mean", "goodput_kbps_ci95"))
    runs = int(row["runs_ok"]) if float(row["loss"]) > 0 else 1
    counts = (1000 * float(row["rtx_share_mean"]), float(row["rtos_per_100s_mean"]))
    return Reference(runs, goodput, half, counts)


def counts(row: Row, ours: Measured) -> tuple[float, float]:
    """Retransmissions and timeouts in the units of `PER`."""
    return (
        1000 * ours.retransmissions / ours.sent,
        ours.timeouts * 100 / float(row["measured_s"]),
    )


def comparison(variant: Variant) -> Comparison:
    """How lasthop repeats the rows of a variant."""
    return Comparison(
        lambda r: f"{float(r['last_hop_delay_ms']):.0f} ms, loss {float(r['loss']):.1%}",
        lambda _: variant.scheme,
        lambda row: text(variant, row),
        reference,
        counts=counts,
    )


def beside_ns3(
    variant: Variant,
    what: str,
    about: str,
    cells: list[Cell],
    known: str,
    *,
    notes: Sequence[str] = (),
    column: str = "ns-3",
    kind: str = "",
) -> Table:
    """A table of a variant."""
    return Table(
        f"ns-3.44, {variant.label}: {what}",
        about,
        cells,
        list(notes),
        0.03,
        reference=column,
        kind=kind,
        small=0.03,
        per=PER,
        known=known,
    )


def plain(variant: Variant, seeds: int) -> Table:
    """ns-3 beside lasthop."""
    return beside_ns3(
        variant,
        f"`{variant.settings}`",
        variant.about,
        comparison(variant).cells(rows_of(variant), seeds),
        variant.known,
        notes=variant.notes,
        kind="ns-3",
    )


def mimic(variant: Variant) -> Table | None:
    """The same cells with ns-3's rules in the place of the variant's, read from its sources and
    not fitted to any of them.
    """
    rule = ns3_mimics.MIMICS.get(variant.name)
    if rule is None or not variant.sack:
        return None
    with_rule = replace(
        comparison(variant),
        scenario=lambda row: text(variant, row) + ns3_mimics.KEYS + "\n",
        rule=rule,
    )
    rows = [row for row in rows_of(variant) if float(row["loss"]) > 0]
    about = (
        "The prediction of ns-3's rules (`fidelity/ns3_mimics.py`), which are read"
        f" from its sources and fitted to no cell; {MIMIC_SEEDS} seeds."
    )
    cells = with_rule.cells(rows, MIMIC_SEEDS)
    return beside_ns3(variant, "ns-3's rules", about, cells, "a prediction")


def replaced(variant: Variant, seeds: int) -> Table | None:
    """ns-3 with the rules here in the place of its rules, beside the same runs of lasthop."""
    rows = replaced_rows(variant)
    if not rows:
        return None
    words = ", ".join(f"`{rule}`" for rule in rows[0]["rules"].split())
    about = (
        f"ns-3 itself with rules replaced by those here: {words} (`tools/ns3_rules.cc` says what"
        " each does); no rule is fitted."
    )
    return beside_ns3(
        variant,
        "rules of ns-3 replaced",
        about,
        comparison(variant).cells(rows, seeds),
        "an experiment",
        column="ns-3, replaced,",
    )


def size(table: Table) -> str:
    """How far a table is off."""
    drawn = [c for c in table.cells if c.d is not None]
    return f"average {table.bias:+.1%}, largest |d| {max(abs(c.d or 0) for c in drawn):.1f}"


def agrees(table: Table) -> bool:
    """Whether the goodput of a table's random cells agrees."""
    drawn = [c for c in table.cells if c.d is not None]
    return all(good for _, good in table.drawn_verdicts(drawn)[:3])


def explained(table: Table, prediction: Table | None, experiment: Table | None) -> str:
    """Whether ns-3's rules are the cause of a difference."""
    parts = [size(table)]
    if prediction:
        what = "predict its goodput" if agrees(prediction) else "do not meet all of its cells"
        parts.append(f"ns-3's rules here {what}: {size(prediction)}")
    if experiment:
        what = "agrees with" if agrees(experiment) else "is left apart from"
        parts.append(
            f"ns-3 with these rules replaced in it {what} lasthop's sender: {size(experiment)}"
        )
    if prediction is None and experiment is None:
        parts.append("no table of ns-3 with rules replaced")
    return "; ".join(parts)


def tables(seeds: int) -> list[Table]:
    """A table for each variant, one with ns-3's rules for those that have a mimic, and one with
    ns-3's rules replaced for those that were run so. The last one has Linux' modules in ns-2.
    """
    found: list[Table] = []
    for variant in (v for v in VARIANTS if known_scheme(v.scheme)):
        table, prediction = plain(variant, seeds), mimic(variant)
        experiment = replaced(variant, seeds)
        table.known = f"{variant.known}; {explained(table, prediction, experiment)}"
        found += [t for t in (table, prediction, experiment) if t]
    return [*found, ns2.hints(seeds)]


SUITE = Suite("fidelity-ns3", "Senders beside ns-3.44, and beside Linux' modules in ns-2", tables)
