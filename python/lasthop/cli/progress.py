"""A progress line on stderr after the first second, if stderr is a terminal."""

from __future__ import annotations

import sys
import time


def duration(seconds: float) -> str:
    """Format a duration: "0:42", "1:03:20", "3.5 days"."""
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.1f} days"
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def clear_line() -> None:
    """Clear the progress line before other output; the next step prints it again."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class Progress:
    """Counts finished steps and prints the progress line; a context manager."""

    def __init__(self, what: str, total: int) -> None:
        self.what = what
        self.total = total
        self.count = 0
        self._start = time.monotonic()
        self._last = 0.0
        self._shown = False
        self._terminal = sys.stderr.isatty()

    def step(self, count: int = 1) -> None:
        """Report that `count` more steps are finished."""
        self.count += count
        now = time.monotonic()
        if not self._terminal or now - self._start < 1.0 or now - self._last < 0.1:
            return
        self._last, self._shown = now, True
        spent = now - self._start
        left = spent / self.count * (self.total - self.count)
        share = 100 * self.count // max(self.total, 1)
        line = f"{self.what}: {self.count} of {self.total} ({share} %), {duration(left)} left"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            clear_line()
