"""Many runs at once: a pool of threads (the native code releases the GIL) that stops at once when asked to."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Generic, Protocol, TypeVar

from lasthop.errors import Interrupted

J = TypeVar("J")
R = TypeVar("R")


class Cancel(Protocol):
    """What stops running simulations; `lasthop._native.CancelToken` is one."""

    def cancel(self) -> None:
        """Ask every run that was given this token to end as soon as it can."""


class Outcome(Generic[R]):
    """What became of a job: a value, or the exception that ended it."""

    def __init__(self, value: R | None, error: Exception | None) -> None:
        self.value = value
        self.error = error


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, the first Ctrl-C (or SIGTERM) calls `stop`; a second one raises KeyboardInterrupt as usual."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        stop()

    before = {s: signal.signal(s, handler) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def each(
    jobs: Iterable[J],
    work: Callable[[J], R],
    done: Callable[[J, Outcome[R]], None],
    *,
    cancel: Cancel | None = None,
    workers: int | None = None,
) -> bool:
    """Do all `jobs` and hand each outcome to `done` in this thread, in the order they finish.

    Returns False if it was interrupted: then the jobs under way were cancelled and `done` was called for those that
    had finished. An exception from `done` stops everything and is raised.
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
            except Exception as error:
                finished.put((job, Outcome(None, error)))
        finished.put(None)

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(workers or cores())]
    with _interrupts(stop):
        for thread in threads:
            thread.start()
        try:
            ended = 0
            while ended < len(threads):
                item = finished.get()
                if item is None:
                    ended += 1
                else:
                    done(*item)
        except BaseException:
            stop()
            raise
        finally:
            for thread in threads:
                thread.join()
    return not stopped.is_set()
