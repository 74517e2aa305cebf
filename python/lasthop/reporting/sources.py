"""Reads the folders that `compare`, `sweep` and `reproduce` write."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lasthop.analysis.series import measure_label
from lasthop.errors import InputError
from lasthop.experiments import description
from lasthop.experiments.plan import single_run
from lasthop.quantities import count
from lasthop.reporting.study import SchemeUse, Study, read_table, seeds_text

#: The commands that write such a folder.
EXPECTED = "compare --out, sweep --out or reproduce --out"
SWEEP = "sweep.json"
TABLE = "table.csv"
#: Files of a figure, beside FIGURE.json.
FIGURE_TABLE = ".table.csv"


@dataclass(frozen=True)
class Results:
    """The results in a folder."""

    folder: Path
    #: comparison, sweep or reproduction.
    kind: str
    studies: Sequence[Study]


def read(folder: Path) -> Results:
    """Read a folder of results; raises `InputError` if it is none."""
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}; expected a folder written by {EXPECTED}")
    if (folder / SWEEP).is_file():
        return Results(folder, "sweep", [_sweep(folder)])
    if (folder / description.FILE).is_file():
        return Results(folder, "comparison", [_comparison(folder)])
    figures = _figures(folder)
    if figures:
        return Results(folder, "reproduction", figures)
    if (folder / TABLE).is_file() or (folder / "index.md").is_file():
        raise InputError(
            f"{folder} has no {description.FILE} and no FIGURE.json: an older lasthop wrote it;"
            " repeat its command (finished runs of a comparison are reused)"
        )
    raise InputError(f"{folder} has no results; expected a folder written by {EXPECTED}")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is not a description of results")
    version = found.get("schema_version")
    if version != description.SCHEMA_VERSION:
        known = description.SCHEMA_VERSION
        raise InputError(f"{path}: schema_version {version} is not known; expected {known}")
    return found


def _schemes(found: Mapping[str, Any]) -> list[SchemeUse]:
    return [
        SchemeUse(str(s["label"]), str(s["name"]), bool(s["python_rule"]), tuple(s["slots"]))
        for s in found["schemes"]
    ]


def _comparison(folder: Path) -> Study:
    path = folder / description.FILE
    found = _json(path)
    picture = folder / "figure.svg"
    with _described(path):
        return Study(
            id="",
            title=found["scenario"],
            table=read_table(folder / TABLE),
            picture=picture if picture.is_file() else None,
            **_common(found),
        )


def _common(found: Mapping[str, Any]) -> dict[str, Any]:
    failed = found["failed"]
    return {
        "schemes": _schemes(found),
        "command": found["command"],
        "version": found["lasthop"],
        "seeds": seeds_text(found["seeds"]),
        "single_runs": _single_runs(found),
        "claims": found["claims"],
        "warnings": found["warnings"],
        "assumed": found["assumed"],
        "notes": [f"{count(failed, 'run')} failed and {'is' if failed == 1 else 'are'} left out"]
        if failed
        else [],
    }


def _single_runs(found: Mapping[str, Any]) -> dict[tuple[int, str], str]:
    """`Study.single_runs` of a comparison. An older lasthop did not write both keys."""
    drawn = [tuple(case) for case in found.get("processing_times", [])]
    fixed = [(point, label) for point, label in found.get("deterministic", [])]
    return {case: single_run(case in drawn) for case in fixed}


@contextmanager
def _described(path: Path) -> Iterator[None]:
    """Turn a missing or wrong key into an `InputError` that names the file."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is not a description of results: {error!r}") from None


def _sweep(folder: Path) -> Study:
    path = folder / SWEEP
    found = _json(path)
    if not (folder / TABLE).is_file():
        raise InputError(
            f"{folder} has no {TABLE}: the sweep has not ended; `lasthop sweep --out {folder}"
            " --status` shows what is missing"
        )
    with _described(path):
        first, last = found["seeds"]
        until, (shard, shards) = found["until"], found["shard"]
        notes = []
        if until is not None:
            half = f"{100 * until['half_width']:g} %" if until["is_share"] else until["half_width"]
            notes.append(f"seeds were added until the interval of {until['metric']} was ± {half}")
        if shards > 1:
            notes.append(f"shard {shard} of {shards}; `lasthop merge` joins the shards")
        return Study(
            id="",
            title=found["scenario"],
            table=read_table(folder / TABLE),
            schemes=_swept(found),
            command=found["command"],
            version=found["lasthop"],
            seeds=seeds_text(range(first, last + 1)),
            warnings=found["warnings"],
            assumed=found["assumed"],
            notes=notes,
            single_runs={
                (c["point"], c["label"]): single_run(c.get("processing_times", False))
                for c in found["cases"]
                if c["deterministic"]
            },
        )


def _swept(found: Mapping[str, Any]) -> list[SchemeUse]:
    """The schemes of a sweep: their labels, and the words of the command, in the same order."""
    labels = list(dict.fromkeys(case["label"] for case in found["cases"]))
    words = [str(word) for word in found["schemes"]]
    if len(words) != len(labels):
        words = labels
    return [
        SchemeUse(label, label if ".py:" in word else word.split(":")[0], ".py:" in word)
        for label, word in zip(labels, words, strict=True)
    ]


def _figures(folder: Path) -> list[Study]:
    """The figures of a reproduction, which are in the folder or one folder per paper."""
    found = []
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/*.json")]):
        if path.with_suffix(".md").is_file():
            found.append(_figure(path))
    return found


def _figure(path: Path) -> Study:
    found = _json(path)
    base = path.with_suffix("")
    table = base.with_suffix(FIGURE_TABLE)
    picture = next((p for p in map(base.with_suffix, (".svg", ".png")) if p.is_file()), None)
    numbers = read_table(table) if table.is_file() else None
    columns = numbers.metrics if numbers is not None else ()
    measures = {m: measure_label(m) for m in columns if measure_label(m) != m}
    with _described(path):
        modified = ["modified: its claims are not judged"] if found["modified"] else []
        common = _common(found)
        return Study(
            id=found["id"],
            title=found["title"],
            table=numbers,
            picture=picture,
            about=found["about"],
            metrics=found["plot"]["metrics"],
            x=found["plot"]["x"],
            labels={**measures, **found["labels"]},
            **{**common, "notes": [*common["notes"], *modified]},
        )


__all__ = ["Results", "read"]
