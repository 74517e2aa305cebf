"""Files of a comparison: each finished run is appended; all other files are replaced as a whole."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from lasthop.errors import InputError
from lasthop.experiments.plan import Case, Plan
from lasthop.progress import note

if TYPE_CHECKING:
    from numpy.typing import NDArray

Metrics = dict[str, float | None]
Place = tuple[int, str, int]

CHECKSUM = "checksum"
# Why rows of an earlier call are not reused.
OTHER_INPUT = "belong to another scenario, rule or build of lasthop and are not reused"
OLDER_VERSION = "belong to an older version and are not reused"
DAMAGED = "were altered or damaged after they were written and are not reused"


class Row:
    """One finished run: its metrics, or the error that ended it.

    The metrics are row `index` of a block of runs, one column per metric of the comparison; NaN if
    unknown. `line` is the row in `runs.csv`, once it is made. There are many rows: a frozen
    dataclass takes three times as long to make.
    """

    __slots__ = ("block", "case", "error", "index", "line", "seed")

    def __init__(
        self, case: Case, seed: int, block: NDArray[np.float64], index: int = 0, error: str = ""
    ) -> None:
        self.case, self.seed, self.error, self.line = case, seed, error, ""
        self.block, self.index = block, index

    @property
    def place(self) -> Place:
        """The point, the label of the scheme, and the seed."""
        return (self.case.point, self.case.label, self.seed)


def matrix(rows: Sequence[Row]) -> NDArray[np.float64]:
    """The metrics of rows, of which there is at least one."""
    found = []
    block, first, end = rows[0].block, rows[0].index, rows[0].index
    # Runs that follow each other in a block are copied together.
    for row in rows:
        if row.block is not block or row.index != end:
            found.append(block[first:end])
            block, first, end = row.block, row.index, row.index
        end += 1
    return np.concatenate([*found, block[first:end]])


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a failed write (full disk, no permission) into an `InputError` that names `path`."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def partial(path: Path) -> Iterator[Path]:
    """Yield a temporary path; rename it to `path` on success, and delete it on failure.

    If `path` is not a regular file (a pipe, /dev/null), it is written directly. A symbolic link is
    followed.
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


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder; rename its files into `folder` on success, delete it on failure.

    `folder` is created if necessary; files of other names in it are kept.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
        try:
            yield temporary
            for file in sorted(temporary.iterdir()):
                os.replace(file, folder / file.name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file atomically: after a failure it has the old or the complete new content."""
    with partial(path) as temporary, open(temporary, "wb") as out:
        # File names in a command may be invalid UTF-8; their bytes are kept.
        out.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
        out.flush()
        os.fsync(out.fileno())


def number(value: float | None) -> str:
    """Format a number for a file: exact; empty if unknown."""
    return "" if value is None else row_texts(np.array([[value]], dtype=float))[0]


def row_texts(values: NDArray[np.float64]) -> list[str]:
    """The numbers of each row as a file has them, separated by commas; NaN becomes empty."""
    from lasthop import _native

    return _native.row_texts(values)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def checksum(fields: str) -> str:
    """Checksum of a row, its fields joined by zero bytes, to detect changes after it was
    written.
    """
    return hashlib.sha256(fields.encode()).digest()[:4].hex()


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Lock `folder` and create it if missing; raises `InputError` if another process has the
    lock.
    """
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # The file is never replaced or removed: that would create another lock.
        lock = open(folder / ".lasthop.lock", "a", encoding="utf-8")  # noqa: SIM115
    with lock:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"another lasthop is writing to {folder}; wait for it, or give another --out"
                ) from None
        yield


class Store:
    """The file `runs.csv` of a comparison: finished runs of the plan, to which new runs are
    appended.

    Each row has the key of its case (a digest of build, filled-in scenario, traces and scheme) and
    a checksum. A later call therefore reuses exactly the runs that it would repeat, and none that
    was altered.
    """

    def __init__(self, folder: Path, plan: Plan, metrics: Sequence[str]) -> None:
        self.path = folder / "runs.csv"
        self.plan = plan
        self.metrics = list(metrics)
        self.header = [
            "point",
            *plan.vary,
            "scheme",
            "seed",
            *self.metrics,
            "error",
            "key",
            CHECKSUM,
        ]
        #: The runs that the file had.
        self.rows: dict[Place, Row] = {}
        self._starts: dict[tuple[int, str], tuple[str, str]] = {}
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._file = self._open()
        try:
            self._read_finished()
        except BaseException:
            self.close()
            raise

    def _read_finished(self) -> None:
        content = self.path.read_bytes()
        # Invalid UTF-8 is replaced, which invalidates the checksum of its row.
        lines = content.decode("utf-8", errors="replace").splitlines(keepends=True)
        if lines and not lines[-1].endswith("\n"):
            lines.pop()  # incomplete: the process was killed while writing it
        header = next(csv.reader(lines[:1]), [])
        left_out: Counter[str] = Counter()
        if header == self.header:
            wanted = {(c.key, str(s)): c for c in self.plan.cases for s in self.plan.seeds_of(c)}
            for line in lines[1:]:
                self._read(line, wanted, left_out)
        elif "key" in header:
            left_out[OTHER_INPUT if CHECKSUM in header else OLDER_VERSION] = len(lines) - 1
        elif content:
            raise InputError(
                f"{self.path} is not a table of runs; move it away, or give another --out"
            )
        self._print_counts(left_out)
        if left_out:
            write_whole(self._previous, content)
        text = self._text(list(self.rows.values()))
        if text.encode() == content:
            return
        # The finished runs are kept if the disk is full.
        self._file.close()
        write_whole(self.path, text)
        self._file = self._open()

    def _open(self) -> IO[str]:
        """Open the file for appending, so that a crash loses no finished run."""
        with writing(self.path):
            return open(self.path, "a", encoding="utf-8", newline="")

    @property
    def _previous(self) -> Path:
        return self.path.with_name("runs.previous.csv")

    def _print_counts(self, left_out: Mapping[str, int]) -> None:
        """Print how many runs are reused, and how many rows are not, and why."""
        for reason, count in left_out.items():
            print(
                f"lasthop: {count} rows of {self.path} {reason}; they are saved in"
                f" {self._previous.name}",
                file=sys.stderr,
            )
        if self.rows:
            note(f"{len(self.rows)} of {self.plan.size()} runs reused from {self.path}")

    def _read(
        self, line: str, wanted: Mapping[tuple[str, str], Case], left_out: Counter[str]
    ) -> None:
        """Reuse a row, or count the reason why not."""
        if '"' in line or "\r" in line:
            fields = next(csv.reader([line]), [])
            line = table(fields, [])
        else:
            fields = line.removesuffix("\n").split(",")
        if len(fields) != len(self.header) or fields[-1] != checksum("\0".join(fields[:-1])):
            left_out[DAMAGED] += 1
            return
        at_seed = len(self.plan.vary) + 2
        seed, numbers, (error, key, _) = fields[at_seed], fields[at_seed + 1 : -3], fields[-3:]
        case = wanted.get((key, seed))
        if case is None:
            left_out[OTHER_INPUT] += 1
        elif not error:  # failed runs are repeated
            values = np.array([float(x) if x else math.nan for x in numbers], dtype=float)
            row = Row(case, int(seed), values[np.newaxis])
            self.rows[row.place] = row
            if "\0".join(fields[:at_seed]) == self._start(case)[0]:
                row.line = line

    def _start(self, case: Case) -> tuple[str, str]:
        """The first fields of the rows of a case (point, varied values, scheme): joined by zero
        bytes, and as CSV.
        """
        place = (case.point, case.label)
        if place not in self._starts:
            fields = [str(case.point), *(case.set[k] for k in self.plan.vary), case.label]
            self._starts[place] = ("\0".join(fields), table(fields, []).rstrip("\n"))
        return self._starts[place]

    def _make_lines(self, rows: Sequence[Row]) -> None:
        """Make the lines of rows that have none."""
        missing = [row for row in rows if not row.line]
        if not missing:
            return
        for row, numbers in zip(missing, row_texts(matrix(missing)), strict=True):
            start, start_text = self._start(row.case)
            error = " ".join(row.error.split()) if row.error else ""
            zeros = numbers.replace(",", "\0")
            check = checksum(f"{start}\0{row.seed}\0{zeros}\0{error}\0{row.case.key}")
            error_text = table([error, ""], []).rstrip("\n") if error else ","
            row.line = f"{start_text},{row.seed},{numbers},{error_text}{row.case.key},{check}\n"

    def _text(self, rows: Sequence[Row]) -> str:
        """The file with these rows."""
        self._make_lines(rows)
        return table(self.header, []) + "".join([row.line for row in rows])

    def has(self, case: Case, seed: int) -> bool:
        """True if the file had the run."""
        return (case.point, case.label, seed) in self.rows

    def add(self, rows: Sequence[Row]) -> None:
        """Append finished runs and flush the file."""
        self._make_lines(rows)
        with writing(self.path):
            self._file.write("".join([row.line for row in rows]))
            self._file.flush()

    def finish(self, rows: Sequence[Row]) -> None:
        """Rewrite `runs.csv` in the order of the plan, independent of the order in which runs
        ended.
        """
        content = self._text(rows).encode()
        self.close()
        if self.path.read_bytes() != content:
            write_whole(self.path, content)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # closing flushes the buffer, which fails on a full disk
            self._file.close()
