"""Files of a comparison: finished runs are appended as they come, everything else is written whole at the end."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lasthop.errors import InputError
from lasthop.plan import Case, Job, Plan

Metrics = dict[str, float | None]


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
        out.write(content.encode() if isinstance(content, str) else content)
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


class Store:
    """`runs.csv` of a comparison: what it holds of the plan already, and where new runs go.

    Each row carries the key of its case (a digest of version, filled-in scenario, traces and scheme), so a second
    invocation takes over exactly those runs that it would do again.
    """

    def __init__(self, folder: Path, plan: Plan, metrics: Sequence[str]) -> None:
        self.path = folder / "runs.csv"
        self.plan = plan
        self.metrics = list(metrics)
        self.header = ["point", *plan.vary, "scheme", "seed", *self.metrics, "error", "key"]
        self.rows: dict[tuple[int, str, int], Row] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with writing(self.path):
            # Opened for appending: nothing that is there is lost if we die now.
            self._file: IO[str] = open(self.path, "a+", encoding="utf-8", newline="")  # noqa: SIM115
        self._lock()
        self._take_over()

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InputError(f"another lasthop is writing to {self.path.parent}") from None

    def _take_over(self) -> None:
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # a line that was being written when the process was killed
        found = list(csv.reader(lines))
        wanted = {(c.key, s): c for c in self.plan.cases for s in self.plan.seeds}
        if found and found[0] == self.header:
            for fields in found[1:]:
                row = self._read(fields, wanted)
                if row is not None:
                    self.rows[(row.case.point, row.case.label, row.seed)] = row
        if found and (found[0] != self.header or len(self.rows) < len(found) - 1):
            kept = self.path.with_name("runs.previous.csv")
            write_whole(kept, "".join(lines))
            print(f"lasthop: {self.path} held other runs too; they are kept in {kept.name}", file=sys.stderr)
        with writing(self.path):
            self._file.truncate(0)
            self._write(self.header)
            for row in self.rows.values():
                self._write(self._fields(row))
            self._file.flush()

    def _read(self, fields: Sequence[str], wanted: Mapping[tuple[str, int], Case]) -> Row | None:
        if len(fields) != len(self.header):
            return None
        record = dict(zip(self.header, fields, strict=True))
        try:
            seed = int(record["seed"])
            metrics = {m: float(record[m]) if record[m] else None for m in self.metrics}
        except ValueError:
            return None
        case = wanted.get((record["key"], seed))
        # Failed runs are tried again.
        return Row(case, seed, metrics) if case is not None and not record["error"] else None

    def _write(self, fields: Sequence[str]) -> None:
        self._file.write(table(fields, []))

    def _fields(self, row: Row) -> list[str]:
        varied = [row.case.set[k] for k in self.plan.vary]
        values = [number(row.metrics.get(m)) for m in self.metrics]
        error = " ".join(row.error.split())
        return [str(row.case.point), *varied, row.case.label, str(row.seed), *values, error, row.case.key]

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
