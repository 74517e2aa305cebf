"""The time that `ping -D`, `iperf3 --timestamps`, moreutils' ts and others put before each line."""

from __future__ import annotations

import re
from datetime import UTC, datetime

# In square brackets, or a date at the start of the line.
_BRACKETED = re.compile(r"^\s*\[\s*([^\]]*\d:\d\d[^\]]*|\d{9,11}\.\d+)\]:?\s*")
_PLAIN = re.compile(
    r"^\s*(\d{9,11}\.\d+|\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: (?:[A-Z]{3,4} )?\d{4})?)"
    r"(?:: *| +)"
)


def split(line: str) -> tuple[float | None, str]:
    """The time before a line in seconds since 1970, and the rest of the line.

    The time is `None` if the line has none, or one that tells no parts of seconds: packets of the
    same second would have the same time.
    """
    found = _BRACKETED.match(line) or _PLAIN.match(line)
    if found is None:
        return None, line
    return _seconds(found[1].strip()), line[found.end() :]


def _seconds(text: str) -> float | None:
    if not re.search(r"[.,]\d", text):
        return None
    try:
        return float(text)
    except ValueError:
        pass
    text = text.replace(",", ".").replace("/", "-")
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


__all__ = ["split"]
