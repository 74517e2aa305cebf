"""Parts of a sweep: each has the runs of one chunk, and is written as a whole.

They are Parquet files, or arrays of numpy without the extra `tables`; both can be in one folder.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lasthop import extras
from lasthop.errors import InputError
from lasthop.experiments.store import DAMAGED, OTHER_INPUT, partial, write_whole, writing

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars

FOLDER = "parts"
#: Suffixes of parts; the second one is that of parts written without the extra `tables`.
PARQUET, ARRAYS = ".parquet", ".npz"


def import_polars() -> Any:
    """The module polars; raises `InputError` that names the extra if it is missing."""
    extras.require("tables")
    import polars

    return polars


@dataclass(frozen=True)
class Part:
    """The rows of a part: run i has `keys[i]`, `schemes[i]`, `seeds[i]`."""

    keys: Sequence[str]
    schemes: Sequence[str]
    seeds: Sequence[int]
    #: One column per metric; NaN if unknown.
    values: npt.NDArray[np.float64]
    errors: Sequence[str]


def write_parquet(frame: polars.DataFrame, path: Path, *, statistics: bool = True) -> None:
    """Replace a Parquet file as a whole; raises `InputError` if the disk is full."""
    polars = import_polars()
    # polars cannot open a file whose name is not valid UTF-8.
    with partial(path) as temporary, open(temporary, "wb") as out:
        try:
            frame.write_parquet(out, compression="zstd", statistics=statistics)
            out.flush()
            os.fsync(out.fileno())
        except polars.exceptions.PolarsError as error:
            raise InputError(f"cannot write {path}: {error}") from None


def parquet(frame: polars.DataFrame) -> bytes:
    """A table as the bytes of a Parquet file."""
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd", statistics=False)
    return out.getvalue()


def numbers(values: npt.NDArray[np.float64], names: Sequence[str]) -> Mapping[str, Any]:
    """Columns of numbers; NaN becomes null."""
    polars = import_polars()
    return {n: polars.Series(n, values[:, i], nan_to_null=True) for i, n in enumerate(names)}


def write(folder: Path, part: Part, metrics: Sequence[str]) -> Path:
    """Write a part; its name is the digest of its content. A failed write leaves nothing."""
    arrays = not extras.is_installed("tables")
    content = _arrays(part, metrics) if arrays else _parquet(part, metrics)
    path = folder / FOLDER / f"{_digest(content)}{ARRAYS if arrays else PARQUET}"
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    _sync(path.parent)
    return path


def files(folder: Path) -> list[Path]:
    """The parts in the folder of a sweep."""
    found = (folder / FOLDER).glob("*")
    return sorted(p for p in found if p.suffix in (PARQUET, ARRAYS) and p.name[0] != ".")


def _arrays(part: Part, metrics: Sequence[str]) -> bytes:
    import numpy as np

    out = io.BytesIO()
    np.savez_compressed(
        out,
        metrics=np.array(metrics, dtype=str),
        key=np.array(part.keys, dtype=str),
        scheme=np.array(part.schemes, dtype=str),
        seed=np.array(part.seeds, dtype=np.int64),
        values=part.values,
        error=np.array(part.errors, dtype=str),
    )
    return out.getvalue()


def _parquet(part: Part, metrics: Sequence[str]) -> bytes:
    polars = import_polars()
    frame = polars.DataFrame(
        {
            "key": polars.Series(part.keys, dtype=polars.String),
            "scheme": polars.Series(part.schemes, dtype=polars.String),
            "seed": polars.Series(part.seeds, dtype=polars.Int64),
            **numbers(part.values, metrics),
            "error": polars.Series([e or None for e in part.errors], dtype=polars.String),
        }
    )
    return parquet(frame)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _sync(folder: Path) -> None:
    """Make a rename in a folder durable."""
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read(
    folder: Path, metrics: Sequence[str], left_out: Counter[str], *, clean: bool = False
) -> Iterator[Part]:
    """Read all parts of a sweep; `left_out` counts parts and rows that cannot be used, by reason.

    `clean` deletes unfinished files of an earlier, killed call.
    """
    if clean:
        for path in (folder / FOLDER).glob(".*.partial"):
            path.unlink(missing_ok=True)
    for path in files(folder):
        content = path.read_bytes()
        if _digest(content) != path.stem:
            left_out[DAMAGED] += 1
            continue
        found, runs = (_read_arrays if path.suffix == ARRAYS else _read_parquet)(content, metrics)
        if found is None:
            left_out[OTHER_INPUT] += runs
        else:
            yield found


def _read_parquet(content: bytes, metrics: Sequence[str]) -> tuple[Part | None, int]:
    """The part and its number of runs; no part if a metric is missing."""
    import numpy as np

    frame = import_polars().read_parquet(io.BytesIO(content))
    if not set(metrics) <= set(frame.columns):
        return None, len(frame)
    columns = [frame[n].fill_null(float("nan")).to_numpy() for n in metrics]
    part = Part(
        frame["key"].to_list(),
        frame["scheme"].to_list(),
        frame["seed"].to_list(),
        np.column_stack(columns),
        [e or "" for e in frame["error"].to_list()],
    )
    return part, len(frame)


def _read_arrays(content: bytes, metrics: Sequence[str]) -> tuple[Part | None, int]:
    """The same for arrays of numpy."""
    import numpy as np

    found = np.load(io.BytesIO(content), allow_pickle=False)
    seeds, known = found["seed"].tolist(), found["metrics"].tolist()
    if not set(metrics) <= set(known):
        return None, len(seeds)
    values = found["values"][:, [known.index(m) for m in metrics]]
    keys, schemes, errors = (found[name].tolist() for name in ("key", "scheme", "error"))
    return Part(keys, schemes, seeds, values, errors), len(seeds)
