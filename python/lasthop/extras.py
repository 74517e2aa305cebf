"""The optional dependencies: what needs them, and how to install them."""

from __future__ import annotations

from collections.abc import Mapping
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


def is_installed(extra: str) -> bool:
    """True if the module of an extra can be imported."""
    return find_spec(EXTRAS[extra][0]) is not None


def not_written(files: Mapping[str, str]) -> str:
    """What is left out because extras are missing, in one line; empty if none is.

    `files` maps an extra to what it would add.
    """
    missing = {extra: what for extra, what in files.items() if not is_installed(extra)}
    if not missing:
        return ""
    parts = [f"the extra `{extra}` would add {what}" for extra, what in missing.items()]
    return f"{', '.join(parts)}: pip install 'lasthop[{','.join(missing)}]'"


def require(*extras: str) -> None:
    """Raise `InputError` that names an extra which is not installed."""
    for extra in extras:
        what = EXTRAS[extra][1]
        if not is_installed(extra):
            raise InputError(
                f"{what} need the extra `{extra}`, which is not installed: pip install"
                f" 'lasthop[{extra}]'"
            )
