"""The event table of `run --events`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lasthop.experiments import parts


def _numbers(column: Any) -> Any:
    """Replace -1, the mark of a field that the event lacks, by null."""
    import polars

    return polars.Series(column).replace(-1, None)


def _with_series(columns: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the numbers that schemes in Python recorded, as events of the kind "series"."""
    import numpy as np

    series = columns["series"]
    if len(series["t_ns"]) == 0:
        return columns
    causes = list(columns["causes"])
    added = {
        "t_ns": series["t_ns"],
        "flow": series["flow"],
        "value": series["value"],
        "event": np.full(len(series["t_ns"]), len(columns["events"])),
        "cause": series["series"] + len(causes),
    }
    none = np.full(len(series["t_ns"]), -1)
    names = ("node", "link", "seq", "len", "ack", "attempt")
    joined = {
        name: np.concatenate([columns[name], added.get(name, none)]) for name in (*added, *names)
    }
    words = {"events": [*columns["events"], "series"], "causes": [*causes, *series["names"]]}
    return {**columns, **joined, **words}


def write(columns: Mapping[str, Any], run: Mapping[str, Any], file: Path) -> None:
    """Write events as Parquet: t_ns, node, link, flow, event, seq, len, ack, attempt, cause,
    value.
    """
    import numpy as np
    import polars

    columns = _with_series(columns)
    flows = [f["id"] for f in run["flows"]]

    def words(name: str, names: list[str]) -> polars.Series:
        """Decode a column of codes; -1 becomes null."""
        codes = polars.Series(
            np.where(columns[name] >= 0, columns[name], len(names)).astype(np.int64)
        )
        return polars.Series(name, [*names, None], dtype=polars.Categorical).gather(codes)

    table = polars.DataFrame(
        {
            "t_ns": columns["t_ns"],
            "node": words("node", list(columns["nodes"])),
            "link": words("link", [f"{a}>{b}" for a, b in columns["links"]]),
            "flow": words("flow", flows),
            "event": words("event", list(columns["events"])),
            **{name: _numbers(columns[name]) for name in ("seq", "len", "ack", "attempt")},
            "cause": words("cause", list(columns["causes"])),
            "value": columns["value"],
        }
    ).sort("t_ns", maintain_order=True)
    parts.write_parquet(table, file)
