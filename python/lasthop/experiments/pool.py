"""A pool of threads for runs; the native code releases the GIL. An interrupt stops it at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from lasthop.errors import Abandoned, Interrupted
from lasthop.interrupts import POLL_S, SLOW_STOP_POLLS, OnInterrupt, print_slow_stop

J = TypeVar("J")
R = TypeVar("R")
T = TypeVar("T")


class Cancel(Protocol):
    """Cancels running simulations, as `lasthop._native.CancelToken` does."""

    def cancel(self) -> None:
        """Ask every run with this token to stop as soon as possible."""


class Outcome(Generic[R]):
    """The outcome of a job: a value, or the exception that ended it."""

    def __init__(self, value: R | None, error: BaseException | None) -> None:
        self.value = value
        self.error = error


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(
    jobs: Iterable[J],
    work: Callable[[J], R],
    done: Callable[[J, Outcome[R]], None],
    *,
    cancel: Cancel | None = None,
    workers: int | None = None,
) -> bool:
    """Run `work` for all `jobs` in threads; call `done` for each outcome in the calling thread.

    Outcomes come in the order in which jobs finish. Returns false after an interrupt: running jobs
    were then cancelled, and `done` was called for the finished ones. An exception from `done` stops
    all jobs and is raised. A second interrupt raises `Abandoned` without waiting for running jobs.
    An exception from `work`, including SystemExit and KeyboardInterrupt, fails only its job.
    """
    pending = iter(jobs)
    taking = threading.Lock()
    stopped = threading.Event()
    finished: SimpleQueue[tuple[J, Outcome[R]] | None] = SimpleQueue()

    def stop() -> None:
        stopped.set()
        if cancel is not None:
            cancel.cancel()

    def worker() -> None:
        while not stopped.is_set():
            with taking:
                job = next(pending, None)
            if job is None:
                break
            try:
                finished.put((job, Outcome(work(job), None)))
            except Interrupted:
                break
            except BaseException as error:
                finished.put((job, Outcome(None, error)))
        finished.put(None)

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(workers or cores())]
    with OnInterrupt(stop):
        for thread in threads:
            thread.start()
        try:
            ended = 0
            while ended < len(threads):
                item = _next(finished, stopped)
                if item is None:
                    ended += 1
                else:
                    done(*item)
        except Abandoned:
            raise
        except BaseException:
            stop()
            _join(threads)
            raise
        _join(threads)
    return not stopped.is_set()


def _next(finished: SimpleQueue[T], stopped: threading.Event) -> T:
    """Return the next item; if a stop is slow, print how to exit immediately."""
    silent = 0
    while True:
        try:
            return finished.get(timeout=POLL_S)
        except Empty:
            silent += stopped.is_set()
        if silent == SLOW_STOP_POLLS:
            print_slow_stop()


def _join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join()
