"""What iperf3 --json (and --json-stream) writes: TCP and UDP, both directions, several streams."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from lasthop.errors import InputError
from lasthop.traces.source import ReadOptions, Source
from lasthop.traces.table import DOWN, UP, Measurement, Rows

NAME = "iperf3 JSON"

# Bytes of a full packet, of its TCP payload, and of headers.
_PACKET, _TCP_PAYLOAD, _IP, _UDP = 1500, 1448, 20, 8


def matches(head: str) -> bool:
    """True if the text begins like the output of iperf3 --json."""
    text = head.lstrip()
    is_document = '"start"' in text and ('"connected"' in text or '"version"' in text)
    return text.startswith("{") and (is_document or '"event"' in text or '"intervals"' in text)


def read(source: Source, _: ReadOptions) -> Measurement:
    """The intervals of a test, one row per interval and direction.

    The client is at the mobile side: what it sends is the uplink.
    """
    document = _document(source)
    rows = Rows()
    is_client = "accepted_connection" not in _table(document, "start")
    notes: list[str] = []
    # Versions before 3.7 do not say of each stream whether this end sends it.
    reverse = bool(_table(_table(document, "start"), "test_start").get("reverse"))
    for interval in _list(document, "intervals"):
        for sends in (True, False):
            _add(rows, interval, sends, reverse != is_client, UP if sends == is_client else DOWN)
    if not len(rows):
        raise InputError(f"{source.name}: {_why_empty(document)}")
    if not is_client:
        notes.append("The file is the server's: what it sends is taken as the downlink.")
    counted = _list(_table(document, "server_output_json"), "intervals")
    started = _table(_table(document, "start"), "timestamp").get("timesecs")
    zero = float(started) if isinstance(started, (int, float)) else None
    clock = "intervals of iperf3"
    found = rows.measurement(NAME, source.name, clock, notes=notes, zero_s=zero)
    found = replace(found, ip_factor=_ip_factor(_table(_table(document, "start"), "test_start")))
    for sends in (True, False):
        direction = UP if sends == is_client else DOWN
        if sends:
            found = _as_received(found, document, counted, direction)
        found = _with_end_loss(found, document, direction, sends)
    return found


def _ip_factor(test: dict[str, Any]) -> float:
    """Bytes of IPv4 packets by those of payload that iperf3 counts.

    Full TCP packets with timestamps; datagrams, in fragments if they are longer than a packet.
    """
    size = _number(test, "blksize")
    if test.get("protocol") != "UDP" or size <= 0:
        return _PACKET / _TCP_PAYLOAD
    fragments = np.ceil((size + _UDP) / (_PACKET - _IP))
    return float((size + _UDP + fragments * _IP) / size)


def _document(source: Source) -> dict[str, Any]:
    try:
        found = json.loads(source.text)
    except json.JSONDecodeError as error:
        stream = _stream(source.text)
        if stream is not None:
            return stream
        cut = error.pos >= len(source.text.rstrip()) - 1 or "Unterminated" in error.msg
        why = (
            "the JSON ends in the middle: iperf3 was killed before it wrote its end; stop it with"
            " Ctrl-C, once, or use --json-stream"
            if cut
            else f"this is not valid JSON: {error.msg}"
        )
        raise InputError(f"{source.name}: line {error.lineno}: {why}") from None
    list(source.lines())
    if isinstance(found, dict) and "event" in found:
        return _stream(source.text) or {}
    if not isinstance(found, dict) or not ({"intervals", "end", "error"} & set(found)):
        raise InputError(f"{source.name}: this JSON is no output of iperf3 --json")
    return found


def _stream(text: str) -> dict[str, Any] | None:
    """The document of JSON lines with an event each; a last line that is cut off is left out."""
    found: dict[str, Any] = {"start": {}, "intervals": [], "end": {}}
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            if number + 1 == len(lines) and found["intervals"]:
                break
            return None
        if not isinstance(event, dict) or "event" not in event:
            return None
        data = event.get("data")
        if event["event"] == "interval":
            found["intervals"].append(data)
        else:
            found[event["event"]] = data
    return found


def _table(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: Any, key: str) -> list[dict[str, Any]]:
    found = value.get(key) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _why_empty(document: dict[str, Any]) -> str:
    error = document.get("error")
    if isinstance(error, str):
        return f"iperf3 measured nothing: {error}"
    return "the output of iperf3 has no intervals"


def _add(rows: Rows, interval: dict[str, Any], sends: bool, default: bool, direction: int) -> None:
    """Add the sum of the streams of one interval that this end sends, or receives."""
    streams = [
        s
        for s in _list(interval, "streams")
        if s.get("sender", default) == sends and not s.get("omitted")
    ]
    if not streams:
        return
    start = min(_number(s, "start") for s in streams)
    span = max(_number(s, "seconds") for s in streams)
    rtts = [_number(s, "rtt") * 1e-6 for s in streams if s.get("rtt")]
    counted = [s for s in streams if "lost_packets" in s]
    rows.add(
        start,
        span,
        direction,
        size=sum(_number(s, "bytes") for s in streams),
        rtt_s=sum(rtts) / len(rtts) if rtts else np.nan,
        sent=sum(_number(s, "packets") for s in counted) if counted else np.nan,
        lost=sum(_number(s, "lost_packets") for s in counted) if counted else np.nan,
    )


def _number(value: dict[str, Any], key: str) -> float:
    found = value.get(key, 0)
    return float(found) if isinstance(found, (int, float)) else 0.0


def _sum(document: dict[str, Any], sends: bool, word: str) -> dict[str, Any]:
    """`sum_sent` or `sum_received` of what this end sends, or of the other direction."""
    end = _table(document, "end")
    own = _table(end, f"sum_{word}")
    if "sum_sent_bidir_reverse" in end or "sum_bidir_reverse" in end:
        return own if sends else _table(end, f"sum_{word}_bidir_reverse")
    return own


def _as_received(
    found: Measurement, document: dict[str, Any], counted: list[dict[str, Any]], direction: int
) -> Measurement:
    """What the other end received, instead of what this end wrote to its socket."""
    mine = (found.direction == direction) & ~np.isnan(found.bytes)
    if not mine.any():
        return found
    size = found.bytes.copy()
    received = [
        sum(_number(s, "bytes") for s in _list(i, "streams") if not s.get("omitted"))
        for i in counted
    ]
    received = [r for r, i in zip(received, counted, strict=True) if r or _list(i, "streams")]
    if len(received) == int(mine.sum()):
        size[mine] = received
        note = "What was sent is counted as its receiver reports it for each interval."
    else:
        total = _sum(document, True, "received").get("bytes")
        sent = float(size[mine].sum())
        if not isinstance(total, (int, float)) or not total or not sent:
            note = (
                "The file says what was sent, not what arrived: iperf3 --get-server-output, or -R"
                " for the other direction, measures what the link carried."
            )
            return replace(found, notes=(*found.notes, note))
        size[mine] *= float(total) / sent
        note = (
            "Intervals of the sending end count what was written to its socket; they are scaled to"
            f" what the receiver got ({100 * float(total) / sent:.2f} %)."
        )
    return replace(found, bytes=size, notes=(*found.notes, note))


def _with_end_loss(
    found: Measurement, document: dict[str, Any], direction: int, sends: bool
) -> Measurement:
    """The packets lost in the whole test, spread over the intervals, if these do not count them."""
    mine = (found.direction == direction) & ~np.isnan(found.bytes)
    end = _table(document, "end")
    total = _sum(document, sends, "received") or _table(end, "sum")
    if "lost_packets" not in total:
        total = _table(end, "sum") if "lost_packets" in _table(end, "sum") else total
    packets, lost = _number(total, "packets"), _number(total, "lost_packets")
    if not mine.any() or not packets or not np.isnan(found.lost[mine]).all():
        return found
    share = 1 / mine.sum()
    sent_by_row, lost_by_row = found.sent.copy(), found.lost.copy()
    sent_by_row[mine], lost_by_row[mine] = packets * share, lost * share
    note = "Losses are known for the whole test only; they are spread over its intervals."
    return replace(found, sent=sent_by_row, lost=lost_by_row, notes=(*found.notes, note))
