"""Units of the columns of a table, from their names or from the user, and times in all forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from lasthop.errors import InputError

_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}

#: Bits or bytes per second: factor to bytes per second.
_RATE_UNITS = {
    f"{p}{word}": factor * _PREFIX[p.lower()]
    for p in ("", "k", "K", "M", "G")
    for words, factor in (
        (("bit/s", "bits/s", "bps", "b/s", "bits/sec", "bit/sec"), 1 / 8),
        (("B/s", "Bps", "byte/s", "bytes/s"), 1.0),
    )
    for word in words
}
#: Bytes of the row: factor to bytes.
_SIZE_UNITS = {"B": 1.0, "byte": 1.0, "bytes": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LOSS_UNITS = {"%": 0.01, "share": 1.0}

# Units in names such as `download_mbps`, `DL [Mbit/s]`, `rx_bytes`; a name in capitals is not
# certain about bits and bytes.
_BYTES_PER_S = re.compile(r"(?<![A-Za-z])([kKMG]?)(?:B/s|Bps|bytes?(?:/|_per_|ps|p)s?)(?![A-Za-z])")
_BITS_PER_S = re.compile(
    r"(?<![A-Za-z])([kKmMgG]?)(?:bps|[bB]its?[ _]?(?:/|_?per_?|p)[ _]?s(?:ec|econd)?|[bB]it_s|b/s)"
    r"(?![A-Za-z])|(?<![A-Za-z])([kKmMgG])[bB]its?(?![A-Za-z])|(?<=[a-z])([KMG])bps(?![A-Za-z])"
)
_BYTES = re.compile(r"(?<![A-Za-z])([kKMG]?)(?:[bB]ytes?)(?![A-Za-z/])|\[([kMG]?B)\]")
_TIMES = (
    (re.compile(r"(?<![A-Za-z])(?:ms|msec|millis|milliseconds?)(?![A-Za-z])", re.I), 1e-3),
    (re.compile(r"(?<![A-Za-z])(?:us|µs|usec|micros|microseconds?)(?![A-Za-z])", re.I), 1e-6),
    (re.compile(r"(?<![A-Za-z])(?:ns|nsec|nanos|nanoseconds?)(?![A-Za-z])", re.I), 1e-9),
    (re.compile(r"(?<![A-Za-z])(?:s|secs?|seconds?)(?![A-Za-z])", re.I), 1.0),
)


class Amount:
    """How a number becomes bytes: a rate times the length of its row, or a size."""

    def __init__(self, factor: float, is_rate: bool) -> None:
        self.factor = factor
        self.is_rate = is_rate


def amount(unit: str) -> Amount:
    """The unit given by `--unit`; raises `InputError` for another word."""
    for units, is_rate in ((_RATE_UNITS, True), (_SIZE_UNITS, False)):
        if unit in units:
            return Amount(units[unit], is_rate)
    raise InputError(
        f"--unit must be a rate (bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s, MB/s) or a size per row"
        f" (bytes, kB, MB), found `{unit}`"
    )


def amount_of_name(name: str) -> Amount | None:
    """The unit that the name of a column contains; `None` if there is none, or it is ambiguous."""
    if found := _BYTES_PER_S.search(name):
        return Amount(_PREFIX[found[1].lower()], True)
    if found := _BITS_PER_S.search(name):
        return Amount(_PREFIX[(found[1] or found[2] or found[3] or "").lower()] / 8, True)
    if found := _BYTES.search(name):
        prefix = found[1] if found[2] is None else found[2][:-1]
        return Amount(_PREFIX[prefix.lower()], False)
    return None


def duration(unit: str, option: str) -> float:
    """Seconds of a unit of time; raises `InputError` for another word."""
    if unit not in _TIME_UNITS:
        raise InputError(f"{option} must be s, ms, us or ns, found `{unit}`")
    return _TIME_UNITS[unit]


def duration_of_name(name: str) -> float | None:
    """Seconds of the unit of time that the name of a column contains."""
    return next((factor for pattern, factor in _TIMES if pattern.search(name)), None)


def loss(unit: str) -> float:
    """The factor of a unit of losses; raises `InputError` for another word."""
    if unit not in _LOSS_UNITS:
        raise InputError(f"--loss-unit must be % or share, found `{unit}`")
    return _LOSS_UNITS[unit]


def loss_of_name(name: str) -> float | None:
    """The factor of the unit of losses that the name of a column contains."""
    if re.search(r"%|percent|pct", name, re.I):
        return 0.01
    return 1.0 if re.search(r"share|ratio|fraction|probability", name, re.I) else None


#: Forms of local times beside ISO 8601.
_FORMS = (
    *("%Y.%m.%d_%H.%M.%S", "%Y.%m.%d %H:%M:%S", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M:%S.%f"),
    *("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S.%f", "%Y%m%d_%H%M%S", "%Y-%m-%d_%H-%M-%S"),
    *("%Y-%m-%d %H:%M:%S UTC", "%a %b %d %H:%M:%S %Y"),
)
_OF_DAY = ("%H:%M:%S", "%H:%M:%S.%f")

#: Reads a time in seconds; raises `ValueError`.
TimeReader = Callable[[str], float]


def time_reader(example: str, name: str, unit: str | None, form: str | None) -> TimeReader:
    """How the times of a column are read, from its first value and its name.

    Raises `InputError` if the form of the times is not certain.
    """
    if form is not None:
        return lambda text: _seconds(datetime.strptime(text, form))
    try:
        value = float(example)
    except ValueError:
        return _text_reader(example, name)
    if unit is not None:
        factor: float | None = duration(unit, "--time-unit")
    else:
        factor = _epoch_factor(value)
        if factor is None:
            factor = duration_of_name(name)
    return lambda text: float(text) * (1.0 if factor is None else factor)


def assumes_seconds(example: str, name: str) -> bool:
    """True if neither the size of a number nor the name of its column says the unit of a time."""
    try:
        value = float(example)
    except ValueError:
        return False
    return _epoch_factor(value) is None and duration_of_name(name) is None


def is_time(text: str) -> bool:
    """True if the text is a date or a time of day."""
    try:
        _text_reader(text, "")(text)
    except (ValueError, InputError):
        return False
    return True


def _epoch_factor(value: float) -> float | None:
    """Seconds of the unit of a Unix time; the times of 2001 to 2100 differ by factors of 1000."""
    for least, factor in ((1e9, 1.0), (1e12, 1e-3), (1e15, 1e-6), (1e18, 1e-9)):
        if least <= value < 4.2 * least:
            return factor
    return None


def _text_reader(example: str, name: str) -> TimeReader:
    def iso(text: str) -> float:
        return _seconds(datetime.fromisoformat(text))

    def of(form: str) -> TimeReader:
        return lambda text: _seconds(datetime.strptime(text, form))

    for reader in (iso, *map(of, _FORMS)):
        try:
            reader(example)
        except ValueError:
            continue
        return reader
    for form in _OF_DAY:
        try:
            datetime.strptime(example, form)
        except ValueError:
            continue
        return _of_day()
    raise InputError(
        f"the time `{example}` in column `{name}` has no form that is certain; give it with"
        " --time-format, such as --time-format '%d/%m/%Y %H:%M:%S'"
    )


def _of_day() -> TimeReader:
    """Reads times of day; a time far before the previous one is of the next day."""
    state = {"days": 0, "before": 0.0}

    def read(text: str) -> float:
        hours, minutes, seconds = text.split(":")
        time = 3600 * int(hours) + 60 * int(minutes) + float(seconds)
        if time < state["before"] - 43_200:
            state["days"] += 1
        state["before"] = time
        return state["days"] * 86_400 + time

    return read


def _seconds(time: datetime) -> float:
    # Local times have no known offset; only their differences are used.
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
