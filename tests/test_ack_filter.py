"""ACKs that the queue `cake` removes: in the table of a run, its JSON, and `lasthop inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import documents

import lasthop
from lasthop.inspection import series
from lasthop.tables import run_text

FILTERED = {
    "duration": "5 s",
    "last_hop": {
        "down_rate": "20 Mbps",
        "up_rate": "100 kbps",
        "rtt": "40 ms",
        "queue": {"discipline": "cake", "ack_filter": "on"},
    },
}


def test_a_filter_of_acks_has_a_column() -> None:
    run = lasthop.run(FILTERED, scheme="cubic")
    documents.validate("run", {**run.data, "command": ""})
    lines = run_text.run(run.data, run.slots, run.assumed).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("link "))
    assert "dropped at queue  filtered  utilisation" in lines[start]
    up = next(x for x in run.data["links"] if x["from"] == "phone")
    assert up["filtered_frames"] > 100
    row = next(line for line in lines[start:] if line.startswith("phone → bs"))
    assert str(up["filtered_frames"]) in row.split()
    assert run.data["traffic_bits"]["filtered"] >= 8 * 40 * up["filtered_frames"]


def test_acks_that_a_queue_filters_are_not_lost(tmp_path: Path) -> None:
    found = lasthop.run(FILTERED, scheme="cubic", seed=1).inspect()
    (subject,) = found.subjects
    connection = subject.connection
    up = next(x for x in connection.record.links if x["from"] == "phone")
    facts = subject.facts
    assert facts["filtered_acks"] == up["filtered_frames"] > 100
    assert facts["lost_acks"] == up["dropped_at_queue"]
    labels = {m.label: len(m.t) for p in series.panels(connection) for m in p.marks}
    assert labels["ACK removed by a filter"] == facts["filtered_acks"]
    page = tmp_path / "inspect.html"
    found.save(page)
    assert "ACKs removed by a filter" in page.read_text()
    document = {**found.to_dict(), "command": "", "elapsed_s": 0.0}
    documents.validate("inspect", json.loads(json.dumps(document)))
