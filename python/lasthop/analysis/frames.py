"""Tables of results as data frames of pandas and datasets of xarray (optional dependencies)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lasthop import extras, quantities
from lasthop.quantities import JOINT_SEPARATOR

if TYPE_CHECKING:
    import pandas
    import polars
    import xarray


def to_pandas(frame: polars.DataFrame, index: Sequence[str]) -> pandas.DataFrame:
    """A table with the columns `index` as its index."""
    extras.require("pandas")
    import pandas

    # Column by column: `DataFrame.to_pandas` of polars needs pyarrow. Numbers may be missing.
    numbers = [name for name in frame.columns if frame[name].dtype.is_float()]
    columns = {
        name: frame[name].to_numpy() if name in numbers else frame[name].to_list()
        for name in frame.columns
    }
    found: pandas.DataFrame = pandas.DataFrame(columns).set_index(list(index))
    return found


def to_xarray(
    frame: polars.DataFrame,
    dimensions: Sequence[str],
    about: Mapping[str, str],
    units: Mapping[str, str] | None = None,
) -> xarray.Dataset:
    """A table as a cube: a variable for each column that is not one of `dimensions`.

    Combinations of coordinates that the table lacks are NaN, or None for texts. `about` are the
    attributes of the dataset, `units` those of coordinates.
    """
    extras.require("xarray")
    import xarray

    found = xarray.Dataset.from_dataframe(to_pandas(frame, dimensions))
    # pandas sorts coordinates; here they are in the order in which they occur.
    order = {name: list(dict.fromkeys(frame[name].to_list())) for name in dimensions}
    found = found.reindex(order)
    found.attrs.update(about)
    for name, unit in (units or {}).items():
        found[name].attrs["units"] = unit
    return found


def with_numbers(
    frame: polars.DataFrame, keys: Sequence[str]
) -> tuple[polars.DataFrame, dict[str, str]]:
    """The table with the values of varied keys as numbers, and the units of these keys.

    Values that are not all quantities of one dimension remain texts. Jointly varied keys
    ("A & B") become the coordinate of the first key, and a column for each other one.
    """
    import polars

    units: dict[str, str] = {}
    for key in keys:
        names = key.split(JOINT_SEPARATOR)
        rows = [value.split(JOINT_SEPARATOR) for value in frame[key].to_list()]
        at = frame.columns.index(key)
        frame = frame.drop(key)
        for i, name in enumerate(names):
            texts = [row[i] for row in rows]
            read = quantities.axis_values(texts)
            frame.insert_column(at + i, polars.Series(name, texts if read is None else read[0]))
            if read is not None and read[1]:
                units[name] = read[1]
    return frame, units


def dimensions(keys: Sequence[str]) -> list[str]:
    """The dimensions of a table of runs: each varied key, the scheme and the seed."""
    return [*(key.split(JOINT_SEPARATOR)[0] for key in keys), "scheme", "seed"]


__all__ = ["dimensions", "to_pandas", "to_xarray", "with_numbers"]
