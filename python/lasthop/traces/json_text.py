"""Reads files of JSON, with errors that name the file."""

from __future__ import annotations

import json
import math
from typing import Any

from lasthop.errors import InputError
from lasthop.traces.source import Source


def document(source: Source) -> dict[str, Any]:
    """The object of a file; text after it is ignored.

    Raises `InputError` if the text is no JSON, no object, or has several of them.
    """
    text = source.text.lstrip()
    try:
        found, end = json.JSONDecoder().raw_decode(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
        why = getattr(error, "msg", "it is nested too deeply")
        raise InputError(f"{source.name}: {line}this is not valid JSON: {why}") from None
    list(source.lines())
    if not isinstance(found, dict):
        raise InputError(f"{source.name}: this JSON is no object")
    if text[end:].lstrip().startswith("{"):
        raise InputError(f"{source.name}: the file has several JSON documents; give each its file")
    return found


def table(value: Any, *keys: str) -> dict[str, Any]:
    """The object below these keys; empty if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def array(value: Any, key: str) -> list[Any]:
    """The array below a key; empty if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def number(value: Any) -> float:
    """A finite number, or NaN."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else math.nan


__all__ = ["array", "document", "number", "table"]
