"""The senders' events as qlog: the main schema's sequential form (JSON-SEQ), with events in the
namespace "tcp".

Structure: draft-ietf-quic-qlog-main-schema-11 and later (QlogFileSeq, Event); JSON text sequences:
RFC 7464. docs/inspect.md lists the events. Times are milliseconds since the start of the run.
"""

from __future__ import annotations

import heapq
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any, Final

from lasthop.inspection import record as rec

if TYPE_CHECKING:
    from pathlib import Path

    from lasthop.inspection.inspection import Inspection, Subject

FILE_SCHEMA: Final = "urn:ietf:params:qlog:file:sequential"
FORMAT: Final = "application/qlog+json-seq"
EVENT_SCHEMA: Final = "urn:lasthop:qlog:events:tcp"

Timed = tuple[float, int, dict[str, Any]]
#: Time, order among the records of the same time, and the record.
Line = tuple[float, int, bytes]


def records(inspection: Inspection, folder: Path | None = None) -> Iterator[bytes]:
    """The records of a qlog file: the header, then the events in order of time.

    With several schemes, the events of each are first written to a temporary file in `folder`, so
    that one record is in memory at a time.
    """
    yield _record(
        {
            # Viewers of the older versions look for these two near the start of the file.
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "file_schema": FILE_SCHEMA,
            "serialization_format": FORMAT,
            "title": inspection.title,
            "trace": {
                "vantage_point": {
                    "name": "simulated data senders, with the fate of each copy",
                    "type": "server",
                },
                "event_schemas": [EVENT_SCHEMA],
                "common_fields": {
                    "time_format": "relative_to_epoch",
                    "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
                },
            },
        }
    )
    runs: dict[int, list[tuple[Subject, str]]] = {}
    for i, subject in enumerate(inspection.subjects):
        runs.setdefault(subject.run, []).append((subject, f"{i + 1}: {subject.title}"))
    with ExitStack() as files:
        sources: list[Iterator[Line]] = []
        for subjects in runs.values():
            lines = _lines_of(subjects)
            if len(runs) > 1:
                file = files.enter_context(tempfile.TemporaryFile(dir=folder))
                lines = _stored(lines, file)
            sources.append(lines)
        for _, _, line in heapq.merge(*sources, key=lambda e: (e[0], e[1])):
            yield line


def _lines_of(subjects: Sequence[tuple[Subject, str]]) -> Iterator[Line]:
    """The records of one run in order of time; each subject has the name of its group."""
    streams = [s for subject, group in subjects for s in _streams(subject, group)]
    for t, order, event in heapq.merge(*streams, key=lambda e: (e[0], e[1])):
        yield t, order, _record({"time": round(t * 1e3, 6), **event})


def _stored(lines: Iterator[Line], file: IO[bytes]) -> Iterator[Line]:
    """The same lines, written to a file and read from it."""
    for t, order, line in lines:
        file.write(b"%a %d " % (t, order) + line)
    file.seek(0)

    def read() -> Iterator[Line]:
        for stored in file:
            t, order, line = stored.split(b" ", 2)
            yield float(t), int(order), line

    return read()


def _record(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return b"\x1e" + text.encode("utf-8", "surrogateescape") + b"\n"


def _streams(subject: Subject, group: str) -> list[Iterator[Timed]]:
    """Streams of events in order of time; the number orders events of the same time."""
    connection = subject.connection
    return [
        _received(connection, group),
        _marks(connection, group),
        _sent(connection, group),
        _metrics(connection, group),
        _lost(connection, group),
        _suppressed(connection, group),
    ]


def _event(name: str, group: str, data: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"tcp:{name}", "group_id": group, "data": data}


def _sent(connection: rec.Connection, group: str) -> Iterator[Timed]:
    copies = connection.copies
    rows = rec.in_blocks(
        copies.t,
        copies.seq,
        copies.end,
        copies.reason,
        copies.attempt,
        copies.spurious,
        copies.id,
    )
    for t, seq, end, reason, attempt, spurious, packet in rows:
        data = {
            "packet_id": packet,
            "offset": seq,
            "length": end - seq,
            "transmission": attempt,
            "trigger": copies.reasons[reason].replace(" ", "_"),
        }
        if spurious:
            data["spurious"] = True
        yield t, 2, _event("segment_sent", group, data)


def _received(connection: rec.Connection, group: str) -> Iterator[Timed]:
    record, acks = connection.record, connection.acks
    sack = record.column("sack")
    mine = (sack["connection"] == connection.number).nonzero()[0].tolist()
    blocks: dict[int, list[list[int]]] = {}
    for i in mine:
        blocks.setdefault(int(sack["t_ns"][i]), []).append(
            [int(sack["start"][i]), int(sack["end"][i])]
        )
    for i in acks.tolist():
        t = int(record.column("t_ns")[i])
        data: dict[str, Any] = {
            "ack": int(record.column("offset")[i]),
            "window": int(record.column("window")[i]),
        }
        if t in blocks:
            data["sack"] = blocks[t]
        yield t * 1e-9, 0, _event("ack_received", group, data)


def _marks(connection: rec.Connection, group: str) -> Iterator[Timed]:
    found = [
        (t, name)
        for name, times in (
            ("retransmission_timeout", connection.timeouts()),
            ("fast_retransmit", connection.fast_retransmits()),
            ("reduction_undone", connection.undone()),
        )
        for t in times.tolist()
    ]
    for t, name in sorted(found):
        yield t, 1, _event(name, group, {})


def _metrics(connection: rec.Connection, group: str) -> Iterator[Timed]:
    """Changes of the sender's state; the names are those of quic:recovery_metrics_updated."""
    states, limits = connection.states, connection.record.limits
    columns = {
        "latest_rtt": states.rtt,
        "smoothed_rtt": states.srtt,
        "retransmission_timeout": states.rto,
        "congestion_window": states.cwnd,
        "ssthresh": states.ssthresh,
        "bytes_in_flight": states.flight,
        "pacing_rate": states.pacing,
    }
    last: dict[str, Any] = {}
    for t, limit, *values in rec.in_blocks(states.t, states.limit, *columns.values()):
        # Times in milliseconds.
        values[:3] = [x * 1e3 for x in values[:3]]
        now: dict[str, Any] = {
            k: x for k, x in zip(columns, values, strict=True) if math.isfinite(x) and x < 1e15
        }
        now["limited_by"] = limits[limit]
        changed = {k: v for k, v in now.items() if last.get(k) != v or k == "latest_rtt"}
        last = now
        if changed:
            yield t, 3, _event("recovery_metrics_updated", group, changed)


def _lost(connection: rec.Connection, group: str) -> Iterator[Timed]:
    """The ground truth, which no sender has: losses of data at their time."""
    copies, record = connection.copies, connection.record
    rows = copies.lost.nonzero()[0]
    for i in rows[copies.fate_t[rows].argsort(kind="stable")].tolist():
        data = {
            "packet_id": int(copies.id[i]),
            "offset": int(copies.seq[i]),
            "length": int(copies.end[i] - copies.seq[i]),
            "trigger": rec.FATES[int(copies.fate[i])].replace(" ", "_"),
        }
        if copies.link[i] >= 0:
            data["link"] = record.link_name(int(copies.link[i]))
        yield float(copies.fate_t[i]), 4, _event("segment_lost", group, data)


def _suppressed(connection: rec.Connection, group: str) -> Iterator[Timed]:
    """The ground truth: what an agent dropped, ACKs included."""
    record = connection.record
    column = record.column
    for e in record.where(rec.SUPPRESSED, connection.number).tolist():
        data: dict[str, Any] = {
            "packet_id": int(column("id")[e]),
            "node": record.nodes[int(column("node")[e])],
            "agent": connection.agent_at(int(column("node")[e])),
            "trigger": record.reason_of(e),
        }
        offset = int(column("offset")[e])
        if column("forward")[e]:
            data |= {"offset": offset, "length": int(column("len")[e])}
        else:
            data["ack"] = offset
        yield float(record.t[e]), 4, _event("segment_suppressed", group, data)


__all__ = ["EVENT_SCHEMA", "FILE_SCHEMA", "FORMAT", "records"]
