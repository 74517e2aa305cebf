"""Files of a comparison: finished runs are appended as they come, everything else is written whole at the end."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lasthop.errors import InputError
from lasthop.plan import Case, Job, Plan

Metrics = dict[str, float | None]

CHECKSUM = "checksum"
# Why rows of an earlier invocation are not taken over.
OTHER_INPUT = "are of another scenario, rule or build of lasthop and are not taken over"
OLDER_VERSION = "are of an older version and are not taken over"
DAMAGED = "were altered or damaged since they were written and are not taken over"


@dataclass(frozen=True)
class Row:
    """One finished run: its metrics, or the error that ended it."""

    case: Case
    seed: int
    metrics: Metrics
    error: str = ""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failure to write (full disk, no permission) into one clear message."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def partial(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; it takes the name of `path` if all went well, and vanishes if not.

    What is not an ordinary file (a pipe, /dev/null) is written to directly, and a link stays one.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        with writing(path):
            yield path
        return
    temporary = path.with_name(f".{path.name}.partial")
    with writing(path):
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is either the old one or the whole new one, whatever happens."""
    with partial(path) as temporary, open(temporary, "wb") as out:
        # File names in a command may have bytes that are no UTF-8; they stay as they are.
        out.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
        out.flush()
        os.fsync(out.fileno())


def number(value: float | None) -> str:
    """A number as files hold it: exact, empty if unknown."""
    if value is None:
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """CSV text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def checksum(fields: Sequence[str]) -> str:
    """What tells whether a row was altered since it was written."""
    return hashlib.sha256("\0".join(fields).encode()).hexdigest()[:8]


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Refuse `folder` if another process writes there; make it if it does not exist."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # A file that stays: the lock of one that is replaced or removed would be another one.
        lock = open(folder / ".lasthop.lock", "a", encoding="utf-8")  # noqa: SIM115
    with lock:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"another lasthop is writing to {folder}; wait for it, or give another --out") from None
        yield


class Store:
    """`runs.csv` of a comparison: what it holds of the plan already, and where new runs go.

    Each row carries the key of its case (a digest of build, filled-in scenario, traces and scheme) and a checksum, so a
    second invocation takes over exactly those runs that it would do again, and none that was altered since.
    """

    def __init__(self, folder: Path, plan: Plan, metrics: Sequence[str]) -> None:
        self.path = folder / "runs.csv"
        self.plan = plan
        self.metrics = list(metrics)
        self.header = ["point", *plan.vary, "scheme", "seed", *self.metrics, "error", "key", CHECKSUM]
        self.rows: dict[tuple[int, str, int], Row] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with writing(self.path):
            # Opened for appending: nothing that is there is lost if we die now.
            self._file: IO[str] = open(self.path, "a", encoding="utf-8", newline="")  # noqa: SIM115
        try:
            self._read_finished()
        except BaseException:
            self.close()
            raise

    def _read_finished(self) -> None:
        content = self.path.read_bytes()
        # Bytes that are no UTF-8 change the row that they are in, and so its checksum.
        lines = content.decode("utf-8", errors="replace").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # a line that was being written when the process was killed
        header, *found = [next(csv.reader([line]), []) for line in lines] or [[]]
        left_out: Counter[str] = Counter()
        if header == self.header:
            wanted = {(c.key, str(s)): c for c in self.plan.cases for s in self.plan.seeds_of(c)}
            for fields in found:
                self._read(fields, wanted, left_out)
        elif "key" in header:
            left_out[OTHER_INPUT if CHECKSUM in header else OLDER_VERSION] = len(found)
        elif content:
            raise InputError(f"{self.path} is no table of runs; move it away, or give another --out")
        self._print_counts(left_out)
        if left_out:
            write_whole(self._previous, content)
        with writing(self.path):
            self._file.truncate(0)
            self._write(self.header)
            for row in self.rows.values():
                self._write(self._fields(row))
            self._file.flush()

    @property
    def _previous(self) -> Path:
        return self.path.with_name("runs.previous.csv")

    def _print_counts(self, left_out: Mapping[str, int]) -> None:
        """Say what the results are made of, and what they are not."""
        for reason, count in left_out.items():
            print(f"lasthop: {count} rows of {self.path} {reason}; kept in {self._previous.name}", file=sys.stderr)
        if self.rows:
            print(f"lasthop: {len(self.rows)} of {self.plan.size()} runs taken over from {self.path}", file=sys.stderr)

    def _read(self, fields: Sequence[str], wanted: Mapping[tuple[str, str], Case], left_out: Counter[str]) -> None:
        """Take a row over, or count why not."""
        if len(fields) != len(self.header) or fields[-1] != checksum(fields[:-1]):
            left_out[DAMAGED] += 1
            return
        record = dict(zip(self.header, fields, strict=True))
        case = wanted.get((record["key"], record["seed"]))
        if case is None:
            left_out[OTHER_INPUT] += 1
        elif not record["error"]:  # failed runs are tried again
            metrics = {m: float(record[m]) if record[m] else None for m in self.metrics}
            self.rows[(case.point, case.label, int(record["seed"]))] = Row(case, int(record["seed"]), metrics)

    def _write(self, fields: Sequence[str]) -> None:
        self._file.write(table(fields, []))

    def _fields(self, row: Row) -> list[str]:
        varied = [row.case.set[k] for k in self.plan.vary]
        values = [number(row.metrics.get(m)) for m in self.metrics]
        error = " ".join(row.error.split())
        fields = [str(row.case.point), *varied, row.case.label, str(row.seed), *values, error, row.case.key]
        return [*fields, checksum(fields)]

    def has(self, job: Job) -> bool:
        """True if the run is there already."""
        return (job.case.point, job.case.label, job.seed) in self.rows

    def add(self, row: Row) -> None:
        """Append a finished run; it is on its way to the disk when this returns."""
        with writing(self.path):
            self._write(self._fields(row))
            self._file.flush()
        self.rows[(row.case.point, row.case.label, row.seed)] = row

    def finish(self, rows: Sequence[Row]) -> None:
        """Write `runs.csv` anew in the order of the plan, so that it does not depend on which run ended first."""
        write_whole(self.path, table(self.header, [self._fields(r) for r in rows]))
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):  # on a full disk, closing tries to write once more
            self._file.close()
