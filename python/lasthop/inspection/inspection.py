"""`lasthop inspect`: run a scenario once per scheme and record what happens inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lasthop.errors import InputError
from lasthop.inspection import record as rec
from lasthop.inspection import series
from lasthop.inspection import stalls as find_stalls
from lasthop.inspection.record import Connection, Record, Records
from lasthop.inspection.stalls import Stall
from lasthop.renderers import renderer

if TYPE_CHECKING:
    from lasthop import _native
    from lasthop.inspection.drawing import Drawing

#: Version of the JSON of `lasthop inspect`; it grows with incompatible changes.
JSON_VERSION = 1


@dataclass(frozen=True)
class Subject:
    """One TCP connection that is inspected: a scheme's, or one half of a split connection."""

    #: Label of the scheme, with the ends of the connection if it is one half of a split connection.
    title: str
    scheme: str
    slots: str
    #: The records of all runs, the number of this run, and that of the connection in it.
    records: Records = field(compare=False, repr=False)
    run: int
    number: int
    #: True for the server's sender.
    server: bool
    shortest_s: float | None = None
    _drawings: dict[int, Drawing] = field(default_factory=dict, compare=False, repr=False)

    @property
    def connection(self) -> Connection:
        """The record of the connection. With several schemes, the run is repeated if another one is
        in memory.
        """
        return self.records.connection(self.run, self.number)

    def summarise(self, bins: int) -> None:
        """Compute all that the page and the JSON have, so that the record is no longer needed.

        `bins` is the number of bins of the page's downsampling.
        """
        self.drawing(bins)
        self.to_dict()

    def drawing(self, bins: int) -> Drawing:
        """What the page draws of this connection."""
        from lasthop.inspection import drawing

        if bins not in self._drawings:
            self._drawings[bins] = drawing.of(self.connection, bins)
        return self._drawings[bins]

    @cached_property
    def sender(self) -> str:
        """Node of the sender."""
        return self.connection.record.nodes[self.connection.sender_node]

    @cached_property
    def path(self) -> list[str]:
        """Links of the data."""
        record = self.connection.record
        return [record.link_name(x) for x in self.connection.path]

    @cached_property
    def threshold_s(self) -> float:
        """The shortest gap that counts as a stall, seconds."""
        if self.shortest_s is not None:
            return self.shortest_s
        return find_stalls.threshold(self.connection)

    @cached_property
    def stalls(self) -> list[Stall]:
        """Intervals without in-order delivery, in order of time."""
        return find_stalls.find(self.connection, self.shortest_s)

    @cached_property
    def limited_by(self) -> dict[str, float]:
        """Shares of the measured time by what limited the sender, largest first.

        As in `lasthop run --json`. For the server's sender of a split connection, that result
        traces a full relay to the relay's sender; here it is what limited the server's sender,
        over the whole run.
        """
        record = self.connection.record
        shares: dict[str, float] = {}
        if len(record.connections) == 1:
            shares = dict(record.flow.get("limited_by") or {})
        elif not self.server:
            shares = next(
                (a["limited_by"] for a in record.run["agents"] if a.get("limited_by")), {}
            )
        if not shares:
            bands = series.bands(self.connection)
            total = sum(end - start for start, end, _ in bands)
            for start, end, key in bands:
                shares[key] = shares.get(key, 0.0) + (end - start) / total
        return dict(sorted(shares.items(), key=lambda item: -item[1]))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Totals of the connection over the whole run, as in the JSON."""
        connection = self.connection
        copies, states, record = connection.copies, connection.states, connection.record
        again = copies.retransmission
        _, ends = connection.in_order
        rtt = states.rtt[np.isfinite(states.rtt)]
        lost = copies.fate[copies.lost].tolist()
        own = ~copies.sent_as("agent")
        filtered = len(connection.filtered_acks)
        return {
            "goodput_bps": record.flow["goodput_bps"],
            "delivered_bytes": int(ends[-1]) if len(ends) else 0,
            "rtt_min_s": float(rtt.min()) if len(rtt) else None,
            "rtt_median_s": float(np.median(rtt)) if len(rtt) else None,
            "sent_segments": int(own.sum()),
            "agent_segments": int((~own).sum()),
            "retransmissions": int((again & own).sum()),
            "spurious_retransmissions": int((copies.spurious & own).sum()),
            "timeouts": len(connection.timeouts()),
            "fast_retransmits": len(connection.fast_retransmits()),
            "losses": {rec.FATES[f]: lost.count(f) for f in sorted(set(lost))},
            "lost_acks": len(connection.lost_acks),
            **({"filtered_acks": filtered} if filtered else {}),
            "suppressed_segments": int(copies.suppressed.sum()),
            "suppressed_acks": len(connection.suppressed_acks),
            "suppressed_by": connection.suppressing_agents,
        }

    def to_dict(self) -> dict[str, Any]:
        """As in the JSON of `lasthop inspect`."""
        return {
            "title": self.title,
            "scheme": self.scheme,
            "slots": self.slots,
            "sender": self.sender,
            "path": self.path,
            "totals": self.facts,
            "limited_by": self.limited_by,
            "stall_threshold_s": self.threshold_s,
            "stalls": find_stalls.to_dicts(self.stalls),
        }


@dataclass(frozen=True, repr=False)
class Inspection:
    """What happened inside one run of each scheme; `save` writes the page."""

    scenario: str
    seed: int
    duration_s: float
    flow_id: str
    version: str
    subjects: Sequence[Subject]
    assumed: Sequence[str]
    #: Outages of links, as in the JSON.
    outages: Sequence[Mapping[str, Any]] = ()
    command: str = field(default="", compare=False)
    #: The files that the scenarios were read from; `save` and `save_qlog` do not overwrite them.
    inputs: Sequence[str] = field(default=(), compare=False)

    @property
    def title(self) -> str:
        """Scenario, schemes and seed; of a run with several flows, which one it is."""
        schemes = list(dict.fromkeys(s.scheme for s in self.subjects))
        flows = len(self.subjects[0].connection.record.run["flows"])
        flow = f", flow {self.flow_id} of {flows} flows" if flows > 1 else ""
        return f"{self.scenario}: {', '.join(schemes)}, seed {self.seed}{flow}"

    @property
    def stalls(self) -> list[Stall]:
        """The stalls of the first connection; each of `subjects` has its own."""
        return self.subjects[0].stalls

    @property
    def rule(self) -> str:
        """The definition of a stall."""
        return (
            "A stall is an interval longer than the threshold in which no byte becomes available in"
            " order at the receiver although the sender has unacknowledged or unsent data, or waits"
            " for its SYN to be answered. The threshold is twice the smallest round-trip time"
            " sample, at least 100 ms, unless it is given. Stalls that follow one another within"
            " the threshold are one stall. Causes are computed from the fate of each copy of the"
            " missing byte and from the sender's state."
        )

    def panel_keys(self, columns: Sequence[Mapping[str, Any]]) -> list[str]:
        """Keys of the panels of all columns, in order."""
        return list(dict.fromkeys(p["key"] for c in columns for p in c["panels"]))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `lasthop inspect --json`; docs/inspect.md lists the keys."""
        return {
            "schema_version": JSON_VERSION,
            "lasthop": self.version,
            "json_version": JSON_VERSION,
            "scenario": self.scenario,
            "seed": self.seed,
            "duration_s": self.duration_s,
            "flow": self.flow_id,
            "assumed": list(self.assumed),
            "outages": list(self.outages),
            "connections": [s.to_dict() for s in self.subjects],
        }

    @cached_property
    def html(self) -> str:
        """The page: one HTML file without references to other files."""
        page: str = renderer("inspection: page")(self)
        return page

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
        from lasthop.experiments import store
        from lasthop.scenarios import outputs

        outputs.check([("--out", path)], self.inputs)
        with store.partial(Path(path)) as temporary:
            Path(temporary).write_text(self.html, encoding="utf-8")
        return Path(path)

    def save_qlog(self, path: str | Path) -> Path:
        """Write the events of the senders as qlog (JSON-SEQ) and return the path."""
        from lasthop.experiments import store
        from lasthop.scenarios import outputs

        outputs.check([("--qlog", path)], self.inputs)
        with store.partial(Path(path)) as temporary, open(temporary, "wb") as out:
            folder = temporary.parent if temporary.is_file() else None
            for line in renderer("inspection: qlog")(self, folder):
                out.write(line)
        return Path(path)

    def __repr__(self) -> str:
        stalls = len(self.stalls)
        return f"<Inspection {self.title[:120]}: {stalls} stall{'s' * (stalls != 1)}>"

    def _repr_html_(self) -> str:
        from html import escape

        source = escape(self.html, quote=True)
        return (
            f'<iframe title="{escape(self.title, quote=True)}" srcdoc="{source}"'
            ' sandbox="allow-scripts" width="100%" height="900"></iframe>'
        )

    def __str__(self) -> str:
        lines = [self.title]
        for subject in self.subjects:
            stalls = subject.stalls
            count = f"{len(stalls)} stall{'' if len(stalls) == 1 else 's'}"
            lines.append(f"\n{subject.title}: {count}")
            lines += [f"  {s.duration_s:7.3f} s at {s.sentence}" for s in stalls]
        return "\n".join(lines)


def _subjects_of(
    records: Records, run: int, record: Record, shortest_s: float | None
) -> list[Subject]:
    """The connections of a record; raises `InputError` if it has none."""
    scheme, numbers = str(record.flow["scheme"]), record.connections
    if not numbers:
        raise InputError(
            f"flow {record.flow['id']} sends no TCP segments; inspect needs a TCP flow"
        )
    split = len(numbers) > 1
    found = []
    for i, number in enumerate(numbers):
        title = scheme
        if split:
            connection = records.connection(run, number)
            ends = (connection.sender_node, connection.receiver_node)
            title += ": " + " to ".join(record.nodes[n] if n >= 0 else "?" for n in ends)
        slots = record.flow["slots"]
        found.append(Subject(title, scheme, slots, records, run, number, i == 0, shortest_s))
    return found


def flow_index(flows: Sequence[tuple[str, bool]], wanted: str | None) -> int:
    """Index of the flow named `wanted`, or of the first TCP flow. `flows`: name, whether TCP."""
    tcp = [name for name, is_tcp in flows if is_tcp]
    if not tcp:
        raise InputError("the scenario has no TCP flow; inspect needs one")
    names = [name for name, _ in flows]
    if wanted is not None and wanted not in tcp:
        what = "sends datagrams" if wanted in names else "does not exist"
        listed = ", ".join(tcp[:20]) + (", …" if len(tcp) > 20 else "")
        raise InputError(f"--flow: flow {wanted!r} {what}; TCP flows are {listed}")
    return names.index(wanted if wanted is not None else tcp[0])


def capture_folder(base: Path, label: str, several: bool) -> Path:
    """The folder for captures of one scheme."""
    if not several:
        return base
    return base / (re.sub(r"[^\w.+-]+", "-", label).strip("-.") or "scheme")


@dataclass(frozen=True)
class Work:
    """The run of one scheme that is to be inspected."""

    #: What the scenario leaves open and lasthop assumed.
    assumed: Sequence[str]
    #: Does the run; returns its result and the recorded columns.
    run: Callable[[], tuple[_native.Run, Mapping[str, Any]]]
    #: The same without writing captures.
    repeat: Callable[[], tuple[_native.Run, Mapping[str, Any]]]
    #: Index of the flow.
    flow: int

    def record(self) -> Record:
        """Do the run."""
        run, columns = self.run()
        return Record(run.to_dict(), columns, self.flow)

    def again(self) -> Record:
        """Do it once more."""
        run, columns = self.repeat()
        return Record(run.to_dict(), columns, self.flow)


def do_runs(
    works: Sequence[Work],
    *,
    seed: int,
    version: str,
    shortest_s: float | None = None,
    command: str = "",
    inputs: Sequence[str] = (),
) -> Inspection:
    """Do the runs, one after the other, and inspect each.

    With several, only what the page and the JSON have is kept of each.
    """
    from lasthop.inspection import drawing

    subjects: list[Subject] = []
    assumed: dict[str, None] = {}
    records = Records()
    about: dict[str, Any] = {}
    for work in works:
        records.release()
        record = work.record()
        own = _subjects_of(records, records.append(record, work.again), record, shortest_s)
        if len(works) > 1:
            for subject in own:
                subject.summarise(drawing.bins(len(works)))
        subjects += own
        assumed |= dict.fromkeys(work.assumed)
        about = about or {
            "scenario": str(record.run["scenario"]),
            "duration_s": record.duration_s,
            "flow_id": str(record.flow["id"]),
            "outages": _outages(record),
        }
        del record
    return Inspection(
        **about,
        seed=seed,
        version=version,
        subjects=subjects,
        assumed=list(assumed),
        command=command,
        inputs=inputs,
    )


def _outages(record: Record) -> list[dict[str, Any]]:
    return [
        {
            "link": record.link_name(o.link),
            "start_s": o.start_s,
            "end_s": o.end_s,
            "frames": o.frames,
        }
        for o in record.outages
    ]


__all__ = ["Inspection", "Subject", "Work", "capture_folder", "do_runs"]
