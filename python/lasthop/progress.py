"""Progress after the first second: a line on stderr if it is a terminal, a bar in notebooks."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar

from lasthop import notebooks

# Mode ("auto", "json" or "none") of the progress of the running command.
_mode: ContextVar[str] = ContextVar("progress", default="auto")
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


@contextlib.contextmanager
def shown(mode: str, quiet: bool = False) -> Iterator[None]:
    """Show the progress of a command in this mode: "auto", "json" or "none".

    `quiet` is "none", without messages that are no errors.
    """
    tokens = _mode.set("none" if quiet else mode), _quiet.set(quiet)
    try:
        yield
    finally:
        _mode.reset(tokens[0])
        _quiet.reset(tokens[1])


def note(message: str) -> None:
    """Print a message that is no error on stderr, unless the running command is quiet."""
    if not _quiet.get():
        print(f"lasthop: {message}", file=sys.stderr)


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
    """Counts finished steps and prints the progress line, or JSON lines; a context manager."""

    def __init__(self, what: str, total: int) -> None:
        self.what = what
        self.total = total
        self.count = 0
        self._start = time.monotonic()
        self._last = 0.0
        self._shown = False
        self._bar = notebooks.progress_bar(what, total)
        self._mode = _mode.get()
        self._terminal = self._mode == "auto" and sys.stderr.isatty() and self._bar is None

    def step(self, count: int = 1) -> None:
        """Report that `count` more steps are finished."""
        self.count += count
        if self._bar is not None:
            self._bar.update(count)
        now = time.monotonic()
        if self._mode == "json":
            self._print_json(now)
        if not self._terminal or now - self._start < 1.0 or now - self._last < 0.1:
            return
        self._last, self._shown = now, True
        spent = now - self._start
        left = spent / self.count * (self.total - self.count)
        share = 100 * self.count // max(self.total, 1)
        line = f"{self.what}: {self.count} of {self.total} ({share} %), {duration(left)} left"
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def _print_json(self, now: float) -> None:
        if now - self._last < 0.5 and self.count < self.total:
            return
        self._last, spent = now, now - self._start
        rate = self.count / spent if spent > 0 else 0.0
        _print_progress(self.count, self.total, rate, what=self.what)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._shown:
            clear_line()


class SweepProgress:
    """Progress of a sweep on stderr: a line on a terminal, a bar in notebooks, or JSON lines.

    `mode` is "auto", "json" or "none"; `quiet` leaves out messages about reused and failed runs.
    """

    def __init__(self, mode: str, quiet: bool = False) -> None:
        self._bar = notebooks.progress_bar("sweep") if mode == "auto" else None
        is_line = sys.stderr.isatty() and self._bar is None
        self._mode = "none" if mode == "auto" and not is_line else mode
        self._quiet = quiet
        self._start = time.monotonic()
        self._first: int | None = None
        self._last = -math.inf

    def note(self, message: str) -> None:
        """Print a message."""
        if self._mode == "json":
            _print_json({"event": "note", "message": message})
        elif not self._quiet:
            if self._mode == "auto":
                clear_line()
            print(f"lasthop: {message}", file=sys.stderr)

    def progress(self, done: int, total: int, failed: int) -> None:
        """Report the finished runs, the runs that are wanted so far, and the failed runs."""
        if self._bar is not None:
            self._bar.total = total
            self._bar.update(done - self._bar.n)
        if self._first is None:
            self._first, self._start = done, time.monotonic()
        now = time.monotonic()
        if self._mode == "none" or (now - self._last < 0.5 and done < total):
            return
        self._last, spent = now, now - self._start
        rate = (done - self._first) / spent if spent > 0 else 0.0
        if self._mode == "json":
            _print_progress(done, total, rate, failed=failed)
            return
        left = (total - done) / rate if rate else None
        share = 100 * done // max(total, 1)
        line = f"sweep: {done} of {total} runs ({share} %), {rate:.3g} runs/s"
        line += f", {duration(left)} left" if left is not None else ""
        line += f", {failed} failed" if failed else ""
        sys.stderr.write(f"\r\x1b[K{line}")
        sys.stderr.flush()

    def end(self) -> None:
        """Remove the line or the bar."""
        if self._bar is not None:
            self._bar.close()
        if self._mode == "auto":
            clear_line()


def _print_progress(done: int, total: int, rate: float, **more: object) -> None:
    """Print a JSON line; `rate` is in steps per second."""
    event = {"event": "progress", "done": done, "total": total, **more}
    left = round((total - done) / rate, 1) if rate else None
    _print_json({**event, "runs_per_s": round(rate, 3), "left_s": left})


def _print_json(event: dict[str, object]) -> None:
    print(json.dumps(event, ensure_ascii=False), file=sys.stderr, flush=True)
