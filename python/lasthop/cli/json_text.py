"""JSON as `json.dumps` writes it with `indent=2`, without importing `json`, which takes longer than
a short run.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def text(value: Any, *, ascii_only: bool) -> str:
    """`json.dumps(value, indent=2, ensure_ascii=ascii_only, allow_nan=False)`."""
    parts: list[str] = []
    try:
        _add(parts, value, "\n", ascii_only)
    except _OtherValueError:
        import json

        return json.dumps(value, indent=2, ensure_ascii=ascii_only, allow_nan=False)
    return "".join(parts)


class _OtherValueError(Exception):
    """A value that `json` must write: a text with escapes, an infinite number."""


def _add(parts: list[str], value: Any, line: str, ascii_only: bool) -> None:
    """Add the text of a value; `line` begins the lines after its first one."""
    kind = type(value)
    if kind is dict or kind is list:
        opening, closing = "{}" if kind is dict else "[]"
        below, separator = f"{line}  ", ""
        parts.append(opening)
        for item in value:
            parts += (separator, below)
            separator = ","
            if kind is dict:
                parts += (_quoted(item, ascii_only), ": ")
                item = value[item]
            _add(parts, item, below, ascii_only)
        parts += (line, closing) if value else (closing,)
    elif kind is str:
        parts.append(_quoted(value, ascii_only))
    elif value is None or kind is bool:
        parts.append("null" if value is None else "true" if value else "false")
    elif kind is int or (kind is float and abs(value) < float("inf")):
        parts.append(repr(value))
    else:
        raise _OtherValueError


def _quoted(text: Any, ascii_only: bool) -> str:
    plain = type(text) is str and text.isprintable() and not ('"' in text or "\\" in text)
    if not plain or (ascii_only and not text.isascii()):
        raise _OtherValueError
    return f'"{text}"'
