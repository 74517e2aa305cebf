"""Does the missing runs of a sweep, and merges the shards of one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lasthop.errors import Abandoned, InputError
from lasthop.experiments import parts, pool, store, sweep
from lasthop.experiments.chunks import Chunk, Finished
from lasthop.experiments.sweep import Cutter, Runs
from lasthop.experiments.workers import Processes, Threads, Workers
from lasthop.interrupts import OnInterrupt

if TYPE_CHECKING:
    from lasthop.experiments.sweep_setup import Prepared

# A chunk is given up if its workers died this often.
MAX_DEATHS = 3


class Observer(Protocol):
    """Gets the progress of a sweep."""

    def note(self, message: str) -> None:
        """A message about reused or failed runs."""

    def progress(self, done: int, total: int, failed: int) -> None:
        """Finished runs, runs that are wanted so far, and failed runs."""


class Progress(Observer, Protocol):
    """Shows the progress of a sweep."""

    def end(self) -> None:
        """Remove what is shown."""


class Runner:
    """Gives chunks to workers until no run of a sweep is missing."""

    def __init__(self, folder: Path, runs: Runs, cutter: Cutter, observer: Observer) -> None:
        self._folder, self._runs, self._cutter, self._observer = folder, runs, cutter, observer
        self._flying: dict[Future[Finished], Chunk] = {}
        self._again: list[Chunk] = []
        self._deaths: dict[int, int] = {}
        self._stopped = False

    def run(self, workers: Workers) -> bool:
        """Do all missing runs; false after an interrupt. Finished chunks are on the disk."""

        def stop() -> None:
            self._stopped = True
            workers.stop()

        with OnInterrupt(stop):
            while self._round(workers):
                pass
        return not self._stopped

    def _round(self, workers: Workers) -> bool:
        """Do the runs that are missing now; false if there are none."""
        pending = self._runs.missing()[::-1]
        count = sweep.count_of(pending)
        total = self._runs.finished + len(self._runs.failed) + count
        if not pending or self._stopped:
            return False
        self._cutter.begin(pending)
        self._observer.progress(total - count, total, len(self._runs.failed))
        while pending or self._again or self._flying:
            # One chunk more than slots waits, so that no worker does.
            while not self._stopped and len(self._flying) <= workers.slots():
                if not pending and not self._again:
                    break
                chunk = (
                    self._again.pop() if self._again else self._cutter.cut(pending, workers.slots())
                )
                try:
                    self._flying[workers.submit(chunk)] = chunk
                except RuntimeError:
                    # An interrupt after the test above has stopped the workers.
                    if not self._stopped:
                        raise
                    break
            if not self._flying:
                break
            # The timeout lets Python handle signals.
            for future in wait(self._flying, timeout=0.2, return_when=FIRST_COMPLETED).done:
                self._finish(workers, future)
                done = self._runs.finished + len(self._runs.failed)
                self._observer.progress(done, total, len(self._runs.failed))
        return not self._stopped

    def _finish(self, workers: Workers, future: Future[Finished]) -> None:
        chunk = self._flying.pop(future)
        error = None if future.cancelled() else future.exception()
        if future.cancelled() or (error is not None and self._stopped):
            return
        if error is not None:
            if not workers.has_died(error):
                raise error
            self._repeat(chunk, error)
            return
        found = future.result()
        if not found.seeds:
            return
        parts.write(self._folder, sweep.part_of(found, self._runs.sweep), self._runs.sweep.metrics)
        self._runs.add(found)
        self._cutter.learn(chunk, found.cpu_s)

    def _repeat(self, chunk: Chunk, error: BaseException) -> None:
        deaths = self._deaths[chunk.number] = self._deaths.get(chunk.number, 0) + 1
        if deaths >= MAX_DEATHS:
            first = self._runs.sweep.cases[chunk.cases[0].case]
            raise InputError(
                f"the workers of a chunk died {deaths} times ({type(error).__name__}); its first"
                f" run is {first.label}, seed {chunk.cases[0].seeds[0]}"
                f"{''.join(f', {k} = {v}' for k, v in first.set.items())}. Is the memory exhausted?"
                " Finished chunks are saved; the same command does what is missing"
            )
        self._observer.note("a worker died; its chunk is repeated")
        self._again.append(chunk)


def do_missing(
    folder: Path,
    runs: Runs,
    prepared: Prepared,
    chunk_s: float | None,
    shown: Progress,
    jobs: int | None,
    dask: str | None,
) -> bool:
    """Do the missing runs in processes, threads or on a Dask cluster; false after an interrupt."""
    build = runs.sweep.about["build"]
    cutter = Cutter(prepared.plan, prepared.sweep, prepared.schemes, build, chunk_s)
    workers = _workers(prepared, build, jobs, dask)
    try:
        complete = Runner(folder, runs, cutter, shown).run(workers)
    except Abandoned:
        raise Abandoned(
            f"{runs.finished} runs are saved in {folder}; repeat the command to continue"
        ) from None
    except BaseException:
        workers.stop()
        raise
    finally:
        shown.end()
    workers.close()
    return complete


def _workers(prepared: Prepared, build: str, jobs: int | None, dask: str | None) -> Workers:
    if dask is not None:
        if jobs is not None:
            raise InputError("--jobs is the number of local processes; --dask uses its workers")
        if not prepared.loads_anywhere:
            raise InputError(
                "a cluster cannot load a class that is in no file; write it to FILE.py and name it"
                " FILE.py:CLASS"
            )
        from lasthop.experiments.dask_workers import DaskWorkers

        return DaskWorkers(dask, build)
    count = jobs or pool.cores()
    if prepared.loads_anywhere:
        return Processes(count)
    return Threads(count, {case.key: case.scenario for case in prepared.plan.cases})


def take_over(folder: Path, runs: Runs, note: Callable[[str], None]) -> None:
    """Load the finished runs of a folder, and say how many are reused."""
    left_out = runs.load(folder)
    for reason, count in left_out.items():
        what = "parts" if reason == store.DAMAGED else "rows"
        note(f"{count} {what} of {folder / parts.FOLDER} {reason}")
    if runs.finished:
        note(f"{runs.finished} of {runs.wanted()} runs reused from {folder}")


def merge(folders: Sequence[Path], out: Path, note: Callable[[str], None]) -> tuple[Runs, int]:
    """Join the shards of a sweep in `out`; returns their runs and the number that is missing.

    Raises `InputError` if the folders are not shards of one sweep, or if `out` has another one.
    """
    found = [sweep.read(folder) for folder in folders]
    for folder, other in zip(folders[1:], found[1:], strict=True):
        difference = sweep.ids_differ(found[0], other)
        if difference:
            raise InputError(f"{folders[0]} and {folder} do not belong together: {difference}")
    whole = replace(found[0], shard=(1, 1))
    if (out / sweep.DESCRIPTION).exists():
        difference = sweep.ids_differ(sweep.read(out), whole)
        if difference:
            raise InputError(f"{out} has another sweep than {folders[0]}: {difference}")
    runs = Runs(whole)
    for folder in folders:
        for reason, count in runs.load(folder, clean=False).items():
            note(f"{count} parts or rows of {folder} {reason}")
    with store.writing(out / parts.FOLDER):
        (out / parts.FOLDER).mkdir(parents=True, exist_ok=True)
    for folder in folders:
        if folder.resolve() == out.resolve():
            continue
        for path in parts.files(folder):
            with store.partial(out / parts.FOLDER / path.name) as temporary:
                shutil.copyfile(path, temporary)
    sweep.write_description(out, whole)
    return runs, sweep.count_of(runs.missing())
