"""Reads tables of TOML files with errors that name the key and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lasthop import quantities
from lasthop.errors import InputError


class TableReader:
    """Reads the keys of a table; raises `InputError` for wrong values and unknown keys."""

    def __init__(self, table: Any, where: str) -> None:
        if not isinstance(table, Mapping):
            raise InputError(f"{where} must be a table")
        self.table = dict(table)
        self.where = where
        self.taken: list[str] = []

    def wrong(self, key: str, found: Any, allowed: str) -> InputError:
        """The error for a wrong value of `key`; `allowed` says what it may be."""
        return InputError(f"{self.where}: `{key}` must be {allowed}, found {found!r}")

    def take(self, key: str, default: Any = None) -> Any:
        """Remove and return the value of `key`, or `default`."""
        self.taken.append(key)
        return self.table.pop(key, default)

    def text(self, key: str, default: str | None = None, one_of: Sequence[str] = ()) -> str:
        """A string, one of `one_of` if given; required without a `default`."""
        found = self.take(key, default)
        if found is None:
            raise InputError(f"{self.where}: `{key}` is missing")
        if not isinstance(found, str):
            raise self.wrong(key, found, "a string")
        if one_of and found and found not in one_of:
            raise InputError(
                f"{self.where}: {key} = {found!r}{quantities.did_you_mean(found, list(one_of))};"
                f" allowed: {', '.join(one_of)}"
            )
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings, empty if the key is missing."""
        found = self.take(key, [])
        if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
            raise self.wrong(key, found, "a list of strings")
        return tuple(found)

    def integer(self, key: str, default: int | None = None, least: int = 1) -> int | None:
        """A whole number of at least `least`, or `default`."""
        found = self.take(key, default)
        if found is not None and (
            not isinstance(found, int) or isinstance(found, bool) or found < least
        ):
            raise self.wrong(key, found, f"a whole number, at least {least}")
        return found

    def number(self, key: str) -> float | None:
        """A number, also with a unit ("2 %"); `None` if the key is missing."""
        found = self.take(key)
        return None if found is None else quantities.number(found, f"{self.where}: `{key}`")

    def span(self, key: str) -> tuple[float, float] | None:
        """Two times, in seconds, the earlier one first; `None` if the key is missing."""
        found = self.take(key)
        if found is None:
            return None
        if not isinstance(found, list) or len(found) != 2:
            raise self.wrong(key, found, 'two times such as ["5 s", "11 s"]')
        low, high = (quantities.seconds(x, f"{self.where}: `{key}`") for x in found)
        if high <= low:
            raise self.wrong(key, found, "two times, the earlier one first")
        return low, high

    def words(self, key: str) -> dict[str, str]:
        """A table whose values are texts as `--set` takes them."""
        found = self.take(key, {})
        if not isinstance(found, Mapping):
            raise self.wrong(key, found, "a table")
        return {k: value_text(v) for k, v in found.items()}

    def end(self) -> None:
        """Refuse keys that nothing has taken."""
        for key in self.table:
            raise InputError(
                f"{self.where}: unknown key `{key}`{quantities.did_you_mean(key, self.taken)};"
                f" allowed: {', '.join(self.taken)}"
            )


def value_text(value: Any) -> str:
    """A value of a file as the text that `--set` takes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_quoted(v)}" for k, v in value.items()) + " }"
    return str(value)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(_quoted(v) for v in value) + "]"
    return value_text(value)


def scheme_text(value: Any, where: str) -> str:
    """Format a scheme, a string or a table with `name`, as on the command line."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise InputError(
            f'{where}: a scheme is a string or a table with `name = "…"`, found {value!r}'
        )
    parts = [value["name"]]
    for key, setting in value.items():
        if key != "name":
            text = value_text(setting)
            parts.append(f"{key}=({text})" if ":" in text else f"{key}={text}")
    return ":".join(parts)
