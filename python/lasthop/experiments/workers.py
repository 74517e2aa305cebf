"""Worker processes on this machine that do the chunks of a sweep."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

from lasthop.experiments.chunks import Chunk, Finished, run_chunk, start_worker


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


class Processes:
    """Processes of this machine."""

    def __init__(self, count: int) -> None:
        self._count = count
        # A forked child would inherit locks of the threads that Parquet uses.
        self._context = multiprocessing.get_context("spawn")
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
