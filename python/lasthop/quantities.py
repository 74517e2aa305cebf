"""Parse and format values with units, and lists as the command line writes them."""

from __future__ import annotations

from lasthop.errors import InputError

# Separator of jointly varied keys, and of their values.
JOINT_SEPARATOR = " & "
# Largest seed, and largest number of seeds, flows or processes.
MAX_SEED, MAX_COUNT = 2**63 - 1, 10**9
# Options of a last hop: quantities, and files of traces.
LAST_HOP = ("down", "up", "rtt", "loss", "rate", "queue", "mtu")
_OPEN = {"(": ")", "[": "]", "{": "}"}


def split(text: str, separator: str = ",", *, keep_empty: bool = False) -> list[str]:
    """Split at each `separator` outside of brackets, braces and quotes.

    Parts are stripped; empty parts are dropped unless `keep_empty` is true.
    """
    parts = [""]
    closing: list[str] = []
    quote = ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in _OPEN:
            closing.append(_OPEN[c])
        elif closing and c == closing[-1]:
            closing.pop()
        elif c == separator and not closing:
            parts.append("")
            continue
        parts[-1] += c
    return [p.strip() for p in parts if keep_empty or p.strip()]


def key_value(text: str, option: str) -> tuple[str, str]:
    """Split the `KEY=VALUE` of an option; raises `InputError` if a part is missing."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise InputError(
            f"{option} needs KEY=VALUE (for example {option} tcp.min_rto=1s), found `{text}`"
        )
    return key.strip(), value.strip()


class Quantity:
    """A number with its unit.

    `number` and `unit` are as written; `base` is the number in the base unit of `dimension` (s,
    bit/s, B, share, …).
    """

    def __init__(self, number: float, unit: str, dimension: str, base: float) -> None:
        self.number = number
        self.unit = unit
        self.dimension = dimension
        self.base = base


def quantity(text: str) -> Quantity | None:
    """Parse "170 ms" or "1%"; `None` if the text is not a number or has an unknown unit."""
    from lasthop import _native

    found = _native.quantity(text.strip("\"'"))
    return None if found is None else Quantity(*found)


def seconds(value: object, what: str) -> float:
    """Parse a time such as "10 s" and return seconds; `what` names it in the error message."""
    q = quantity(value) if isinstance(value, str) else None
    if q is None or q.dimension != "s":
        raise InputError(f'{what} must be a time such as "10 s", found {value!r}')
    return q.base


def number(value: object, what: str) -> float:
    """Parse a number or a quantity, in base units: "20 %" is 0.2, "250 kbps" is 250000."""
    if isinstance(value, bool):
        raise InputError(f"{what} must be a number, found {value!r}")
    if isinstance(value, (int, float)):
        return float(value)
    q = quantity(value) if isinstance(value, str) else None
    if q is None:
        raise InputError(f'{what} must be a number such as 3 or "250 kbps", found {value!r}')
    return q.base


def whole_number(value: int, what: str, least: int = 0, most: int = MAX_COUNT) -> int:
    """A whole number in a range; raises `InputError`, which names it by `what`."""
    if value < least:
        bound = "must not be negative" if least == 0 else f"must be at least {least}"
        raise InputError(f"{what} {bound}, found {value}")
    if value > most:
        raise InputError(f"{what} must be at most {most}, found {value}")
    return value


def format_number(x: float, digits: int = 4) -> str:
    """Format a number with `digits` significant digits, without an exponent below 1e12."""
    text = f"{x:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(x) < 1e12 else text


def axis_values(values: list[str]) -> tuple[list[float], str] | None:
    """Return the values as numbers with their unit, or `None` if they are not all quantities.

    Values with one common unit keep it ("1%", "2%" give 1, 2 and "%"); different units of one
    dimension become its base unit.
    """
    read = [quantity(v) for v in values]
    known = [q for q in read if q is not None]
    if not known or len(known) < len(read):
        return None
    units = {q.unit for q in known}
    if len(units) == 1:
        return [q.number for q in known], units.pop()
    dimensions = {q.dimension for q in known}
    if len(dimensions) == 1:
        return [q.base for q in known], dimensions.pop()
    return None


def count(number: int, what: str, several: str = "") -> str:
    """Format a count: "1 run", "2 runs"; `several` is an irregular plural."""
    return f"{number} {what}" if number == 1 else f"{number} {several or f'{what}s'}"


def did_you_mean(word: str, candidates: list[str]) -> str:
    """Return " (did you mean `x`?)" for the candidate closest to `word`, or an empty string."""
    import difflib

    found = difflib.get_close_matches(word, candidates, n=1, cutoff=0.6)
    return f" (did you mean `{found[0]}`?)" if found else ""
