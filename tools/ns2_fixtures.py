"""Convert ns-2 recovery traces (CSV: variant,t,event,seq,value) to fixtures of the exact
comparison.

One file per scenario: lines of settings, then two lines per variant, the segments sent to the link
and the ACKs received by the sender, as `number@microseconds-since-the-previous-one`. The fixtures
contain no code of ns-2.

    python3 tools/ns2_fixtures.py SCENARIOS.csv TRACES_DIR OUT_DIR [SCENARIO ...]
"""

import csv
import sys
from pathlib import Path

VARIANTS = ("Tahoe", "Reno", "Newreno", "Sack1")


def condense(rows: list[tuple[str, str]]) -> str:
    out, last = [], 0
    for t, seq in rows:
        us = round(float(t) * 1e6)
        out.append(f"{seq}@{us - last}")
        last = us
    return " ".join(out)


def main() -> None:
    scenarios, traces, out, *wanted = sys.argv[1:]
    with open(scenarios, newline="") as f:
        table = {row["scenario"]: row for row in csv.DictReader(f)}
    for name in wanted or table:
        row = table[name]
        lines = [f"{key}={value}" for key, value in row.items() if key not in ("scenario", "note")]
        events: dict[tuple[str, str], list[tuple[str, str]]] = {}
        with open(Path(traces) / f"{name}.csv", newline="") as f:
            for variant, t, event, seq, _ in csv.reader(f):
                events.setdefault((variant, event), []).append((t, seq))
        text = "\n".join(lines) + "\n"
        for variant in VARIANTS:
            for event in ("snd", "ack"):
                text += f"{variant} {event} {condense(events[variant, event])}\n"
        (Path(out) / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    main()
