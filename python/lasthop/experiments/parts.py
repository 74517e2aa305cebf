"""Parquet parts of a sweep: each has the runs of one chunk, and is written as a whole."""

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
SUFFIX = ".parquet"


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


def write_parquet(frame: polars.DataFrame, path: Path) -> None:
    """Replace a Parquet file as a whole; raises `InputError` if the disk is full."""
    polars = import_polars()
    # polars cannot open a file whose name is not valid UTF-8.
    with partial(path) as temporary, open(temporary, "wb") as out:
        try:
            frame.write_parquet(out)
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
    content = parquet(frame)
    path = folder / FOLDER / f"{_digest(content)}{SUFFIX}"
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    _sync(path.parent)
    return path


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
    import numpy as np

    for path in sorted((folder / FOLDER).glob("*")):
        if clean and path.name.startswith(".") and path.name.endswith(".partial"):
            path.unlink(missing_ok=True)
        if path.suffix != SUFFIX or path.name.startswith("."):
            continue
        content = path.read_bytes()
        if _digest(content) != path.stem:
            left_out[DAMAGED] += 1
            continue
        frame = import_polars().read_parquet(io.BytesIO(content))
        if not set(metrics) <= set(frame.columns):
            left_out[OTHER_INPUT] += len(frame)
            continue
        columns = [frame[n].fill_null(float("nan")).to_numpy() for n in metrics]
        yield Part(
            frame["key"].to_list(),
            frame["scheme"].to_list(),
            frame["seed"].to_list(),
            np.column_stack(columns),
            [e or "" for e in frame["error"].to_list()],
        )
