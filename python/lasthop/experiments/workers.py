"""Worker processes on this machine that do the chunks of a sweep."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from lasthop.experiments.chunks import Chunk, Finished, do_chunk, run_chunk, start_worker

if TYPE_CHECKING:
    from lasthop.experiments.plan import Scenario


class Workers(Protocol):
    """Where chunks are done: processes of this machine, or a Dask cluster."""

    def slots(self) -> int:
        """Number of chunks that can be done at the same time."""

    def submit(self, chunk: Chunk) -> Future[Finished]:
        """Begin a chunk."""

    def has_died(self, error: BaseException) -> bool:
        """True if an error of a chunk means that its worker died; prepares a new worker."""

    def stop(self) -> None:
        """Ask all workers to end their chunks early."""

    def close(self) -> None:
        """End all workers."""


# Number of threads that numpy's OpenBLAS starts with, read when numpy is imported.
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """Processes that start here have one BLAS thread, unless the user sets another number.

    The arrays are small; idle BLAS threads would spin on the cores that simulate.
    """
    if _BLAS_THREADS in os.environ:
        yield
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        os.environ.pop(_BLAS_THREADS, None)


class _Process(SpawnProcess):
    """A process that does not import the main module of this one.

    The chunks do not need it, and a script that calls `lasthop.sweep` at its top level would begin
    again in each process.
    """

    @staticmethod
    def _Popen(process_obj: Any) -> Any:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            with _one_blas_thread():
                return SpawnProcess._Popen(process_obj)
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


class Processes:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self._count = count
        # A forked child would inherit locks of the threads that Parquet uses.
        self._context = _Context()
        # Workers see the end of this pipe when it is closed here, or when this process is gone. A
        # semaphore would block if a worker were killed while it holds it.
        self._alive, self._open = self._context.Pipe(duplex=False)
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._count, self._context, initializer=start_worker, initargs=(self._alive,)
        )

    def slots(self) -> int:
        """Number of processes."""
        return self._count

    def submit(self, chunk: Chunk) -> Future[Finished]:
        """Begin a chunk."""
        try:
            return self._pool.submit(run_chunk, chunk)
        except BrokenProcessPool as error:
            failed: Future[Finished] = Future()
            failed.set_exception(error)
            return failed

    def has_died(self, error: BaseException) -> bool:
        """True if a process died. All chunks in flight are then lost, and new processes start."""
        if not isinstance(error, BrokenProcessPool):
            return False
        if getattr(self._pool, "_broken", False):
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = self._new_pool()
        return True

    def stop(self) -> None:
        """Cancel the running simulations; their chunks end with the runs that are finished."""
        self._open.close()

    def close(self) -> None:
        """End all processes."""
        self._open.close()
        self._pool.shutdown(wait=True, cancel_futures=True)


class Threads:
    """Threads of this process, for schemes that other processes cannot load."""

    def __init__(self, count: int, scenarios: Mapping[str, Scenario]) -> None:
        from lasthop import _native

        self._count, self._scenarios = count, scenarios
        self._cancel = _native.CancelToken()
        self._pool = ThreadPoolExecutor(count)

    def slots(self) -> int:
        """Number of threads."""
        return self._count

    def submit(self, chunk: Chunk) -> Future[Finished]:
        """Begin a chunk."""
        return self._pool.submit(
            do_chunk, chunk, lambda work, _: self._scenarios[work.key], self._cancel
        )

    def has_died(self, error: BaseException) -> bool:
        """Threads do not die."""
        return False

    def stop(self) -> None:
        """Cancel the running simulations; their chunks end with the runs that are finished."""
        self._cancel.cancel()

    def close(self) -> None:
        """End all threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)
