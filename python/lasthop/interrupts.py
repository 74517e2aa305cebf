"""Interrupts (SIGINT, SIGTERM) while threads simulate; the native code releases the GIL."""

from __future__ import annotations

import signal
import sys
import threading

from lasthop.errors import Abandoned, Interrupted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

# Seconds after which the main thread looks for signals. The kernel may deliver one to another
# thread, which does not wake the main thread, and two of a kind before it looks count as one.
POLL_S = 0.1
# Polls without a finished job after which a stop counts as slow.
SLOW_STOP_POLLS = 20


class OnInterrupt:
    """In this context, the first SIGINT or SIGTERM calls `stop`; a second one raises
    `Abandoned`.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self._received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)

    def __exit__(self, *_: object) -> None:
        for number, old in self._before.items():
            signal.signal(number, old)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._received += 1
        if self._received > 1:
            raise Abandoned
        self._stop()


def interruptible(work: Callable[[], Any], cancel: Callable[[], object]) -> Any:
    """Call `work` in another thread, which an interrupt stops by calling `cancel`.

    Raises KeyboardInterrupt after an interrupt, and `Abandoned`, without waiting, after a second.
    """
    outcome: list[tuple[Any, BaseException | None]] = []
    stopped = threading.Event()
    running = threading.Lock()
    running.acquire()

    def stop() -> None:
        stopped.set()
        cancel()

    def call() -> None:
        try:
            outcome.append((work(), None))
        except Interrupted:
            pass
        except BaseException as error:
            outcome.append((None, error))
        finally:
            running.release()

    thread = threading.Thread(target=call, daemon=True)
    with OnInterrupt(stop):
        thread.start()
        silent = 0
        while not running.acquire(timeout=POLL_S):
            silent += stopped.is_set()
            if silent == SLOW_STOP_POLLS:
                print_slow_stop()
    thread.join()
    value, error = outcome[0] if outcome else (None, None)
    if error is not None and not isinstance(error, Exception):
        # SystemExit or KeyboardInterrupt from a rule must not end this process or a notebook.
        raise RuntimeError(f"the rule raised {type(error).__name__}").with_traceback(
            error.__traceback__
        ) from None
    if error is not None:
        raise error
    if stopped.is_set():
        raise KeyboardInterrupt
    return value


def print_slow_stop() -> None:
    """Print how to exit immediately, if a stop is slow."""
    from lasthop.progress import clear_line

    clear_line()
    print(
        "lasthop: waiting for running simulations to stop; interrupt again to exit"
        " immediately, finished runs are saved",
        file=sys.stderr,
    )
