"""The optional dependencies: what needs them, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from lasthop.errors import InputError

#: Extra -> the module that it installs, and what needs it.
EXTRAS: Final = {
    "plots": ("matplotlib", "Figures"),
    "tables": ("polars", "Parquet tables and data frames"),
    "dask": ("distributed", "Sweeps on a Dask cluster"),
    "pandas": ("pandas", "Data frames of pandas"),
    "xarray": ("xarray", "Datasets of xarray"),
}


def require(*extras: str) -> None:
    """Raise `InputError` that names an extra which is not installed."""
    for extra in extras:
        module, what = EXTRAS[extra]
        if find_spec(module) is None:
            raise InputError(
                f"{what} need the extra `{extra}`, which is not installed: pip install"
                f" 'lasthop[{extra}]'"
            )
